//! [`Learner`] for the nano track: burn computes gradients, weights are one flat vector, snapshots decode
//! with the hand-written sampler.
//!
//! The clipped objective is differentiated by hand down to the log-probs: each masked token's loss is a
//! function of its own log-prob alone, so its derivative becomes the coefficient of that log-prob and burn
//! only differentiates a weighted sum. The loss itself is summed on the host in f64.

use std::sync::{Arc, OnceLock};

use harness_core::{Policy, PolicyVersion, Sequence};

use crate::adamw::{AdamW, AdamWConfig, Moments, clip_scale, global_norm};
use crate::engine::{Backend, Engine, MaskedIds};
use crate::learner::{Learner, LearnerError, OldLogprobs, UpdateBatch, UpdateRow, UpdateStats};
use crate::model::{DeviceKind, ModelConfig, ModelError};
use crate::sampler::{NanoSampler, SamplerWeights};

/// Bound on differences of log-probs before they are exponentiated (bug report G13).
const MAX_LOG_RATIO: f64 = 20.0;

/// How a [`NanoLearner`] computes.
#[derive(Debug, Clone, PartialEq)]
pub struct NanoLearnerConfig {
    /// Optimizer constants; no weight decay by default.
    pub adamw: AdamWConfig,
    /// Worker threads of a gradient; the result does not depend on them. At least 1.
    pub n_threads: usize,
    /// Where gradients are computed; snapshots always sample on the CPU.
    pub device: DeviceKind,
    /// Ids that end a generation of the snapshots.
    pub stop_ids: Vec<u32>,
}

impl NanoLearnerConfig {
    /// One thread on the processor, `AdamW` without weight decay, and these ids to end a generation.
    pub fn new(stop_ids: &[u32]) -> Self {
        Self {
            adamw: AdamWConfig::default(),
            n_threads: 1,
            device: DeviceKind::Cpu,
            stop_ids: stop_ids.to_vec(),
        }
    }
}

/// A trainable nano policy.
#[derive(Debug)]
pub struct NanoLearner {
    engine: Engine,
    adam: AdamW,
    weights: Vec<f32>,
    stop_ids: Vec<u32>,
    version: PolicyVersion,
    /// The sampler's copy of `weights`, made at the first snapshot of a version.
    packed: OnceLock<Arc<SamplerWeights>>,
}

impl NanoLearner {
    /// A learner that starts at `weights` (flat, see [`ModelConfig::layout`]) and `version`.
    ///
    /// # Errors
    /// [`ModelError`] if sizes and weights do not fit or the device is not in this build.
    pub fn new(
        model: ModelConfig,
        weights: Vec<f32>,
        version: PolicyVersion,
        config: NanoLearnerConfig,
    ) -> Result<Self, ModelError> {
        model.validate()?;
        let (expected, got) = (model.n_params(), weights.len());
        if expected != got {
            return Err(ModelError::BadLength { expected, got });
        }
        let backend = Backend::open(config.device, &model)?;
        Ok(Self {
            adam: AdamW::new(config.adamw, &model),
            engine: Engine {
                config: model,
                backend,
                n_threads: config.n_threads,
            },
            weights,
            stop_ids: config.stop_ids,
            version,
            packed: OnceLock::new(),
        })
    }

    /// The optimizer's memory.
    pub fn moments(&self) -> Moments {
        self.adam.moments()
    }

    /// The same learner with another's memory: with its weights and version too it makes the same updates as
    /// that one, to the bit.
    ///
    /// # Errors
    /// [`ModelError::BadLength`] if the moments are not as long as the weights.
    pub fn with_moments(mut self, moments: Moments) -> Result<Self, ModelError> {
        let expected = self.weights.len();
        for got in [moments.mean.len(), moments.square.len()] {
            if got != expected {
                return Err(ModelError::BadLength { expected, got });
            }
        }
        self.adam.restore(moments);
        Ok(self)
    }

    /// The model's sizes.
    pub fn model(&self) -> &ModelConfig {
        &self.engine.config
    }

    /// The current flat weights.
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// A sampler of the current weights, as [`Learner::snapshot`] but with its own type.
    pub fn sampler(&self) -> NanoSampler {
        let pack = || Arc::new(SamplerWeights::pack(&self.engine.config, &self.weights));
        let packed = Arc::clone(self.packed.get_or_init(pack));
        NanoSampler::new(packed, self.version, self.stop_ids.clone())
    }

    fn check<'a>(&self, row: usize, sequence: &'a Sequence) -> Result<MaskedIds<'a>, LearnerError> {
        let masked = MaskedIds {
            ids: &sequence.ids,
            mask: &sequence.mask,
        };
        match masked.problem(&self.engine.config) {
            Some(reason) => Err(LearnerError::BadRow { row, reason }),
            None => Ok(masked),
        }
    }

    fn check_update<'a>(
        &self,
        row: usize,
        update: &'a UpdateRow,
    ) -> Result<MaskedIds<'a>, LearnerError> {
        let n = update.sequence.ids.len();
        let bad = |what: &str, got: usize| {
            let reason = format!("{n} ids but {got} {what}");
            Err(LearnerError::BadRow { row, reason })
        };
        if update.corrects_sampler && update.sequence.logprobs.len() != n {
            return bad("sampler log-probs", update.sequence.logprobs.len());
        }
        if let OldLogprobs::Given(old) = &update.old
            && old.len() != n
        {
            return bad("old log-probs", old.len());
        }
        self.check(row, &update.sequence)
    }

    fn not_finite(&self, what: &'static str) -> LearnerError {
        LearnerError::NotFinite {
            what,
            version: self.version,
        }
    }
}

