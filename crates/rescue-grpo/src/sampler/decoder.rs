//! The decoder's step: any number of rows, each with any number of new tokens, against their own
//! key-value caches. Buffers are allocated once.

use pulp::Arch;

use super::kernels::{Attend, POSITIONS, ROWS, RmsNorm, SwiGlu, padded};
use super::product::{Panels, Product};
use super::weights::{BlockWeights, SamplerWeights};

/// Tokens that one step can read.
pub(super) const STEP_TOKENS: usize = 256;

/// One token to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    /// Whose cache it goes to.
    pub(super) slot: usize,
    /// Its position in the context.
    pub(super) position: usize,
    pub(super) id: u32,
}

/// Keys and values of one row: per layer and key-value head, keys `[cap / POSITIONS, hd,
/// POSITIONS]`, then values `[cap, padded(hd)]`.
pub(super) type Cache = Vec<f32>;

/// Where things lie in a cache.
#[derive(Debug, Clone, Copy)]
struct Layout {
    heads: usize,
    kv_heads: usize,
    hd: usize,
    layers: usize,
    /// Positions, padded.
    cap: usize,
}

impl Layout {
    fn head_len(self) -> usize {
        self.cap * (self.hd + padded(self.hd))
    }

    fn head_at(self, layer: usize, head: usize) -> usize {
        (layer * self.kv_heads + head) * self.head_len()
    }

    fn len(self) -> usize {
        self.layers * self.kv_heads * self.head_len()
    }
}

/// Activations of one step.
#[derive(Debug)]
pub(super) struct Decoder {
    arch: Arch,
    layout: Layout,
    x: Vec<f32>,
    normed: Vec<f32>,
    qkv: Vec<f32>,
    mixed: Vec<f32>,
    inner: Vec<f32>,
    scores: Vec<f32>,
    logits: Vec<f32>,
    logits_width: usize,
}

impl Decoder {
    pub(super) fn new(weights: &SamplerWeights) -> Self {
        let c = weights.config();
        let rows = STEP_TOKENS.next_multiple_of(ROWS);
        let d = padded(c.d_model);
        let buffer = |width: usize| vec![0.0; rows * width];
        Self {
            arch: Arch::new(),
            layout: Layout {
                heads: c.n_heads,
                kv_heads: c.n_kv_heads,
                hd: c.head_dim(),
                layers: c.n_layers,
                cap: c.max_context.next_multiple_of(POSITIONS),
            },
            x: buffer(d),
            normed: buffer(d),
            qkv: buffer(d + 2 * padded(c.kv_dim())),
            mixed: buffer(d),
            inner: buffer(2 * padded(c.d_ff)),
            scores: vec![0.0; c.max_context.next_multiple_of(POSITIONS)],
            logits: buffer(padded(c.vocab)),
            logits_width: padded(c.vocab),
        }
    }

    /// A cache for one row.
    pub(super) fn new_cache(&self) -> Cache {
        vec![0.0; self.layout.len()]
    }

    /// Copies the first `n` positions.
    pub(super) fn copy_cache(&self, from: &Cache, to: &mut Cache, n: usize) {
        let l = self.layout;
        let heads = from.chunks_exact(l.head_len());
        for (from, to) in heads.zip(to.chunks_exact_mut(l.head_len())) {
            let (from_keys, from_values) = from.split_at(l.cap * l.hd);
            let (to_keys, to_values) = to.split_at_mut(l.cap * l.hd);
            let n_keys = n.next_multiple_of(POSITIONS) * l.hd;
            to_keys[..n_keys].copy_from_slice(&from_keys[..n_keys]);
            let n_values = n * padded(l.hd);
            to_values[..n_values].copy_from_slice(&from_values[..n_values]);
        }
    }

    /// Reads at most [`STEP_TOKENS`] tokens into the caches and computes logits after the tokens at
    /// `wanted` (indices into `tokens`). A row's tokens must come in order of position.
    pub(super) fn step(
        &mut self,
        weights: &SamplerWeights,
        caches: &mut [Cache],
        tokens: &[Token],
        wanted: &[usize],
    ) {
        let n = tokens.len().next_multiple_of(ROWS);
        let d = padded(weights.config.d_model);
        for (x, token) in self.x.chunks_exact_mut(d).zip(tokens) {
            x.copy_from_slice(&weights.embed[token.id as usize * d..][..d]);
        }
        self.x[tokens.len() * d..n * d].fill(0.0);
        for (layer, block) in weights.blocks.iter().enumerate() {
            self.attend(weights, block, layer, caches, tokens);
            self.feed_forward(weights, block, n);
        }
        self.project(weights, wanted);
    }

    /// Logits after the `i`-th wanted token; padding is negative infinity.
    pub(super) fn logits(&self, i: usize) -> &[f32] {
        &self.logits[i * self.logits_width..][..self.logits_width]
    }

    /// The vector unit in use.
    pub(super) fn arch(&self) -> Arch {
        self.arch
    }

    fn attend(
        &mut self,
        weights: &SamplerWeights,
        block: &BlockWeights,
        layer: usize,
        caches: &mut [Cache],
        tokens: &[Token],
    ) {
        let n = tokens.len().next_multiple_of(ROWS);
        let (d, width) = (padded(weights.config.d_model), block.qkv.width());
        self.norm(weights, &block.norm_attn, n);
        product(
            self.arch,
            &self.normed[..n * d],
            &block.qkv,
            &mut self.qkv[..n * width],
            false,
        );
        for (i, token) in tokens.iter().enumerate() {
            self.remember(weights, layer, i, *token, &mut caches[token.slot]);
        }
        for (i, token) in tokens.iter().enumerate() {
            self.attend_one(layer, i, *token, &caches[token.slot], width, d);
        }
        self.mixed[tokens.len() * d..n * d].fill(0.0);
        product(
            self.arch,
            &self.mixed[..n * d],
            &block.out,
            &mut self.x[..n * d],
            true,
        );
    }

