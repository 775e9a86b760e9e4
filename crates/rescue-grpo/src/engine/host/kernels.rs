//! Row-wise loops of the host's forward and backward pass, compiled for the best vector unit found at run time.
//!
//! Sums run over [`LANES`] interleaved parts and then in a tree, so that loops vectorise and a result does not depend on the
//! vector unit's width.
#![expect(
    clippy::inline_always,
    reason = "vector features reach only inlined code"
)]

use pulp::{Arch, Simd, WithSimd};

use crate::sampler::kernels::{LANES, exp, tree};

/// Joins `term(i)` over `0..n` in interleaved parts, which begin at `zero`.
#[inline(always)]
fn fold(
    n: usize,
    zero: f32,
    term: impl Fn(usize) -> f32,
    join: impl Fn(f32, f32) -> f32 + Copy,
) -> f32 {
    let mut lanes = [zero; LANES];
    let whole = n / LANES * LANES;
    for start in (0..whole).step_by(LANES) {
        for (lane, slot) in lanes.iter_mut().enumerate() {
            *slot = join(*slot, term(start + lane));
        }
    }
    for (lane, at) in (whole..n).enumerate() {
        lanes[lane] = join(lanes[lane], term(at));
    }
    tree(lanes, join)
}

/// Sums `term(i)` over `0..n`.
#[inline(always)]
fn sum(n: usize, term: impl Fn(usize) -> f32) -> f32 {
    fold(n, 0.0, term, |a, b| a + b)
}

/// The highest value.
#[inline(always)]
fn max(values: &[f32]) -> f32 {
    let higher = |a: f32, b: f32| if b > a { b } else { a };
    fold(values.len(), f32::NEG_INFINITY, |i| values[i], higher)
}

/// Implements [`WithSimd`] for a kernel whose `run` is plain Rust.
macro_rules! vectorised {
    ($kernel:ident -> $out:ty) => {
        impl WithSimd for $kernel<'_> {
            type Output = $out;

            #[inline(always)]
            fn with_simd<S: Simd>(self, _: S) -> $out {
                self.run()
            }
        }

        impl $kernel<'_> {
            /// Runs it.
            pub(super) fn go(self) -> $out {
                Arch::new().dispatch(self)
            }
        }
    };
}

/// `y = x / sqrt(mean(x^2) + eps) * gain`, row by row; keeps the factor of every row.
pub(super) struct Norm<'a> {
    pub(super) x: &'a [f32],
    pub(super) gain: &'a [f32],
    pub(super) eps: f32,
    pub(super) y: &'a mut [f32],
    pub(super) factors: &'a mut [f32],
}

impl Norm<'_> {
    #[inline(always)]
    fn run(self) {
        let d = self.gain.len();
        let rows = self.x.chunks_exact(d).zip(self.y.chunks_exact_mut(d));
        for ((x, y), factor) in rows.zip(self.factors) {
            let mean = sum(d, |i| x[i] * x[i]) / d as f32;
            *factor = 1.0 / (mean + self.eps).sqrt();
            for ((y, x), gain) in y.iter_mut().zip(x).zip(self.gain) {
                *y = x * *factor * gain;
            }
        }
    }
}
vectorised!(Norm -> ());

/// The way back through [`Norm`]: adds to `dx` and `dgain`.
pub(super) struct NormBack<'a> {
    pub(super) x: &'a [f32],
    pub(super) gain: &'a [f32],
    pub(super) factors: &'a [f32],
    pub(super) dy: &'a [f32],
    pub(super) dx: &'a mut [f32],
    pub(super) dgain: &'a mut [f32],
}

impl NormBack<'_> {
    #[inline(always)]
    fn run(self) {
        let d = self.gain.len();
        let rows = self.x.chunks_exact(d).zip(self.dy.chunks_exact(d));
        let rows = rows.zip(self.dx.chunks_exact_mut(d)).zip(self.factors);
        for (((x, dy), dx), &factor) in rows {
            let (x, dy, dx, gain) = (&x[..d], &dy[..d], &mut dx[..d], &self.gain[..d]);
            let dgain = &mut self.dgain[..d];
            let dot = sum(d, |i| dy[i] * gain[i] * x[i]);
            let pull = dot * factor * factor / d as f32;
            for i in 0..d {
                dx[i] += factor * (dy[i] * gain[i] - x[i] * pull);
                dgain[i] += dy[i] * x[i] * factor;
            }
        }
    }
}
vectorised!(NormBack -> ());

