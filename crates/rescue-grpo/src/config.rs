//! The numbers of a training step, checked once.
//!
//! Plain data: nothing here reads a file. Defaults marked "ours" are not given by the abstract of
//! arXiv 2611.04277, which names no number.

use serde::{Deserialize, Serialize};

use crate::advantage::{AdvantageConfig, Baseline};
use crate::rows::{Context, LossMean, ZeroSpread};

/// What happens to a task whose attempts under the base harness all failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RescueMode {
    /// Nothing: plain GRPO under the base (arm `policy_only`).
    Off,
    /// As many fresh attempts under the base replace the failed ones, just as a rescue would: the control
    /// that tells a sibling's help from a second try (arm `policy_only_matched`).
    BaseAgain,
    /// As many fresh attempts under selected siblings replace the failed ones (arm `harness_s`).
    #[default]
    Siblings,
    /// No attempts under the base at all: every task is tried under selected siblings, which are chosen
    /// without failed attempts to look at (ablation `always_sibling`). Only groups in which somebody
    /// succeeds teach; nothing is rescued afterwards.
    Always,
}

/// Everything that a training step is told.
///
/// # Example
/// ```
/// use rescue_grpo::{ConfigError, GrpoConfig};
/// let config = GrpoConfig { group_size: 1, ..GrpoConfig::default() };
/// assert_eq!(config.validate(), Err(ConfigError::GroupSize { got: 1 }));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GrpoConfig {
    /// Attempts in a group, G, at least 2. Default 8 (ours).
    pub group_size: usize,
    /// Tasks that a trainer draws for a step, at least 1; [`crate::step()`] itself takes the tasks that it
    /// is given. Default 12 (ours, for a model that a laptop trains).
    pub tasks_per_step: usize,
    /// Share of a group's attempts that must be evidence, in `(0, 1]`: `failed` ones before a group may be
    /// called all-failed, valid ones before a replacement stands in for it. Default 0.75 (ours).
    pub min_valid: f64,
    /// Most further rounds in which a step goes on drawing tasks while fewer than `tasks_per_step` groups
    /// have something to teach (dynamic sampling, arXiv 2503.14476). With 0, the default, a step works on all
    /// tasks that it is given at once; else on `tasks_per_step` of them a round. When the rounds or the tasks
    /// run out, it goes on with what there is (bug report G21).
    pub resample_rounds: u32,
    /// When failed groups are replaced, and by what. Default `siblings`.
    pub rescue: RescueMode,
    /// Siblings that are chosen for a failed group, 1 to `group_size`; its rescue attempts are split evenly
    /// over them, the first chosen getting one more if they do not divide. Default 2 (ours: with one
    /// sibling a decision that all its attempts share has no advantage).
    pub k: usize,
    /// In which context a rescued attempt is trained. Default `base` (ours).
    pub context: Context,
    /// Chance, in `[0, 1]`, that a word of a sibling's texts is deleted, in every second rescue attempt; read
    /// in context `sibling_dropout` only. Default 0.5 (ours).
    pub word_dropout: f64,
    /// How rewards become advantages.
    pub advantage: AdvantageConfig,
    /// What the loss is a mean of. Default tokens (arXiv 2503.14476).
    pub loss_mean: LossMean,
    /// Whether rows of groups without spread count in that mean. Default `counted` (ours).
    pub zero_spread: ZeroSpread,
    /// The ratio is clipped below at `1 - clip_low`; in `(0, 1)`. Default 0.2 (arXiv 2503.14476).
    pub clip_low: f32,
    /// The ratio is clipped above at `1 + clip_high`; positive. Default 0.28 (arXiv 2503.14476).
    pub clip_high: f32,
    /// Cap of the weight `exp(trainer - sampler)` that corrects for a sampler whose arithmetic differs;
    /// at least 1. Default 2 (ours, after truncated importance sampling in public trainers).
    pub importance_cap: f32,
    /// Learning rate of the one optimizer step, positive. Default 7e-4 (ours, for about 0.2 M parameters).
    pub learning_rate: f64,
    /// Largest global gradient norm, positive. Default 1 (ours).
    pub max_grad_norm: f32,
    /// Temperature of the attempts, positive. Default 1. Log-probs are those at temperature 1, so any other
    /// value trains off-policy without correction.
    pub temperature: f32,
    /// Steps between two re-anchorings; 0 never re-anchors. Default 20 (ours).
    pub reanchor_every: u64,
}

