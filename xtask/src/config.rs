//! The settings of an experiment: typed, complete, and read from TOML.
//!
//! Each environment and scale has a file under `xtask/configs/` that names every field; there are no
//! defaults in code, so what a run used is what its `config.toml` says. Unknown keys are errors.
//! Sources: "design" is this project's method as described in `ARCHITECTURE.md`; "ours" marks a number that
//! the paper's abstract does not give.

mod comments;
mod file;
mod overrides;
mod validate;

use anyhow::Context;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arm::Arm;
use crate::usage::UsageError;

pub use file::{MAX_BYTES, SettingsFile};

/// Environments that `reproduce` can run.
pub const ENVIRONMENTS: [&str; 1] = ["appworld"];
/// Environments whose name is known and whose adapter does not exist yet.
pub const FUTURE_ENVIRONMENTS: [&str; 2] = ["dbbench", "swe-gym"];

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Every stage once, in under 90 seconds: shows that it runs, proves nothing.
    Smoke,
    /// One machine, minutes.
    Default,
    /// Intervals that can carry a claim.
    Full,
}

impl Scale {
    /// Every scale, from small to large.
    pub const ALL: [Self; 3] = [Self::Smoke, Self::Default, Self::Full];

    /// The name used on the command line and in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Default => "default",
            Self::Full => "full",
        }
    }

    /// The scale of that name.
    ///
    /// # Errors
    /// [`UsageError`] with the closest name.
    pub fn parse(text: &str) -> Result<Self, UsageError> {
        Self::ALL
            .into_iter()
            .find(|scale| scale.as_str() == text)
            .ok_or_else(|| UsageError::unknown("scale", text, Self::ALL.map(Self::as_str)))
    }
}

/// Where tensors live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    /// The processor.
    Cpu,
    /// The first CUDA device.
    Cuda,
}

impl Device {
    /// The device of that name.
    ///
    /// # Errors
    /// [`UsageError`] with the closest name.
    pub fn parse(text: &str) -> Result<Self, UsageError> {
        match text {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda),
            _ => Err(UsageError::unknown("device", text, ["cpu", "cuda"])),
        }
    }
}

/// Every setting of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The environment's name.
    pub env: String,
    /// The scale that the settings started from.
    pub scale: Scale,
    /// Threads for environments and sampling; 0 is as many as the machine has. No result depends on it.
    pub threads: usize,
    /// Where tensors live.
    pub device: Device,
    /// What is run and measured.
    pub run: RunConfig,
    /// The policy model.
    pub model: ModelConfig,
    /// How the initial policy is made.
    pub warm_start: WarmStartConfig,
    /// How siblings are found.
    pub evolution: EvolutionConfig,
    /// How the policy is trained.
    pub grpo: GrpoConfig,
    /// How siblings are chosen.
    pub router: RouterConfig,
    /// What is measured besides the headline.
    pub measure: MeasureConfig,
    /// What is run besides the arms.
    pub study: StudyConfig,
}

/// What is run and measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunConfig {
    /// Seeds of training; every arm runs once with each.
    pub seeds: Vec<u64>,
    /// Seeds of the warm starts; training seed number `i` uses warm start number `i` modulo their count.
    pub warm_start_seeds: Vec<u64>,
    /// Arms, in the order in which they run.
    #[schemars(with = "Vec<String>")]
    pub arms: Vec<Arm>,
    /// Seed of tasks and worlds; the same for every arm and training seed.
    pub task_seed: u64,
    /// Seed of the test tasks and their worlds: its own, so that test can be renewed and nothing else.
    pub test_seed: u64,
    /// Whether test is left unread: what settings are chosen with.
    pub dev_only: bool,
    /// Tasks of the train split in each family; training walks through shuffles of them.
    pub n_train_per_family: usize,
    /// Steps between two states of an unfinished arm in `checkpoints/`, from which `--resume` goes on; 0 keeps
    /// none. No result depends on it.
    pub checkpoint_every_steps: u64,
    /// Attempts of every so many steps are kept in `trajectories/`; 1 keeps all.
    pub keep_every_steps: u64,
    /// Environment rollouts that an arm may spend, probes included (design: equal budget).
    pub budget_rollouts: u64,
    /// Rollouts between two evaluations on the dev split; these are not charged.
    pub eval_every_rollouts: u64,
    /// Tasks of the dev split in each family, for learning curves.
    pub n_dev_per_family: usize,
    /// Attempts at each dev task.
    pub dev_attempts: u32,
    /// Tasks of the test split in each family, for the headline.
    pub n_test_per_family: usize,
    /// Attempts at each test task at temperature 1 (design: 4).
    pub test_attempts: u32,
    /// Resamples of a bootstrap interval.
    pub bootstrap_resamples: usize,
    /// Most episodes in flight. No result depends on it.
    pub max_in_flight: usize,
    /// Seconds of wall clock after which an attempt is an infrastructure error.
    pub rollout_timeout_s: f64,
}