/// One token's part of the loss (without `1/normalizer`) and what follows from it.
struct TokenLoss {
    loss: f64,
    /// Its derivative by the log-prob.
    slope: f64,
    is_clipped: bool,
}

fn bounded_ratio(log_difference: f64) -> f64 {
    log_difference.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
}

/// `-w min(r A, clip(r) A)` of the masked token at `position` whose log-prob is now `lp`.
fn token_loss(batch: &UpdateBatch, row: &UpdateRow, position: usize, lp: f32) -> TokenLoss {
    let now = f64::from(lp);
    let advantage = f64::from(row.advantage);
    let difference = match &row.old {
        OldLogprobs::Current => 0.0,
        OldLogprobs::Given(old) => drift(now, old[position]),
    };
    let ratio = bounded_ratio(difference);
    let (low, high) = (f64::from(batch.clip_low), f64::from(batch.clip_high));
    let clipped = ratio.clamp(1.0 - low, 1.0 + high);
    let weight = if row.corrects_sampler {
        let drift = drift(now, row.sequence.logprobs[position]);
        bounded_ratio(drift).min(f64::from(batch.importance_cap))
    } else {
        1.0
    };
    let is_clipped = clipped * advantage < ratio * advantage;
    let is_flat = is_clipped || difference.abs() > MAX_LOG_RATIO;
    TokenLoss {
        loss: -weight * (ratio * advantage).min(clipped * advantage),
        slope: if is_flat {
            0.0
        } else {
            -weight * ratio * advantage
        },
        is_clipped,
    }
}

/// `now - then`; 0, and so ratio 1, where an engine gave no log-prob (bug report G24).
fn drift(now: f64, then: f32) -> f64 {
    if then.is_finite() {
        now - f64::from(then)
    } else {
        0.0
    }
}

fn stats(batch: &UpdateBatch, rows: &[MaskedIds<'_>], logprobs: &[Vec<f32>]) -> UpdateStats {
    let (mut loss, mut negative, mut surprise) = (0.0, 0.0, 0.0);
    let (mut n_tokens, mut n_clipped) = (0, 0);
    for ((row, masked), lps) in batch.rows.iter().zip(rows).zip(logprobs) {
        for (position, &lp) in masked.positions().zip(lps) {
            let token = token_loss(batch, row, position, lp);
            loss += token.loss;
            if row.advantage < 0.0 {
                negative += token.loss;
            }
            surprise -= f64::from(lp);
            n_clipped += usize::from(token.is_clipped);
            n_tokens += 1;
        }
    }
    let normalizer = f64::from(batch.normalizer);
    let share = |part: f64| (part / f64::max(n_tokens as f64, 1.0)) as f32;
    UpdateStats {
        loss: (loss / normalizer) as f32,
        negative_loss: (negative / normalizer) as f32,
        grad_norm: 0.0,
        clipped_share: share(n_clipped as f64),
        n_tokens,
        surprise: share(surprise),
    }
}

impl Learner for NanoLearner {
    fn snapshot(&self) -> Box<dyn Policy> {
        Box::new(self.sampler())
    }

    fn logprobs(&self, rows: &[Sequence]) -> Result<Vec<Vec<f32>>, LearnerError> {
        let masked = rows.iter().enumerate().map(|(i, row)| self.check(i, row));
        let masked = masked.collect::<Result<Vec<_>, _>>()?;
        let found = self.engine.logprobs(&self.weights, &masked);
        let spread = |(row, lps): (&MaskedIds<'_>, Vec<f32>)| {
            let mut out = vec![0.0; row.ids.len()];
            for (position, lp) in row.positions().zip(lps) {
                out[position] = lp;
            }
            out
        };
        Ok(masked.iter().zip(found).map(spread).collect())
    }

    fn update(&mut self, batch: &UpdateBatch) -> Result<UpdateStats, LearnerError> {
        let masked = batch.rows.iter().enumerate();
        let masked = masked.map(|(i, row)| self.check_update(i, row));
        let masked = masked.collect::<Result<Vec<_>, _>>()?;
        let slopes = |row: usize, lps: &[f32]| -> Vec<f32> {
            let tokens = masked[row].positions().zip(lps);
            let slope = |(position, &lp): (usize, &f32)| {
                token_loss(batch, &batch.rows[row], position, lp).slope
            };
            tokens
                .map(|token| (slope(token) / f64::from(batch.normalizer)) as f32)
                .collect()
        };
        let pass = self.engine.gradient(&self.weights, &masked, &slopes);
        let mut stats = stats(batch, &masked, &pass.logprobs);
        if !stats.loss.is_finite() {
            return Err(self.not_finite("loss"));
        }
        let norm = global_norm(&pass.gradient);
        if !norm.is_finite() {
            return Err(self.not_finite("gradient"));
        }
        stats.grad_norm = norm as f32;
        let scale = clip_scale(norm, batch.max_grad_norm);
        let rate = batch.learning_rate;
        self.adam
            .step(&mut self.weights, &pass.gradient, scale, rate);
        self.version = PolicyVersion(self.version.0 + 1);
        self.packed = OnceLock::new();
        Ok(stats)
    }

    fn max_context(&self) -> usize {
        self.engine.config.max_context
    }

    fn version(&self) -> PolicyVersion {
        self.version
    }
}

#[cfg(test)]
mod tests;
