//! The decoder's step: any number of rows, each with any number of new tokens, against their own
//! key-value caches. Buffers are allocated once.

use pulp::Arch;

use super::aligned::Aligned;
use super::attend::Attend;
use super::cache::{Cache, Layout};
use super::kernels::{ROWS, RmsNorm, SwiGlu, padded};
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

/// Activations of one step.
#[derive(Debug)]
pub(super) struct Decoder {
    arch: Arch,
    layout: Layout,
    x: Aligned,
    normed: Aligned,
    qkv: Aligned,
    mixed: Aligned,
    inner: Aligned,
    scores: Aligned,
    logits: Aligned,
    logits_width: usize,
}

impl Decoder {
    pub(super) fn new(weights: &SamplerWeights) -> Self {
        let c = weights.config();
        let rows = STEP_TOKENS.next_multiple_of(ROWS);
        let d = padded(c.d_model);
        let buffer = |width: usize| Aligned::zeros(rows * width);
        Self {
            arch: Arch::new(),
            layout: Layout {
                heads: c.n_heads,
                kv_heads: c.n_kv_heads,
                hd: c.head_dim(),
                layers: c.n_layers,
            },
            x: buffer(d),
            normed: buffer(d),
            qkv: buffer(d + 2 * padded(c.kv_dim())),
            mixed: buffer(d),
            inner: buffer(2 * padded(c.d_ff)),
            scores: Aligned::zeros(c.n_heads / c.n_kv_heads * padded(c.max_context)),
            logits: buffer(padded(c.vocab)),
            logits_width: padded(c.vocab),
        }
    }

    /// A cache for one row.
    pub(super) fn new_cache(&self) -> Cache {
        Cache::new(self.layout)
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
        for token in tokens {
            caches[token.slot].reserve(token.position + 1, token.position);
        }
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
        self.arch.dispatch(Attend {
            layout: self.layout,
            layer,
            tokens,
            caches,
            qkv: &mut self.qkv[..n * width],
            angles: (&weights.cos, &weights.sin),
            out: &mut self.mixed[..n * d],
            scores: &mut self.scores,
        });
        self.mixed[tokens.len() * d..n * d].fill(0.0);
        product(
            self.arch,
            &self.mixed[..n * d],
            &block.out,
            &mut self.x[..n * d],
            true,
        );
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