/// The policy model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// Width of the residual stream.
    pub d_model: usize,
    /// Decoder layers.
    pub n_layers: usize,
    /// Query heads.
    pub n_heads: usize,
    /// Key and value heads; divides `n_heads`.
    pub n_kv_heads: usize,
    /// Width of the feed-forward layer.
    pub d_ff: usize,
    /// Longest sequence in tokens.
    pub max_context: usize,
    /// Size of the vocabulary.
    pub vocab: usize,
}

/// How the initial policy is made: imitation of demonstrations, in which the base hardly ever shows what
/// the siblings' rules ask for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WarmStartConfig {
    /// Optimizer steps.
    pub steps: usize,
    /// Sequences in a step.
    pub batch: usize,
    /// Peak learning rate.
    pub learning_rate: f64,
    /// Steps of linear warm-up of the learning rate.
    pub warmup_steps: usize,
    /// Weight decay of the optimizer.
    pub weight_decay: f64,
    /// Demonstrations.
    pub n_demos: usize,
    /// Chance that a demonstration obeys a rule that matches its task (ours).
    pub rel: f64,
    /// Chance, at each decision, that a demonstration does without a rule what the rule would ask for
    /// (ours: the base's chance per attempt is what the claim depends on).
    pub eps: f64,
    /// Share of demonstrations in the base's context.
    pub base_context_share: f64,
    /// Share of demonstrations in the context of a rule that matches; the rest has one that does not.
    pub matching_share: f64,
    /// Share of the demonstrations with a rule in which it is a hint after a step and not a start rule.
    pub hint_share: f64,
    /// Chance that a rule about something else costs a demonstration a turn (ours: locality has a price).
    pub wrong_wastes: f64,
    /// Chance that it gives the task up after such a turn (ours).
    pub wrong_gives_up: f64,
    /// Chance of each printing action to be made wrong first and then mended; mistakes are not trained on.
    pub recovery_share: f64,
    /// Least copying accuracy of every family, teacher-forced, before any training by reward.
    pub copy_gate: f64,
}

/// How siblings are found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvolutionConfig {
    /// Tasks in each family whose failures are read and on which candidates are ranked.
    pub search_tasks_per_family: usize,
    /// Tasks in each family on which the best candidate of a direction is tested once.
    pub confirm_tasks_per_family: usize,
    /// Attempts at each task.
    pub attempts: u32,
    /// Attempts at each task in a search rerun, which only ranks.
    pub search_attempts: u32,
    /// Rounds of proposing in each direction.
    pub rounds: usize,
    /// Candidates in each round.
    pub candidates: usize,
    /// Most directions.
    pub max_directions: usize,
    /// Least distinct failed tasks of a direction, in search and in confirmation each.
    pub min_tasks: usize,
    /// Family-wise error rate of all confirmations together (Holm).
    pub alpha: f64,
}

