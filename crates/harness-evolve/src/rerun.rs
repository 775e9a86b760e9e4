//! Reruns: the one door through which harnesses are run, and the proof that they were.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use harness_core::{
    HarnessId, HarnessSpec, Outcome, PolicyVersion, RolloutId, Seed, Task, TaskId, Trajectory,
};
use serde::{Deserialize, Serialize};

use crate::error::{EvolveError, TraceError};

/// Runs a harness on tasks with the policy that is being evolved for.
///
/// A function of the same arguments is one too: mostly [`harness_core::Job::groups`], with the purpose as their
/// name, given to [`harness_core::run_jobs`].
pub trait Rerun {
    /// Makes `attempts` fresh attempts at every task under `harness`.
    ///
    /// Exactly `attempts` trajectories per task come back, in any order, the invalid ones among them. All
    /// carry the id of `harness`, one policy version, and rollout ids never seen before in this evolution.
    /// `purpose` is unique within an evolution (`d0/search/r1c3`), so rollout ids may be built from it; it
    /// tells base retries (`base`) from candidates, and must not change how attempts are made. Settings that
    /// `harness` does not fix (temperature, deadlines) are equal in all calls. Attempts at one task differ
    /// by number: attempt a of task t has the seed `seed.derive("attempt", [t, a])` or the like.
    ///
    /// # Errors
    /// [`RerunError`] if the machinery broke as a whole; a single broken attempt is a trajectory.
    fn rerun(
        &mut self,
        harness: &HarnessSpec,
        tasks: &[Arc<Task>],
        attempts: u32,
        seed: Seed,
        purpose: &str,
    ) -> Result<Vec<Trajectory>, RerunError>;
}

impl<F, E> Rerun for F
where
    F: FnMut(&HarnessSpec, &[Arc<Task>], u32, Seed, &str) -> Result<Vec<Trajectory>, E>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn rerun(
        &mut self,
        harness: &HarnessSpec,
        tasks: &[Arc<Task>],
        attempts: u32,
        seed: Seed,
        purpose: &str,
    ) -> Result<Vec<Trajectory>, RerunError> {
        self(harness, tasks, attempts, seed, purpose)
            .map_err(|source| RerunError::new(purpose, source))
    }
}

/// The machinery that runs harnesses broke.
#[derive(Debug, thiserror::Error)]
#[error("rerun `{purpose}` broke")]
pub struct RerunError {
    /// What the rerun was for.
    pub purpose: String,
    /// What broke.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl RerunError {
    /// Wraps whatever broke.
    pub fn new(
        purpose: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self {
            purpose: purpose.into(),
            source: source.into(),
        }
    }
}

/// Attempts and solved attempts on one task. Attempts that say nothing about the policy are in neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Attempts that solved the task.
    pub solved: u32,
    /// Attempts that say something about the policy, solved or not; at least `solved`.
    pub valid: u32,
}

impl Tally {
    /// Share of valid attempts that solved; none without valid attempts.
    pub fn rate(self) -> Option<f64> {
        (self.valid > 0).then(|| f64::from(self.solved) / f64::from(self.valid))
    }

    /// Counts attempts.
    pub fn of<'a>(attempts: impl IntoIterator<Item = &'a Trajectory>) -> Self {
        let mut tally = Self::default();
        for attempt in attempts.into_iter().filter(|t| t.outcome.is_valid()) {
            tally.valid += 1;
            tally.solved += u32::from(attempt.outcome == Outcome::Solved);
        }
        tally
    }
}

/// Attempts by task, each task's in order of attempt number.
pub(crate) type ByTask = BTreeMap<TaskId, Vec<Trajectory>>;

/// Attempts by task, in order of attempt number.
pub(crate) fn by_task(attempts: Vec<Trajectory>) -> ByTask {
    let mut map = ByTask::new();
    for attempt in attempts {
        map.entry(attempt.task_id.clone())
            .or_default()
            .push(attempt);
    }
    for list in map.values_mut() {
        list.sort_by(|a, b| (a.attempt, &a.rollout_id).cmp(&(b.attempt, &b.rollout_id)));
    }
    map
}

/// A [`Rerun`] whose trajectories are checked and counted.
pub(crate) struct Runner<'a> {
    inner: &'a mut dyn Rerun,
    policy: Option<PolicyVersion>,
    seen: BTreeSet<RolloutId>,
    n_rollouts: u64,
}

impl<'a> Runner<'a> {
    pub(crate) fn new(inner: &'a mut dyn Rerun) -> Self {
        Self {
            inner,
            policy: None,
            seen: BTreeSet::new(),
            n_rollouts: 0,
        }
    }

    /// Rollouts made since the last call of this function.
    pub(crate) fn take_count(&mut self) -> u64 {
        std::mem::take(&mut self.n_rollouts)
    }

    /// Runs a harness, and checks that what comes back is what was asked for (bug report E7).
    pub(crate) fn run(
        &mut self,
        harness: &HarnessSpec,
        tasks: &[Arc<Task>],
        attempts: u32,
        seed: Seed,
        purpose: &str,
    ) -> Result<ByTask, EvolveError> {
        let got = self.inner.rerun(harness, tasks, attempts, seed, purpose)?;
        self.n_rollouts += got.len() as u64;
        let got = self.admit(got, &harness.id(), tasks)?;
        for task in tasks {
            let n = got.get(&task.id).map_or(0, Vec::len) as u32;
            if n != attempts {
                return Err(EvolveError::Trace(TraceError::WrongCount {
                    task: task.id.clone(),
                    expected: attempts,
                    got: n,
                }));
            }
        }
        Ok(got)
    }

    /// Checks attempts that somebody else made.
    pub(crate) fn admit(
        &mut self,
        attempts: Vec<Trajectory>,
        harness: &HarnessId,
        tasks: &[Arc<Task>],
    ) -> Result<ByTask, TraceError> {
        let known: BTreeSet<&TaskId> = tasks.iter().map(|t| &t.id).collect();
        for attempt in &attempts {
            self.check(attempt, harness, &known)?;
        }
        Ok(by_task(attempts))
    }

    fn check(
        &mut self,
        attempt: &Trajectory,
        harness: &HarnessId,
        known: &BTreeSet<&TaskId>,
    ) -> Result<(), TraceError> {
        let rollout = || attempt.rollout_id.clone();
        if attempt.harness_id != *harness {
            return Err(TraceError::WrongHarness {
                rollout: rollout(),
                expected: harness.clone(),
                got: attempt.harness_id.clone(),
            });
        }
        if !known.contains(&attempt.task_id) {
            let task = attempt.task_id.clone();
            return Err(TraceError::UnknownTask {
                rollout: rollout(),
                task,
            });
        }
        let got = attempt.policy_version;
        let expected = *self.policy.get_or_insert(got);
        if got != expected {
            return Err(TraceError::OtherPolicy {
                rollout: rollout(),
                expected,
                got,
            });
        }
        if self.seen.insert(rollout()) {
            Ok(())
        } else {
            Err(TraceError::Duplicate(rollout()))
        }
    }
}
