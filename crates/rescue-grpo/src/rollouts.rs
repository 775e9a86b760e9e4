//! The attempts of a step: who runs what under which id and seed, and the groups that come back.
//!
//! Ids say where an attempt belongs: group `s3-t1` is task 1 of step 3, `s3-t1-a0` its first attempt under the
//! base; `s3-t1-r` is the group that may replace it, `s3-t1-r0` its first attempt. They are given before any
//! harness touches a prompt (bug report G18). Nothing parses them.

use std::io;
use std::sync::Arc;

use harness_core::{
    Codec, ExecOptions, GroupId, HarnessSpec, Job, MakeEnvironment, Policy, RolloutGroup,
    RolloutId, RolloutRole, Seed, Task, Trajectory, run_jobs,
};

use crate::learner::Learner;
use crate::step::StepError;

/// What a step runs on.
pub struct Runtime<'a> {
    /// Turns messages into token ids.
    pub codec: &'a dyn Codec,
    /// Makes worlds.
    pub envs: &'a dyn MakeEnvironment,
    /// How attempts are run; `temperature` is taken from the step's configuration instead.
    pub exec: &'a ExecOptions,
    /// Threads that run attempts, each with its own snapshot of the policy; 0 counts as 1. No result
    /// depends on it.
    pub n_threads: usize,
    /// The run's seed. An attempt's seed derives from it by (purpose, step, task, attempt).
    pub seed: Seed,
    /// The step's number.
    pub step: u64,
    /// Gets every attempt of the step, in the order of tasks and attempts, base before rescue, and before
    /// anything is learned from it. Nothing is kept after the step.
    pub sink: &'a mut dyn FnMut(&Trajectory) -> io::Result<()>,
}

/// A group of attempts to be made.
#[derive(Debug)]
pub(crate) struct GroupPlan {
    /// The task's place in the step.
    pub(crate) task_idx: usize,
    pub(crate) task: Arc<Task>,
    /// Base or rescue.
    pub(crate) role: RolloutRole,
    /// The harness of each attempt; neighbours share one.
    pub(crate) harnesses: Vec<Arc<HarnessSpec>>,
}

impl GroupPlan {
    /// `n_attempts` split evenly over the harnesses, in blocks, so that neighbours share a prompt; the first
    /// get one more if they do not divide.
    pub(crate) fn split(
        task_idx: usize,
        task: &Arc<Task>,
        role: RolloutRole,
        harnesses: &[Arc<HarnessSpec>],
        n_attempts: usize,
    ) -> Self {
        let (each, more) = (n_attempts / harnesses.len(), n_attempts % harnesses.len());
        let blocks = harnesses.iter().enumerate();
        let blocks = blocks.map(|(i, h)| std::iter::repeat_n(h, each + usize::from(i < more)));
        Self {
            task_idx,
            task: Arc::clone(task),
            role,
            harnesses: blocks.flatten().map(Arc::clone).collect(),
        }
    }

    fn jobs(&self, run: Seed, step: u64) -> impl Iterator<Item = Job> {
        let (group, letter, purpose) = match self.role {
            RolloutRole::Rescue => (rescue_id(step, self.task_idx), 'r', "rescue"),
            _ => (base_id(step, self.task_idx), 'a', "base"),
        };
        let base = base_id(step, self.task_idx);
        self.harnesses.iter().zip(0_u32..).map(move |(harness, n)| {
            let id = RolloutId::new(format!("{base}-{letter}{n}"));
            let keys = [step, self.task_idx as u64, u64::from(n)];
            Job {
                rollout_id: id.expect("letters and digits are an id"),
                group_id: group.clone(),
                task: Arc::clone(&self.task),
                harness: Arc::clone(harness),
                attempt: n,
                role: self.role,
                seed: run.derive(purpose, &keys),
            }
        })
    }
}

/// The id of the group of a task under the base.
pub(crate) fn base_id(step: u64, task_idx: usize) -> GroupId {
    GroupId::new(format!("s{step}-t{task_idx}")).expect("letters and digits are an id")
}

