//! Loops of the decoder, compiled for the best vector unit found at run time (`pulp`).
//!
//! Every sum runs in an order that depends on the row alone: over `k` one by one in products, over fixed
//! lanes in norms and softmax. Multiplications and additions stay separate (no fused multiply-add). So a
//! row's result is the same in any batch and on any machine.
//!
//! Activations are padded to multiples of [`LANES`] with zeros, rows to multiples of [`ROWS`].
#![expect(
    clippy::inline_always,
    reason = "vector features reach only inlined code"
)]

use pulp::{Simd, WithSimd};

use super::product::Width;

/// Values that are computed side by side.
pub(crate) const LANES: usize = 16;
/// Rows that share one reading of the weights.
pub(super) const ROWS: usize = 4;

/// Positions of a context are padded to this.
pub(super) const POSITIONS: usize = 2 * LANES;

/// `n` rounded up to whole lanes.
pub(super) fn padded(n: usize) -> usize {
    n.next_multiple_of(LANES)
}

/// `exp(x)` to about 2e-7 relative; `x` is clamped to `[-87, 88]`.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0;
    const ROUND_BITS: i32 = 0x4B40_0000;
    let x = if x < -87.0 { -87.0 } else { x };
    let x = if x > 88.0 { 88.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * 0.693_359_4) - n * -2.121_944_4e-4;
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_6e-1;
    p = p * r + 0.5;
    let exponent = (shifted.to_bits() as i32).wrapping_sub(ROUND_BITS);
    // Wrapping, because a check for overflow would keep the loop around it from being vectorised.
    let power = f32::from_bits((exponent.wrapping_add(127) << 23) as u32);
    (p * r * r + r + 1.0) * power
}

/// Joins a run of values pairwise, always in the same tree.
#[inline(always)]
pub(crate) fn tree(mut lanes: [f32; LANES], join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = join(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// Sums values, or their squares, by lane and then by tree; the length is a multiple of [`LANES`].
#[inline(always)]
pub(super) fn lane_sum<S: Simd, const SQUARES: bool>(simd: S, values: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let per_lane = LANES / S::F32_LANES;
    let vectors = S::as_simd_f32s(values).0;
    for (j, out) in S::as_mut_simd_f32s(&mut lanes).0.iter_mut().enumerate() {
        for run in vectors.chunks_exact(per_lane) {
            let v = if SQUARES {
                simd.mul_f32s(run[j], run[j])
            } else {
                run[j]
            };
            *out = simd.add_f32s(*out, v);
        }
    }
    tree(lanes, |a, b| a + b)
}

/// The highest value; the length is a multiple of [`LANES`].
#[inline(always)]
pub(super) fn peak<S: Simd>(simd: S, values: &[f32]) -> f32 {
    let lowest = simd.splat_f32s(f32::NEG_INFINITY);
    let vectors = S::as_simd_f32s(values).0.iter();
    let best = vectors.fold(lowest, |best, v| simd.max_f32s(best, *v));
    simd.reduce_max_f32s(best)
}

/// `y = x / sqrt(mean(x^2) + eps) * gain`, row by row; `stride` is padded, `width` is not.
pub(super) struct RmsNorm<'a> {
    pub(super) x: &'a [f32],
    pub(super) y: &'a mut [f32],
    pub(super) gain: &'a [f32],
    pub(super) width: usize,
    pub(super) eps: f32,
}

impl WithSimd for RmsNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let stride = self.gain.len();
        let rows = self.x.chunks_exact(stride);
        for (x, y) in rows.zip(self.y.chunks_exact_mut(stride)) {
            let mean = lane_sum::<S, true>(simd, x) / self.width as f32;
            let scale = 1.0 / (mean + self.eps).sqrt();
            for ((y, x), g) in y.iter_mut().zip(x).zip(self.gain) {
                *y = x * scale * g;
            }
        }
    }
}

/// `h = silu(gate) * up` in place of the gate; a row is `[gate | up]`, each half of `width` values.
pub(super) struct SwiGlu<'a> {
    pub(super) rows: &'a mut [f32],
    pub(super) width: usize,
}

impl WithSimd for SwiGlu<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for row in self.rows.chunks_exact_mut(2 * self.width) {
            let (gates, ups) = row.split_at_mut(self.width);
            for (gate, up) in gates.iter_mut().zip(ups) {
                *gate = *gate / (1.0 + exp(-*gate)) * *up;
            }
        }
    }
}

/// Attention of one query head over the first `n` positions of one key-value head.
///
/// `keys` is `[cap / POSITIONS, hd, POSITIONS]`, `values` is `[cap, padded(hd)]`, `scores` is scratch for `n` positions, padded to
/// [`POSITIONS`].
pub(super) struct Attend<'a> {
    pub(super) query: &'a [f32],
    pub(super) keys: &'a [f32],
    pub(super) values: &'a [f32],
    pub(super) scores: &'a mut [f32],
    pub(super) out: &'a mut [f32],
    pub(super) n: usize,
}