    /// Rotates query and key of token `i`, and stores key and value.
    fn remember(
        &mut self,
        weights: &SamplerWeights,
        layer: usize,
        i: usize,
        token: Token,
        cache: &mut Cache,
    ) {
        let (l, c) = (self.layout, &weights.config);
        let width = padded(c.d_model) + 2 * padded(c.kv_dim());
        let (queries, rest) = self.qkv[i * width..][..width].split_at_mut(padded(c.d_model));
        let (keys, values) = rest.split_at_mut(padded(c.kv_dim()));
        let half = l.hd / 2;
        let cos = &weights.cos[token.position * half..][..half];
        let sin = &weights.sin[token.position * half..][..half];
        let scale = (l.hd as f64).powf(-0.5) as f32;
        for head in queries[..c.d_model].chunks_exact_mut(l.hd) {
            rotate(head, cos, sin, scale);
        }
        for (h, key) in keys[..c.kv_dim()].chunks_exact_mut(l.hd).enumerate() {
            rotate(key, cos, sin, 1.0);
            let store = &mut cache[l.head_at(layer, h)..][..l.head_len()];
            let (store_keys, store_values) = store.split_at_mut(l.cap * l.hd);
            let (block, at) = (token.position / POSITIONS, token.position % POSITIONS);
            let block = &mut store_keys[block * l.hd * POSITIONS..][..l.hd * POSITIONS];
            for (keys, value) in block.chunks_exact_mut(POSITIONS).zip(key) {
                keys[at] = *value;
            }
            let at = token.position * padded(l.hd);
            store_values[at..at + l.hd].copy_from_slice(&values[h * l.hd..][..l.hd]);
        }
    }

    fn attend_one(
        &mut self,
        layer: usize,
        i: usize,
        token: Token,
        cache: &Cache,
        width: usize,
        d: usize,
    ) {
        let l = self.layout;
        let n = token.position + 1;
        let group = l.heads / l.kv_heads;
        for h in 0..l.heads {
            let store = &cache[l.head_at(layer, h / group)..][..l.head_len()];
            let (keys, values) = store.split_at(l.cap * l.hd);
            self.arch.dispatch(Attend {
                query: &self.qkv[i * width + h * l.hd..][..l.hd],
                keys,
                values,
                scores: &mut self.scores[..n.next_multiple_of(POSITIONS)],
                out: &mut self.mixed[i * d + h * l.hd..][..l.hd],
                n,
            });
        }
    }

    fn feed_forward(&mut self, weights: &SamplerWeights, block: &BlockWeights, n: usize) {
        let (d, ff) = (padded(weights.config.d_model), padded(weights.config.d_ff));
        self.norm(weights, &block.norm_ffn, n);
        let inner = &mut self.inner[..n * 2 * ff];
        product(
            self.arch,
            &self.normed[..n * d],
            &block.gate_up,
            inner,
            false,
        );
        self.arch.dispatch(SwiGlu {
            rows: inner,
            width: ff,
        });
        self.arch.dispatch(Product {
            x: inner,
            stride_x: 2 * ff,
            w: &block.down,
            y: &mut self.x[..n * d],
            adds: true,
        });
    }

    fn norm(&mut self, weights: &SamplerWeights, gain: &[f32], n: usize) {
        let len = n * gain.len();
        self.arch.dispatch(RmsNorm {
            x: &self.x[..len],
            y: &mut self.normed[..len],
            gain,
            width: weights.config.d_model,
            eps: weights.config.norm_eps as f32,
        });
    }

    fn project(&mut self, weights: &SamplerWeights, wanted: &[usize]) {
        if wanted.is_empty() {
            return;
        }
        let d = padded(weights.config.d_model);
        let n = wanted.len().next_multiple_of(ROWS);
        // Wanted indices ascend, so the rows can be gathered in place.
        for (to, &from) in wanted.iter().enumerate() {
            self.x.copy_within(from * d..(from + 1) * d, to * d);
        }
        self.norm(weights, &weights.norm, n);
        let (vocab, width) = (weights.config.vocab, self.logits_width);
        let logits = &mut self.logits[..n * width];
        product(
            self.arch,
            &self.normed[..n * d],
            &weights.head,
            logits,
            false,
        );
        for row in logits.chunks_exact_mut(width) {
            row[vocab..].fill(f32::NEG_INFINITY);
        }
    }
}

/// Rotates the halves of `head` by the position's angles, times `scale`.
fn rotate(head: &mut [f32], cos: &[f32], sin: &[f32], scale: f32) {
    let (first, second) = head.split_at_mut(cos.len());
    for (((a, b), c), s) in first.iter_mut().zip(second).zip(cos).zip(sin) {
        let (x, y) = (*a, *b);
        *a = (x * c - y * s) * scale;
        *b = (y * c + x * s) * scale;
    }
}

fn product(arch: Arch, x: &[f32], w: &Panels, y: &mut [f32], adds: bool) {
    let rows = y.len() / w.width();
    let stride_x = x.len() / rows.max(1);
    arch.dispatch(Product {
        x,
        stride_x,
        w,
        y,
        adds,
    });
}
