//! The warm start: cross-entropy on the masked tokens of demonstrations, `AdamW`, linear warm-up and a
//! cosine down to a tenth. Also the copy gate: how many masked tokens the model would choose greedily.

use harness_core::{Codec, Message, Seed};
use rand::Rng;
use serde::{Deserialize, Serialize};

use crate::adamw::{AdamW, AdamWConfig, clip_scale, global_norm};
use crate::engine::{Backend, Engine, MaskedIds};
use crate::model::{DeviceKind, ModelConfig, ModelError};

/// One demonstration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SupervisedRow {
    /// Token ids.
    pub ids: Vec<u32>,
    /// Which ids are learnt; as long as `ids`, and false at the first.
    pub mask: Vec<bool>,
}

impl SupervisedRow {
    /// A row that learns what the policy should say after messages; as the executor would encode them.
    pub fn of(codec: &dyn Codec, messages: &[Message], reply: &str) -> Self {
        let mut ids = codec.encode(messages);
        let mut mask = vec![false; ids.len()];
        ids.extend(codec.encode_reply(reply));
        mask.resize(ids.len(), true);
        Self { ids, mask }
    }

    fn masked(&self) -> MaskedIds<'_> {
        MaskedIds {
            ids: &self.ids,
            mask: &self.mask,
        }
    }
}

/// How the warm start trains. Defaults (ours): the recipe measured for the nano track.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SupervisedConfig {
    /// Optimizer steps.
    pub steps: usize,
    /// Rows a step, drawn without replacement until all were seen.
    pub batch: usize,
    /// Highest learning rate.
    pub learning_rate: f64,
    /// Steps over which the rate rises linearly to it.
    pub warmup_steps: usize,
    /// Largest global gradient norm.
    pub max_grad_norm: f32,
    /// Optimizer constants.
    pub adamw: AdamWConfig,
    /// Worker threads; the result does not depend on them.
    pub n_threads: usize,
}

impl Default for SupervisedConfig {
    fn default() -> Self {
        Self {
            steps: 1600,
            batch: 64,
            learning_rate: 2e-3,
            warmup_steps: 50,
            max_grad_norm: 1.0,
            adamw: AdamWConfig {
                weight_decay: 0.01,
                ..AdamWConfig::default()
            },
            n_threads: 1,
        }
    }
}

impl SupervisedConfig {
    /// The learning rate of step `step`, from 0.
    pub fn rate(&self, step: usize) -> f64 {
        if step < self.warmup_steps {
            return self.learning_rate * (step + 1) as f64 / self.warmup_steps as f64;
        }
        let span = self.steps.saturating_sub(self.warmup_steps).max(1);
        let done = ((step - self.warmup_steps) as f64 / span as f64).min(1.0);
        let cosine = 0.5 * (1.0 + (std::f64::consts::PI * done).cos());
        self.learning_rate * (0.1 + 0.9 * cosine)
    }
}

/// What one step did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SupervisedProgress {
    /// Steps done, from 1.
    pub step: usize,
    /// Mean cross-entropy of the batch's masked tokens before the step, in nats.
    pub loss: f64,
    /// Gradient norm before clipping.
    pub grad_norm: f64,
    /// Masked tokens of the batch.
    pub n_tokens: usize,
}

