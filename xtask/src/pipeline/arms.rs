//! The arms of a reproduction: the same policy, tasks and budget, another answer to an all-failed group.

use std::collections::BTreeMap;

use anyhow::Context as _;
use harness_core::Outcome;
use harness_pool::{
    Decision, Probe, RescueEvidence, RouteContext, SelectError, SelectSiblings, SiblingPool,
};
use rescue_grpo::{
    AdvantageConfig, Baseline, Checkpoint, Context, GrpoConfig, NanoLearner, NanoLearnerConfig,
    RescueMode, ZeroSpread,
};
use serde::{Deserialize, Serialize};

use super::evaluate::{Evaluation, Plan, evaluate};
use super::moments::Moment;
use super::tables::Rank1Table;
use super::warm_start::WarmStart;
use crate::arm::Arm;
use crate::config::Config;
use crate::report::ProfileRow;

/// The settings of a training step in an arm.
pub(super) fn grpo_of(arm: Arm, config: &Config) -> GrpoConfig {
    let settings = &config.grpo;
    let rescue = match arm {
        Arm::PolicyOnly | Arm::Resampling => RescueMode::Off,
        Arm::PolicyOnlyMatched | Arm::PooledControl => RescueMode::BaseAgain,
        Arm::AlwaysSibling => RescueMode::Always,
        _ => RescueMode::Siblings,
    };
    let context = match arm {
        Arm::HarnessSSibling => Context::Sibling,
        Arm::HarnessSBaseIs => Context::BaseIs,
        Arm::HarnessSBasePositive => Context::BasePositive,
        Arm::SiblingDropout => Context::SiblingDropout,
        _ => Context::Base,
    };
    let baseline = match arm {
        Arm::BaselinePerHarness => Baseline::PerHarness,
        Arm::BaselineWithFailed => Baseline::WithFailed,
        Arm::PooledControl => Baseline::Pooled,
        _ => Baseline::Union,
    };
    GrpoConfig {
        group_size: settings.group_size,
        tasks_per_step: settings.tasks_per_step,
        min_valid: settings.min_valid,
        resample_rounds: match arm {
            Arm::Resampling => settings.resample_rounds,
            _ => 0,
        },
        rescue,
        k: match arm {
            Arm::HarnessSK1 | Arm::SingleBest => 1,
            _ => settings.k,
        },
        context,
        word_dropout: settings.word_dropout,
        advantage: AdvantageConfig {
            baseline,
            divide_by_std: settings.divide_by_std,
        },
        zero_spread: if settings.counts_zero_spread {
            ZeroSpread::Counted
        } else {
            ZeroSpread::LeftOut
        },
        clip_low: settings.clip_low as f32,
        clip_high: settings.clip_high as f32,
        importance_cap: settings.importance_cap as f32,
        learning_rate: match arm {
            Arm::PolicyOnlyMatched
            | Arm::PooledControl
            | Arm::IdentitySiblings
            | Arm::DistractorPool => settings.matched_learning_rate,
            _ => settings.learning_rate,
        },
        max_grad_norm: settings.max_grad_norm as f32,
        temperature: settings.temperature as f32,
        reanchor_every: match arm {
            Arm::NoReanchor => 0,
            _ => config.router.reanchor_every,
        },
        ..GrpoConfig::default()
    }
}

/// One point of a learning curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CurvePoint {
    /// Updates so far.
    pub(super) step: u64,
    /// Environment rollouts so far.
    pub(super) rollouts: u64,
    /// The attempts under the base, on dev.
    pub(super) dev: Evaluation,
}

/// What an arm did with one seed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ArmResult {
    /// The arm.
    pub(super) arm: Arm,
    /// The seed.
    pub(super) seed: u64,
    /// Steps made.
    pub(super) steps: u64,
    /// Updates made: steps with something to learn.
    pub(super) updates: u64,
    /// Environment rollouts of training and probes.
    pub(super) rollouts: u64,
    /// Of these, probes.
    pub(super) probe_rollouts: u64,
    /// Rollouts that only measured.
    pub(super) measuring_rollouts: u64,
    /// Tokens of all training contexts.
    pub(super) tokens: u64,
    /// Groups, all-failed groups and rescued groups, by step.
    pub(super) groups: Vec<[u64; 3]>,
    /// How attempts of training ended.
    pub(super) outcomes: BTreeMap<String, u64>,
    /// Trajectories that could not be projected.
    pub(super) unprojectable: u64,
    /// Share of the loss that came from negative advantages, by step; `None` without an update.
    pub(super) negative_share: Vec<Option<f64>>,
    /// Solved and all rescue attempts by family and harness name.
    pub(super) routed: BTreeMap<String, BTreeMap<String, [u64; 2]>>,
    /// The learning curve on dev.
    pub(super) curve: Vec<CurvePoint>,
    /// The last checkpoint on test; empty if test is not read.
    pub(super) test: Evaluation,
    /// Rollouts and the policy on test when the pool's cost would have used the budget up.
    pub(super) charged: Option<(u64, Evaluation)>,
    /// Siblings and base on dev in the middle and at the end.
    pub(super) moments: Vec<Moment>,
    /// Siblings and base on test at the end.
    pub(super) rank1: Option<Rank1Table>,
    /// What the router's profile says at the end.
    pub(super) profile_rows: Vec<ProfileRow>,
    /// The text of the router's profile file at the end, if a router chose.
    pub(super) profile_file: Option<String>,
    /// What each step reported.
    pub(super) metrics: Vec<serde_json::Value>,
    /// What a reader should not overlook, each once.
    pub(super) warnings: Vec<String>,
}

