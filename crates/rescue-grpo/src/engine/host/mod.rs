//! Log-probs and gradients on the processor, written out: no graph, no padding, no `[T, T]` matrix kept.
//!
//! The rows of a micro-batch stand one after the other (`N` tokens in all); products run over all of them, and
//! attention goes sequence by sequence. Behind the last block's attention only the states that predict a masked
//! token go on (`M` of them). The equal of [`Transformer`](crate::model::Transformer) under burn's
//! differentiation, against which it is tested; that one computes on devices.
//!
//! Weights are read, and gradients written, in the packed layout of [`Packed`].
#![expect(
    clippy::many_single_char_names,
    reason = "sizes of matrices by their usual letters"
)]

mod attention;
mod kernels;

use std::ops::Range;

use attention::{Heads, Scratch, room};
use kernels::{LogProbs, LogProbsBack, Norm, NormBack, Rotate, SwiGlu, SwiGluBack};

use super::MaskedIds;
use crate::matmul::{Mat, MatMut};
use crate::model::ModelConfig;

/// Where the parts of a model stand in its packed weights: those of the flat layout, but the matrices of
/// queries, keys and values are one, `[d, d + 2 kv]`, and so are those of gate and up, `[d, 2 ff]`.
#[derive(Debug, Clone)]
pub(super) struct Packed {
    heads: Heads,
    d: usize,
    ff: usize,
    vocab: usize,
    eps: f32,
    embed: Range<usize>,
    blocks: Vec<Block>,
    norm: Range<usize>,
}

#[derive(Debug, Clone)]
struct Block {
    norm_attn: Range<usize>,
    qkv: Range<usize>,
    out: Range<usize>,
    norm_ffn: Range<usize>,
    gate_up: Range<usize>,
    down: Range<usize>,
}

impl Packed {
    pub(super) fn new(c: &ModelConfig) -> Self {
        let (d, ff) = (c.d_model, c.d_ff);
        let mut end = 0;
        let mut next = |n: usize| {
            let start = end;
            end += n;
            start..end
        };
        let embed = next(c.vocab * d);
        let block = |_| Block {
            norm_attn: next(d),
            qkv: next(d * (d + 2 * c.kv_dim())),
            out: next(d * d),
            norm_ffn: next(d),
            gate_up: next(2 * d * ff),
            down: next(ff * d),
        };
        let blocks = (0..c.n_layers).map(block).collect();
        Self {
            heads: Heads {
                n_kv: c.n_kv_heads,
                group: c.n_heads / c.n_kv_heads,
                dim: c.head_dim(),
            },
            d,
            ff,
            vocab: c.vocab,
            eps: c.norm_eps as f32,
            embed,
            blocks,
            norm: next(d),
        }
    }

    /// The joined matrices: where each begins, and the widths of its parts.
    fn joined(&self) -> impl Iterator<Item = (usize, [usize; 3])> + '_ {
        let kv = self.heads.n_kv * self.heads.dim;
        self.blocks.iter().flat_map(move |b| {
            [
                (b.qkv.start, [self.d, kv, kv]),
                (b.gate_up.start, [self.ff, self.ff, 0]),
            ]
        })
    }

    /// The packed form of flat weights.
    pub(super) fn pack(&self, flat: &[f32]) -> Vec<f32> {
        let mut packed = flat.to_vec();
        for (start, parts) in self.joined() {
            let whole: usize = parts.iter().sum();
            let (mut from, mut at) = (start, start);
            for part in parts {
                for row in 0..self.d {
                    packed[at + row * whole..][..part].copy_from_slice(&flat[from..][..part]);
                    from += part;
                }
                at += part;
            }
        }
        packed
    }

    /// The flat form of packed gradients.
    pub(super) fn unpack(&self, packed: &[f32]) -> Vec<f32> {
        let mut flat = packed.to_vec();
        for (start, parts) in self.joined() {
            let whole: usize = parts.iter().sum();
            let (mut to, mut at) = (start, start);
            for part in parts {
                for row in 0..self.d {
                    flat[to..][..part].copy_from_slice(&packed[at + row * whole..][..part]);
                    to += part;
                }
                at += part;
            }
        }
        flat
    }
}

/// The rows of a micro-batch, one after the other.
#[derive(Debug)]
struct Tokens {
    ids: Vec<u32>,
    /// Where each row stands.
    rows: Vec<Range<usize>>,
    /// Places of the states that predict a masked token, ascending, and what they predict.
    from: Vec<usize>,
    targets: Vec<u32>,
    /// Masked tokens of each row.
    counts: Vec<usize>,
}

