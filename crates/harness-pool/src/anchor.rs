//! A ready [`Probe`]: a fixed set of anchor tasks, and a function that makes attempts at them.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use harness_core::{HarnessId, HarnessSpec, Outcome, Seed, Task, TaskId, Trajectory};

use crate::cluster::Cluster;
use crate::digest::Digest;
use crate::evidence::EvidenceRow;
use crate::pool::SiblingPool;
use crate::select::{Probe, SelectError};

/// Share of a task's attempts under the base that must be `failed`, and none solved, for the task to count as one
/// that the base fails. The same as the trainer's usual share for a failed group (ours).
const MIN_VALID: f64 = 0.75;

/// Runs the anchor tasks under base and siblings by a function of yours.
///
/// `run(harness, tasks, n, seed, purpose)` makes `n` attempts at every task: the same function that serves
/// evolution as its rerun. A purpose is `{name}/first`, `{name}/base` or `{name}/{harness id}`, each used once if
/// every harness is probed once; so a name serves one re-anchoring, and may be built from its step.
///
/// Before the first probe, whatever its harness, the base makes `n` attempts a task. They say which tasks it
/// fails and in which cluster, and are no evidence: the base's rows are of fresh attempts, as the contract of
/// [`Probe`] wants. A task of which too few attempts say anything gives no rows.
pub struct AnchorProbe<'a, F> {
    name: String,
    pool: &'a SiblingPool,
    tasks: Vec<Arc<Task>>,
    n: u32,
    seed: Seed,
    run: F,
    /// Each task's cluster, and whether the base failed it; none before the first probe.
    found: Option<BTreeMap<TaskId, (Cluster, bool)>>,
}

impl<'a, F, E> AnchorProbe<'a, F>
where
    F: FnMut(&HarnessSpec, &[Arc<Task>], u32, Seed, &str) -> Result<Vec<Trajectory>, E>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    /// A probe of `n` attempts a task; nothing runs yet.
    pub fn new(
        name: impl Into<String>,
        pool: &'a SiblingPool,
        tasks: Vec<Arc<Task>>,
        n: u32,
        seed: Seed,
        run: F,
    ) -> Self {
        let name = name.into();
        Self {
            name,
            pool,
            tasks,
            n,
            seed,
            run,
            found: None,
        }
    }

    fn attempts(
        &mut self,
        harness: &HarnessSpec,
        what: &str,
    ) -> Result<Vec<Trajectory>, SelectError> {
        let seed = self.seed.derive(what, &[]);
        let purpose = format!("{}/{what}", self.name);
        (self.run)(harness, &self.tasks, self.n, seed, &purpose).map_err(SelectError::probe)
    }

    /// Finds out which tasks the base fails.
    fn look(&mut self) -> Result<BTreeMap<TaskId, (Cluster, bool)>, SelectError> {
        let base = self.pool.base();
        let mut by_task: BTreeMap<TaskId, Vec<Trajectory>> = BTreeMap::new();
        for attempt in self.attempts(base, "first")? {
            by_task
                .entry(attempt.task_id.clone())
                .or_default()
                .push(attempt);
        }
        let find = |task: &Arc<Task>| {
            let own = by_task.get(&task.id)?;
            let n = |outcome| own.iter().filter(|t| t.outcome == outcome).count();
            let text = &task.instruction;
            let found = if n(Outcome::Solved) > 0 {
                (Cluster::unseen(text), false)
            } else if n(Outcome::Failed) as f64 >= MIN_VALID * own.len() as f64 {
                let digest = Digest::from_attempts_within(text, own, base.limits().max_turns);
                (digest.cluster(), true)
            } else {
                return None;
            };
            Some((task.id.clone(), found))
        };
        Ok(self.tasks.iter().filter_map(find).collect())
    }
}

impl<F, E> Probe for AnchorProbe<'_, F>
where
    F: FnMut(&HarnessSpec, &[Arc<Task>], u32, Seed, &str) -> Result<Vec<Trajectory>, E>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    fn probe(&mut self, harness: Option<&HarnessId>) -> Result<Vec<EvidenceRow>, SelectError> {
        let pool = self.pool;
        let (harness, what) = match harness {
            None => (pool.base(), "base"),
            Some(id) => match pool.get(id) {
                Some(sibling) => (&sibling.harness, id.as_str()),
                None => return Err(SelectError::UnknownHarness(id.clone())),
            },
        };
        let found = match self.found.take() {
            Some(found) => found,
            None => self.look()?,
        };
        let made = self.attempts(harness, what);
        let found = self.found.insert(found);
        let row = |attempt: &Trajectory| {
            let (cluster, has_failed) = found.get(&attempt.task_id)?;
            EvidenceRow::from_trajectory(attempt, cluster.clone(), *has_failed, false)
        };
        Ok(made?.iter().filter_map(row).collect())
    }
}
