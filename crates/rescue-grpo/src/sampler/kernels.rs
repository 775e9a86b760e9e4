//! Loops of the decoder, compiled for the best vector unit found at run time (`pulp`).
//!
//! Every sum runs in an order that depends on the row alone: over `k` one by one in products, over fixed
//! lanes in norms and softmax. Multiplications and additions stay separate (no fused multiply-add). So a
//! row's result is the same in any batch and on any machine.
//!
//! Activations are padded to multiples of [`LANES`] with zeros, rows to multiples of [`ROWS`].

use pulp::{Simd, WithSimd};

/// Values that are computed side by side.
pub(super) const LANES: usize = 16;
/// Rows that share one reading of the weights.
pub(super) const ROWS: usize = 4;

/// A fixed run of values, which the compiler keeps in vector registers.
pub(super) type Lane = [f32; LANES];

/// `n` rounded up to whole lanes.
pub(super) fn padded(n: usize) -> usize {
    n.next_multiple_of(LANES)
}

/// `exp(x)` to about 2e-7 relative; `x` is clamped to `[-87, 88]`.
#[expect(
    clippy::inline_always,
    reason = "vector features reach only inlined code"
)]
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
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
    let power = f32::from_bits(((exponent + 127) << 23) as u32);
    (p * r * r + r + 1.0) * power
}

/// Sums lanes pairwise, always in the same tree.
#[expect(
    clippy::inline_always,
    reason = "vector features reach only inlined code"
)]
#[inline(always)]
fn tree_sum(mut lanes: Lane) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// A weight matrix `[k, n]` in panels of [`LANES`] columns, each `[k]` lanes; missing columns are zero.
#[derive(Debug, Clone)]
pub(super) struct Panels {
    lanes: Vec<Lane>,
    k: usize,
}

impl Panels {
    /// Packs columns: `at(k, n)` of `n` columns.
    pub(super) fn pack(k: usize, n: usize, at: impl Fn(usize, usize) -> f32) -> Self {
        let mut lanes = vec![[0.0; LANES]; k * padded(n) / LANES];
        for column in 0..n {
            for row in 0..k {
                lanes[column / LANES * k + row][column % LANES] = at(row, column);
            }
        }
        Self { lanes, k }
    }

    /// Columns, padding included.
    pub(super) fn width(&self) -> usize {
        self.lanes.len() / self.k * LANES
    }
}

/// `y = x w`, or `y += x w`: `x` is `[n, stride_x]`, `y` is `[n, w.width()]`, `n` a multiple of [`ROWS`].
pub(super) struct Product<'a> {
    pub(super) x: &'a [f32],
    pub(super) stride_x: usize,
    pub(super) w: &'a Panels,
    pub(super) y: &'a mut [f32],
    pub(super) adds: bool,
}