impl Attend<'_> {
    /// Scores of `W` vectors of positions at a time, summed over the head's width in order.
    #[inline(always)]
    fn score<S: Simd, const W: usize>(&mut self, simd: S) {
        let blocks = self.keys.chunks_exact(self.query.len() * POSITIONS);
        for (keys, scores) in blocks.zip(self.scores.chunks_exact_mut(POSITIONS)) {
            let keys = S::as_simd_f32s(keys).0;
            let scores = S::as_mut_simd_f32s(scores).0;
            for (j, scores) in scores.chunks_exact_mut(W).enumerate() {
                let mut sums = [simd.splat_f32s(0.0); W];
                let keys = keys.chunks_exact(POSITIONS / S::F32_LANES);
                for (q, keys) in self.query.iter().zip(keys) {
                    let q = simd.splat_f32s(*q);
                    for (sum, key) in sums.iter_mut().zip(&keys[j * W..][..W]) {
                        *sum = simd.add_f32s(*sum, simd.mul_f32s(q, *key));
                    }
                }
                scores.copy_from_slice(&sums);
            }
        }
    }

    /// Turns scores into weights (not yet divided) and returns their sum. Padding weighs nothing.
    #[inline(always)]
    fn weigh<S: Simd>(&mut self, simd: S) -> f32 {
        self.scores[self.n..].fill(f32::NEG_INFINITY);
        let peak = peak(simd, self.scores);
        for score in self.scores.iter_mut() {
            *score = exp(*score - peak);
        }
        self.scores[self.n..].fill(0.0);
        lane_sum::<S, false>(simd, self.scores)
    }

    /// Sums values by weight: four interleaved partial sums over positions, then their sum.
    #[inline(always)]
    fn mix<S: Simd, const W: usize>(&mut self, simd: S, total: f32) {
        let stride = padded(self.out.len());
        let per_row = stride / S::F32_LANES;
        let values = S::as_simd_f32s(self.values).0;
        for (c, out) in self.out.chunks_mut(W * S::F32_LANES).enumerate() {
            let mut sums = [[simd.splat_f32s(0.0); W]; 4];
            let quads = self.scores[..self.n.next_multiple_of(4)].chunks_exact(4);
            for (weights, values) in quads.zip(values.chunks_exact(4 * per_row)) {
                for (i, sums) in sums.iter_mut().enumerate() {
                    let weight = simd.splat_f32s(weights[i]);
                    let values = &values[i * per_row + c * W..][..W];
                    for (sum, value) in sums.iter_mut().zip(values) {
                        *sum = simd.add_f32s(*sum, simd.mul_f32s(weight, *value));
                    }
                }
            }
            let mut mixed = [0.0; LANES];
            for (j, mixed) in S::as_mut_simd_f32s(&mut mixed).0[..W]
                .iter_mut()
                .enumerate()
            {
                let first = simd.add_f32s(sums[0][j], sums[1][j]);
                *mixed = simd.add_f32s(first, simd.add_f32s(sums[2][j], sums[3][j]));
            }
            for (o, m) in out.iter_mut().zip(mixed) {
                *o = m / total;
            }
        }
    }
}

impl WithSimd for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let is_narrow = Width::<S>::IS_NARROW;
        if is_narrow {
            self.score::<S, 4>(simd);
        } else {
            self.score::<S, 2>(simd);
        }
        let total = self.weigh(simd);
        if is_narrow {
            self.mix::<S, 2>(simd, total);
        } else {
            self.mix::<S, 1>(simd, total);
        }
    }
}

/// `weights = exp((logits - peak) * sharpness)`, and the sum of every run of [`LANES`] in f64. Lengths are
/// padded; the padding of `logits` must be negative infinity. Returns the peak.
pub(super) struct Weigh<'a> {
    pub(super) logits: &'a [f32],
    pub(super) weights: &'a mut [f32],
    pub(super) sums: &'a mut [f64],
    pub(super) sharpness: f32,
}

impl WithSimd for Weigh<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let peak = peak(simd, self.logits);
        for (weight, logit) in self.weights.iter_mut().zip(self.logits) {
            *weight = exp((logit - peak) * self.sharpness);
        }
        for (sum, run) in self.sums.iter_mut().zip(self.weights.chunks_exact(LANES)) {
            let mut parts = [0.0f64; 4];
            for quad in run.chunks_exact(4) {
                for (part, weight) in parts.iter_mut().zip(quad) {
                    *part += f64::from(*weight);
                }
            }
            *sum = (parts[0] + parts[1]) + (parts[2] + parts[3]);
        }
        peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_over_its_range() {
        for i in -8600..=8700 {
            let x = i as f32 / 100.0;
            let exact = f64::from(x).exp();
            assert!(((f64::from(exp(x)) - exact) / exact).abs() < 4e-7, "at {x}");
        }
        assert!((exp(0.0) - 1.0).abs() < f32::EPSILON && exp(f32::NEG_INFINITY) < 1e-37);
    }
}
