//! Environments that panic, break, or come back late: one attempt ends, its siblings go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use harness_core::testing::{ByteCodec, ScriptedPolicy, ToyMaker};
use harness_core::{
    Action, Deadline, EnvError, Environment, ExecOptions, Facts, Generation, GroupCheck, Limits,
    MakeEnvironment, Outcome, Policy, PolicyError, PolicyVersion, Request, RolloutGroup, RolloutId,
    StepResult, Task, Trajectory, Verdict, run_jobs,
};

use crate::executor::{Stuck, base, jobs, options, peeker};

/// Where a world misbehaves.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Make,
    Reset,
    Step,
    Predicates,
    Evaluate,
    Drop,
}

/// How it does.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Panic,
    Late,
    Reward(f32),
}

/// Makes toy worlds, of which one misbehaves.
struct Maker {
    toys: ToyMaker,
    place: Place,
    fault: Fault,
    /// Numbers of the worlds that do, in the order in which they are made.
    faulty: std::ops::Range<usize>,
    n_made: AtomicUsize,
    /// Calls of a world that had misbehaved before.
    n_used_again: Arc<AtomicUsize>,
}

struct Haunted {
    inner: Box<dyn Environment>,
    fault: Option<(Place, Fault)>,
    has_failed: AtomicBool,
    n_used_again: Arc<AtomicUsize>,
}

impl Maker {
    fn new(place: Place, fault: Fault, faulty: std::ops::Range<usize>) -> Self {
        Self {
            toys: ToyMaker::default(),
            place,
            fault,
            faulty,
            n_made: AtomicUsize::new(0),
            n_used_again: Arc::default(),
        }
    }
}

impl MakeEnvironment for Maker {
    fn make(&self) -> Result<Box<dyn Environment>, EnvError> {
        let is_faulty = self.faulty.contains(&self.n_made.fetch_add(1, SeqCst));
        assert!(!is_faulty || self.place != Place::Make, "boom");
        Ok(Box::new(Haunted {
            inner: self.toys.make()?,
            fault: is_faulty.then_some((self.place, self.fault)),
            has_failed: AtomicBool::new(false),
            n_used_again: Arc::clone(&self.n_used_again),
        }))
    }
}

impl Haunted {
    fn at(&self, place: Place, deadline: Deadline) {
        if place != Place::Drop && self.has_failed.load(SeqCst) {
            self.n_used_again.fetch_add(1, SeqCst);
        }
        match self.fault {
            Some((at, Fault::Panic)) if at == place => {
                self.has_failed.store(true, SeqCst);
                panic!("boom");
            }
            Some((at, Fault::Late)) if at == place => {
                let left = deadline.remaining().expect("it has a deadline");
                std::thread::sleep(left + Duration::from_millis(100));
            }
            _ => {}
        }
    }
}

impl Environment for Haunted {
    fn reset(&mut self, task: &Task, deadline: Deadline) -> Result<Facts, EnvError> {
        self.at(Place::Reset, deadline);
        self.inner.reset(task, deadline)
    }
    fn step(&mut self, action: &Action, deadline: Deadline) -> Result<StepResult, EnvError> {
        self.at(Place::Step, deadline);
        self.inner.step(action, deadline)
    }
    fn evaluate(&mut self, deadline: Deadline) -> Result<Verdict, EnvError> {
        self.at(Place::Evaluate, deadline);
        let mut verdict = self.inner.evaluate(deadline)?;
        if let Some((_, Fault::Reward(reward))) = self.fault {
            verdict.reward = Some(reward);
        }
        Ok(verdict)
    }
    fn predicates(&self) -> Facts {
        self.at(Place::Predicates, Deadline::NEVER);
        self.inner.predicates()
    }
}

impl Drop for Haunted {
    fn drop(&mut self) {
        self.at(Place::Drop, Deadline::NEVER);
    }
}

fn without_retries() -> ExecOptions {
    ExecOptions {
        retries: 0,
        ..options()
    }
}

fn run(
    policy: impl Policy + 'static,
    envs: &Maker,
    n: u32,
    options: &ExecOptions,
) -> Vec<Trajectory> {
    let jobs = jobs(base(), n);
    let done = run_jobs(vec![Box::new(policy)], &ByteCodec, envs, jobs, options);
    assert_eq!(envs.n_used_again.load(SeqCst), 0, "a broken world was used");
    done
}

/// Every attempt but `broken` is solved; returns that one.
#[track_caller]
fn only(done: Vec<Trajectory>, broken: usize) -> Trajectory {
    for (i, t) in done.iter().enumerate() {
        assert!(
            i == broken || t.outcome == Outcome::Solved,
            "attempt {i}: {t:?}"
        );
    }
    done.into_iter().nth(broken).expect("it was run")
}

const PLACES: [Place; 5] = [
    Place::Make,
    Place::Reset,
    Place::Step,
    Place::Predicates,
    Place::Evaluate,
];

/// F2: a panic ends one attempt, wherever it happens; a missing reward is not zero.
#[test]
fn f2_a_panic_ends_one_attempt() {
    for place in PLACES {
        let envs = Maker::new(place, Fault::Panic, 3..4);
        let broken = only(run(peeker(), &envs, 6, &without_retries()), 3);
        let expect = if place == Place::Evaluate {
            Outcome::VerifierError
        } else {
            Outcome::InfraError
        };
        assert_eq!((broken.outcome, broken.reward), (expect, None), "{place:?}");
        let error = broken.error.expect("what broke");
        assert!(error.contains("the environment panicked: boom"), "{error}");
    }
}

