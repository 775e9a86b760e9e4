//! Outcomes, faults, deadlines, order and threads.

use std::sync::Arc;
use std::time::Duration;

use harness_core::testing::{ByteCodec, ScriptedPolicy, ToyMaker, toy_task};
use harness_core::{
    BaseHarness, EnvError, ExecOptions, Generation, GroupCheck, GroupId, HarnessSpec, Job, Limits,
    Outcome, Policy, PolicyError, PolicyVersion, Request, RolloutGroup, RolloutId, RolloutRole,
    RunId, Seed, Trajectory, run_jobs,
};

pub(crate) fn options() -> ExecOptions {
    ExecOptions {
        max_in_flight: 4,
        rollout_timeout: Duration::from_secs(30),
        ..ExecOptions::new(RunId::new("test").expect("a fixed id"))
    }
}

pub(crate) fn base() -> HarnessSpec {
    HarnessSpec::base(BaseHarness {
        system: "you are in {{ world }}".into(),
        limits: Limits {
            max_turns: 4,
            max_reply_tokens: 40,
        },
        ..BaseHarness::default()
    })
}

pub(crate) fn jobs(harness: HarnessSpec, n: u32) -> Vec<Job> {
    let task = Arc::new(toy_task(1, "7"));
    let harness = Arc::new(harness);
    (0..n)
        .map(|attempt| Job {
            rollout_id: RolloutId::new(format!("r{attempt}")).expect("a fixed id"),
            group_id: GroupId::new("g").expect("a fixed id"),
            task: Arc::clone(&task),
            harness: Arc::clone(&harness),
            attempt,
            role: RolloutRole::Base,
            seed: Seed::new(5).derive("job", &[u64::from(attempt)]),
        })
        .collect()
}

fn run(policy: impl Policy + 'static, envs: &ToyMaker, n: u32) -> Vec<Trajectory> {
    run_jobs(
        vec![Box::new(policy)],
        &ByteCodec,
        envs,
        jobs(base(), n),
        &options(),
    )
}

pub(crate) fn peeker() -> ScriptedPolicy {
    ScriptedPolicy::new(|context, _| {
        let reply = if context.contains("the secret is 7") {
            "7"
        } else {
            "peek"
        };
        reply.into()
    })
}

#[test]
fn solves_and_records_ids() {
    let done = run(peeker(), &ToyMaker::default(), 2);
    for t in &done {
        assert_eq!(t.outcome, Outcome::Solved);
        assert_eq!(t.reward, Some(1.0));
        assert_eq!(t.harness_id, base().id());
        let own = t.own_sequence();
        assert_eq!(
            ByteCodec::view(&own.ids),
            "<system>you are in toy<user>say secret 1<assistant>peek<end><observation>the secret is 7<assistant>7<end>"
        );
        assert_eq!(own.mask.iter().filter(|m| **m).count(), t.n_sampled());
        assert_eq!(t.base_sequence().expect("the base itself"), own);
    }
}

#[test]
fn turn_limit_is_a_failure_and_a_full_window_is_not() {
    let silent = ScriptedPolicy::new(|_, _| "hm".into());
    assert_eq!(
        run(silent.clone(), &ToyMaker::default(), 1)[0].outcome,
        Outcome::Failed
    );
    assert_eq!(
        run(silent.clone(), &ToyMaker::default(), 1)[0].turns.len(),
        4
    );
    let mut narrow = silent;
    narrow.window = 40;
    assert_eq!(
        run(narrow, &ToyMaker::default(), 1)[0].outcome,
        Outcome::Truncated
    );
}

#[test]
fn faults_are_retried_once_on_a_fresh_world() {
    let envs = ToyMaker::faulty(1, EnvError::Infra("gone".into()));
    let done = run(peeker(), &envs, 1);
    assert_eq!(done[0].outcome, Outcome::Solved);
    assert_eq!(envs.n_made(), 2);
}