/// One block of [`ROWS`] rows and one panel, summed over `k` in order.
#[expect(
    clippy::inline_always,
    reason = "vector features reach only inlined code"
)]
#[inline(always)]
fn block(x: &[f32], stride: usize, panel: &[Lane]) -> [Lane; ROWS] {
    let k = panel.len();
    let (x0, x1) = (&x[..k], &x[stride..stride + k]);
    let (x2, x3) = (
        &x[2 * stride..2 * stride + k],
        &x[3 * stride..3 * stride + k],
    );
    let mut sums = [[0.0; LANES]; ROWS];
    let [s0, s1, s2, s3] = &mut sums;
    for ((((w, &a0), &a1), &a2), &a3) in panel.iter().zip(x0).zip(x1).zip(x2).zip(x3) {
        for j in 0..LANES {
            s0[j] += a0 * w[j];
        }
        for j in 0..LANES {
            s1[j] += a1 * w[j];
        }
        for j in 0..LANES {
            s2[j] += a2 * w[j];
        }
        for j in 0..LANES {
            s3[j] += a3 * w[j];
        }
    }
    sums
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let width = self.w.width();
        for (p, panel) in self.w.lanes.chunks_exact(self.w.k).enumerate() {
            let blocks = self.x.chunks_exact(ROWS * self.stride_x);
            for (x, y) in blocks.zip(self.y.chunks_exact_mut(ROWS * width)) {
                let sums = block(x, self.stride_x, panel);
                for (r, sum) in sums.iter().enumerate() {
                    let out = &mut y[r * width + p * LANES..][..LANES];
                    for (o, s) in out.iter_mut().zip(sum) {
                        *o = if self.adds { *o + s } else { *s };
                    }
                }
            }
        }
    }
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
    fn with_simd<S: Simd>(self, _: S) {
        let stride = self.gain.len();
        let rows = self.x.chunks_exact(stride);
        for (x, y) in rows.zip(self.y.chunks_exact_mut(stride)) {
            let mut squares = [0.0; LANES];
            for lane in x.chunks_exact(LANES) {
                for j in 0..LANES {
                    squares[j] += lane[j] * lane[j];
                }
            }
            let mean = tree_sum(squares) / self.width as f32;
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
/// `keys` is `[hd, cap]`, `values` is `[cap, padded(hd)]`, `scores` holds `padded(n)` values of scratch.
pub(super) struct Attend<'a> {
    pub(super) query: &'a [f32],
    pub(super) keys: &'a [f32],
    pub(super) values: &'a [f32],
    pub(super) scores: &'a mut [f32],
    pub(super) out: &'a mut [f32],
    pub(super) n: usize,
    pub(super) cap: usize,
}

impl Attend<'_> {
    #[expect(
        clippy::inline_always,
        reason = "vector features reach only inlined code"
    )]
    #[inline(always)]
    fn score(&mut self) {
        for (b, scores) in self.scores.chunks_exact_mut(LANES).enumerate() {
            let mut sums = [0.0; LANES];
            for (q, keys) in self.query.iter().zip(self.keys.chunks_exact(self.cap)) {
                let keys = &keys[b * LANES..][..LANES];
                for j in 0..LANES {
                    sums[j] += q * keys[j];
                }
            }
            scores.copy_from_slice(&sums);
        }
        self.scores[self.n..].fill(f32::NEG_INFINITY);
    }

    /// Turns scores into weights (not yet divided) and returns their sum.
    #[expect(
        clippy::inline_always,
        reason = "vector features reach only inlined code"
    )]
    #[inline(always)]
    fn weigh(&mut self) -> f32 {
        let peak = peak(self.scores);
        let mut total = [0.0; LANES];
        for scores in self.scores.chunks_exact_mut(LANES) {
            for j in 0..LANES {
                // The padding's clamped exponential, 1e-38, is far below one unit in the last place.
                scores[j] = exp(scores[j] - peak);
                total[j] += scores[j];
            }
        }
        tree_sum(total)
    }

    /// Sums values by weight: four interleaved partial sums over positions, then their sum.
    #[expect(
        clippy::inline_always,
        reason = "vector features reach only inlined code"
    )]
    #[inline(always)]
    fn mix(&mut self, total: f32) {
        let stride = padded(self.out.len());
        for (c, out) in self.out.chunks_mut(LANES).enumerate() {
            let mut sums = [[0.0; LANES]; 4];
            let quads = self.scores.chunks_exact(4);
            for (weights, values) in quads.zip(self.values.chunks_exact(4 * stride)) {
                for (i, sum) in sums.iter_mut().enumerate() {
                    let value = &values[i * stride + c * LANES..][..LANES];
                    for j in 0..LANES {
                        sum[j] += weights[i] * value[j];
                    }
                }
            }
            for (j, o) in out.iter_mut().enumerate() {
                let sum = (sums[0][j] + sums[1][j]) + (sums[2][j] + sums[3][j]);
                *o = sum / total;
            }
        }
    }
}

impl WithSimd for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        self.score();
        let total = self.weigh();
        self.scores[self.n..].fill(0.0);
        self.mix(total);
    }
}

/// The highest value; its length is a multiple of [`LANES`].
#[expect(
    clippy::inline_always,
    reason = "vector features reach only inlined code"
)]
#[inline(always)]
fn peak(values: &[f32]) -> f32 {
    let mut best = [f32::NEG_INFINITY; LANES];
    for lane in values.chunks_exact(LANES) {
        for j in 0..LANES {
            best[j] = if lane[j] > best[j] { lane[j] } else { best[j] };
        }
    }
    best.into_iter().fold(f32::NEG_INFINITY, f32::max)
}

/// `weights = exp((logits - peak) * sharpness)`, and the sum of every lane run in f64. Lengths are padded;
/// the padding of `logits` must be negative infinity. Returns the peak.
pub(super) struct Weigh<'a> {
    pub(super) logits: &'a [f32],
    pub(super) weights: &'a mut [f32],
    pub(super) sums: &'a mut [f64],
    pub(super) sharpness: f32,
}

impl WithSimd for Weigh<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f32 {
        let peak = peak(self.logits);
        let lanes = self.logits.chunks_exact(LANES);
        let out = self.weights.chunks_exact_mut(LANES).zip(self.sums);
        for (logits, (weights, sum)) in lanes.zip(out) {
            let mut wide = [0.0f64; LANES];
            for j in 0..LANES {
                weights[j] = exp((logits[j] - peak) * self.sharpness);
                wide[j] = f64::from(weights[j]);
            }
            let mut width = LANES / 2;
            while width > 0 {
                for i in 0..width {
                    wide[i] += wide[i + width];
                }
                width /= 2;
            }
            *sum = wide[0];
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
