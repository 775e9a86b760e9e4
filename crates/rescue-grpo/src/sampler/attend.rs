//! Attention of new tokens over their rows' caches: the query heads that share keys are done side by side.
#![expect(
    clippy::inline_always,
    reason = "vector features reach only inlined code"
)]

use pulp::{Simd, WithSimd};

use super::cache::{Cache, Layout};
use super::decoder::Token;
use super::kernels::{LANES, exp, lane_sum, padded, peak};
use super::product::{Width, cell, store};

/// Partial sums over positions that are kept apart while values are mixed.
const SUMS: usize = 4;

/// Attention of a step's tokens in one layer. Each token's key and value are stored first, while its cache is near.
pub(super) struct Attend<'a> {
    pub(super) layout: Layout,
    pub(super) layer: usize,
    pub(super) tokens: &'a [Token],
    pub(super) caches: &'a mut [Cache],
    /// Queries, keys and values, `[tokens, padded(d) + 2 padded(kv_heads hd)]`; rotated in place.
    pub(super) qkv: &'a mut [f32],
    /// Cosines and sines of the angles by position, `[max_context, hd / 2]` each.
    pub(super) angles: (&'a [f32], &'a [f32]),
    /// `[tokens, padded(d)]`.
    pub(super) out: &'a mut [f32],
    /// Scratch, `[heads that share keys, padded(max_context)]`.
    pub(super) scores: &'a mut [f32],
}

impl WithSimd for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let l = self.layout;
        let (d, kv) = (padded(l.heads * l.hd), padded(l.kv_heads * l.hd));
        for (i, token) in self.tokens.iter().enumerate() {
            let row = &mut self.qkv[i * (d + 2 * kv)..][..d + 2 * kv];
            let (queries, rest) = row.split_at_mut(d);
            let (keys, values) = rest.split_at_mut(kv);
            let half = l.hd / 2;
            let cos = &self.angles.0[token.position * half..][..half];
            let sin = &self.angles.1[token.position * half..][..half];
            let scale = (l.hd as f64).powf(-0.5) as f32;
            for head in queries[..l.heads * l.hd].chunks_exact_mut(l.hd) {
                rotate(head, cos, sin, scale);
            }
            for head in keys[..l.kv_heads * l.hd].chunks_exact_mut(l.hd) {
                rotate(head, cos, sin, 1.0);
            }
            let cache = &mut self.caches[token.slot];
            cache.store(self.layer, token.position, keys, values);
            let out = &mut self.out[i * d..][..d];
            attend_one(
                simd,
                l,
                (cache, self.layer),
                token.position + 1,
                queries,
                self.scores,
                out,
            );
        }
    }
}

/// Attention of one token's heads over `n` positions.
#[inline(always)]
fn attend_one<S: Simd>(
    simd: S,
    l: Layout,
    (cache, layer): (&Cache, usize),
    n: usize,
    queries: &[f32],
    scores: &mut [f32],
    out: &mut [f32],
) {
    let shared = l.heads / l.kv_heads;
    for kv in 0..l.kv_heads {
        let (keys, values) = cache.head(layer, kv);
        let mut at = kv * shared;
        while at < (kv + 1) * shared {
            let n_heads = match (kv + 1) * shared - at {
                4 => 2,
                left => left.min(3),
            };
            let dims = at * l.hd..(at + n_heads) * l.hd;
            let heads = Heads {
                keys,
                values,
                hd: l.hd,
                n,
                queries: &queries[dims.clone()],
                scores,
                out: &mut out[dims],
            };
            match n_heads {
                3 => heads.run::<S, 3>(simd),
                2 => heads.run::<S, 2>(simd),
                _ => heads.run::<S, 1>(simd),
            }
            at += n_heads;
        }
    }
}