/// F1: three infrastructure faults and one failure are no failed group.
#[test]
fn f1_faults_are_no_evidence_of_failure() {
    let envs = ToyMaker::faulty(7, EnvError::Infra("gone".into()));
    let done = run(ScriptedPolicy::new(|_, _| "hm".into()), &envs, 4);
    let faults: Vec<_> = done
        .iter()
        .filter(|t| t.outcome == Outcome::InfraError)
        .collect();
    assert_eq!(faults.len(), 3);
    assert!(
        faults
            .iter()
            .all(|t| t.reward.is_none() && t.error.is_some())
    );
    let group = RolloutGroup::new(done).expect("one group");
    assert!(matches!(group.check(0.75), GroupCheck::TooFewValid(_)));
}

#[test]
fn verifier_faults_are_told_apart() {
    let envs = ToyMaker::faulty(9, EnvError::Verifier("no verdict".into()));
    let done = run(peeker(), &envs, 1);
    assert_eq!(done[0].outcome, Outcome::VerifierError);
    assert_eq!(done[0].reward, None);
}

/// A policy that never answers the rollout `r1`.
pub(crate) struct Stuck(pub(crate) ScriptedPolicy);

impl Policy for Stuck {
    fn submit(&mut self, request: Request) -> Result<(), PolicyError> {
        if request.rollout.as_str() == "r1" {
            return Ok(());
        }
        self.0.submit(request)
    }
    fn poll(&mut self, wait: Duration) -> Vec<(RolloutId, Result<Generation, PolicyError>)> {
        let answers = self.0.poll(wait);
        if answers.is_empty() {
            std::thread::sleep(wait.min(Duration::from_millis(10)));
        }
        answers
    }
    fn release(&mut self, rollout: &RolloutId) {
        self.0.release(rollout);
    }
    fn version(&self) -> PolicyVersion {
        self.0.version()
    }
}

/// F10: one rollout that never returns ends at its deadline and holds nobody up.
#[test]
fn f10_a_pending_rollout_ends_at_its_deadline() {
    let mut options = options();
    options.rollout_timeout = Duration::from_millis(200);
    let stuck: Box<dyn Policy> = Box::new(Stuck(peeker()));
    let done = run_jobs(
        vec![stuck],
        &ByteCodec,
        &ToyMaker::default(),
        jobs(base(), 8),
        &options,
    );
    for (i, t) in done.iter().enumerate() {
        let expect = if i == 1 {
            Outcome::InfraError
        } else {
            Outcome::Solved
        };
        assert_eq!(t.outcome, expect, "attempt {i}");
    }
    assert!(
        done[1]
            .error
            .as_deref()
            .is_some_and(|e| e.contains("deadline"))
    );
}

#[test]
fn threads_change_nothing() {
    let moody = || -> Box<dyn Policy> {
        Box::new(ScriptedPolicy::new(|_, seed| {
            if seed.value() % 3 == 0 { "7" } else { "hm" }.into()
        }))
    };
    let envs = ToyMaker::default();
    let one = run_jobs(
        vec![moody()],
        &ByteCodec,
        &envs,
        jobs(base(), 40),
        &options(),
    );
    let four = run_jobs(
        (0..4).map(|_| moody()).collect(),
        &ByteCodec,
        &envs,
        jobs(base(), 40),
        &options(),
    );
    assert_eq!(one, four);
    assert!(one.iter().any(|t| t.outcome == Outcome::Solved));
    assert!(one.iter().any(|t| t.outcome == Outcome::Failed));
}

#[test]
fn without_a_policy_every_attempt_is_a_fault() {
    let done = run_jobs(
        vec![],
        &ByteCodec,
        &ToyMaker::default(),
        jobs(base(), 2),
        &options(),
    );
    assert!(done.iter().all(|t| t.outcome == Outcome::InfraError));
}

#[test]
fn a_trajectory_survives_json() {
    let done = run(peeker(), &ToyMaker::default(), 1);
    let line = serde_json::to_string(&done[0]).expect("plain data");
    let back: Trajectory = serde_json::from_str(&line).expect("its own output");
    assert_eq!(back, done[0]);
}
