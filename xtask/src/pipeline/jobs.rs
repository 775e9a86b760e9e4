//! Attempts of one harness at many tasks, the same way for evolution, anchors and evaluations.

use std::sync::Arc;

use env_appworld::AppWorldMaker;
use harness_core::{
    GroupId, HarnessSpec, Job, Policy, RolloutId, RolloutRole, Seed, Task, Trajectory, run_jobs,
};
use rescue_grpo::NanoLearner;
use rescue_grpo::learner::Learner as _;

use super::exec_options;
use super::warm_start::WarmStart;
use crate::config::Config;

/// Who attempts, and under which name.
#[derive(Clone, Copy)]
pub(super) struct Attempts<'a> {
    /// The settings.
    pub(super) config: &'a Config,
    /// Whose tokenizer the policy uses.
    pub(super) warm: &'a WarmStart,
    /// The policy.
    pub(super) learner: &'a NanoLearner,
    /// Why the attempts are made.
    pub(super) role: RolloutRole,
    /// What the ids of groups and rollouts begin with.
    pub(super) prefix: &'a str,
    /// The seed that the attempts' seeds derive from, by task and attempt.
    pub(super) seed: Seed,
    /// Temperature; 0 is greedy.
    pub(super) temperature: f32,
}

impl Attempts<'_> {
    /// Attempts each task `n` times under a harness: in the order of the tasks, then of the attempts.
    ///
    /// # Errors
    /// If `prefix` cannot begin an id.
    pub(super) fn run(
        &self,
        harness: &HarnessSpec,
        tasks: &[Arc<Task>],
        n: u32,
    ) -> anyhow::Result<Vec<Trajectory>> {
        let harness = Arc::new(harness.clone());
        let mut jobs = Vec::with_capacity(tasks.len() * n as usize);
        for (i, task) in tasks.iter().enumerate() {
            let group = format!("{}-t{i}", self.prefix);
            for attempt in 0..n {
                jobs.push(Job {
                    rollout_id: RolloutId::new(format!("{group}-a{attempt}"))?,
                    group_id: GroupId::new(&group)?,
                    task: Arc::clone(task),
                    harness: Arc::clone(&harness),
                    attempt,
                    role: self.role,
                    seed: self.seed.derive("attempt", &[i as u64, u64::from(attempt)]),
                });
            }
        }
        let mut options = exec_options(self.config, "attempts")?;
        options.temperature = self.temperature;
        let policies: Vec<Box<dyn Policy>> = (0..self.config.n_threads())
            .map(|_| self.learner.snapshot())
            .collect();
        let codec = self.warm.codec.as_ref();
        Ok(run_jobs(
            policies,
            codec,
            &AppWorldMaker::default(),
            jobs,
            &options,
        ))
    }
}