/// `act = silu(gate) * up`; a row of `gate_up` is `[gate | up]`.
pub(super) struct SwiGlu<'a> {
    pub(super) gate_up: &'a [f32],
    pub(super) act: &'a mut [f32],
    pub(super) width: usize,
}

impl SwiGlu<'_> {
    #[inline(always)]
    fn run(self) {
        let rows = self.gate_up.chunks_exact(2 * self.width);
        for (row, act) in rows.zip(self.act.chunks_exact_mut(self.width)) {
            let (gates, ups) = row.split_at(self.width);
            for ((act, gate), up) in act.iter_mut().zip(gates).zip(ups) {
                *act = gate / (1.0 + exp(-gate)) * up;
            }
        }
    }
}
vectorised!(SwiGlu -> ());

/// The way back through [`SwiGlu`]: replaces `gate_up` by its gradient.
pub(super) struct SwiGluBack<'a> {
    pub(super) gate_up: &'a mut [f32],
    pub(super) dact: &'a [f32],
    pub(super) width: usize,
}

impl SwiGluBack<'_> {
    #[inline(always)]
    fn run(self) {
        let rows = self.gate_up.chunks_exact_mut(2 * self.width);
        for (row, dact) in rows.zip(self.dact.chunks_exact(self.width)) {
            let (gates, ups) = row.split_at_mut(self.width);
            for ((gate, up), dact) in gates.iter_mut().zip(ups).zip(dact) {
                let share = 1.0 / (1.0 + exp(-*gate));
                let silu = *gate * share;
                *gate = dact * *up * (share + silu * (1.0 - share));
                *up = dact * silu;
            }
        }
    }
}
vectorised!(SwiGluBack -> ());

/// Rotates heads in place by the angle of each row's position; `forth` is 1, or -1 for the way back. The rows of
/// `x` are `stride` apart and begin with the heads.
pub(super) struct Rotate<'a> {
    pub(super) x: &'a mut [f32],
    pub(super) stride: usize,
    /// Values of a row that are rotated, whole heads.
    pub(super) width: usize,
    pub(super) cos: &'a [f32],
    pub(super) sin: &'a [f32],
    /// `head_dim / 2`.
    pub(super) half: usize,
    pub(super) forth: f32,
}

impl Rotate<'_> {
    #[inline(always)]
    fn run(self) {
        let tables = self
            .cos
            .chunks_exact(self.half)
            .zip(self.sin.chunks_exact(self.half));
        for (row, (cos, sin)) in self.x.chunks_mut(self.stride).zip(tables) {
            for head in row[..self.width].chunks_exact_mut(2 * self.half) {
                let (a, b) = head.split_at_mut(self.half);
                for (((a, b), cos), sin) in a.iter_mut().zip(b).zip(cos).zip(sin) {
                    let sin = sin * self.forth;
                    (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
                }
            }
        }
    }
}
vectorised!(Rotate -> ());

/// Causal softmax of a block of scores, in place: rows `first..` of queries, `group` heads each, over `width`
/// keys. Scores are divided by `sqrt(head_dim)` on the way.
pub(super) struct Softmax<'a> {
    pub(super) scores: &'a mut [f32],
    pub(super) width: usize,
    pub(super) group: usize,
    pub(super) first: usize,
    pub(super) scale: f32,
    /// `scale * peak + ln(sum)` of every row: kept if it is the way forth, read if it is the way back.
    pub(super) logs: Logs<'a>,
}

