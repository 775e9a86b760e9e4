//! Causal grouped-query attention over packed rows, forward and backward. No `[T, T]` matrix is kept: the way
//! back makes the weights of a block again from its scores and the kept logarithms.

use std::ops::Range;

use super::kernels::{Dots, Logs, Softmax, SoftmaxBack};
use crate::matmul::{Mat, MatMut};

/// Queries that share one block of scores; keys that come after all of them are left out.
const BLOCK: usize = 64;

/// Sizes of attention. A packed row holds `[queries | keys | values]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads {
    pub(super) n_kv: usize,
    /// Query heads of one key-value head.
    pub(super) group: usize,
    pub(super) dim: usize,
}

/// Scratch of one key-value head and one sequence.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Queries, `[T * group, dim]`, and likewise what was mixed, and its gradient.
    queries: Vec<f32>,
    mixed: Vec<f32>,
    dmixed: Vec<f32>,
    dqueries: Vec<f32>,
    weights: Vec<f32>,
    dweights: Vec<f32>,
    dots: Vec<f32>,
}

/// The first `n` values, enlarged if they are fewer; what they hold is of no account.
pub(super) fn room(values: &mut Vec<f32>, n: usize) -> &mut [f32] {
    if values.len() < n {
        values.resize(n, 0.0);
    }
    &mut values[..n]
}

impl Heads {
    /// Values of a packed row.
    pub(super) fn width(self) -> usize {
        (self.group + 2) * self.n_kv * self.dim
    }

    /// Width of all query heads.
    pub(super) fn d_model(self) -> usize {
        self.group * self.n_kv * self.dim
    }

    fn scale(self) -> f32 {
        (self.dim as f64).powf(-0.5) as f32
    }

    fn key_at(self, kv: usize) -> usize {
        self.d_model() + kv * self.dim
    }

    fn value_at(self, kv: usize) -> usize {
        self.d_model() + (self.n_kv + kv) * self.dim
    }

    /// `n` keys or values of packed rows.
    fn column(self, qkv: &[f32], at: usize, n: usize) -> Mat<'_> {
        Mat::strided(&qkv[at..], n, self.dim, self.width())
    }

    /// The heads of one group out of rows that are `stride` apart, one row after the other.
    fn gather(self, from: &[f32], stride: usize, kv: usize, to: &mut [f32]) {
        let run = self.group * self.dim;
        for (row, to) in from.chunks(stride).zip(to.chunks_exact_mut(run)) {
            to.copy_from_slice(&row[kv * run..][..run]);
        }
    }

    /// The reverse of [`Heads::gather`].
    fn scatter(self, from: &[f32], to: &mut [f32], stride: usize, kv: usize) {
        let run = self.group * self.dim;
        for (from, row) in from.chunks_exact(run).zip(to.chunks_mut(stride)) {
            row[kv * run..][..run].copy_from_slice(from);
        }
    }

    /// The attention weights of a block, `[block * group, block.end]`, of its queries over the keys that they see.
    fn weights<'s>(
        self,
        (qkv, kv): (&[f32], usize),
        block: &Range<usize>,
        queries: &[f32],
        logs: Logs<'_>,
        room_for: &'s mut Vec<f32>,
    ) -> &'s mut [f32] {
        let keys = block.end;
        let weights = room(room_for, block.len() * self.group * keys);
        let of_keys = self.column(qkv, self.key_at(kv), keys);
        MatMut::new(weights, keys).set(Mat::new(queries, self.dim), of_keys.t());
        Softmax {
            scores: weights,
            width: keys,
            group: self.group,
            first: block.start,
            scale: self.scale(),
            logs,
        }
        .go();
        weights
    }

    /// Mixes the values of one sequence: `qkv` is `[T, width]`, `mixed` is `[T, d_model]`, `logs` is
    /// `[n_kv, T * group]`.
    pub(super) fn forth(self, qkv: &[f32], mixed: &mut [f32], logs: &mut [f32], s: &mut Scratch) {
        let (len, dim, group) = (qkv.len() / self.width(), self.dim, self.group);
        let n = len * group;
        for kv in 0..self.n_kv {
            self.gather(qkv, self.width(), kv, room(&mut s.queries, n * dim));
            room(&mut s.mixed, n * dim);
            for block in blocks(len) {
                let (rows, keys) = (block.start * group..block.end * group, block.end);
                let dims = rows.start * dim..rows.end * dim;
                let logs = Logs::Keep(&mut logs[kv * len * group..][rows]);
                let queries = &s.queries[dims.clone()];
                let weights = self.weights((qkv, kv), &block, queries, logs, &mut s.weights);
                let values = self.column(qkv, self.value_at(kv), keys);
                MatMut::new(&mut s.mixed[dims], dim).set(Mat::new(weights, keys), values);
            }
            self.scatter(&s.mixed[..n * dim], mixed, self.d_model(), kv);
        }
    }

    /// The way back: from `dmixed` to `dqkv`, which is overwritten.
    pub(super) fn back(
        self,
        (qkv, mixed, logs): (&[f32], &[f32], &[f32]),
        dmixed: &[f32],
        dqkv: &mut [f32],
        s: &mut Scratch,
    ) {
        let (len, dim, group, width) =
            (qkv.len() / self.width(), self.dim, self.group, self.width());
        let n = len * group;
        dqkv.fill(0.0);
        for kv in 0..self.n_kv {
            self.gather(qkv, width, kv, room(&mut s.queries, n * dim));
            self.gather(mixed, self.d_model(), kv, room(&mut s.mixed, n * dim));
            self.gather(dmixed, self.d_model(), kv, room(&mut s.dmixed, n * dim));
            room(&mut s.dqueries, n * dim);
            Dots {
                a: &s.mixed[..n * dim],
                b: &s.dmixed[..n * dim],
                out: room(&mut s.dots, n),
                width: dim,
            }
            .go();
            let (key_at, value_at) = (self.key_at(kv), self.value_at(kv));
            for block in blocks(len) {
                let (rows, keys) = (block.start * group..block.end * group, block.end);
                let (dims, n) = (rows.start * dim..rows.end * dim, rows.len());
                let dmixed = Mat::new(&s.dmixed[dims.clone()], dim);
                let kept = Logs::Read(&logs[kv * len * group..][rows.clone()]);
                let queries = &s.queries[dims.clone()];
                let weights = self.weights((qkv, kv), &block, queries, kept, &mut s.weights);
                let dvalues = MatMut::strided(&mut dqkv[value_at..], keys, dim, width);
                dvalues.add(Mat::new(weights, keys).t(), dmixed);
                let dweights = room(&mut s.dweights, n * keys);
                let values = self.column(qkv, value_at, keys);
                MatMut::new(dweights, keys).set(dmixed, values.t());
                SoftmaxBack {
                    weights,
                    dweights,
                    dots: &s.dots[rows],
                    width: keys,
                    scale: self.scale(),
                }
                .go();
                let dscores = Mat::new(dweights, keys);
                let of_keys = self.column(qkv, key_at, keys);
                MatMut::new(&mut s.dqueries[dims], dim).set(dscores, of_keys);
                let dkeys = MatMut::strided(&mut dqkv[key_at..], keys, dim, width);
                dkeys.add(dscores.t(), Mat::new(queries, dim));
            }
            self.scatter(&s.dqueries[..n * dim], dqkv, width, kv);
        }
    }
}

/// Blocks of queries of one sequence.
fn blocks(len: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len)
        .step_by(BLOCK)
        .map(move |start| start..(start + BLOCK).min(len))
}