/// Rotates the halves of `head` by the position's angles, times `scale`.
#[inline(always)]
fn rotate(head: &mut [f32], cos: &[f32], sin: &[f32], scale: f32) {
    let (first, second) = head.split_at_mut(cos.len());
    for (((a, b), c), s) in first.iter_mut().zip(second).zip(cos).zip(sin) {
        let (x, y) = (*a, *b);
        *a = (x * c - y * s) * scale;
        *b = (y * c + x * s) * scale;
    }
}

/// Query heads of one token that read the same keys and values.
struct Heads<'a> {
    /// `[room / LANES, hd, LANES]`.
    keys: &'a [f32],
    /// `[padded(hd) / LANES, room, LANES]`.
    values: &'a [f32],
    hd: usize,
    /// Positions to look at.
    n: usize,
    /// `[H, hd]`.
    queries: &'a [f32],
    /// `[H, padded(n)]` at least.
    scores: &'a mut [f32],
    /// `[H, hd]`.
    out: &'a mut [f32],
}

impl Heads<'_> {
    #[inline(always)]
    fn run<S: Simd, const H: usize>(mut self, simd: S) {
        let stride = padded(self.n);
        self.score::<S, H>(simd, stride);
        let totals = self.weigh::<S, H>(simd, stride);
        let n_panels = padded(self.hd) / LANES;
        let mut panel = 0;
        while panel < n_panels {
            // As many at a time as there are registers for; the order of sums is the same either way.
            panel += if Width::<S>::IS_NARROW {
                for h in 0..H {
                    self.mix::<S, 1, 1, 2>(simd, (h, panel), stride, &totals);
                }
                1
            } else if n_panels - panel > 1 {
                self.mix::<S, H, 2, 1>(simd, (0, panel), stride, &totals);
                2
            } else {
                self.mix::<S, H, 1, 1>(simd, (0, panel), stride, &totals);
                1
            };
        }
    }

    /// Scores by position, summed over the head's width in order.
    #[inline(always)]
    fn score<S: Simd, const H: usize>(&mut self, simd: S, stride: usize) {
        let n_blocks = stride / LANES;
        let mut block = 0;
        while block < n_blocks {
            block += match n_blocks - block {
                _ if Width::<S>::IS_NARROW => self.score_some::<S, H, 1, 2>(simd, block, stride),
                1 => self.score_some::<S, H, 1, 1>(simd, block, stride),
                2 | 3 => self.score_some::<S, H, 2, 1>(simd, block, stride),
                _ => self.score_some::<S, H, 4, 1>(simd, block, stride),
            };
        }
    }

    /// Scores of `B` blocks of positions for `H` heads, `W` vectors at a time; returns `B`.
    #[inline(always)]
    fn score_some<S: Simd, const H: usize, const B: usize, const W: usize>(
        &mut self,
        simd: S,
        block: usize,
        stride: usize,
    ) -> usize {
        let mut queries = [&self.queries[..0]; H];
        for (h, query) in queries.iter_mut().enumerate() {
            *query = &self.queries[h * self.hd..][..self.hd];
        }
        let mut blocks = [&self.keys.as_chunks::<LANES>().0[..0]; B];
        for (b, keys) in blocks.iter_mut().enumerate() {
            *keys = &self.keys.as_chunks().0[(block + b) * self.hd..][..self.hd];
        }
        for j in (0..LANES / S::F32_LANES).step_by(W) {
            let sums = cell::<S, H, B, W>(simd, queries, blocks, j);
            for (h, sums) in sums.iter().enumerate() {
                let scores = &mut self.scores[h * stride + block * LANES..][..B * LANES];
                store::<S, B, W>(scores, j, sums);
            }
        }
        B
    }

    /// Turns scores into weights (not yet divided) and returns their sums. Padding weighs nothing.
    #[inline(always)]
    fn weigh<S: Simd, const H: usize>(&mut self, simd: S, stride: usize) -> [f32; H] {
        let n = self.n;
        let mut totals = [0.0; H];
        // Loops, since vector features do not reach into closures.
        for (total, scores) in totals.iter_mut().zip(self.scores.chunks_exact_mut(stride)) {
            let scores = &mut scores[..padded(n)];
            scores[n..].fill(f32::NEG_INFINITY);
            let peak = peak(simd, scores);
            for score in scores.iter_mut() {
                *score = exp(*score - peak);
            }
            scores[n..].fill(0.0);
            *total = lane_sum::<S, false>(simd, scores);
        }
        totals
    }

    /// Sums values by weight for `H` heads and `P` panels of the width, from the given ones on, `W` vectors at a
    /// time: [`SUMS`] interleaved partial sums over positions, then their sum.
    #[inline(always)]
    fn mix<S: Simd, const H: usize, const P: usize, const W: usize>(
        &mut self,
        simd: S,
        (head, panel): (usize, usize),
        stride: usize,
        totals: &[f32],
    ) {
        let n = self.n.div_ceil(SUMS);
        let all = self.values.as_chunks::<LANES>().0.as_chunks::<SUMS>().0;
        let room = all.len() / (padded(self.hd) / LANES);
        let mut values = [&all[..0]; P];
        for (p, values) in values.iter_mut().enumerate() {
            *values = &all[(panel + p) * room..][..n];
        }
        let mut weights = [self.scores[..0].as_chunks::<SUMS>().0; H];
        for (h, weights) in weights.iter_mut().enumerate() {
            *weights = &self.scores[(head + h) * stride..].as_chunks().0[..n];
        }
        for j in (0..LANES / S::F32_LANES).step_by(W) {
            let sums = mix_cell::<S, H, P, W>(simd, weights, values, j);
            for (h, sums) in sums.iter().enumerate() {
                let share = simd.splat_f32s(1.0 / totals[head + h]);
                let out = &mut self.out[(head + h) * self.hd..][..self.hd];
                for (out, sums) in out.chunks_mut(LANES).skip(panel).zip(sums) {
                    let mut mixed = [0.0; LANES];
                    for (w, sum) in sums.iter().enumerate() {
                        S::as_mut_simd_f32s(&mut mixed).0[j + w] = simd.mul_f32s(*sum, share);
                    }
                    let from = j * S::F32_LANES;
                    let to = (from + W * S::F32_LANES).min(out.len());
                    if from < to {
                        out[from..to].copy_from_slice(&mixed[from..to]);
                    }
                }
            }
        }
    }
}

