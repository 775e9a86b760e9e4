//! How an attempt ended. A fault of the machinery is never a failure of the policy (bug report F1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The typed end of an attempt.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The verdict was positive.
    Solved,
    /// The verdict was negative; reaching the turn or step limit counts here.
    Failed,
    /// The token window alone ended the attempt.
    Truncated,
    /// The environment or its transport broke, or a deadline passed.
    InfraError,
    /// The environment ran but its verdict could not be had.
    VerifierError,
    /// Somebody stopped the attempt.
    Cancelled,
}

impl Outcome {
    /// Every outcome, in the order of reports.
    pub const ALL: [Self; 6] = [
        Self::Solved,
        Self::Failed,
        Self::Truncated,
        Self::InfraError,
        Self::VerifierError,
        Self::Cancelled,
    ];

    /// Whether the attempt says anything about the policy: `solved`, `failed` or `truncated`.
    pub const fn is_valid(self) -> bool {
        matches!(self, Self::Solved | Self::Failed | Self::Truncated)
    }

    /// The name used in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Solved => "solved",
            Self::Failed => "failed",
            Self::Truncated => "truncated",
            Self::InfraError => "infra_error",
            Self::VerifierError => "verifier_error",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What an environment's evaluation found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether the task is done, all requirements met.
    pub solved: bool,
    /// Reward in `[0, 1]`; `None` if the environment grades by `solved` alone (then 1 or 0 is used).
    pub reward: Option<f32>,
    /// Requirements that were not met, for failure packets; never shown to the policy.
    pub failures: Vec<String>,
}

impl Verdict {
    /// The verdict of an environment that grades by solved or not alone.
    pub fn from_solved(solved: bool) -> Self {
        Self {
            solved,
            reward: None,
            failures: Vec::new(),
        }
    }
}
