//! Loops of the decoder, compiled for the best vector unit found at run time (`pulp`).
//!
//! Every sum runs in an order that depends on the row alone: over `k` one by one in products, over fixed
//! lanes in norms and softmax. A multiplication and an addition are either always fused (where the code says
//! `mul_add`; emulated where the machine cannot, which is slow) or never. So a row's result is the same in any
//! batch and on any machine.
//!
//! Activations are padded to multiples of [`LANES`] with zeros, rows to multiples of [`ROWS`].
#![expect(
    clippy::inline_always,
    reason = "vector features reach only inlined code"
)]

use pulp::{Simd, WithSimd};

/// Values that are computed side by side.
pub(crate) const LANES: usize = 16;
/// Rows that share one reading of the weights.
pub(super) const ROWS: usize = 4;

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
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(2.121_944_4e-4, n.mul_add(-0.693_359_4, x));
    let mut p = 1.987_569_1e-4;
    p = r.mul_add(p, 1.398_199_9e-3);
    p = r.mul_add(p, 8.333_452e-3);
    p = r.mul_add(p, 4.166_579_6e-2);
    p = r.mul_add(p, 1.666_666_6e-1);
    p = r.mul_add(p, 0.5);
    let exponent = (shifted.to_bits() as i32).wrapping_sub(ROUND_BITS);
    // Wrapping, because a check for overflow would keep the loop around it from being vectorised.
    let power = f32::from_bits((exponent.wrapping_add(127) << 23) as u32);
    ((p * r).mul_add(r, r) + 1.0) * power
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
    let mut best = lowest;
    // A loop, since vector features do not reach into closures.
    for v in S::as_simd_f32s(values).0 {
        best = simd.max_f32s(best, *v);
    }
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

/// `weights = exp((logits - peak) * sharpness)`, and the sum of every run of [`RUN`] of them. Lengths are padded; the
/// padding of `logits` must be negative infinity. Returns the peak.
pub(super) struct Weigh<'a> {
    pub(super) logits: &'a [f32],
    pub(super) weights: &'a mut [f32],
    pub(super) sums: &'a mut [f32],
    pub(super) sharpness: f32,
}

/// Weights whose sum is kept.
pub(super) const RUN: usize = 4 * LANES;

impl WithSimd for Weigh<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let peak = peak(simd, self.logits);
        for (weight, logit) in self.weights.iter_mut().zip(self.logits) {
            *weight = exp((logit - peak) * self.sharpness);
        }
        for (sum, run) in self.sums.iter_mut().zip(self.weights.chunks(RUN)) {
            *sum = lane_sum::<S, false>(simd, run);
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