impl Tokens {
    fn new<'a>(batch: impl Iterator<Item = MaskedIds<'a>>) -> Self {
        let (mut ids, mut rows, mut from) = (Vec::new(), Vec::new(), Vec::new());
        let (mut targets, mut counts) = (Vec::new(), Vec::new());
        for row in batch {
            let (start, before) = (ids.len(), from.len());
            ids.extend_from_slice(row.ids);
            rows.push(start..ids.len());
            from.extend(row.positions().map(|i| start + i - 1));
            targets.extend(row.positions().map(|i| row.ids[i]));
            counts.push(from.len() - before);
        }
        Self {
            ids,
            rows,
            from,
            targets,
            counts,
        }
    }
}

/// What the way back needs of one block. `N` rows, `M` behind the last block's attention.
#[derive(Debug, Default)]
struct Kept {
    /// Input, its norm's factors, and the normed input: `[N, d]`, `[N]`, `[N, d]`.
    x: Vec<f32>,
    factors: Vec<f32>,
    normed: Vec<f32>,
    /// Rotated queries and keys, and values: `[N, width]`.
    qkv: Vec<f32>,
    /// Logarithms of the softmax, sequence by sequence.
    logs: Vec<f32>,
    /// What was mixed, `[N, d]`, and its selected rows, `[M, d]`, which are read in the last block alone.
    mixed: Vec<f32>,
    selected: Vec<f32>,
    /// The same again for the feed-forward part: `[M, d]`, `[M]`, `[M, d]`, `[M, 2 ff]`.
    x_ffn: Vec<f32>,
    factors_ffn: Vec<f32>,
    normed_ffn: Vec<f32>,
    gate_up: Vec<f32>,
}

/// Memory that passes share, so that a pass allocates nothing once it is warm.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    kept: Vec<Kept>,
    cos: Vec<f32>,
    sin: Vec<f32>,
    /// After the last block: `[M, d]`, `[M]`, `[M, d]`, `[M, V]`.
    x: Vec<f32>,
    factors: Vec<f32>,
    normed: Vec<f32>,
    logits: Vec<f32>,
    act: Vec<f32>,
    /// Gradients.
    dx: Vec<f32>,
    dx_all: Vec<f32>,
    dnormed: Vec<f32>,
    dmixed: Vec<f32>,
    dmixed_all: Vec<f32>,
    dqkv: Vec<f32>,
    scratch: Scratch,
}

/// What a model's sizes say once and for all.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(super) packed: Packed,
    /// Cosine and sine of every position, `[max_context, head_dim / 2]`.
    tables: (Vec<f32>, Vec<f32>),
}

impl Plan {
    pub(super) fn new(config: &ModelConfig) -> Self {
        Self {
            packed: Packed::new(config),
            tables: config.rope_tables(config.max_context),
        }
    }
}

/// A model on the host.
#[derive(Debug)]
pub(super) struct Host<'a> {
    plan: &'a Plan,
    weights: Vec<f32>,
}

impl<'p> Host<'p> {
    /// The model with these flat weights.
    pub(super) fn new(plan: &'p Plan, flat: &[f32]) -> Self {
        let weights = plan.packed.pack(flat);
        Self { plan, weights }
    }

