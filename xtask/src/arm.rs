//! The arms of an experiment: ways to spend the same budget of rollouts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::usage::UsageError;

/// One way to train.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// GRPO under the base harness.
    PolicyOnly,
    /// The control: an all-failed group is replaced by as many more attempts under the base.
    PolicyOnlyMatched,
    /// Rescue by siblings; the gradient is taken in the base's context (ours).
    HarnessS,
    /// Rescue by siblings; the gradient is taken in the sibling's context (the literal reading).
    HarnessSSibling,
    /// As `harness_s`, with each token weighted by the clamped ratio between the two contexts.
    HarnessSBaseIs,
    /// As `harness_s`, with positive advantages only.
    HarnessSBasePositive,
    /// As `harness_s`, with siblings chosen at random.
    RandomSibling,
    /// As `harness_s`, with the one sibling that is best on average.
    SingleBest,
    /// As `harness_s`, with profiles that are never refreshed.
    NoReanchor,
}

impl Arm {
    /// Every arm, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::PolicyOnly,
        Self::PolicyOnlyMatched,
        Self::HarnessS,
        Self::HarnessSSibling,
        Self::HarnessSBaseIs,
        Self::HarnessSBasePositive,
        Self::RandomSibling,
        Self::SingleBest,
        Self::NoReanchor,
    ];

    /// The name used on the command line and in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PolicyOnly => "policy_only",
            Self::PolicyOnlyMatched => "policy_only_matched",
            Self::HarnessS => "harness_s",
            Self::HarnessSSibling => "harness_s_sibling",
            Self::HarnessSBaseIs => "harness_s_base_is",
            Self::HarnessSBasePositive => "harness_s_base_positive",
            Self::RandomSibling => "random_sibling",
            Self::SingleBest => "single_best",
            Self::NoReanchor => "no_reanchor",
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Arm {
    type Err = UsageError;

    fn from_str(text: &str) -> Result<Self, UsageError> {
        Self::ALL
            .into_iter()
            .find(|arm| arm.as_str() == text)
            .ok_or_else(|| UsageError::unknown("arm", text, Self::ALL.map(Self::as_str)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_serde() {
        for arm in Arm::ALL {
            assert_eq!(serde_json::to_value(arm).unwrap(), arm.as_str());
            assert_eq!(arm.as_str().parse(), Ok(arm));
        }
    }
}