impl Default for GrpoConfig {
    fn default() -> Self {
        Self {
            group_size: 8,
            tasks_per_step: 12,
            min_valid: 0.75,
            resample_rounds: 0,
            rescue: RescueMode::default(),
            k: 2,
            context: Context::default(),
            word_dropout: 0.5,
            advantage: AdvantageConfig::default(),
            loss_mean: LossMean::default(),
            zero_spread: ZeroSpread::default(),
            clip_low: 0.2,
            clip_high: 0.28,
            importance_cap: 2.0,
            learning_rate: 7e-4,
            max_grad_norm: 1.0,
            temperature: 1.0,
            reanchor_every: 20,
        }
    }
}

/// Why a configuration is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A group of one has no mean to differ from (bug report G7).
    #[error("group_size must be at least 2: a group of one has no advantage, got: {got}")]
    GroupSize {
        /// The refused size.
        got: usize,
    },
    /// With words dropped every attempt has a harness of its own, and a baseline of its own would be its own
    /// reward.
    #[error("baseline per_harness cannot be had with context sibling_dropout: use union")]
    DropoutPerHarness,
    /// A number is outside its range or not finite.
    #[error("{field} must be {expected}, got: {got}")]
    Range {
        /// The field's name.
        field: &'static str,
        /// Its range.
        expected: &'static str,
        /// The refused value.
        got: f64,
    },
}

impl GrpoConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// [`ConfigError`] for the first field that is out of range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.group_size < 2 {
            let got = self.group_size;
            return Err(ConfigError::GroupSize { got });
        }
        let k = self.k as f64;
        let tasks = self.tasks_per_step as f64;
        let (low, high) = (f64::from(self.clip_low), f64::from(self.clip_high));
        let cap = f64::from(self.importance_cap);
        let norm = f64::from(self.max_grad_norm);
        let temperature = f64::from(self.temperature);
        let rate = self.learning_rate;
        let is_share = self.min_valid > 0.0 && self.min_valid <= 1.0;
        let k_fits = self.k >= 1 && self.k <= self.group_size;
        require("tasks_per_step", "at least 1", tasks, tasks >= 1.0)?;
        require("min_valid", "in (0, 1]", self.min_valid, is_share)?;
        require("k", "1 to group_size", k, k_fits)?;
        let dropout = self.word_dropout;
        let is_chance = (0.0..=1.0).contains(&dropout);
        require("word_dropout", "in [0, 1]", dropout, is_chance)?;
        require("clip_low", "in (0, 1)", low, low > 0.0 && low < 1.0)?;
        require("clip_high", "positive", high, high > 0.0)?;
        require("importance_cap", "at least 1", cap, cap >= 1.0)?;
        require("learning_rate", "positive", rate, rate > 0.0)?;
        require("max_grad_norm", "positive", norm, norm > 0.0)?;
        require("temperature", "positive", temperature, temperature > 0.0)?;
        if self.context == Context::SiblingDropout
            && self.advantage.baseline == Baseline::PerHarness
        {
            return Err(ConfigError::DropoutPerHarness);
        }
        self.loss_mean.validate()
    }

    /// Whether the profiles are refreshed before step number `step`, counted from 0: every
    /// `reanchor_every` steps, never before the first, whose profiles are those of the pool.
    pub fn is_reanchor_due(&self, step: u64) -> bool {
        step > 0 && self.reanchor_every > 0 && step.is_multiple_of(self.reanchor_every)
    }
}