/// See [`Softmax::logs`].
pub(super) enum Logs<'a> {
    Keep(&'a mut [f32]),
    Read(&'a [f32]),
}

impl Softmax<'_> {
    #[inline(always)]
    fn run(self) {
        let Self {
            scores,
            width,
            group,
            first,
            scale,
            logs,
        } = self;
        let rows = scores.chunks_exact_mut(width).enumerate();
        match logs {
            Logs::Keep(logs) => {
                for ((at, row), log) in rows.zip(logs) {
                    let (seen, ahead) = row.split_at_mut(first + at / group + 1);
                    let peak = max(seen) * scale;
                    for score in seen.iter_mut() {
                        *score = exp(*score * scale - peak);
                    }
                    let total = sum(seen.len(), |i| seen[i]);
                    let part = 1.0 / total;
                    for score in seen.iter_mut() {
                        *score *= part;
                    }
                    ahead.fill(0.0);
                    *log = peak + total.ln();
                }
            }
            Logs::Read(logs) => {
                for ((at, row), log) in rows.zip(logs) {
                    let (seen, ahead) = row.split_at_mut(first + at / group + 1);
                    for score in seen {
                        *score = exp(*score * scale - log);
                    }
                    ahead.fill(0.0);
                }
            }
        }
    }
}
vectorised!(Softmax -> ());

/// The way back through [`Softmax`]: `dscores = weights * (dweights - dots) * scale` in place of `dweights`.
pub(super) struct SoftmaxBack<'a> {
    pub(super) weights: &'a [f32],
    pub(super) dweights: &'a mut [f32],
    /// Of every row the product of what was mixed and its gradient.
    pub(super) dots: &'a [f32],
    pub(super) width: usize,
    pub(super) scale: f32,
}

impl SoftmaxBack<'_> {
    #[inline(always)]
    fn run(self) {
        let rows = self.weights.chunks_exact(self.width);
        let rows = rows.zip(self.dweights.chunks_exact_mut(self.width));
        for ((weights, dweights), dot) in rows.zip(self.dots) {
            for (d, w) in dweights.iter_mut().zip(weights) {
                *d = w * (*d - dot) * self.scale;
            }
        }
    }
}
vectorised!(SoftmaxBack -> ());

/// Products of two matrices' rows, row by row.
pub(super) struct Dots<'a> {
    pub(super) a: &'a [f32],
    pub(super) b: &'a [f32],
    pub(super) out: &'a mut [f32],
    pub(super) width: usize,
}

impl Dots<'_> {
    #[inline(always)]
    fn run(self) {
        let rows = self
            .a
            .chunks_exact(self.width)
            .zip(self.b.chunks_exact(self.width));
        for ((a, b), out) in rows.zip(self.out) {
            *out = sum(self.width, |i| a[i] * b[i]);
        }
    }
}
vectorised!(Dots -> ());

/// Turns rows of logits into chances, in place, and gives the log-prob of each row's target.
pub(super) struct LogProbs<'a> {
    pub(super) logits: &'a mut [f32],
    pub(super) targets: &'a [u32],
    pub(super) width: usize,
    pub(super) out: &'a mut Vec<f32>,
}

impl LogProbs<'_> {
    #[inline(always)]
    fn run(self) {
        for (row, &target) in self.logits.chunks_exact_mut(self.width).zip(self.targets) {
            let peak = max(row);
            let chosen = row[target as usize] - peak;
            for logit in row.iter_mut() {
                *logit = exp(*logit - peak);
            }
            let total = sum(row.len(), |i| row[i]);
            let part = 1.0 / total;
            for weight in row.iter_mut() {
                *weight *= part;
            }
            self.out.push(chosen - total.ln());
        }
    }
}
vectorised!(LogProbs -> ());

/// The way back from log-probs to logits: `c * (1 - p)` at the target and `-c * p` elsewhere, in place of the
/// chances `p`.
pub(super) struct LogProbsBack<'a> {
    pub(super) chances: &'a mut [f32],
    pub(super) targets: &'a [u32],
    pub(super) coefficients: &'a [f32],
    pub(super) width: usize,
}

impl LogProbsBack<'_> {
    #[inline(always)]
    fn run(self) {
        let rows = self.chances.chunks_exact_mut(self.width);
        for ((row, &target), c) in rows.zip(self.targets).zip(self.coefficients) {
            for chance in row.iter_mut() {
                *chance *= -c;
            }
            row[target as usize] += c;
        }
    }
}
vectorised!(LogProbsBack -> ());
