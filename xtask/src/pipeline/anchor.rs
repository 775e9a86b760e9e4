//! Anchor probes: a fixed set of tasks under base and siblings, with the current policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use harness_core::{HarnessId, HarnessSpec, Outcome, RolloutRole, Seed, Task, Trajectory};
use harness_pool::{Digest, EvidenceRow, Probe, RouteContext, SelectError};
use rescue_grpo::NanoLearner;

use super::arms::Shared;
use super::jobs::Attempts;

/// Runs the anchor tasks with the current policy.
pub(super) struct AnchorProbe<'a> {
    shared: Shared<'a>,
    learner: &'a NanoLearner,
    anchors: &'a [Arc<Task>],
    seed: Seed,
    step: u64,
    /// What the base's attempts at each task showed, once they were made; `None` if it solved the task. Tasks
    /// with too few attempts that say anything are not here and give no rows.
    failed: BTreeMap<String, Option<Digest>>,
    /// Attempts made.
    pub(super) n_rollouts: u64,
    /// Their tokens.
    pub(super) tokens: u64,
}

impl<'a> AnchorProbe<'a> {
    /// A probe before step number `step`.
    pub(super) fn new(
        shared: Shared<'a>,
        learner: &'a NanoLearner,
        anchors: &'a [Arc<Task>],
        seed: Seed,
        step: u64,
    ) -> Self {
        Self {
            shared,
            learner,
            anchors,
            seed,
            step,
            failed: BTreeMap::new(),
            n_rollouts: 0,
            tokens: 0,
        }
    }

    /// Rollouts that one look at base and all siblings takes.
    pub(super) fn cost(&self) -> u64 {
        let attempts = u64::from(self.shared.config.router.anchor_attempts);
        (self.shared.pool.len() as u64 + 2) * attempts * self.anchors.len() as u64
    }

    fn run(
        &mut self,
        harness: &HarnessSpec,
        name: &str,
        purpose: u64,
    ) -> Result<Vec<Trajectory>, SelectError> {
        let attempts = Attempts {
            config: self.shared.config,
            warm: self.shared.warm,
            learner: self.learner,
            role: RolloutRole::Probe,
            prefix: &format!("p{}-{name}", self.step),
            seed: self.seed.derive("probe", &[purpose]),
            temperature: self.shared.config.grpo.temperature as f32,
        };
        let done = attempts
            .run(
                harness,
                self.anchors,
                self.shared.config.router.anchor_attempts,
            )
            .map_err(SelectError::probe)?;
        self.n_rollouts += done.len() as u64;
        self.tokens += done.iter().map(|t| t.n_tokens() as u64).sum::<u64>();
        Ok(done)
    }

    fn rows(&self, done: &[Trajectory]) -> Vec<EvidenceRow> {
        done.iter()
            .filter_map(|t| {
                let digest = self.failed.get(t.task_id.as_str())?;
                let task = self.anchors.iter().find(|task| task.id == t.task_id)?;
                let context = RouteContext {
                    task_id: t.task_id.clone(),
                    instruction: task.instruction.clone(),
                    digest: digest.clone(),
                    policy_version: t.policy_version,
                    step: self.step,
                    seed: self.seed,
                };
                EvidenceRow::from_trajectory(t, context.cluster(), digest.is_some(), false)
            })
            .collect()
    }

    /// Finds the tasks that the base now fails, by attempts that are not counted again.
    fn look_at_base(&mut self) -> Result<(), SelectError> {
        let base = self.shared.pool.base();
        let max_turns = base.limits().max_turns;
        let done = self.run(&base.clone(), "look", 0)?;
        for task in self.anchors {
            let own: Vec<Trajectory> = done
                .iter()
                .filter(|t| t.task_id == task.id)
                .cloned()
                .collect();
            let n = |outcome| own.iter().filter(|t| t.outcome == outcome).count();
            let min_valid = self.shared.config.grpo.min_valid;
            let is_failed = n(Outcome::Failed) as f64 >= min_valid * own.len() as f64;
            if n(Outcome::Solved) == 0 && !is_failed {
                continue;
            }
            let digest = (n(Outcome::Solved) == 0)
                .then(|| Digest::from_attempts_within(&task.instruction, &own, max_turns));
            self.failed.insert(task.id.to_string(), digest);
        }
        Ok(())
    }
}

impl Probe for AnchorProbe<'_> {
    /// The base first: its first attempts say which tasks it fails, and as many fresh ones are its rows, so
    /// that siblings are compared with retries and not with the failures by which tasks were picked.
    fn probe(&mut self, harness: Option<&HarnessId>) -> Result<Vec<EvidenceRow>, SelectError> {
        let pool = self.shared.pool;
        let Some(id) = harness else {
            self.look_at_base()?;
            let done = self.run(&pool.base().clone(), "base", 1)?;
            return Ok(self.rows(&done));
        };
        let place = pool.ids().iter().position(|other| other == id);
        let (Some(place), Some(sibling)) = (place, pool.get(id)) else {
            return Err(SelectError::UnknownHarness(id.clone()));
        };
        let done = self.run(
            &sibling.harness.clone(),
            &format!("h{place}"),
            place as u64 + 2,
        )?;
        Ok(self.rows(&done))
    }
}
