//! One attempt as evidence on a harness.

use harness_core::{HarnessId, Outcome, PolicyVersion, RolloutId, TaskId, Trajectory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::Cluster;

/// One valid attempt, as a behaviour profile keeps it. Attempts that say nothing about the policy (faults of
/// the machinery, bug report F1) must not become rows.
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent facts of one attempt, each a field of the file"
)]
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvidenceRow {
    /// The attempt; a row is counted once however often it is told.
    pub rollout: RolloutId,
    /// The harness that really ran (bug report E7); a sibling or the base.
    pub harness: HarnessId,
    /// The task.
    pub task: TaskId,
    /// The task's failure cluster.
    pub cluster: Cluster,
    /// Whether the attempt solved the task.
    pub solved: bool,
    /// Whether all base attempts of the group that came before failed. For a row of the base itself it
    /// marks a fresh retry after such a group.
    pub base_failed_all: bool,
    /// Whether a router chose the harness for this task (a routed rescue); false for probes, which run
    /// every harness on the same tasks.
    pub is_selected: bool,
    /// Turns taken.
    pub turns: u32,
    /// Tokens of the whole context.
    pub tokens: u64,
    /// The version of the policy.
    pub policy_version: PolicyVersion,
    /// Whether a rule of the overlay acted at least once in a turn. Texts shown at the start are not counted:
    /// they are shown in every attempt, so they would make every row of such a sibling true and hide whether
    /// its other rules act. What such a text changes is seen in `flags`.
    pub fired: bool,
    /// Names of the environment's boolean facts that held after the last turn, ascending, each once: what
    /// the attempt did, in the environment's own words ([`Trajectory::flags`]). Empty if the environment
    /// publishes none, and in rows of profile files of format 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
}

impl EvidenceRow {
    /// The row of an attempt; `None` if the attempt says nothing about the policy. A truncated attempt is a
    /// row that did not solve its task: an overlay that overflows the window is the harness's own doing.
    pub fn from_trajectory(
        attempt: &Trajectory,
        cluster: Cluster,
        base_failed_all: bool,
        is_selected: bool,
    ) -> Option<Self> {
        attempt.outcome.is_valid().then(|| Self {
            rollout: attempt.rollout_id.clone(),
            harness: attempt.harness_id.clone(),
            task: attempt.task_id.clone(),
            cluster,
            solved: attempt.outcome == Outcome::Solved,
            base_failed_all,
            is_selected,
            turns: attempt.turns.len() as u32,
            tokens: attempt.n_tokens() as u64,
            policy_version: attempt.policy_version,
            fired: attempt.turns.iter().any(|turn| !turn.fired.is_empty()),
            flags: attempt.flags().map(str::to_owned).collect(),
        })
    }
}
