//! Runs harnesses on tasks: many episodes in flight over one policy.

use std::sync::Arc;
use std::time::Duration;

use crate::harness::HarnessSpec;
use crate::ids::{GroupId, RolloutId, RunId};
use crate::seed::Seed;
use crate::task::Task;
use crate::trajectory::RolloutRole;

/// One attempt to be made.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its name, unique in the run.
    pub rollout_id: RolloutId,
    /// The group it belongs to.
    pub group_id: GroupId,
    /// The task.
    pub task: Arc<Task>,
    /// The harness it runs under.
    pub harness: Arc<HarnessSpec>,
    /// Number of the attempt in its group.
    pub attempt: u32,
    /// Why it is made.
    pub role: RolloutRole,
    /// Everything random in the attempt derives from it; the world itself derives from the task's seed.
    pub seed: Seed,
}

/// How attempts are run.
#[derive(Debug, Clone)]
pub struct ExecOptions {
    /// The run they belong to.
    pub run_id: RunId,
    /// Temperature; reply lengths come from each harness's limits.
    pub temperature: f32,
    /// Most episodes in flight.
    pub max_in_flight: usize,
    /// Wall-clock limit of one attempt (bug report F10); an attempt past it is an infrastructure error.
    pub rollout_timeout: Duration,
    /// How often an invalid attempt is made again on a fresh environment.
    pub retries: u32,
}
