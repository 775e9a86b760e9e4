//! Drawing one id from logits.

use pulp::Arch;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::kernels::{RUN, Weigh, padded};

/// Bound on `1 / temperature`, so that zero times it stays zero.
const MAX_SHARPNESS: f32 = 1.0e30;

/// Scratch of one draw.
#[derive(Debug)]
pub(super) struct Drawer {
    arch: Arch,
    weights: Vec<f32>,
    sums: Vec<f32>,
    vocab: usize,
}

impl Drawer {
    pub(super) fn new(arch: Arch, vocab: usize) -> Self {
        Self {
            arch,
            weights: vec![0.0; padded(vocab)],
            sums: vec![0.0; padded(vocab).div_ceil(RUN)],
            vocab,
        }
    }

    /// An id and its log-prob at temperature 1; `None` if the logits are not finite. `logits` are padded
    /// with negative infinity. One draw uses one 64-bit number, a greedy choice none.
    pub(super) fn draw(
        &mut self,
        logits: &[f32],
        temperature: f32,
        rng: &mut ChaCha8Rng,
    ) -> Option<(u32, f32)> {
        let peak = self.weigh(logits, 1.0);
        let total = self.total();
        if !(total.is_finite() && peak.is_finite()) {
            return None;
        }
        let id = if temperature <= 0.0 {
            logits.iter().position(|&l| l >= peak)?
        } else {
            let mut of_weights = total;
            if (temperature - 1.0).abs() > 0.0 {
                self.weigh(logits, temperature.recip().min(MAX_SHARPNESS));
                of_weights = self.total();
            }
            self.pick(of_weights, rng)
        };
        let logprob = f64::from(logits[id] - peak) - total.ln();
        Some((id as u32, logprob as f32))
    }

    fn weigh(&mut self, logits: &[f32], sharpness: f32) -> f32 {
        self.arch.dispatch(Weigh {
            logits,
            weights: &mut self.weights,
            sums: &mut self.sums,
            sharpness,
        })
    }

    fn total(&self) -> f64 {
        self.sums.iter().map(|&sum| f64::from(sum)).sum()
    }

    /// Inverts the cumulative sum, run by run and then inside the run.
    fn pick(&self, total: f64, rng: &mut ChaCha8Rng) -> usize {
        let mut left = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64 * total;
        let mut ids = 0..self.vocab;
        let starts = (0..self.vocab).step_by(RUN);
        for (start, sum) in starts.zip(self.sums.iter().map(|&sum| f64::from(sum))) {
            if left >= sum {
                left -= sum;
                continue;
            }
            ids = start..(start + RUN).min(self.vocab);
            for id in ids.clone() {
                left -= f64::from(self.weights[id]);
                if left < 0.0 {
                    return id;
                }
            }
            break;
        }
        // Rounding, about once in ten million draws: the likeliest of the run, which the cut was in.
        let likelier = |a: &usize, b: &usize| self.weights[*a].total_cmp(&self.weights[*b]);
        ids.max_by(likelier).unwrap_or(0)
    }
}
