//! `AdamW` over flat weights with global-norm clipping. A plain loop: one order of work, so one result.

use crate::model::ModelConfig;

/// Constants of the optimizer. Defaults (ours): betas 0.9 and 0.95, epsilon 1e-8, no decay.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdamWConfig {
    /// Decay of the mean gradient, in `[0, 1)`.
    pub beta1: f64,
    /// Decay of the mean squared gradient, in `[0, 1)`.
    pub beta2: f64,
    /// Added to the root of the mean square.
    pub epsilon: f64,
    /// Decoupled decay of matrices (not of norms), times the learning rate.
    pub weight_decay: f64,
}

impl Default for AdamWConfig {
    fn default() -> Self {
        Self {
            beta1: 0.9,
            beta2: 0.95,
            epsilon: 1e-8,
            weight_decay: 0.0,
        }
    }
}

/// Moments of the gradients of one model.
#[derive(Debug, Clone)]
pub(crate) struct AdamW {
    config: AdamWConfig,
    mean: Vec<f32>,
    square: Vec<f32>,
    /// Runs of weights and whether they are decayed.
    runs: Vec<(usize, bool)>,
    steps: i32,
}

/// The optimizer's memory: what a learner needs beside its weights to go on as if it had never stopped.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Moments {
    /// Decayed mean of the gradients, as long as the weights.
    pub mean: Vec<f32>,
    /// Decayed mean of their squares, as long as the weights.
    pub square: Vec<f32>,
    /// Steps so far, at least 0.
    pub steps: i32,
}

impl AdamW {
    pub(crate) fn moments(&self) -> Moments {
        Moments {
            mean: self.mean.clone(),
            square: self.square.clone(),
            steps: self.steps,
        }
    }

    /// Takes over moments that are as long as the weights.
    pub(crate) fn restore(&mut self, moments: Moments) {
        (self.mean, self.square) = (moments.mean, moments.square);
        self.steps = moments.steps;
    }

    pub(crate) fn new(config: AdamWConfig, model: &ModelConfig) -> Self {
        let n = model.n_params();
        let runs = model.layout().into_iter().map(|s| (s.len(), s.is_matrix()));
        Self {
            config,
            mean: vec![0.0; n],
            square: vec![0.0; n],
            runs: runs.collect(),
            steps: 0,
        }
    }

    /// One step; the gradient is scaled by `scale` first. All three are as long as the model's weights.
    pub(crate) fn step(&mut self, weights: &mut [f32], gradient: &[f32], scale: f64, rate: f64) {
        let c = self.config;
        self.steps = self.steps.saturating_add(1);
        let (fix1, fix2) = (
            1.0 - c.beta1.powi(self.steps),
            1.0 - c.beta2.powi(self.steps),
        );
        let (b1, b2) = (c.beta1 as f32, c.beta2 as f32);
        let size = (rate / fix1) as f32;
        let (root, eps) = ((1.0 / fix2) as f32, c.epsilon as f32);
        let mut at = 0;
        for &(len, is_matrix) in &self.runs {
            let keep = if is_matrix {
                (1.0 - rate * c.weight_decay) as f32
            } else {
                1.0
            };
            for i in at..at + len {
                let g = gradient[i] * scale as f32;
                self.mean[i] = b1 * self.mean[i] + (1.0 - b1) * g;
                self.square[i] = b2 * self.square[i] + (1.0 - b2) * g * g;
                let step = size * self.mean[i] / ((self.square[i] * root).sqrt() + eps);
                weights[i] = weights[i] * keep - step;
            }
            at += len;
        }
    }
}

/// Euclidean norm, in f64.
pub(crate) fn global_norm(gradient: &[f32]) -> f64 {
    let squares = gradient.iter().map(|&g| f64::from(g) * f64::from(g));
    squares.sum::<f64>().sqrt()
}

/// The factor that brings a gradient of this norm down to `max`.
pub(crate) fn clip_scale(norm: f64, max: f32) -> f64 {
    let max = f64::from(max);
    if norm > max { max / norm } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_is_the_learning_rate_against_the_sign() {
        let model = ModelConfig::nano(8, 8);
        let mut adam = AdamW::new(AdamWConfig::default(), &model);
        let mut weights = vec![0.5; model.n_params()];
        let mut gradient = vec![0.0; model.n_params()];
        (gradient[0], gradient[1]) = (3.0, -1e-3);
        adam.step(&mut weights, &gradient, 1.0, 0.1);
        assert!((weights[0] - 0.4).abs() < 1e-5 && (weights[1] - 0.6).abs() < 1e-4);
        assert!((weights[2] - 0.5).abs() < 1e-9);
    }

    #[test]
    fn clipping_scales_to_the_limit_and_not_up() {
        assert!((global_norm(&[3.0, 4.0]) - 5.0).abs() < 1e-12);
        assert!((clip_scale(5.0, 1.0) - 0.2).abs() < 1e-12);
        assert!((clip_scale(0.5, 1.0) - 1.0).abs() < 1e-12);
    }
}