/// F2: like any fault it is tried again, on a fresh world.
#[test]
fn f2_a_panic_is_retried_on_a_fresh_world() {
    for place in PLACES {
        let envs = Maker::new(place, Fault::Panic, 1..2);
        let done = run(peeker(), &envs, 4, &options());
        assert!(done.iter().all(|t| t.outcome == Outcome::Solved));
        assert_eq!(envs.n_made.load(SeqCst), 5, "{place:?}");
    }
}

/// F2: a world that panics when it is thrown away changes nothing.
#[test]
fn f2_a_panic_in_drop_changes_nothing() {
    let envs = Maker::new(Place::Drop, Fault::Panic, 0..9);
    let done = run(peeker(), &envs, 4, &options());
    assert!(done.iter().all(|t| t.outcome == Outcome::Solved));
}

/// F2: a verdict whose reward is no number is none.
#[test]
fn f2_a_reward_that_is_no_number_is_no_verdict() {
    for reward in [f32::NAN, f32::INFINITY] {
        let envs = Maker::new(Place::Evaluate, Fault::Reward(reward), 0..1);
        let broken = only(run(peeker(), &envs, 3, &without_retries()), 0);
        assert_eq!(broken.outcome, Outcome::VerifierError);
        assert_eq!(broken.reward, None);
    }
}

/// F1: three panics and one failure are no failed group.
#[test]
fn f1_panics_are_no_evidence_of_failure() {
    let envs = Maker::new(Place::Step, Fault::Panic, 0..3);
    let silent = ScriptedPolicy::new(|_, _| "hm".into());
    let group = RolloutGroup::new(run(silent, &envs, 4, &without_retries()));
    let check = group.expect("one group").check(0.75);
    assert!(matches!(check, GroupCheck::TooFewValid(_)));
}

/// F10: a policy that never answers r1, and a world (of r2) that is late at any of its calls.
#[test]
fn f10_a_late_world_ends_its_own_attempt_alone() {
    // Before r2 was late, r0 had asked the policy with its first deadline, so it alone is made again.
    for (place, n_made) in [(Place::Reset, 9), (Place::Step, 9), (Place::Evaluate, 8)] {
        let envs = Maker::new(place, Fault::Late, 2..3);
        let options = ExecOptions {
            rollout_timeout: Duration::from_millis(400),
            ..options()
        };
        let done = run(Stuck(peeker()), &envs, 8, &options);
        for (i, t) in done.iter().enumerate() {
            let expect = if [1, 2].contains(&i) {
                Outcome::InfraError
            } else {
                Outcome::Solved
            };
            assert_eq!(t.outcome, expect, "{place:?}, attempt {i}: {:?}", t.error);
        }
        let is_told = |t: &Trajectory| t.error.as_ref().is_some_and(|e| e.contains("deadline"));
        assert!(is_told(&done[1]) && is_told(&done[2]));
        assert_eq!(envs.n_made.load(SeqCst), n_made, "{place:?}");
    }
}

/// A world whose container is gone from its third step on.
struct Fading(Arc<AtomicUsize>);

impl Environment for Fading {
    fn reset(&mut self, _: &Task, _: Deadline) -> Result<Facts, EnvError> {
        Ok([("world".into(), harness_core::Fact::Int(0))].into())
    }
    fn step(&mut self, _: &Action, _: Deadline) -> Result<StepResult, EnvError> {
        if self.0.fetch_add(1, SeqCst) + 1 >= 3 {
            return Err(EnvError::Infra("the container has exited".into()));
        }
        Ok(StepResult::new(vec![], false))
    }
    fn evaluate(&mut self, _: Deadline) -> Result<Verdict, EnvError> {
        panic!("there is nothing to judge")
    }
    fn predicates(&self) -> Facts {
        Facts::new()
    }
}

/// F5: the attempt ends with the world, at step 3 of 10, and is not judged.
#[test]
fn f5_a_world_that_is_gone_ends_the_attempt() {
    let n_steps = Arc::new(AtomicUsize::new(0));
    let envs =
        || -> Result<Box<dyn Environment>, EnvError> { Ok(Box::new(Fading(Arc::clone(&n_steps)))) };
    let mut harness = base();
    harness.base.limits = Limits {
        max_turns: 10,
        max_reply_tokens: 40,
    };
    let silent = Box::new(ScriptedPolicy::new(|_, _| "hm".into()));
    let jobs = jobs(harness, 1);
    let done = run_jobs(vec![silent], &ByteCodec, &envs, jobs, &without_retries());
    assert_eq!(n_steps.load(SeqCst), 3);
    assert_eq!(done[0].turns.len(), 3);
    assert_eq!(done[0].outcome, Outcome::InfraError);
    let error = done[0].error.as_deref();
    assert_eq!(error, Some("environment failure: the container has exited"));
}

/// A policy that forgets a log-prob of the rollout `r1`.
struct Ragged(ScriptedPolicy);

impl Policy for Ragged {
    fn submit(&mut self, request: Request) -> Result<(), PolicyError> {
        self.0.submit(request)
    }
    fn poll(&mut self, wait: Duration) -> Vec<(RolloutId, Result<Generation, PolicyError>)> {
        let mut answers = self.0.poll(wait);
        for (id, answer) in &mut answers {
            if let (Ok(generation), "r1") = (answer, id.as_str()) {
                generation.logprobs.pop();
            }
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

/// F1, O5: log-probs that are not there are a fault of the policy's server, and no reason to lose the group.
#[test]
fn f1_a_generation_without_its_logprobs_is_a_fault() {
    let envs = Maker::new(Place::Step, Fault::Panic, 0..0);
    let done = run(Ragged(peeker()), &envs, 4, &options());
    assert!(RolloutGroup::new(done.clone()).is_ok());
    let broken = only(done, 1);
    assert_eq!(broken.outcome, Outcome::InfraError);
    let error = broken.error.expect("what broke");
    assert_eq!(error, "the policy gave 4 log-probs for 5 ids");
}
