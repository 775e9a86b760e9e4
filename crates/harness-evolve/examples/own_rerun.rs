//! Evolves a harness from saved trajectories, with your own way of running harnesses:
//! `cargo run -p harness-evolve --example own_rerun`.
//!
//! The world is the shipped toy: say a secret that `peek` tells. The policy guesses, and looks only if it is
//! told to or, now and then, by chance. Its attempts under the base were saved, one JSON object a line;
//! evolution finds in them that it sends one wrong guess again and again, and searches a catalogue of two
//! edits for one that helps.

use std::sync::Arc;

use harness_core::testing::{ByteCodec, ScriptedPolicy, ToyMaker, toy_task};
use harness_core::{
    BaseHarness, Condition, Effect, ExecOptions, HarnessEdit, HarnessSpec, Job, Limits, Moment,
    RolloutRole, Rule, RunId, Seed, Split, Task, Trajectory, run_jobs,
};
use harness_evolve::{
    CatalogueEntry, CatalogueProposer, EvolveConfig, EvolveInput, Rerun, RerunError, Slice, evolve,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Runs harnesses with the executor. Yours may as well ask a server or a cluster.
struct Executor;

impl Executor {
    fn run(
        harness: &HarnessSpec,
        tasks: &[Arc<Task>],
        attempts: u32,
        seed: Seed,
        purpose: &str,
    ) -> Result<Vec<Trajectory>> {
        let harness = Arc::new(harness.clone());
        let mut jobs = Vec::new();
        for task in tasks {
            // A purpose occurs once in an evolution, so the names of these groups do too.
            jobs.extend(Job::group(
                purpose,
                task,
                &harness,
                attempts,
                RolloutRole::Probe,
                seed,
            )?);
        }
        let options = ExecOptions::new(RunId::new("example")?);
        let policy = Box::new(ScriptedPolicy::new(say));
        Ok(run_jobs(
            vec![policy],
            &ByteCodec,
            &ToyMaker::default(),
            jobs,
            &options,
        ))
    }
}

impl Rerun for Executor {
    fn rerun(
        &mut self,
        harness: &HarnessSpec,
        tasks: &[Arc<Task>],
        attempts: u32,
        seed: Seed,
        purpose: &str,
    ) -> std::result::Result<Vec<Trajectory>, RerunError> {
        Self::run(harness, tasks, attempts, seed, purpose)
            .map_err(|source| RerunError::new(purpose, source))
    }
}

/// The policy: says the secret once it knows it, looks if a hint says so, else guesses.
fn say(context: &str, seed: Seed) -> String {
    let told = context.split_once("the secret is ").map(|(_, rest)| rest);
    let secret = told
        .and_then(|rest| rest.split_once('<'))
        .map(|(secret, _)| secret);
    let is_curious = context.contains("look before you guess") || seed.value().is_multiple_of(20);
    match secret {
        Some(secret) => secret.to_owned(),
        None if is_curious => "peek".into(),
        None => "swordfish".into(),
    }
}

fn tasks(split: Split, first: u64) -> Vec<Arc<Task>> {
    let task = |n: u64| Task {
        split,
        ..toy_task(n, &format!("word-{n}"))
    };
    (first..first + 24).map(|n| Arc::new(task(n))).collect()
}

/// What an earlier run left: base attempts as JSON lines.
fn saved(base: &HarnessSpec, tasks: &[Arc<Task>], purpose: &str) -> Result<String> {
    let attempts = Executor::run(base, tasks, 4, Seed::new(3), purpose)?;
    let lines: std::result::Result<Vec<String>, _> =
        attempts.iter().map(serde_json::to_string).collect();
    Ok(lines?.join("\n"))
}

/// A slice of an evolution from tasks and the lines of a file.
fn slice(tasks: Vec<Arc<Task>>, lines: &str) -> Result<Slice> {
    let attempts: std::result::Result<_, _> = lines.lines().map(serde_json::from_str).collect();
    Ok(Slice {
        tasks,
        attempts: attempts?,
    })
}

/// A hint after each error, twice at most.
fn hint(name: &str, text: &str) -> CatalogueEntry {
    CatalogueEntry {
        name: name.into(),
        edits: vec![HarnessEdit::AddRule(Rule {
            name: name.into(),
            moment: Moment::AfterStep,
            when: Condition::Predicate("last_result_error".into()),
            effect: Effect::Say(text.into()),
            max_fires: 2,
            count: vec![],
        })],
        keywords: vec![],
    }
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<()> {
    let base = HarnessSpec::base(BaseHarness {
        limits: Limits {
            max_turns: 4,
            max_reply_tokens: 32,
        },
        ..BaseHarness::default()
    });
    let (search, confirm) = (
        tasks(Split::EvolutionSearch, 0),
        tasks(Split::EvolutionConfirm, 100),
    );
    let search_lines = saved(&base, &search, "saved/search")?;
    let confirm_lines = saved(&base, &confirm, "saved/confirm")?;
    let input = EvolveInput {
        base,
        search: slice(search, &search_lines)?,
        confirm: slice(confirm, &confirm_lines)?,
        secrets: vec![],
        policy_hash: "my-checkpoint".into(),
        manifest_hash: "my-tasks".into(),
    };
    let catalogue = vec![
        hint("calm", "stay calm"),
        hint("look", "look before you guess"),
    ];
    let mut proposer = CatalogueProposer::new(catalogue, 0.5)?;
    let config = EvolveConfig {
        min_directions: 1,
        ..EvolveConfig::default()
    };
    let got = evolve(input, &mut proposer, &mut Executor, &config, Seed::new(5))?;

    for direction in &got.report.directions {
        println!(
            "direction {}: {} tasks to search on",
            direction.label,
            direction.search_tasks.len()
        );
    }
    for node in got.report.tree() {
        println!(
            "  round {}: {}: {}",
            node.round,
            node.edits.join(", "),
            node.reason
        );
    }
    for sibling in got.pool.siblings() {
        let evidence = &sibling.evidence;
        println!(
            "in the pool: {}, solved {} of {} where base retries solved {} (p {:.1e})",
            sibling.name,
            evidence.sibling_solved,
            evidence.n_attempts,
            evidence.retry_solved,
            evidence.p_value
        );
    }
    println!("{} rollouts", got.report.rollouts.total());
    assert_eq!(
        got.pool.len(),
        1,
        "the hint to look helps, the other does not"
    );
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
