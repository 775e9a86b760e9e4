//! The ready probe over the toy world: the policy solves the tasks whose secret it happens to say.

use std::sync::Arc;

use harness_core::testing::{ByteCodec, ScriptedPolicy, ToyMaker, toy_task};
use harness_core::{
    EnvError, ExecOptions, HarnessEdit, HarnessSpec, IdError, Job, RolloutRole, RunId, Seed, Task,
    Trajectory, run_jobs,
};
use harness_pool::{AnchorProbe, PoolBuilder, Probe, SelectError, Sibling, SiblingPool};

use crate::support::base;

fn pool() -> SiblingPool {
    let edit = HarnessEdit::AddNote("Say plum.".into());
    let mut builder = PoolBuilder::new(base(), "policy".into(), "tasks".into());
    builder
        .add(Sibling::by_hand("plum", &base(), vec![edit]).unwrap())
        .unwrap();
    builder.freeze()
}

fn tasks() -> Vec<Arc<Task>> {
    ["plum", "word"]
        .into_iter()
        .zip(0..)
        .map(|(secret, n)| Arc::new(toy_task(n, secret)))
        .collect()
}

fn run(
    envs: &ToyMaker,
    harness: &HarnessSpec,
    tasks: &[Arc<Task>],
    n: u32,
    seed: Seed,
    purpose: &str,
) -> Result<Vec<Trajectory>, IdError> {
    let says = |context: &str, _: Seed| {
        if context.contains("plum") {
            "plum"
        } else {
            "word"
        }
    };
    let policy = ScriptedPolicy::new(move |context, seed| says(context, seed).into());
    let jobs = Job::groups(purpose, tasks, harness, n, RolloutRole::Probe, seed)?;
    let mut options = ExecOptions::new(RunId::new("anchor")?);
    options.retries = 0;
    Ok(run_jobs(
        vec![Box::new(policy)],
        &ByteCodec,
        envs,
        jobs,
        &options,
    ))
}

#[test]
fn the_base_is_looked_at_once_and_its_rows_are_fresh() {
    let (pool, mut asked) = (pool(), Vec::new());
    let envs = ToyMaker::default();
    let mut probe = AnchorProbe::new("a", &pool, tasks(), 2, Seed::new(1), |h, t, n, s, what| {
        asked.push(what.to_owned());
        run(&envs, h, t, n, s, what)
    });
    let sibling = probe.probe(Some(&pool.ids()[0])).unwrap();
    let fresh = probe.probe(None).unwrap();
    let seen = |rows: &[harness_pool::EvidenceRow]| -> Vec<(bool, bool)> {
        assert!(rows.iter().all(|row| !row.is_selected));
        rows.iter()
            .map(|row| (row.base_failed_all, row.solved))
            .collect()
    };
    let (failed, solved) = (true, false);
    assert_eq!(
        seen(&fresh),
        [
            (failed, false),
            (failed, false),
            (solved, true),
            (solved, true)
        ]
    );
    assert_eq!(
        seen(&sibling),
        [
            (failed, true),
            (failed, true),
            (solved, false),
            (solved, false)
        ]
    );
    assert!(
        fresh
            .iter()
            .all(|row| row.rollout.as_str().starts_with("a/base/"))
    );
    assert_eq!(
        asked,
        [
            "a/first".to_owned(),
            format!("a/{}", pool.ids()[0]),
            "a/base".to_owned()
        ]
    );
}

#[test]
fn f1_a_task_of_which_the_base_says_nothing_gives_no_rows() {
    let pool = pool();
    let envs = ToyMaker::faulty(2, EnvError::Infra("gone".into()));
    let mut probe = AnchorProbe::new("a", &pool, tasks(), 2, Seed::new(1), |h, t, n, s, what| {
        run(&envs, h, t, n, s, what)
    });
    let rows = probe.probe_all(pool.ids()).unwrap();
    assert!(rows.iter().all(|row| row.task == tasks()[1].id), "{rows:?}");
    assert_eq!(rows.len(), 4);
}

#[test]
fn a_run_that_breaks_is_a_probe_that_fails() {
    let pool = pool();
    let mut probe = AnchorProbe::new("a", &pool, tasks(), 2, Seed::new(1), |_, _, _, _, _| {
        Err::<Vec<Trajectory>, _>("no machine")
    });
    let error = probe.probe_all(pool.ids()).unwrap_err();
    assert!(matches!(error, SelectError::Probe(_)), "{error}");
}
