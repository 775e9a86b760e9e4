//! Drawing one id from logits.

use pulp::Arch;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::kernels::{LANES, Weigh, padded};

/// Bound on `1 / temperature`, so that zero times it stays zero.
const MAX_SHARPNESS: f32 = 1.0e30;

/// Scratch of one draw.
#[derive(Debug)]
pub(super) struct Drawer {
    arch: Arch,
    weights: Vec<f32>,
    sums: Vec<f64>,
    vocab: usize,
}

impl Drawer {
    pub(super) fn new(arch: Arch, vocab: usize) -> Self {
        Self {
            arch,
            weights: vec![0.0; padded(vocab)],
            sums: vec![0.0; padded(vocab) / LANES],
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
        let total: f64 = self.sums.iter().sum();
        if !(total.is_finite() && peak.is_finite()) {
            return None;
        }
        let id = if temperature <= 0.0 {
            logits.iter().position(|&l| l >= peak)?
        } else {
            if (temperature - 1.0).abs() > 0.0 {
                self.weigh(logits, temperature.recip().min(MAX_SHARPNESS));
            }
            self.pick(rng)
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

    /// Inverts the cumulative sum, run by run and then inside the run.
    fn pick(&self, rng: &mut ChaCha8Rng) -> usize {
        let total: f64 = self.sums.iter().sum();
        let mut left = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64 * total;
        let mut last = 0;
        for (run, sum) in self.sums.iter().enumerate() {
            if left >= *sum {
                left -= sum;
                continue;
            }
            for (j, weight) in self.weights[run * LANES..][..LANES].iter().enumerate() {
                last = (run * LANES + j).min(self.vocab - 1);
                left -= f64::from(*weight);
                if left < 0.0 {
                    return last;
                }
            }
        }
        last
    }
}