/// How the policy is trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrpoConfig {
    /// Attempts in a group, G.
    pub group_size: usize,
    /// Tasks in a step, M.
    pub tasks_per_step: usize,
    /// Siblings that share the rescue of a failed group.
    pub k: usize,
    /// Chance of each word of a sibling's texts to be dropped, in every second rescue attempt of arm
    /// `sibling_dropout` (ours).
    pub word_dropout: f64,
    /// Further rounds of tasks that arm `resampling` may draw in a step.
    pub resample_rounds: u32,
    /// Least share of a group's attempts that must be valid for it to count as failed, in (0, 1].
    pub min_valid: f64,
    /// The ratio is clipped to `[1 - clip_low, 1 + clip_high]`.
    pub clip_low: f64,
    /// See `clip_low`.
    pub clip_high: f64,
    /// Cap of the importance weight between sampler and trainer.
    pub importance_cap: f64,
    /// Whether advantages are divided by the group's standard deviation.
    pub divide_by_std: bool,
    /// Learning rate.
    pub learning_rate: f64,
    /// Learning rate of the matched control and of what is compared with it alone (`pooled_control`, the
    /// negative controls `identity` and `distractors`): each side of the headline has the rate that is best
    /// for it on dev.
    pub matched_learning_rate: f64,
    /// Largest global gradient norm.
    pub max_grad_norm: f64,
    /// Temperature of sampling.
    pub temperature: f64,
    /// Whether rows of groups without advantage count in the mean of the loss (bug report G15).
    pub counts_zero_spread: bool,
}

/// How siblings are chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouterConfig {
    /// Chance that one of the k places explores.
    pub epsilon: f64,
    /// Updates between two re-anchorings, R.
    pub reanchor_every: u64,
    /// Tasks of the anchor split in each family.
    pub anchors_per_family: usize,
    /// Attempts at each anchor task under each harness.
    pub anchor_attempts: u32,
    /// Policy updates after which a piece of evidence is worth half.
    pub half_life: f64,
}

/// What is measured besides the headline. None of it is charged to an arm's budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasureConfig {
    /// Whether siblings are measured at all: heat maps, nonstationarity, Rank-1, complementarity, locality.
    pub siblings: bool,
    /// Attempts at each dev task under each harness at start, middle and end, in each of two repeats.
    pub moment_attempts: u32,
    /// Attempts of each harness at each test task that the initial policy fails under the base.
    pub rescue_attempts: u32,
}

/// What is run besides the arms: each with the first few of the seeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StudyConfig {
    /// Variants of the method, each with one thing changed.
    #[schemars(with = "Vec<String>")]
    pub ablations: Vec<Arm>,
    /// Runs in which rescue must gain nothing.
    pub controls: Vec<Control>,
    /// Chances of the base (`warm_start.eps`) besides the main one, each with a warm start and a pool of its
    /// own.
    pub sweep_eps: Vec<f64>,
    /// How many of the seeds these use.
    pub n_seeds: usize,
}

/// A run in which rescue must gain nothing.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// Siblings that never do anything: must equal `policy_only_matched`.
    Identity,
    /// Siblings that the policy obeys and that repair nothing: must not beat `policy_only_matched`.
    Distractors,
    /// A warm start whose base already does what siblings would say: `harness_s` must not beat
    /// `policy_only_matched`.
    Obedient,
}

impl Control {
    /// The name used in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Distractors => "distractors",
            Self::Obedient => "obedient",
        }
    }
}

impl Config {
    /// The settings that are built in for an environment and a scale.
    ///
    /// # Errors
    /// [`UsageError`] for a name that is unknown or whose environment does not exist yet.
    pub fn builtin(env: &str, scale: Scale) -> anyhow::Result<Self> {
        check_environment(env)?;
        let text = match scale {
            Scale::Smoke => include_str!("../configs/appworld-smoke.toml"),
            Scale::Default => include_str!("../configs/appworld-default.toml"),
            Scale::Full => include_str!("../configs/appworld-full.toml"),
        };
        Self::from_toml(text).with_context(|| format!("the built-in settings {}", scale.as_str()))
    }

