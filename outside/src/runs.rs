//! The executor behind the two traits by which evolution and routing have harnesses run.

use std::collections::BTreeMap;
use std::sync::Arc;

use harness_core::{
    ExecOptions, HarnessId, HarnessSpec, IdError, Job, Outcome, RolloutRole, RunId, Seed, Task,
    TaskId, Trajectory, run_jobs,
};
use harness_evolve::{Rerun, RerunError};
use harness_pool::{Cluster, Digest, EvidenceRow, Probe, SelectError, SiblingPool};

use crate::model::{CharCodec, Reader};
use crate::world::Boxes;

/// Makes `n` attempts at each task, task by task. `purpose` names them, so it must not occur twice in a run.
///
/// # Errors
/// [`IdError`] if `purpose` does not fit into an id.
pub fn attempts(
    harness: &HarnessSpec,
    tasks: &[Arc<Task>],
    n: u32,
    seed: Seed,
    purpose: &str,
) -> Result<Vec<Trajectory>, IdError> {
    let harness = Arc::new(harness.clone());
    let mut jobs = Vec::new();
    for task in tasks {
        jobs.extend(Job::group(
            purpose,
            task,
            &harness,
            n,
            RolloutRole::Probe,
            seed,
        )?);
    }
    let options = ExecOptions::new(RunId::new("outside")?);
    let policy = Box::<Reader>::default();
    Ok(run_jobs(vec![policy], &CharCodec, &Boxes, jobs, &options))
}

/// Evolution's door to the executor.
#[derive(Debug, Clone, Copy)]
pub struct Executor;

impl Rerun for Executor {
    fn rerun(
        &mut self,
        harness: &HarnessSpec,
        tasks: &[Arc<Task>],
        n: u32,
        seed: Seed,
        purpose: &str,
    ) -> Result<Vec<Trajectory>, RerunError> {
        attempts(harness, tasks, n, seed, purpose).map_err(|e| RerunError::new(purpose, e))
    }
}

/// A fixed set of tasks, on which a router is told how base and siblings do now.
#[derive(Debug)]
pub struct Anchors<'a> {
    pool: &'a SiblingPool,
    tasks: Vec<Arc<Task>>,
    n: u32,
    seed: Seed,
    /// By task, its failure cluster and whether the base failed all first attempts.
    found: BTreeMap<TaskId, (Cluster, bool)>,
}

impl<'a> Anchors<'a> {
    /// Finds out which tasks the base fails. What is probed later are fresh attempts.
    ///
    /// # Errors
    /// [`IdError`] never: the names are printable.
    pub fn new(
        pool: &'a SiblingPool,
        tasks: Vec<Arc<Task>>,
        n: u32,
        seed: Seed,
    ) -> Result<Self, IdError> {
        let base = pool.base();
        let first = attempts(base, &tasks, n, seed.derive("first", &[]), "anchor/first")?;
        let max_turns = base.limits().max_turns;
        let found = tasks
            .iter()
            .zip(first.chunks(n.max(1) as usize))
            .map(|(task, group)| {
                let digest = Digest::from_attempts_within(&task.instruction, group, max_turns);
                let has_failed = group.iter().all(|t| t.outcome != Outcome::Solved);
                (task.id.clone(), (digest.cluster(), has_failed))
            });
        Ok(Self {
            found: found.collect(),
            pool,
            tasks,
            n,
            seed,
        })
    }
}

impl Probe for Anchors<'_> {
    fn probe(&mut self, harness: Option<&HarnessId>) -> Result<Vec<EvidenceRow>, SelectError> {
        let (spec, purpose) = match harness {
            None => (self.pool.base(), "anchor/base".to_owned()),
            Some(id) => match self.pool.get(id) {
                Some(sibling) => (&sibling.harness, format!("anchor/{id}")),
                None => return Err(SelectError::UnknownHarness(id.clone())),
            },
        };
        let seed = self.seed.derive(&purpose, &[]);
        let made =
            attempts(spec, &self.tasks, self.n, seed, &purpose).map_err(SelectError::probe)?;
        let row = |attempt: &Trajectory| {
            let (cluster, has_failed) = self.found.get(&attempt.task_id)?;
            EvidenceRow::from_trajectory(attempt, cluster.clone(), *has_failed, false)
        };
        Ok(made.iter().filter_map(row).collect())
    }
}