/// Sums of `P` panels of values weighted for `H` heads, `W` vectors from the `j`-th on; weights and values are
/// equally many.
#[inline(always)]
fn mix_cell<S: Simd, const H: usize, const P: usize, const W: usize>(
    simd: S,
    weights: [&[[f32; SUMS]]; H],
    values: [&[[[f32; LANES]; SUMS]]; P],
    j: usize,
) -> [[[S::f32s; W]; P]; H] {
    let zero = simd.splat_f32s(0.0);
    let mut sums = [[[[zero; SUMS]; W]; P]; H];
    for at in 0..values[0].len() {
        for i in 0..SUMS {
            for (sums, weights) in sums.iter_mut().zip(&weights) {
                let weight = simd.splat_f32s(weights[at][i]);
                for (sums, values) in sums.iter_mut().zip(&values) {
                    let values = S::as_simd_f32s(&values[at][i]).0;
                    for (w, sums) in sums.iter_mut().enumerate() {
                        sums[i] = simd.mul_add_f32s(weight, values[j + w], sums[i]);
                    }
                }
            }
        }
    }
    let mut joined = [[[zero; W]; P]; H];
    for (joined, sums) in joined.iter_mut().zip(&sums) {
        for (joined, sums) in joined.iter_mut().zip(sums) {
            for (joined, s) in joined.iter_mut().zip(sums) {
                let even = simd.add_f32s(s[0], s[1]);
                *joined = simd.add_f32s(even, simd.add_f32s(s[2], s[3]));
            }
        }
    }
    joined
}