/// Why the warm start failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SupervisedError {
    /// No row holds a masked token, or a size is zero.
    #[error("nothing to learn: {0}")]
    Empty(&'static str),
    /// A row does not fit the model.
    #[error("demonstration {row} cannot be trained on: {reason}")]
    BadRow {
        /// Its index.
        row: usize,
        /// What is wrong.
        reason: String,
    },
    /// Loss or gradient is NaN or infinite.
    #[error("loss or gradient is not finite at step {0} (from 1), lower the learning rate")]
    NotFinite(usize),
    /// The sizes do not fit.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// Trains `weights` in place on the CPU; `progress` is called after every step and stops the training by
/// returning false.
///
/// # Errors
/// [`SupervisedError`]; the weights are then those of the last good step.
///
/// # Determinism
/// The result is a pure function of the arguments, whatever `n_threads`.
pub fn train_supervised(
    model: &ModelConfig,
    weights: &mut [f32],
    rows: &[SupervisedRow],
    config: &SupervisedConfig,
    seed: Seed,
    mut progress: impl FnMut(SupervisedProgress) -> bool,
) -> Result<(), SupervisedError> {
    let engine = engine(model, weights, rows, config.n_threads)?;
    if config.batch == 0 || rows.iter().all(|row| !row.mask.contains(&true)) {
        return Err(SupervisedError::Empty(
            "no masked token, or a batch of zero",
        ));
    }
    let mut adam = AdamW::new(config.adamw, model);
    let mut deck = Deck::new(rows.len(), seed);
    for step in 0..config.steps {
        let batch: Vec<_> = (0..config.batch)
            .map(|_| rows[deck.draw()].masked())
            .collect();
        let (report, gradient) = batch_gradient(&engine, weights, &batch, step + 1);
        if !(report.loss.is_finite() && report.grad_norm.is_finite()) {
            return Err(SupervisedError::NotFinite(step + 1));
        }
        let scale = clip_scale(report.grad_norm, config.max_grad_norm);
        adam.step(weights, &gradient, scale, config.rate(step));
        if !progress(report) {
            break;
        }
    }
    Ok(())
}

/// Mean cross-entropy of a batch's masked tokens and its gradient.
fn batch_gradient(
    engine: &Engine,
    weights: &[f32],
    batch: &[MaskedIds<'_>],
    step: usize,
) -> (SupervisedProgress, Vec<f32>) {
    let n_tokens = batch.iter().map(|row| row.positions().count()).sum();
    let each = -1.0 / (n_tokens as f32).max(1.0);
    let pass = engine.gradient(weights, batch, &|_, lps| vec![each; lps.len()]);
    let logprobs = pass.logprobs.iter().flatten();
    let total: f64 = logprobs.map(|&lp| f64::from(lp)).sum();
    let report = SupervisedProgress {
        step,
        loss: total * f64::from(each),
        grad_norm: global_norm(&pass.gradient),
        n_tokens,
    };
    (report, pass.gradient)
}

/// Greedy hits on masked tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct TeacherForced {
    /// Share of masked tokens that the model would choose greedily, in `[0, 1]`; 1 without any.
    pub accuracy: f64,
    /// For every row, whether each of its masked tokens was hit, in order of position.
    pub hits: Vec<Vec<bool>>,
}

/// Feeds the rows' own ids and compares each masked one with the greedy choice before it.
///
/// # Errors
/// [`SupervisedError::BadRow`] and [`SupervisedError::Model`].
pub fn teacher_forced_accuracy(
    model: &ModelConfig,
    weights: &[f32],
    rows: &[SupervisedRow],
    n_threads: usize,
) -> Result<TeacherForced, SupervisedError> {
    let engine = engine(model, weights, rows, n_threads)?;
    let masked: Vec<_> = rows.iter().map(SupervisedRow::masked).collect();
    let hits = engine.greedy_hits(weights, &masked);
    let n: usize = hits.iter().map(Vec::len).sum();
    let n_hit = hits.iter().flatten().filter(|hit| **hit).count();
    let accuracy = if n == 0 { 1.0 } else { n_hit as f64 / n as f64 };
    Ok(TeacherForced { accuracy, hits })
}

fn engine(
    model: &ModelConfig,
    weights: &[f32],
    rows: &[SupervisedRow],
    n_threads: usize,
) -> Result<Engine, SupervisedError> {
    model.validate()?;
    let (expected, got) = (model.n_params(), weights.len());
    if expected != got {
        return Err(ModelError::BadLength { expected, got }.into());
    }
    for (row, demo) in rows.iter().enumerate() {
        if let Some(reason) = demo.masked().problem(model) {
            return Err(SupervisedError::BadRow { row, reason });
        }
    }
    Ok(Engine {
        config: model.clone(),
        backend: Backend::open(DeviceKind::Cpu, model)?,
        n_threads,
    })
}

/// Row numbers in shuffled rounds.
struct Deck {
    order: Vec<usize>,
    at: usize,
    round: u64,
    seed: Seed,
}

impl Deck {
    fn new(n: usize, seed: Seed) -> Self {
        Self {
            order: (0..n).collect(),
            at: n,
            round: 0,
            seed,
        }
    }

    fn draw(&mut self) -> usize {
        if self.at == self.order.len() {
            let mut rng = self.seed.derive("shuffle", &[self.round]).rng();
            for last in (1..self.order.len()).rev() {
                let other = (rng.next_u64() % (last as u64 + 1)) as usize;
                self.order.swap(last, other);
            }
            (self.at, self.round) = (0, self.round + 1);
        }
        self.at += 1;
        self.order[self.at - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> ModelConfig {
        let mut model = ModelConfig::nano(20, 24);
        (model.d_model, model.d_ff, model.n_layers) = (32, 48, 2);
        model
    }

    /// `x y z | x y z`: the second half copies the first.
    fn copies(n: usize) -> Vec<SupervisedRow> {
        let mut rng = Seed::new(11).rng();
        let mut row = || {
            let values: Vec<u32> = (0..3).map(|_| 2 + rng.next_u32() % 18).collect();
            let ids: Vec<u32> = [&values[..], &[1], &values[..]].concat();
            let mask = (0..ids.len()).map(|i| i > 3).collect();
            SupervisedRow { ids, mask }
        };
        (0..n).map(|_| row()).collect()
    }

    fn train(steps: usize, n_threads: usize) -> (Vec<f32>, Vec<f64>) {
        let config = SupervisedConfig {
            steps,
            batch: 48,
            learning_rate: 5e-3,
            warmup_steps: 10,
            n_threads,
            ..SupervisedConfig::default()
        };
        let mut weights = sizes().init(Seed::new(1));
        let mut losses = Vec::new();
        let note = |p: SupervisedProgress| {
            losses.push(p.loss);
            true
        };
        let rows = copies(400);
        train_supervised(&sizes(), &mut weights, &rows, &config, Seed::new(2), note).unwrap();
        (weights, losses)
    }

    #[test]
    fn copying_is_learnt() {
        let (weights, losses) = train(260, 2);
        assert!(
            losses[0] > 2.5 && losses[losses.len() - 1] < 0.5,
            "{losses:?}"
        );
        let held_out = &copies(600)[400..];
        let gate = teacher_forced_accuracy(&sizes(), &weights, held_out, 2).unwrap();
        assert!(gate.accuracy > 0.8, "{}", gate.accuracy);
        assert!(gate.hits.iter().all(|hits| hits.len() == 3));
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        assert_eq!(train(4, 1), train(4, 3));
    }

    #[test]
    fn the_rate_warms_up_and_falls_to_a_tenth() {
        let config = SupervisedConfig::default();
        assert!((config.rate(0) - config.learning_rate / 50.0).abs() < 1e-12);
        assert!((config.rate(49) - config.learning_rate).abs() < 1e-12);
        assert!((config.rate(1600) - config.learning_rate / 10.0).abs() < 1e-9);
    }

    #[test]
    fn unusable_rows_are_named() {
        let train = |rows: &[SupervisedRow]| {
            let config = SupervisedConfig::default();
            let mut weights = sizes().init(Seed::new(1));
            train_supervised(&sizes(), &mut weights, rows, &config, Seed::new(2), |_| {
                false
            })
        };
        assert!(matches!(train(&[]), Err(SupervisedError::Empty(_))));
        let mut rows = copies(3);
        rows[2].mask[0] = true;
        assert!(matches!(
            train(&rows),
            Err(SupervisedError::BadRow { row: 2, .. })
        ));
        rows[2] = copies(1).remove(0);
        rows[1].ids[0] = 20;
        assert!(matches!(
            train(&rows),
            Err(SupervisedError::BadRow { row: 1, .. })
        ));
    }
}