/// Refuses a value that is not finite or does not hold its range.
pub(crate) fn require(
    field: &'static str,
    expected: &'static str,
    got: f64,
    holds: bool,
) -> Result<(), ConfigError> {
    if holds && got.is_finite() {
        Ok(())
    } else {
        Err(ConfigError::Range {
            field,
            expected,
            got,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(change: impl FnOnce(&mut GrpoConfig), message: &str) {
        let mut config = GrpoConfig::default();
        change(&mut config);
        assert_eq!(config.validate().unwrap_err().to_string(), message);
    }

    #[test]
    fn the_defaults_are_valid_and_round_trip() {
        let config = GrpoConfig::default();
        config.validate().unwrap();
        let json = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<GrpoConfig>(&json).unwrap(), config);
        assert_eq!(serde_json::from_str::<GrpoConfig>("{}").unwrap(), config);
    }

    #[test]
    fn g7_group_size_below_two_is_refused_by_name() {
        refused(
            |c| c.group_size = 1,
            "group_size must be at least 2: a group of one has no advantage, got: 1",
        );
        refused(
            |c| c.group_size = 0,
            "group_size must be at least 2: a group of one has no advantage, got: 0",
        );
    }

    #[test]
    fn ranges_are_checked() {
        refused(|c| c.k = 9, "k must be 1 to group_size, got: 9");
        refused(|c| c.k = 0, "k must be 1 to group_size, got: 0");
        refused(|c| c.min_valid = 0.0, "min_valid must be in (0, 1], got: 0");
        refused(|c| c.clip_low = 1.0, "clip_low must be in (0, 1), got: 1");
        refused(
            |c| c.clip_high = f32::NAN,
            "clip_high must be positive, got: NaN",
        );
        refused(
            |c| c.importance_cap = 0.5,
            "importance_cap must be at least 1, got: 0.5",
        );
        refused(
            |c| c.learning_rate = 0.0,
            "learning_rate must be positive, got: 0",
        );
        refused(
            |c| c.max_grad_norm = f32::INFINITY,
            "max_grad_norm must be positive, got: inf",
        );
        refused(
            |c| c.temperature = 0.0,
            "temperature must be positive, got: 0",
        );
        refused(
            |c| c.word_dropout = 1.5,
            "word_dropout must be in [0, 1], got: 1.5",
        );
        refused(
            |c| c.tasks_per_step = 0,
            "tasks_per_step must be at least 1, got: 0",
        );
        refused(
            |c| c.loss_mean = LossMean::Constant { tokens: 0 },
            "loss_mean.constant.tokens must be at least 1, got: 0",
        );
    }

    #[test]
    fn e9_a_misspelt_key_is_an_error() {
        let error = serde_json::from_str::<GrpoConfig>(r#"{"groupsize": 4}"#).unwrap_err();
        assert!(error.to_string().contains("groupsize"), "{error}");
        assert!(serde_json::from_str::<GrpoConfig>(r#"{"context": "base_dropout"}"#).is_err());
    }

    #[test]
    fn a_baseline_of_ones_own_reward_is_refused() {
        let mut config = GrpoConfig {
            context: Context::SiblingDropout,
            ..GrpoConfig::default()
        };
        config.validate().unwrap();
        config.advantage.baseline = Baseline::PerHarness;
        assert_eq!(config.validate(), Err(ConfigError::DropoutPerHarness));
    }

    #[test]
    fn reanchoring_is_due_every_so_many_steps() {
        let config = GrpoConfig::default();
        let due: Vec<u64> = (0..50).filter(|s| config.is_reanchor_due(*s)).collect();
        assert_eq!(due, [20, 40]);
        let never = GrpoConfig {
            reanchor_every: 0,
            ..config
        };
        assert!(!(0..50).any(|s| never.is_reanchor_due(s)));
    }
}