    /// Reads and checks settings.
    ///
    /// # Errors
    /// [`UsageError`] for text that is not TOML, for an unknown or missing key, a value of another type or
    /// out of its range.
    pub fn from_toml(text: &str) -> Result<Self, UsageError> {
        let config: Self = toml::from_str(text)
            .map_err(|error| UsageError::new(error.to_string().trim_end().to_owned()))?;
        config.validate()?;
        Ok(config)
    }

    /// The settings as TOML, every field named.
    ///
    /// # Errors
    /// A number that TOML cannot hold.
    pub fn to_toml(&self) -> anyhow::Result<String> {
        toml::to_string(self).context("settings as TOML")
    }

    /// The settings without what no result depends on: what a cache key or a comparison should be made of.
    #[must_use]
    pub fn essence(&self) -> Self {
        let mut essence = self.clone();
        essence.threads = 0;
        essence.run.max_in_flight = 1;
        essence.run.checkpoint_every_steps = 0;
        essence
    }

    /// The settings that one arm with one seed depends on, beside the hashes of warm start and pool: those of
    /// other arms, seeds and studies are left out.
    #[must_use]
    pub fn arm_essence(&self) -> Self {
        let mut essence = self.essence();
        essence.scale = Scale::Default;
        essence.run.arms.clear();
        essence.run.seeds.clear();
        essence.run.warm_start_seeds.clear();
        essence.run.bootstrap_resamples = 1;
        essence.study.ablations.clear();
        essence.study.controls.clear();
        essence.study.sweep_eps.clear();
        essence.study.n_seeds = 0;
        essence
    }

    /// `threads`, with 0 replaced by the number of the machine's processors.
    pub fn n_threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            n => n,
        }
    }
}

/// Whether `reproduce` can run the environment.
///
/// # Errors
/// [`UsageError`]: unknown, or known and not there yet.
pub fn check_environment(env: &str) -> Result<(), UsageError> {
    if ENVIRONMENTS.contains(&env) {
        return Ok(());
    }
    if FUTURE_ENVIRONMENTS.contains(&env) {
        return Err(UsageError::new(format!(
            "environment {env} is not there yet: its crate holds no adapter\n  valid: {}",
            ENVIRONMENTS.join(", ")
        )));
    }
    let known = ENVIRONMENTS.into_iter().chain(FUTURE_ENVIRONMENTS);
    Err(UsageError::unknown("environment", env, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scale_is_valid_and_names_itself() {
        for scale in Scale::ALL {
            let config = Config::builtin("appworld", scale).unwrap();
            assert_eq!((config.scale, config.env.as_str()), (scale, "appworld"));
        }
    }

    #[test]
    fn toml_round_trip() {
        let config = Config::builtin("appworld", Scale::Default).unwrap();
        let again = Config::from_toml(&config.to_toml().unwrap()).unwrap();
        assert_eq!(again, config);
    }

    #[test]
    fn unknown_keys_are_errors() {
        let config = Config::builtin("appworld", Scale::Smoke).unwrap();
        let text = config
            .to_toml()
            .unwrap()
            .replace("[grpo]", "[grpo]\nkl = 0.1");
        let error = Config::from_toml(&text).unwrap_err().to_string();
        assert!(error.contains("unknown field `kl`"), "{error}");
    }

    #[test]
    fn threads_are_not_of_the_essence() {
        let mut config = Config::builtin("appworld", Scale::Smoke).unwrap();
        let essence = config.essence();
        config.threads = 7;
        config.run.max_in_flight = 99;
        assert_eq!(config.essence(), essence);
        assert_eq!(config.n_threads(), 7);
    }

    #[test]
    fn environments_that_are_not_there_yet_say_so() {
        for env in FUTURE_ENVIRONMENTS {
            let error = check_environment(env).unwrap_err().to_string();
            assert!(error.contains("not there yet"), "{error}");
        }
    }

    #[test]
    fn scale_files_hold_the_promises_of_their_names() {
        let full = Config::builtin("appworld", Scale::Full).unwrap();
        assert!(full.run.seeds.len() >= 5 && full.run.warm_start_seeds.len() >= 3);
    }
}
