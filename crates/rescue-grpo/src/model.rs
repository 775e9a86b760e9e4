//! A small decoder-only transformer on burn: `RMSNorm`, rotary positions, grouped-query attention, `SwiGLU`,
//! tied embeddings. Trained weights live outside of it as one flat `Vec<f32>` in the order of
//! [`ModelConfig::layout`]; the module is built from them wherever a graph is needed.
//!
//! Left out on purpose: a key-value cache (the sampler has its own decoder) and padding masks (rows are
//! padded on the right, which causal attention never looks at).

mod config;

use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};

pub use config::{DeviceKind, ModelConfig, ModelError, ParamSpec};

/// Added to scores that look ahead; far below any score, yet finite, so that no NaN can arise.
const MASKED: f32 = -1.0e9;

/// One block.
#[derive(Module, Debug)]
struct Block {
    norm_attn: Param<Tensor<1>>,
    wq: Param<Tensor<2>>,
    wk: Param<Tensor<2>>,
    wv: Param<Tensor<2>>,
    wo: Param<Tensor<2>>,
    norm_ffn: Param<Tensor<1>>,
    w_gate: Param<Tensor<2>>,
    w_up: Param<Tensor<2>>,
    w_down: Param<Tensor<2>>,
}

/// The decoder.
#[derive(Module, Debug)]
pub struct Transformer {
    embed: Param<Tensor<2>>,
    blocks: Vec<Block>,
    norm: Param<Tensor<1>>,
    #[module(skip)]
    config: ModelConfig,
}

/// Takes parameters out of flat weights one after the other.
struct Reader<'a> {
    flat: &'a [f32],
    specs: std::vec::IntoIter<ParamSpec>,
    device: &'a Device,
}

impl Reader<'_> {
    fn take<const D: usize>(&mut self) -> Param<Tensor<D>> {
        let spec = self.specs.next().expect("the layout lists every parameter");
        let (head, tail) = self.flat.split_at(spec.len());
        self.flat = tail;
        Param::from_data(TensorData::new(head.to_vec(), spec.shape), self.device)
    }

    fn block(&mut self) -> Block {
        Block {
            norm_attn: self.take(),
            wq: self.take(),
            wk: self.take(),
            wv: self.take(),
            wo: self.take(),
            norm_ffn: self.take(),
            w_gate: self.take(),
            w_up: self.take(),
            w_down: self.take(),
        }
    }
}

/// What every block of one forward pass shares.
struct Pass {
    /// Rotary factors, `[1, T, d_model]`, of queries (scaled by `1/sqrt(head_dim)`) and `[1, T, kv]` of keys.
    cos_q: Tensor<3>,
    sin_q: Tensor<3>,
    cos_k: Tensor<3>,
    sin_k: Tensor<3>,
    /// Right-multiplying by these rotates each head by a quarter turn.
    turn_q: Tensor<2>,
    turn_k: Tensor<2>,
    /// `[1, 1, 1, T, T]`, `MASKED` above the diagonal.
    causal: Tensor<5>,
    batch: usize,
    len: usize,
}

impl Transformer {
    /// Builds the module from flat weights on `device`; on an autodiff device they are trainable.
    ///
    /// # Errors
    /// [`ModelError`] if the sizes or the length do not fit.
    pub fn from_flat(
        config: &ModelConfig,
        flat: &[f32],
        device: &Device,
    ) -> Result<Self, ModelError> {
        config.validate()?;
        let expected = config.n_params();
        if flat.len() != expected {
            let got = flat.len();
            return Err(ModelError::BadLength { expected, got });
        }
        let specs = config.layout().into_iter();
        let mut from = Reader {
            flat,
            specs,
            device,
        };
        Ok(Self {
            embed: from.take(),
            blocks: (0..config.n_layers).map(|_| from.block()).collect(),
            norm: from.take(),
            config: config.clone(),
        })
    }

    /// The sizes.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Token embeddings, `[V, d]`, which are also the output projection.
    pub fn embedding(&self) -> Tensor<2> {
        self.embed.val()
    }

