//! One attempt as evidence on a harness.

use harness_core::{HarnessId, PolicyVersion, RolloutId, TaskId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::Cluster;

/// One valid attempt, as a behaviour profile keeps it. Attempts that say nothing about the policy (faults of
/// the machinery, bug report F1) must not become rows.
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
    /// Whether a rule of the overlay acted at least once.
    pub fired: bool,
}
