//! What an attempt is asked to do.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{ScenarioId, TaskId};
use crate::seed::Seed;

/// Which part of an experiment may see a task. Splits are disjoint by scenario.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Split {
    /// Demonstrations of the warm start.
    WarmStart,
    /// GRPO.
    Train,
    /// Failure packets and search reruns of evolution.
    EvolutionSearch,
    /// The one confirmation of a candidate.
    EvolutionConfirm,
    /// Anchor probes.
    Anchor,
    /// Choosing a configuration.
    Dev,
    /// The headline, read last.
    Test,
}

impl Split {
    /// Every split, in the order of an experiment.
    pub const ALL: [Self; 7] = [
        Self::WarmStart,
        Self::Train,
        Self::EvolutionSearch,
        Self::EvolutionConfirm,
        Self::Anchor,
        Self::Dev,
        Self::Test,
    ];
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WarmStart => "warm-start",
            Self::Train => "train",
            Self::EvolutionSearch => "evolution-search",
            Self::EvolutionConfirm => "evolution-confirm",
            Self::Anchor => "anchor",
            Self::Dev => "dev",
            Self::Test => "test",
        })
    }
}

/// One task of an environment.
///
/// `family` is for reports only: no policy, harness, router or proposer may read it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The task's name, unique within its environment.
    pub id: TaskId,
    /// The scenario that it is one instance of.
    pub scenario: ScenarioId,
    /// The environment that it belongs to, for instance `appworld`.
    pub env: String,
    /// What kind of task it is, for reports.
    pub family: String,
    /// The split that it belongs to.
    pub split: Split,
    /// What the agent is told.
    pub instruction: String,
    /// Everything random in the task's world derives from it.
    pub seed: Seed,
    /// Whatever else the environment needs to build the task's world; opaque to everyone else.
    pub data: serde_json::Value,
}