    /// Log-probs of the masked ids of every row.
    pub(super) fn logprobs<'a>(
        &self,
        batch: impl Iterator<Item = MaskedIds<'a>>,
        ws: &mut Workspace,
    ) -> Vec<Vec<f32>> {
        let tokens = Tokens::new(batch);
        self.logits(&tokens, ws);
        let logprobs = self.chances(&tokens, ws);
        super::split(&logprobs, &tokens.counts)
    }

    /// Whether each masked id is the greedy choice (the lowest id wins a tie).
    pub(super) fn greedy_hits<'a>(
        &self,
        batch: impl Iterator<Item = MaskedIds<'a>>,
        ws: &mut Workspace,
    ) -> Vec<Vec<bool>> {
        let tokens = Tokens::new(batch);
        self.logits(&tokens, ws);
        let n = tokens.targets.len() * self.packed().vocab;
        let choices = super::greedy(&ws.logits[..n], self.packed().vocab);
        let hits = choices.iter().zip(&tokens.targets).map(|(a, b)| a == b);
        super::split(&hits.collect::<Vec<_>>(), &tokens.counts)
    }

    /// Adds to `gradient`, packed, that of the weighted sum of log-probs, and returns the log-probs; the
    /// weights are what `coefficients` makes of them.
    pub(super) fn gradient<'a>(
        &self,
        batch: impl Iterator<Item = MaskedIds<'a>>,
        coefficients: impl FnOnce(&[Vec<f32>]) -> Vec<f32>,
        gradient: &mut [f32],
        ws: &mut Workspace,
    ) -> Vec<Vec<f32>> {
        let tokens = Tokens::new(batch);
        self.logits(&tokens, ws);
        let logprobs = super::split(&self.chances(&tokens, ws), &tokens.counts);
        let coefficients = coefficients(&logprobs);
        if coefficients.iter().any(|c| *c != 0.0) {
            self.back(&tokens, &coefficients, gradient, ws);
        }
        logprobs
    }

    fn packed(&self) -> &'p Packed {
        &self.plan.packed
    }

    fn at(&self, range: &Range<usize>) -> &[f32] {
        &self.weights[range.clone()]
    }

    /// `norm(x)` by the gain at `gain`, into `normed`; the factors of its rows are kept.
    fn norm<'n>(
        &self,
        gain: &Range<usize>,
        x: &[f32],
        normed: &'n mut Vec<f32>,
        factors: &mut Vec<f32>,
    ) -> &'n mut [f32] {
        let y = room(normed, x.len());
        Norm {
            x,
            gain: self.at(gain),
            eps: self.packed().eps,
            y,
            factors: room(factors, x.len() / self.packed().d),
        }
        .go();
        y
    }

    /// The way back through [`Host::norm`]: adds to `dx` and to the gain's gradient.
    fn norm_back(
        &self,
        gain: &Range<usize>,
        (x, factors): (&[f32], &[f32]),
        dy: &[f32],
        dx: &mut [f32],
        gradient: &mut [f32],
    ) {
        NormBack {
            x,
            gain: self.at(gain),
            factors: &factors[..x.len() / self.packed().d],
            dy,
            dx,
            dgain: &mut gradient[gain.clone()],
        }
        .go();
    }

    /// Turns the logits into chances and returns the targets' log-probs.
    fn chances(&self, tokens: &Tokens, ws: &mut Workspace) -> Vec<f32> {
        let mut out = Vec::with_capacity(tokens.targets.len());
        LogProbs {
            logits: &mut ws.logits[..tokens.targets.len() * self.packed().vocab],
            targets: &tokens.targets,
            width: self.packed().vocab,
            out: &mut out,
        }
        .go();
        out
    }

    /// The forward pass, up to the logits of the selected states.
    fn logits(&self, tokens: &Tokens, ws: &mut Workspace) {
        let p = self.packed();
        let d = p.d;
        ws.kept.resize_with(p.blocks.len(), Kept::default);
        self.lay_tables(tokens, ws);
        let x = room(&mut ws.x, tokens.ids.len() * d);
        let embed = self.at(&p.embed);
        for (x, &id) in x.chunks_exact_mut(d).zip(&tokens.ids) {
            x.copy_from_slice(&embed[id as usize * d..][..d]);
        }
        let last = p.blocks.len() - 1;
        for (l, block) in p.blocks.iter().enumerate() {
            let n = self.attend(block, tokens, l == last, l, ws);
            self.feed_forward(block, n, l, ws);
        }
        let m = tokens.from.len();
        let normed = self.norm(&p.norm, &ws.x[..m * d], &mut ws.normed, &mut ws.factors);
        let logits = room(&mut ws.logits, m * p.vocab);
        MatMut::new(logits, p.vocab).set(Mat::new(normed, d), Mat::new(embed, d).t());
    }

    /// Angles of every token.
    fn lay_tables(&self, tokens: &Tokens, ws: &mut Workspace) {
        let half = self.packed().heads.dim / 2;
        ws.cos.clear();
        ws.sin.clear();
        for row in &tokens.rows {
            ws.cos
                .extend_from_slice(&self.plan.tables.0[..row.len() * half]);
            ws.sin
                .extend_from_slice(&self.plan.tables.1[..row.len() * half]);
        }
    }

    fn rotate(&self, qkv: &mut [f32], (cos, sin): (&[f32], &[f32]), forth: f32) {
        let heads = self.packed().heads;
        Rotate {
            x: qkv,
            stride: heads.width(),
            width: heads.d_model() + heads.n_kv * heads.dim,
            cos,
            sin,
            half: heads.dim / 2,
            forth,
        }
        .go();
    }

    /// `x + attention(norm(x))`, of the selected states only in the last block; returns how many there are.
    fn attend(
        &self,
        block: &Block,
        tokens: &Tokens,
        is_last: bool,
        l: usize,
        ws: &mut Workspace,
    ) -> usize {
        let p = self.packed();
        let (n, d, width) = (tokens.ids.len(), p.d, p.heads.width());
        let kept = &mut ws.kept[l];
        std::mem::swap(&mut kept.x, &mut ws.x);
        let x = &kept.x[..n * d];
        let normed = self.norm(&block.norm_attn, x, &mut kept.normed, &mut kept.factors);
        let qkv = room(&mut kept.qkv, n * width);
        MatMut::new(qkv, width).set(Mat::new(normed, d), Mat::new(self.at(&block.qkv), width));
        self.rotate(qkv, (&ws.cos, &ws.sin), 1.0);
        let mixed = room(&mut kept.mixed, n * d);
        let heads = p.heads.n_kv * p.heads.group;
        let logs = room(&mut kept.logs, n * heads);
        for row in &tokens.rows {
            let of = |width: usize| row.start * width..row.end * width;
            let (mixed, logs) = (&mut mixed[of(d)], &mut logs[of(heads)]);
            p.heads.forth(&qkv[of(width)], mixed, logs, &mut ws.scratch);
        }
        let out = Mat::new(self.at(&block.out), d);
        if !is_last {
            let sum = room(&mut ws.x, n * d);
            sum.copy_from_slice(x);
            MatMut::new(sum, d).add(Mat::new(mixed, d), out);
            return n;
        }
        let m = tokens.from.len();
        let selected = room(&mut kept.selected, m * d);
        select(mixed, &tokens.from, selected, d);
        let sum = room(&mut ws.x, m * d);
        select(x, &tokens.from, sum, d);
        MatMut::new(sum, d).add(Mat::new(selected, d), out);
        m
    }

    /// `x + down(silu(gate(h)) * up(h))` with `h = norm(x)`.
    fn feed_forward(&self, block: &Block, n: usize, l: usize, ws: &mut Workspace) {
        let (d, ff) = (self.packed().d, self.packed().ff);
        let kept = &mut ws.kept[l];
        std::mem::swap(&mut kept.x_ffn, &mut ws.x);
        let x = &kept.x_ffn[..n * d];
        let (normed, factors) = (&mut kept.normed_ffn, &mut kept.factors_ffn);
        let normed = self.norm(&block.norm_ffn, x, normed, factors);
        let gate_up = room(&mut kept.gate_up, n * 2 * ff);
        let weights = Mat::new(self.at(&block.gate_up), 2 * ff);
        MatMut::new(gate_up, 2 * ff).set(Mat::new(normed, d), weights);
        let act = room(&mut ws.act, n * ff);
        SwiGlu {
            gate_up,
            act,
            width: ff,
        }
        .go();
        let sum = room(&mut ws.x, n * d);
        sum.copy_from_slice(x);
        MatMut::new(sum, d).add(Mat::new(act, ff), Mat::new(self.at(&block.down), d));
    }

    /// The backward pass, from the chances in `ws.logits`.
    fn back(
        &self,
        tokens: &Tokens,
        coefficients: &[f32],
        gradient: &mut [f32],
        ws: &mut Workspace,
    ) {
        let p = self.packed();
        let (n, m, d) = (tokens.ids.len(), tokens.from.len(), p.d);
        let dlogits = &mut ws.logits[..m * p.vocab];
        LogProbsBack {
            chances: dlogits,
            targets: &tokens.targets,
            coefficients,
            width: p.vocab,
        }
        .go();
        let dlogits = Mat::new(dlogits, p.vocab);
        let dnormed = room(&mut ws.dnormed, m * d);
        MatMut::new(dnormed, d).set(dlogits, Mat::new(self.at(&p.embed), d));
        let dembed = &mut gradient[p.embed.clone()];
        MatMut::new(dembed, d).add(dlogits.t(), Mat::new(&ws.normed[..m * d], d));
        let dx = room(&mut ws.dx, m * d);
        dx.fill(0.0);
        self.norm_back(
            &p.norm,
            (&ws.x[..m * d], &ws.factors),
            dnormed,
            dx,
            gradient,
        );
        let last = p.blocks.len() - 1;
        for (l, block) in p.blocks.iter().enumerate().rev() {
            self.feed_forward_back(block, if l == last { m } else { n }, l, gradient, ws);
            self.attend_back(block, tokens, l == last, l, gradient, ws);
        }
        let dembed = &mut gradient[p.embed.clone()];
        for (dx, &id) in ws.dx.chunks_exact(d).zip(&tokens.ids) {
            let slot = &mut dembed[id as usize * d..][..d];
            slot.iter_mut().zip(dx).for_each(|(slot, dx)| *slot += dx);
        }
    }

    fn feed_forward_back(
        &self,
        block: &Block,
        n: usize,
        l: usize,
        gradient: &mut [f32],
        ws: &mut Workspace,
    ) {
        let (d, ff) = (self.packed().d, self.packed().ff);
        let kept = &mut ws.kept[l];
        let dx = &mut ws.dx[..n * d];
        let gate_up = &mut kept.gate_up[..n * 2 * ff];
        let act = room(&mut ws.act, n * ff);
        SwiGlu {
            gate_up,
            act,
            width: ff,
        }
        .go();
        let ddown = MatMut::new(&mut gradient[block.down.clone()], d);
        ddown.add(Mat::new(act, ff).t(), Mat::new(dx, d));
        MatMut::new(act, ff).set(Mat::new(dx, d), Mat::new(self.at(&block.down), d).t());
        SwiGluBack {
            gate_up,
            dact: act,
            width: ff,
        }
        .go();
        let dgate_up = Mat::new(gate_up, 2 * ff);
        let normed = Mat::new(&kept.normed_ffn[..n * d], d);
        MatMut::new(&mut gradient[block.gate_up.clone()], 2 * ff).add(normed.t(), dgate_up);
        let dnormed = room(&mut ws.dnormed, n * d);
        let weights = Mat::new(self.at(&block.gate_up), 2 * ff);
        MatMut::new(dnormed, d).set(dgate_up, weights.t());
        let kept = (&kept.x_ffn[..n * d], &kept.factors_ffn[..]);
        self.norm_back(&block.norm_ffn, kept, dnormed, dx, gradient);
    }

    fn attend_back(
        &self,
        block: &Block,
        tokens: &Tokens,
        is_last: bool,
        l: usize,
        gradient: &mut [f32],
        ws: &mut Workspace,
    ) {
        let p = self.packed();
        let (n, m, d, width) = (tokens.ids.len(), tokens.from.len(), p.d, p.heads.width());
        let kept = &mut ws.kept[l];
        let rows = if is_last { m } else { n };
        let read = if is_last { &kept.selected } else { &kept.mixed };
        let dx = Mat::new(&ws.dx[..rows * d], d);
        let dout = MatMut::new(&mut gradient[block.out.clone()], d);
        dout.add(Mat::new(&read[..rows * d], d).t(), dx);
        let dmixed = room(&mut ws.dmixed, rows * d);
        MatMut::new(dmixed, d).set(dx, Mat::new(self.at(&block.out), d).t());
        if is_last {
            spread(dmixed, &tokens.from, room(&mut ws.dmixed_all, n * d), d);
            std::mem::swap(&mut ws.dmixed, &mut ws.dmixed_all);
            spread(
                &ws.dx[..m * d],
                &tokens.from,
                room(&mut ws.dx_all, n * d),
                d,
            );
            std::mem::swap(&mut ws.dx, &mut ws.dx_all);
        }
        let (dmixed, dqkv) = (&ws.dmixed[..n * d], room(&mut ws.dqkv, n * width));
        let heads = p.heads.n_kv * p.heads.group;
        for row in &tokens.rows {
            let of = |width: usize| row.start * width..row.end * width;
            let kept = (
                &kept.qkv[of(width)],
                &kept.mixed[of(d)],
                &kept.logs[of(heads)],
            );
            p.heads
                .back(kept, &dmixed[of(d)], &mut dqkv[of(width)], &mut ws.scratch);
        }
        self.rotate(dqkv, (&ws.cos, &ws.sin), -1.0);
        let dqkv = Mat::new(dqkv, width);
        let normed = Mat::new(&kept.normed[..n * d], d);
        MatMut::new(&mut gradient[block.qkv.clone()], width).add(normed.t(), dqkv);
        let dnormed = room(&mut ws.dnormed, n * d);
        MatMut::new(dnormed, d).set(dqkv, Mat::new(self.at(&block.qkv), width).t());
        let (kept, dx) = ((&kept.x[..n * d], &kept.factors[..]), &mut ws.dx[..n * d]);
        self.norm_back(&block.norm_attn, kept, dnormed, dx, gradient);
    }
}

/// Copies the rows at `at`.
fn select(from: &[f32], at: &[usize], to: &mut [f32], width: usize) {
    for (to, &at) in to.chunks_exact_mut(width).zip(at) {
        to.copy_from_slice(&from[at * width..][..width]);
    }
}

/// The reverse of [`select`]: zero in all other rows.
fn spread(from: &[f32], at: &[usize], to: &mut [f32], width: usize) {
    to.fill(0.0);
    for (from, &at) in from.chunks_exact(width).zip(at) {
        to[at * width..][..width].copy_from_slice(from);
    }
}