/// The id of the group that may replace it.
fn rescue_id(step: u64, task_idx: usize) -> GroupId {
    GroupId::new(format!("s{step}-t{task_idx}-r")).expect("letters and digits are an id")
}

impl Runtime<'_> {
    /// Makes all attempts of the plans, many in flight at once, hands them to the sink, and returns one group
    /// for each plan.
    ///
    /// # Errors
    /// [`StepError::Sink`], [`StepError::Group`], or [`StepError::OtherVersion`] if a snapshot was not of
    /// the learner's version: old log-probs would be wrong.
    pub(crate) fn run(
        &mut self,
        plans: &[GroupPlan],
        learner: &dyn Learner,
        temperature: f32,
    ) -> Result<Vec<RolloutGroup>, StepError> {
        let jobs = plans.iter().flat_map(|p| p.jobs(self.seed, self.step));
        let jobs: Vec<Job> = jobs.collect();
        let options = ExecOptions {
            temperature,
            ..self.exec.clone()
        };
        let n_policies = self.n_threads.max(1).min(jobs.len());
        let policies: Vec<Box<dyn Policy>> = (0..n_policies).map(|_| learner.snapshot()).collect();
        let mut done = run_jobs(policies, self.codec, self.envs, jobs, &options).into_iter();
        let mut groups = Vec::with_capacity(plans.len());
        for plan in plans {
            let attempts: Vec<Trajectory> = done.by_ref().take(plan.harnesses.len()).collect();
            for attempt in &attempts {
                (self.sink)(attempt).map_err(StepError::Sink)?;
            }
            let group = RolloutGroup::new(attempts)?;
            let (expected, got) = (learner.version(), group.policy_version());
            if got != expected {
                return Err(StepError::OtherVersion { expected, got });
            }
            groups.push(group);
        }
        Ok(groups)
    }
}

#[cfg(test)]
mod tests {
    use harness_core::testing::toy_task;

    use super::*;
    use crate::fakes::pool;

    fn plan(role: RolloutRole, n_harnesses: usize, n_attempts: usize) -> GroupPlan {
        let pool = pool(&["a", "b", "c"]);
        let harnesses = pool.siblings().iter().take(n_harnesses);
        let harnesses: Vec<_> = harnesses.map(|s| Arc::new(s.harness.clone())).collect();
        GroupPlan::split(1, &Arc::new(toy_task(1, "x")), role, &harnesses, n_attempts)
    }

    #[test]
    fn attempts_are_split_evenly_in_blocks() {
        let sizes = |n_harnesses, n_attempts| {
            let plan = plan(RolloutRole::Rescue, n_harnesses, n_attempts);
            let blocks = plan.harnesses.chunk_by(Arc::ptr_eq);
            blocks.map(<[_]>::len).collect::<Vec<_>>()
        };
        assert_eq!(sizes(2, 8), [4, 4]);
        assert_eq!(sizes(3, 8), [3, 3, 2]);
        assert_eq!(sizes(1, 8), [8]);
        assert_eq!(sizes(3, 3), [1, 1, 1]);
    }

    #[test]
    fn ids_and_seeds_say_where_an_attempt_belongs() {
        let jobs = |role, step| {
            plan(role, 1, 2)
                .jobs(Seed::new(7), step)
                .collect::<Vec<_>>()
        };
        let (base, rescue) = (jobs(RolloutRole::Base, 3), jobs(RolloutRole::Rescue, 3));
        assert_eq!(base[1].rollout_id.as_str(), "s3-t1-a1");
        assert_eq!(base[1].group_id.as_str(), "s3-t1");
        assert_eq!(rescue[1].rollout_id.as_str(), "s3-t1-r1");
        assert_eq!(rescue[1].group_id.as_str(), "s3-t1-r");
        let later = jobs(RolloutRole::Base, 4);
        let mut seeds: Vec<u64> = [base, rescue, later]
            .iter()
            .flatten()
            .map(|j| j.seed.value())
            .collect();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 6);
    }
}