impl ArmResult {
    /// Before the first step.
    pub(super) fn new(arm: Arm, seed: u64) -> Self {
        Self {
            arm,
            seed,
            steps: 0,
            updates: 0,
            rollouts: 0,
            probe_rollouts: 0,
            measuring_rollouts: 0,
            tokens: 0,
            groups: Vec::new(),
            outcomes: Outcome::ALL.map(|o| (o.as_str().to_owned(), 0)).into(),
            unprojectable: 0,
            negative_share: Vec::new(),
            routed: BTreeMap::new(),
            curve: Vec::new(),
            test: Evaluation::default(),
            charged: None,
            moments: Vec::new(),
            rank1: None,
            profile_rows: Vec::new(),
            profile_file: None,
            metrics: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

/// What all arms share.
#[derive(Clone, Copy)]
pub(super) struct Shared<'a> {
    /// The resolved configuration.
    pub(super) config: &'a Config,
    /// The policy before training.
    pub(super) warm: &'a WarmStart,
    /// The frozen pool.
    pub(super) pool: &'a SiblingPool,
}

impl Shared<'_> {
    /// A learner at the warm start's weights.
    ///
    /// # Errors
    /// If sizes and weights do not fit.
    pub(super) fn learner(&self) -> anyhow::Result<NanoLearner> {
        self.learner_at(&self.warm.checkpoint)
    }

    /// A learner at the weights of a checkpoint.
    ///
    /// # Errors
    /// If sizes and weights do not fit.
    pub(super) fn learner_at(&self, checkpoint: &Checkpoint) -> anyhow::Result<NanoLearner> {
        let config = NanoLearnerConfig {
            adamw: rescue_grpo::AdamWConfig::default(),
            n_threads: self.config.n_threads(),
            device: rescue_grpo::DeviceKind::Cpu,
            stop_ids: harness_core::Codec::stop_ids(self.warm.codec.as_ref()).to_vec(),
        };
        NanoLearner::new(
            checkpoint.model.clone(),
            checkpoint.weights.clone(),
            checkpoint.policy_version,
            config,
        )
        .context("starting from a checkpoint's weights")
    }

    /// The name of a harness of the pool: a sibling's, or `base`.
    pub(super) fn name_of<'n>(&'n self, id: &harness_core::HarnessId) -> &'n str {
        match self.pool.get(id) {
            Some(sibling) => &sibling.name,
            None if id == self.pool.base_id() => BASE,
            None => "words dropped",
        }
    }

    /// Base and siblings with their names, the base first.
    pub(super) fn harnesses(&self) -> impl Iterator<Item = (&str, &harness_core::HarnessSpec)> {
        let siblings = self.pool.siblings().iter();
        std::iter::once((BASE, self.pool.base()))
            .chain(siblings.map(|s| (s.name.as_str(), &s.harness)))
    }
}

/// The base's name in tables.
pub(super) const BASE: &str = "base";

/// Judges a policy on the test split under the base harness, sampled and greedy; nothing if test is not read.
///
/// # Errors
/// If attempts cannot be run.
pub(super) fn judge(shared: Shared<'_>, learner: &NanoLearner) -> anyhow::Result<Evaluation> {
    let run = &shared.config.run;
    if run.dev_only {
        return Ok(Evaluation::default());
    }
    let sampled = Plan::test(run, run.test_attempts);
    let greedy = Plan {
        attempts: 1,
        is_greedy: true,
        ..sampled
    };
    let mut test = evaluate(shared, learner, shared.pool.base(), sampled)?;
    test.rows
        .extend(evaluate(shared, learner, shared.pool.base(), greedy)?.rows);
    Ok(test)
}

/// A selector for arms that never select.
pub(super) struct NoSelector;

impl SelectSiblings for NoSelector {
    fn select(&mut self, _: &RouteContext, _: usize) -> Result<Decision, SelectError> {
        Ok(Decision::default())
    }
    fn observe(&mut self, _: &RescueEvidence) -> Result<(), SelectError> {
        Ok(())
    }
    fn reanchor(&mut self, _: &mut dyn Probe) -> Result<(), SelectError> {
        Ok(())
    }
}