    /// Logits, `[B, T, V]`, of the next token after each of `ids`, `[B, T]`.
    ///
    /// # Panics
    /// If `T` exceeds the context or an id the vocabulary.
    pub fn forward(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        let [batch, len] = ids.dims();
        let logits = self.hidden(ids).matmul(self.embed.val().transpose());
        logits.reshape([batch, len, self.config.vocab])
    }

    /// Normalised hidden states, `[B * T, d]`, before the output projection.
    ///
    /// # Panics
    /// If `T` exceeds the context or an id the vocabulary.
    pub fn hidden(&self, ids: Tensor<2, Int>) -> Tensor<2> {
        self.run(ids, None)
    }

    /// [`Transformer::hidden`] at the flat positions `at` only, `[M, d]`: the last block computes nothing
    /// for the others beyond their keys and values.
    ///
    /// # Panics
    /// As there, and if a position is not below `B * T`.
    pub fn hidden_at(&self, ids: Tensor<2, Int>, at: Tensor<1, Int>) -> Tensor<2> {
        self.run(ids, Some(at))
    }

    fn run(&self, ids: Tensor<2, Int>, mut at: Option<Tensor<1, Int>>) -> Tensor<2> {
        let [batch, len] = ids.dims();
        let c = &self.config;
        assert!(len <= c.max_context, "rows are at most max_context long");
        let pass = Pass::new(c, batch, len, &ids.device());
        let mut x = self.embed.val().select(0, ids.reshape([batch * len]));
        for (i, block) in self.blocks.iter().enumerate() {
            let mut mixed = block.attend(x.clone(), c, &pass);
            if let Some(at) = at.take_if(|_| i + 1 == c.n_layers) {
                mixed = mixed.select(0, at.clone());
                x = x.select(0, at);
            }
            x = x + mixed.matmul(block.wo.val());
            x = block.feed_forward(x, c);
        }
        rms_norm(x, &self.norm, c.norm_eps)
    }

