//! The rescue of failed groups: choose harnesses, plan fresh attempts, put them in place, and tell the
//! selector what came of them.
//!
//! It never learns how siblings are chosen, and never touches a group that is not failed.

use std::collections::BTreeMap;
use std::sync::Arc;

use harness_core::{
    FailedGroup, HarnessId, HarnessSpec, RolloutGroup, RolloutRole, Seed, Task, Trajectory,
};
use harness_pool::{
    Digest, EvidenceRow, RescueEvidence, RouteContext, SelectSiblings, SiblingPool,
};

use crate::advantage::valid_reward;
use crate::config::GrpoConfig;
use crate::dropout::drop_words;
use crate::metrics::{DecisionRecord, RescueCounts};
use crate::rollouts::{GroupPlan, base_id};
use crate::rows::{Context, UpdateGroup};
use crate::step::StepError;

/// A task for which siblings were chosen.
pub(crate) struct Route {
    pub(crate) context: RouteContext,
    pub(crate) plan: GroupPlan,
}

/// Asks the selector, on what all routes of a step share.
pub(crate) struct Router<'a> {
    pub(crate) pool: &'a SiblingPool,
    pub(crate) selector: &'a mut dyn SelectSiblings,
    pub(crate) config: &'a GrpoConfig,
    /// Every decision, for the report.
    pub(crate) decisions: Vec<DecisionRecord>,
    harnesses: BTreeMap<HarnessId, Arc<HarnessSpec>>,
    /// By the id of a harness with words dropped, the sibling that it was made from.
    thinned: BTreeMap<HarnessId, HarnessId>,
}

impl<'a> Router<'a> {
    pub(crate) fn new(
        pool: &'a SiblingPool,
        selector: &'a mut dyn SelectSiblings,
        config: &'a GrpoConfig,
    ) -> Self {
        Self {
            pool,
            selector,
            config,
            decisions: Vec::new(),
            harnesses: BTreeMap::new(),
            thinned: BTreeMap::new(),
        }
    }

    /// Chooses siblings for a task and plans a group of attempts under them; `None` if none was chosen.
    ///
    /// # Errors
    /// [`StepError::Select`] if the selector cannot decide, [`StepError::Decision`] if it breaks its
    /// contract.
    pub(crate) fn route(
        &mut self,
        task_idx: usize,
        task: &Arc<Task>,
        context: RouteContext,
    ) -> Result<Option<Route>, StepError> {
        let selected = self.selector.select(&context, self.config.k);
        let decision = selected.map_err(|source| StepError::Select {
            task: task.id.clone(),
            source,
        })?;
        let harnesses = self.chosen(task, &decision.chosen)?;
        self.decisions.push(DecisionRecord {
            group_id: base_id(context.step, task_idx),
            task_id: task.id.clone(),
            cluster: context.cluster(),
            decision,
        });
        if harnesses.is_empty() {
            return Ok(None);
        }
        let (role, size) = (RolloutRole::Rescue, self.config.group_size);
        let mut plan = GroupPlan::split(task_idx, task, role, &harnesses, size);
        if self.config.context == Context::SiblingDropout {
            self.drop_words(&mut plan, context.seed);
        }
        Ok(Some(Route { context, plan }))
    }

    /// Puts a copy with words dropped in place of the sibling of every second attempt.
    fn drop_words(&mut self, plan: &mut GroupPlan, seed: Seed) {
        for (n, harness) in plan.harnesses.iter_mut().enumerate().skip(1).step_by(2) {
            let seed = seed.derive("word-dropout", &[n as u64]);
            let thinned = drop_words(harness, self.config.word_dropout, seed);
            let (id, sibling) = (thinned.id(), harness.id());
            if id != sibling {
                self.thinned.insert(id, sibling);
            }
            *harness = Arc::new(thinned);
        }
    }

    /// The sibling under which an attempt was made, with words dropped or not.
    pub(crate) fn sibling_of<'i>(&'i self, id: &'i HarnessId) -> &'i HarnessId {
        self.thinned.get(id).unwrap_or(id)
    }

    /// The harnesses behind the ids, one allocation for each sibling of the step.
    fn chosen(
        &mut self,
        task: &Task,
        chosen: &[HarnessId],
    ) -> Result<Vec<Arc<HarnessSpec>>, StepError> {
        let refuse = |problem| StepError::Decision {
            task: task.id.clone(),
            problem,
        };
        if chosen.len() > self.config.k {
            return Err(refuse("more siblings than were asked for"));
        }
        let mut harnesses = Vec::with_capacity(chosen.len());
        for (i, id) in chosen.iter().enumerate() {
            if chosen[..i].contains(id) {
                return Err(refuse("one sibling is chosen twice"));
            }
            let Some(sibling) = self.pool.get(id) else {
                return Err(refuse("a harness is chosen that is no sibling of the pool"));
            };
            let shared = self.harnesses.entry(id.clone());
            let shared = shared.or_insert_with(|| Arc::new(sibling.harness.clone()));
            harnesses.push(Arc::clone(shared));
        }
        Ok(harnesses)
    }

    /// Tells the selector what came of each sibling that ran, once each.
    ///
    /// # Errors
    /// [`StepError::Select`] if it refuses the evidence.
    pub(crate) fn observe(
        &mut self,
        context: &RouteContext,
        group: &RolloutGroup,
    ) -> Result<(), StepError> {
        let cluster = context.cluster();
        let is_rescue = context.digest.is_some();
        let mut rows: BTreeMap<&HarnessId, Vec<EvidenceRow>> = BTreeMap::new();
        let whole = |t: &&Trajectory| !self.thinned.contains_key(&t.harness_id);
        for t in group.attempts().iter().filter(whole) {
            let rows = rows.entry(&t.harness_id).or_default();
            let row = EvidenceRow::from_trajectory(t, cluster.clone(), is_rescue, true);
            rows.extend(row);
        }
        for (harness, rows) in rows {
            let evidence = RescueEvidence::from_rows(context.clone(), harness.clone(), rows);
            let observed = self.selector.observe(&evidence);
            observed.map_err(|source| StepError::Select {
                task: context.task_id.clone(),
                source,
            })?;
        }
        Ok(())
    }
}

/// What the failed attempts have in common, as a selector may see it.
pub(crate) fn digest(task: &Task, failed: &FailedGroup, base: &HarnessSpec) -> Digest {
    let max_turns = base.limits().max_turns;
    Digest::from_attempts_within(&task.instruction, failed.group().attempts(), max_turns)
}

/// Puts the fresh attempts in place of the failed ones, all at once, if enough of them are valid; else the
/// group stays failed and teaches nothing. Either way this is the end of it: there is no second rescue, so a
/// task set that always fails ends (bug report G21).
///
/// # Errors
/// [`StepError::Group`] if the attempts are at another task.
pub(crate) fn replace(
    failed: FailedGroup,
    fresh: RolloutGroup,
    min_valid: f64,
    counts: &mut RescueCounts,
) -> Result<UpdateGroup, StepError> {
    let n_valid = fresh.attempts().iter().filter_map(valid_reward).count();
    if (n_valid as f64) < min_valid * fresh.attempts().len() as f64 {
        counts.too_few_valid += 1;
        return Ok(UpdateGroup::Base(failed.into_group()));
    }
    let rescued = failed.replace_with(fresh).map_err(|refused| refused.1)?;
    if rescued.is_rescued() {
        counts.rescued += 1;
    } else {
        counts.unsolved += 1;
    }
    Ok(UpdateGroup::Rescued(rescued))
}
