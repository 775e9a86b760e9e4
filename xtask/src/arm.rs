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
    /// As `harness_s_sibling`, with words of the rules dropped at random in every second rescue attempt.
    SiblingDropout,
    /// As `harness_s`, with siblings chosen at random.
    RandomSibling,
    /// As `harness_s`, with the one sibling that is best on average.
    SingleBest,
    /// As `harness_s`, with profiles that are never refreshed.
    NoReanchor,
    /// As `harness_s`, with a pool evolved without directions.
    UndirectedPool,
    /// Siblings for every task from the start, without a look at the base.
    AlwaysSibling,
    /// As `harness_s`, with one sibling for each failed group.
    #[serde(rename = "harness_s_k1")]
    HarnessSK1,
    /// As `harness_s`, with a baseline for each sibling.
    BaselinePerHarness,
    /// As `harness_s`, with the failed attempts in the baseline.
    BaselineWithFailed,
    /// GRPO under the base that draws further tasks until enough groups teach (dynamic sampling).
    Resampling,
    /// GRPO under the base with a group of twice the size where the first half failed.
    PooledControl,
    /// Negative control: as `harness_s`, with siblings that never do anything.
    IdentitySiblings,
    /// Negative control: as `harness_s`, with siblings that the policy obeys and that repair nothing.
    DistractorPool,
}

impl Arm {
    /// Every arm, in the order of reports.
    pub const ALL: [Self; 19] = [
        Self::PolicyOnly,
        Self::PolicyOnlyMatched,
        Self::HarnessS,
        Self::HarnessSSibling,
        Self::HarnessSBaseIs,
        Self::HarnessSBasePositive,
        Self::SiblingDropout,
        Self::RandomSibling,
        Self::SingleBest,
        Self::NoReanchor,
        Self::UndirectedPool,
        Self::AlwaysSibling,
        Self::HarnessSK1,
        Self::BaselinePerHarness,
        Self::BaselineWithFailed,
        Self::Resampling,
        Self::PooledControl,
        Self::IdentitySiblings,
        Self::DistractorPool,
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
            Self::SiblingDropout => "sibling_dropout",
            Self::RandomSibling => "random_sibling",
            Self::SingleBest => "single_best",
            Self::NoReanchor => "no_reanchor",
            Self::UndirectedPool => "undirected_pool",
            Self::AlwaysSibling => "always_sibling",
            Self::HarnessSK1 => "harness_s_k1",
            Self::BaselinePerHarness => "baseline_per_harness",
            Self::BaselineWithFailed => "baseline_with_failed",
            Self::Resampling => "resampling",
            Self::PooledControl => "pooled_control",
            Self::IdentitySiblings => "identity_siblings",
            Self::DistractorPool => "distractor_pool",
        }
    }

    /// What it changes against `harness_s` or a control, in plain words.
    pub const fn changes(self) -> &'static str {
        match self {
            Self::PolicyOnly => "GRPO under the base harness, no rescue",
            Self::PolicyOnlyMatched => "a failed group gets as many more attempts under the base",
            Self::HarnessS => "rescue by siblings, trained in the base's context",
            Self::HarnessSSibling => "trained in the sibling's context",
            Self::HarnessSBaseIs => "tokens weighted by the ratio between the two contexts",
            Self::HarnessSBasePositive => "positive advantages only",
            Self::SiblingDropout => {
                "sibling's context, words of the rules dropped in half of the rescue attempts"
            }
            Self::RandomSibling => "siblings chosen at random",
            Self::SingleBest => "one fixed sibling, the best on average",
            Self::NoReanchor => "profiles never refreshed",
            Self::UndirectedPool => "pool evolved without directions",
            Self::AlwaysSibling => "siblings for every task, the base is never tried",
            Self::HarnessSK1 => "one sibling for each failed group, not two",
            Self::BaselinePerHarness => "a baseline for each sibling",
            Self::BaselineWithFailed => "failed attempts count in the baseline",
            Self::Resampling => "no rescue; tasks drawn until enough groups teach",
            Self::PooledControl => {
                "no rescue; one group of twice the size where the first half failed"
            }
            Self::IdentitySiblings => "siblings that do nothing",
            Self::DistractorPool => "siblings that repair nothing",
        }
    }

    /// Whether it tries siblings.
    pub const fn uses_siblings(self) -> bool {
        !matches!(
            self,
            Self::PolicyOnly | Self::PolicyOnlyMatched | Self::Resampling | Self::PooledControl
        )
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