    /// Parameters in the order of the layout, 1-D ones as `[1, n]` for a common rank.
    pub(crate) fn visit_params(&self, mut visit: impl FnMut(ParamRef<'_>)) {
        visit(ParamRef::Matrix(&self.embed));
        for b in &self.blocks {
            visit(ParamRef::Vector(&b.norm_attn));
            for w in [&b.wq, &b.wk, &b.wv, &b.wo] {
                visit(ParamRef::Matrix(w));
            }
            visit(ParamRef::Vector(&b.norm_ffn));
            for w in [&b.w_gate, &b.w_up, &b.w_down] {
                visit(ParamRef::Matrix(w));
            }
        }
        visit(ParamRef::Vector(&self.norm));
    }
}

/// A parameter of either rank.
pub(crate) enum ParamRef<'a> {
    /// Of rank 1.
    Vector(&'a Param<Tensor<1>>),
    /// Of rank 2.
    Matrix(&'a Param<Tensor<2>>),
}

impl Pass {
    fn new(c: &ModelConfig, batch: usize, len: usize, device: &Device) -> Self {
        let (cos, sin) = c.rope_tables(len);
        let scale = (c.head_dim() as f64).powf(-0.5) as f32;
        let spread = |table: &[f32], heads: usize, scale: f32| {
            let half = c.head_dim() / 2;
            let width = heads * c.head_dim();
            let values = (0..len * width)
                .map(|at| table[(at / width) * half + at % half] * scale)
                .collect();
            Tensor::from_data(TensorData::new::<f32, _>(values, [1, len, width]), device)
        };
        let ahead = (0..len * len)
            .map(|at| if at % len > at / len { MASKED } else { 0.0 })
            .collect();
        let ahead = TensorData::new::<f32, _>(ahead, [1, 1, 1, len, len]);
        Self {
            cos_q: spread(&cos, c.n_heads, scale),
            sin_q: spread(&sin, c.n_heads, scale),
            cos_k: spread(&cos, c.n_kv_heads, 1.0),
            sin_k: spread(&sin, c.n_kv_heads, 1.0),
            turn_q: quarter_turn(c.n_heads, c.head_dim(), device),
            turn_k: quarter_turn(c.n_kv_heads, c.head_dim(), device),
            causal: Tensor::from_data(ahead, device),
            batch,
            len,
        }
    }

    /// `x w`, rotated: `(x w) cos + (x w turn) sin`, `[B, T, width]`. Folding the turn into the small
    /// matrix costs less than slicing the large activations.
    fn rotated(&self, x: Tensor<2>, w: Tensor<2>, is_query: bool) -> Tensor<3> {
        let (cos, sin, turn) = if is_query {
            (&self.cos_q, &self.sin_q, &self.turn_q)
        } else {
            (&self.cos_k, &self.sin_k, &self.turn_k)
        };
        let shape = [self.batch, self.len, w.dims()[1]];
        let turned = x
            .clone()
            .matmul(w.clone().matmul(turn.clone()))
            .reshape(shape);
        x.matmul(w).reshape(shape) * cos.clone() + turned * sin.clone()
    }
}

/// `[heads * hd, heads * hd]`: maps each head `(a, b)` of two halves to `(-b, a)`.
fn quarter_turn(heads: usize, hd: usize, device: &Device) -> Tensor<2> {
    let (width, half) = (heads * hd, hd / 2);
    let mut turn = vec![0.0f32; width * width];
    for column in 0..width {
        let (from, sign) = if column % hd < half {
            (column + half, -1.0)
        } else {
            (column - half, 1.0)
        };
        turn[from * width + column] = sign;
    }
    Tensor::from_data(TensorData::new(turn, [width, width]), device)
}

/// `x / sqrt(mean(x^2) + eps) * gain` over the last axis.
fn rms_norm(x: Tensor<2>, gain: &Param<Tensor<1>>, eps: f64) -> Tensor<2> {
    let mean = x.clone().square().mean_dim(1);
    let scale = mean.add_scalar(eps).sqrt().recip();
    x * scale * gain.val().unsqueeze()
}

impl Block {
    /// The heads' mixed values, `[B * T, d]`, before the output matrix.
    fn attend(&self, x: Tensor<2>, c: &ModelConfig, pass: &Pass) -> Tensor<2> {
        let normed = rms_norm(x, &self.norm_attn, c.norm_eps);
        let (batch, len, hd, kv) = (pass.batch, pass.len, c.head_dim(), c.n_kv_heads);
        let group = c.n_heads / kv;
        let query = pass.rotated(normed.clone(), self.wq.val(), true);
        let query = query.reshape([batch, len, kv, group, hd]);
        let key = pass.rotated(normed.clone(), self.wk.val(), false);
        let key = key.reshape([batch, len, kv, 1, hd]);
        let value = normed.matmul(self.wv.val());
        let value = value.reshape([batch, len, kv, 1, hd]);
        // The softmax is divided out after the values are summed: `[T, hd]` is smaller than `[T, T]`.
        let turned_key = key.permute([0, 2, 3, 4, 1]);
        let scores = query.permute([0, 2, 3, 1, 4]).matmul(turned_key) + pass.causal.clone();
        let peak = scores.clone().detach().max_dim(4);
        let weight = (scores - peak).exp();
        let total = weight.clone().sum_dim(4);
        let mixed = weight.matmul(value.permute([0, 2, 3, 1, 4])) / total;
        mixed
            .permute([0, 3, 1, 2, 4])
            .reshape([batch * len, c.d_model])
    }

    /// `x + down(silu(gate(h)) * up(h))` with `h = norm(x)`, both `[B * T, d]`.
    fn feed_forward(&self, x: Tensor<2>, c: &ModelConfig) -> Tensor<2> {
        let h = rms_norm(x.clone(), &self.norm_ffn, c.norm_eps);
        let gate = burn::tensor::activation::silu(h.clone().matmul(self.w_gate.val()));
        let up = h.matmul(self.w_up.val());
        x + (gate * up).matmul(self.w_down.val())
    }
}
