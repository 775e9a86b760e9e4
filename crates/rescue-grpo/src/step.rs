//! The training step: collect, find all-failed groups, rescue, advantages, update.
//!
//! It sees a router only through [`SelectSiblings`], and never learns how siblings were made. Re-anchoring and
//! evaluation happen between steps and are the trainer's.
//!
//! # Source
//! arXiv 2611.04277, abstract: the base first, siblings only where every attempt failed, and their attempts
//! replace the failed group in the GRPO update. Everything finer is ours.

use std::ops::Range;
use std::sync::Arc;

use harness_core::{
    FailedGroup, GroupCheck, GroupError, Outcome, PolicyVersion, RolloutGroup, RolloutRole, Task,
    TaskId,
};
use harness_pool::{Digest, RouteContext, SelectError, SelectSiblings, SiblingPool};

use crate::advantage::Signal;
use crate::config::{ConfigError, GrpoConfig, RescueMode};
use crate::learner::{Learner, LearnerError};
use crate::metrics::{StepReport, UpdateReport};
use crate::rescue::{Route, Router, digest, replace};
use crate::rollouts::{GroupPlan, Runtime};
use crate::rows::{Context, GroupRows, UpdateGroup, batch, group_rows, weigh_projected};

/// Why a step could not be made; the weights are then as before. A failed attempt is no error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The configuration is out of range.
    #[error("the configuration of the step is not valid: {0}")]
    Config(#[from] ConfigError),
    /// There is no task.
    #[error("a step needs at least 1 task, got: 0")]
    NoTasks,
    /// The attempts that came back do not form groups.
    #[error("attempts do not form a group: {0}")]
    Group(#[from] GroupError),
    /// The attempts were made by other weights than those that are to be updated.
    #[error("attempts were made by policy {got}, the learner is at {expected}")]
    OtherVersion {
        /// The learner's version.
        expected: PolicyVersion,
        /// The attempts' version.
        got: PolicyVersion,
    },
    /// The selector could not decide or refused what came of its choice.
    #[error("selecting siblings for task {task}: {source}")]
    Select {
        /// The task.
        task: TaskId,
        /// The selector's reason.
        #[source]
        source: SelectError,
    },
    /// The selector broke its contract.
    #[error("the selector's decision for task {task} cannot be: {problem}")]
    Decision {
        /// The task.
        task: TaskId,
        /// What is wrong.
        problem: &'static str,
    },
    /// The learner refused the rows or the update.
    #[error("the learner refused: {0}")]
    Learner(#[from] LearnerError),
    /// The sink could not take an attempt.
    #[error("an attempt could not be written")]
    Sink(#[source] std::io::Error),
}

/// Makes one training step on `tasks`, one group each, and reports it.
///
/// With [`GrpoConfig::resample_rounds`] only as many of them are attempted, from the first on, as are needed
/// for `tasks_per_step` groups that teach; [`StepReport::n_tasks`] says how many.
///
/// A step is a `tracing` span `step`, with its numbers as one event of level INFO, what
/// [`StepReport::warnings`] says at WARN, and each rescue at DEBUG.
///
/// Every attempt passes through `runtime.sink`; none is kept. If no advantage differs from 0, the weights and
/// the version stay as they are ([`StepReport::update`] is then absent).
///
/// # Errors
/// [`StepError`]; the learner's weights are then as before, but the selector may have been told of rescues.
///
/// # Determinism
/// The report is a function of the arguments; `runtime.n_threads` does not matter. Attempts under the base
/// have the same seeds in every [`RescueMode`].
pub fn step(
    learner: &mut dyn Learner,
    tasks: &[Arc<Task>],
    runtime: &mut Runtime<'_>,
    pool: &SiblingPool,
    selector: &mut dyn SelectSiblings,
    config: &GrpoConfig,
) -> Result<StepReport, StepError> {
    config.validate()?;
    if tasks.is_empty() {
        return Err(StepError::NoTasks);
    }
    let _span = tracing::info_span!("step", step = runtime.step).entered();
    let mut stage = Stage {
        learner,
        tasks,
        runtime,
        router: Router::new(pool, selector, config),
        report: StepReport::default(),
    };
    let rows = stage.rounds()?;
    let report = stage.update(rows)?;
    report.tell(config.tasks_per_step);
    Ok(report)
}

/// A group and its task's place in the step.
type Placed<T> = (usize, T);

/// What the parts of one step share.
struct Stage<'a, 'r> {
    learner: &'a mut dyn Learner,
    tasks: &'a [Arc<Task>],
    runtime: &'a mut Runtime<'r>,
    router: Router<'a>,
    report: StepReport,
}

impl Stage<'_, '_> {
    /// The rows of all groups: of all tasks at once, or round by round until enough groups teach.
    fn rounds(&mut self) -> Result<Vec<GroupRows>, StepError> {
        let config = self.router.config;
        let per_round = match config.resample_rounds {
            0 => self.tasks.len(),
            _ => config.tasks_per_step,
        };
        let mut rows = Vec::new();
        for round in 0..=u64::from(config.resample_rounds) {
            let start = self.report.n_tasks as usize;
            let span = start..(start + per_round).min(self.tasks.len());
            self.report.resampled = round;
            self.report.n_tasks += span.len() as u64;
            let groups = self.groups(span)?;
            rows.extend(self.advantages(&groups));
            let teaching = rows.iter().filter(|g| g.signal == Signal::Spread).count();
            let is_enough = teaching >= config.tasks_per_step;
            if is_enough || self.report.n_tasks as usize == self.tasks.len() {
                break;
            }
        }
        Ok(rows)
    }

    /// The groups of some tasks, in their order, failed ones replaced.
    fn groups(&mut self, span: Range<usize>) -> Result<Vec<UpdateGroup>, StepError> {
        if self.router.config.rescue == RescueMode::Always {
            return self.collect_under_siblings(span);
        }
        let first = span.start;
        let collected = self.collect(span)?;
        let (settled, failed) = self.find_all_failed(first, collected);
        Ok(in_task_order(settled, self.rescue(failed)?))
    }

    /// One group under the base for each task.
    fn collect(&mut self, span: Range<usize>) -> Result<Vec<RolloutGroup>, StepError> {
        let base = [Arc::new(self.router.pool.base().clone())];
        let size = self.router.config.group_size;
        let plan = |i| GroupPlan::split(i, &self.tasks[i], RolloutRole::Base, &base, size);
        let plans: Vec<GroupPlan> = span.map(plan).collect();
        let groups = self.run(&plans)?;
        self.report.count_base(&groups);
        Ok(groups)
    }

    /// One group under selected siblings for each task, without a look at the base.
    fn collect_under_siblings(
        &mut self,
        span: Range<usize>,
    ) -> Result<Vec<UpdateGroup>, StepError> {
        let mut routes = Vec::new();
        for task_idx in span {
            let task = &self.tasks[task_idx];
            let context = self.context(task_idx, task, None);
            match self.router.route(task_idx, task, context)? {
                Some(route) => routes.push(route),
                None => self.report.groups.unrouted += 1,
            }
        }
        let groups = self.run_routes(routes)?;
        Ok(groups
            .into_iter()
            .map(|(_, g)| UpdateGroup::Siblings(g))
            .collect())
    }

    /// Parts the groups in which all attempts failed from the others, by outcome and never by spread.
    fn find_all_failed(
        &mut self,
        first: usize,
        groups: Vec<RolloutGroup>,
    ) -> (Vec<Placed<UpdateGroup>>, Vec<Placed<FailedGroup>>) {
        let (mut settled, mut failed) = (Vec::new(), Vec::new());
        for (task_idx, group) in (first..).zip(groups) {
            match group.check(self.router.config.min_valid) {
                GroupCheck::Failed(group) => failed.push((task_idx, group)),
                GroupCheck::Solved(group) | GroupCheck::TooFewValid(group) => {
                    settled.push((task_idx, UpdateGroup::Base(group)));
                }
            }
        }
        self.report.groups.all_failed += failed.len() as u64;
        (settled, failed)
    }

    /// Makes as many fresh attempts at every failed group's task as the mode asks for, and puts them in its
    /// place.
    fn rescue(
        &mut self,
        failed: Vec<Placed<FailedGroup>>,
    ) -> Result<Vec<Placed<UpdateGroup>>, StepError> {
        let fresh = match self.router.config.rescue {
            RescueMode::Off | RescueMode::Always => Vec::new(),
            RescueMode::BaseAgain => self.try_base_again(&failed)?,
            RescueMode::Siblings => self.try_siblings(&failed)?,
        };
        let mut fresh = fresh.into_iter().peekable();
        let mut out = Vec::with_capacity(failed.len());
        for (task_idx, failed) in failed {
            let group = match fresh.next_if(|(at, _)| *at == task_idx) {
                Some((_, fresh)) => {
                    let min_valid = self.router.config.min_valid;
                    tell_rescue(&fresh);
                    replace(failed, fresh, min_valid, &mut self.report.groups)?
                }
                None => UpdateGroup::Base(failed.into_group()),
            };
            out.push((task_idx, group));
        }
        Ok(out)
    }

    fn try_base_again(
        &mut self,
        failed: &[Placed<FailedGroup>],
    ) -> Result<Vec<Placed<RolloutGroup>>, StepError> {
        let base = [Arc::new(self.router.pool.base().clone())];
        let (role, size) = (RolloutRole::Rescue, self.router.config.group_size);
        let plan =
            |(i, _): &Placed<FailedGroup>| GroupPlan::split(*i, &self.tasks[*i], role, &base, size);
        let plans: Vec<GroupPlan> = failed.iter().map(plan).collect();
        let groups = self.run(&plans)?;
        for group in &groups {
            self.report.count_rescue(group, |id| id);
        }
        Ok(plans.iter().map(|p| p.task_idx).zip(groups).collect())
    }

    fn try_siblings(
        &mut self,
        failed: &[Placed<FailedGroup>],
    ) -> Result<Vec<Placed<RolloutGroup>>, StepError> {
        let mut routes = Vec::new();
        for (task_idx, failed) in failed {
            let task = &self.tasks[*task_idx];
            let digest = digest(task, failed, self.router.pool.base());
            let context = self.context(*task_idx, task, Some(digest));
            match self.router.route(*task_idx, task, context)? {
                Some(route) => routes.push(route),
                None => self.report.groups.unrouted += 1,
            }
        }
        self.run_routes(routes)
    }

    /// Runs the chosen siblings and tells the selector what came of them.
    fn run_routes(&mut self, routes: Vec<Route>) -> Result<Vec<Placed<RolloutGroup>>, StepError> {
        let (contexts, plans): (Vec<RouteContext>, Vec<GroupPlan>) =
            routes.into_iter().map(|r| (r.context, r.plan)).unzip();
        let groups = self.run(&plans)?;
        for (context, group) in contexts.iter().zip(&groups) {
            self.report
                .count_rescue(group, |id| self.router.sibling_of(id));
            self.router.observe(context, group)?;
        }
        Ok(plans.iter().map(|p| p.task_idx).zip(groups).collect())
    }

    fn context(&self, task_idx: usize, task: &Task, digest: Option<Digest>) -> RouteContext {
        let step = self.runtime.step;
        RouteContext {
            task_id: task.id.clone(),
            instruction: task.instruction.clone(),
            digest,
            policy_version: self.learner.version(),
            step,
            seed: self.runtime.seed.derive("route", &[step, task_idx as u64]),
        }
    }

    fn run(&mut self, plans: &[GroupPlan]) -> Result<Vec<RolloutGroup>, StepError> {
        let temperature = self.router.config.temperature;
        let groups = self.runtime.run(plans, &*self.learner, temperature)?;
        let attempts = groups.iter().flat_map(RolloutGroup::attempts);
        attempts.for_each(|t| self.report.count_tokens(t));
        Ok(groups)
    }

    /// The rows of every group, with their advantages.
    fn advantages(&mut self, groups: &[UpdateGroup]) -> Vec<GroupRows> {
        let config = self.router.config;
        let mut rows: Vec<GroupRows> = groups.iter().map(|g| group_rows(g, config)).collect();
        for group in &mut rows {
            group.leave_out_longer_than(self.learner.max_context());
            self.report.zero_spread.add(group.signal);
            self.report.n_unprojectable += group.n_unprojectable as u64;
            self.report.n_missing += group.n_missing as u64;
        }
        rows
    }

    /// One optimizer step on the rows, unless there is nothing to learn.
    fn update(self, mut rows: Vec<GroupRows>) -> Result<StepReport, StepError> {
        let (learner, config) = (self.learner, self.router.config);
        let policy_version = learner.version();
        if config.context == Context::BaseIs {
            weigh_projected(&mut rows, &*learner)?;
        }
        let batch = batch(rows, config);
        let update = if batch.rows.is_empty() {
            None
        } else {
            let stats = learner.update(&batch)?;
            Some(UpdateReport::new(batch.rows.len(), batch.normalizer, stats))
        };
        Ok(StepReport {
            step: self.runtime.step,
            policy_version,
            decisions: self.router.decisions,
            update,
            ..self.report
        })
    }
}

/// Tells what came of the attempts that are to replace a failed group.
fn tell_rescue(fresh: &RolloutGroup) {
    tracing::debug!(
        group_id = %fresh.id(),
        task_id = %fresh.task_id(),
        n_solved = fresh.count(Outcome::Solved),
        n_attempts = fresh.attempts().len(),
        "rescue"
    );
}

/// Both lists as one, in the order of the tasks, so that rows never depend on which groups failed.
fn in_task_order(
    mut settled: Vec<Placed<UpdateGroup>>,
    rescued: Vec<Placed<UpdateGroup>>,
) -> Vec<UpdateGroup> {
    settled.extend(rescued);
    settled.sort_by_key(|(task_idx, _)| *task_idx);
    settled.into_iter().map(|(_, group)| group).collect()
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the compared values are exact in f32")]
mod tests;
