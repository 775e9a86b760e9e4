//! A small decoder-only transformer on burn: RMSNorm, rotary positions, grouped-query attention, SwiGLU,
//! tied embeddings. Trained weights live outside of it as one flat `Vec<f32>` in the order of
//! [`ModelConfig::layout`]; the module is built from them wherever a graph is needed.
//!
//! Left out on purpose: a key-value cache (the sampler has its own decoder) and padding masks (rows are
//! padded on the right, which causal attention never looks at).

use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};
use harness_core::Seed;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// Added to scores that look ahead; far below any score, yet finite, so that no NaN can arise.
const MASKED: f32 = -1.0e9;

/// Sizes of the decoder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// Number of token ids.
    pub vocab: usize,
    /// Width of the residual stream; a multiple of `n_heads`.
    pub d_model: usize,
    /// Number of blocks.
    pub n_layers: usize,
    /// Query heads; a multiple of `n_kv_heads`.
    pub n_heads: usize,
    /// Key and value heads.
    pub n_kv_heads: usize,
    /// Inner width of the feed-forward part.
    pub d_ff: usize,
    /// Longest context in tokens.
    pub max_context: usize,
    /// Base of the rotary wavelengths.
    pub rope_base: f64,
    /// Added to the mean square in RMSNorm.
    pub norm_eps: f64,
}

/// Sizes that do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A size is zero, or one does not divide the other.
    #[error("unusable model sizes: {0}")]
    BadSizes(String),
    /// The flat weights are not as long as the layout says.
    #[error("weights have the wrong length: expected {expected}, got {got}")]
    BadLength {
        /// By the layout.
        expected: usize,
        /// Of the given vector.
        got: usize,
    },
    /// The device's backend is not in this build.
    #[error("device {0:?} is not in this build, rebuild with the cargo feature of that name")]
    DeviceNotBuilt(DeviceKind),
}

/// One parameter tensor in the flat weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamSpec {
    /// Name, as in a checkpoint.
    pub name: String,
    /// Shape; matrices are `[in, out]`.
    pub shape: Vec<usize>,
}

impl ParamSpec {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it holds nothing; never the case in a valid layout.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it is a matrix; only matrices are decayed.
    pub fn is_matrix(&self) -> bool {
        self.shape.len() == 2
    }
}

impl ModelConfig {
    /// The measured size of the nano track (ours): 0.15 M parameters, two layers of width 64.
    pub fn nano(vocab: usize, max_context: usize) -> Self {
        Self {
            vocab,
            d_model: 64,
            n_layers: 2,
            n_heads: 4,
            n_kv_heads: 4,
            d_ff: 192,
            max_context,
            rope_base: 10_000.0,
            norm_eps: 1e-5,
        }
    }

    /// Width of one head.
    pub fn head_dim(&self) -> usize {
        self.d_model / self.n_heads
    }

    /// Width of keys and of values.
    pub fn kv_dim(&self) -> usize {
        self.n_kv_heads * self.head_dim()
    }

    /// Checks that the sizes fit together.
    ///
    /// # Errors
    /// [`ModelError::BadSizes`].
    pub fn validate(&self) -> Result<(), ModelError> {
        let sizes = [
            self.vocab,
            self.d_model,
            self.n_layers,
            self.n_heads,
            self.n_kv_heads,
            self.d_ff,
            self.max_context,
        ];
        let bad = |what: &str| Err(ModelError::BadSizes(what.to_owned()));
        if sizes.iter().any(|&s| s == 0 || s > 1 << 24) {
            return bad("every size must be in 1..=2^24");
        }
        if !self.d_model.is_multiple_of(self.n_heads) || !self.head_dim().is_multiple_of(2) {
            return bad("d_model must be n_heads times an even head width");
        }
        if !self.n_heads.is_multiple_of(self.n_kv_heads) {
            return bad("n_heads must be a multiple of n_kv_heads");
        }
        if !(self.rope_base > 1.0 && self.rope_base.is_finite() && self.norm_eps > 0.0) {
            return bad("rope_base must be above 1 and norm_eps above 0");
        }
        Ok(())
    }

    /// Parameter tensors in the order of the flat weights.
    pub fn layout(&self) -> Vec<ParamSpec> {
        let (d, kv, ff) = (self.d_model, self.kv_dim(), self.d_ff);
        let spec = |name: String, shape: &[usize]| ParamSpec {
            name,
            shape: shape.to_vec(),
        };
        let mut specs = vec![spec("embed".into(), &[self.vocab, d])];
        for l in 0..self.n_layers {
            specs.extend([
                spec(format!("layers.{l}.norm_attn"), &[d]),
                spec(format!("layers.{l}.wq"), &[d, d]),
                spec(format!("layers.{l}.wk"), &[d, kv]),
                spec(format!("layers.{l}.wv"), &[d, kv]),
                spec(format!("layers.{l}.wo"), &[d, d]),
                spec(format!("layers.{l}.norm_ffn"), &[d]),
                spec(format!("layers.{l}.w_gate"), &[d, ff]),
                spec(format!("layers.{l}.w_up"), &[d, ff]),
                spec(format!("layers.{l}.w_down"), &[ff, d]),
            ]);
        }
        specs.push(spec("norm".into(), &[d]));
        specs
    }

    /// Number of weights.
    pub fn n_params(&self) -> usize {
        self.layout().iter().map(ParamSpec::len).sum()
    }

    /// Fresh flat weights: normal with standard deviation `1/sqrt(in)` (the two matrices that write into
    /// the residual stream divided by `sqrt(2 n_layers)`), embeddings `0.05`, norms 1. Ours.
    ///
    /// # Determinism
    /// A pure function of the sizes and the seed.
    pub fn init(&self, seed: Seed) -> Vec<f32> {
        let mut flat = Vec::with_capacity(self.n_params());
        let depth = (2.0 * self.n_layers as f64).sqrt();
        for (index, spec) in self.layout().iter().enumerate() {
            let mut rng = seed.derive("init", &[index as u64]).rng();
            let std = match spec.name.rsplit('.').next() {
                Some("embed") => 0.05,
                Some("wo" | "w_down") => (spec.shape[0] as f64).powf(-0.5) / depth,
                _ => (spec.shape[0] as f64).powf(-0.5),
            };
            let is_matrix = spec.is_matrix();
            flat.extend((0..spec.len()).map(|_| {
                if is_matrix {
                    (normal(&mut rng) * std) as f32
                } else {
                    1.0
                }
            }));
        }
        flat
    }

    /// Rotary angles' cosine and sine, `[n, head_dim / 2]` each, for positions `0..n`.
    pub fn rope_tables(&self, n: usize) -> (Vec<f32>, Vec<f32>) {
        let half = self.head_dim() / 2;
        let angle = |p: usize, i: usize| p as f64 * self.rope_base.powf(-(i as f64) / half as f64);
        let table = |f: fn(f64) -> f64| {
            (0..n * half)
                .map(|at| f(angle(at / half, at % half)) as f32)
                .collect()
        };
        (table(f64::cos), table(f64::sin))
    }
}

/// A standard normal draw (Box-Muller; one of the pair is thrown away).
fn normal(rng: &mut impl Rng) -> f64 {
    let unit = |bits: u64| ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let (a, b) = (unit(rng.next_u64()), unit(rng.next_u64()));
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// Which backend computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// The CPU, through burn's flex backend; deterministic.
    #[default]
    Cpu,
    /// The first CUDA device; needs the cargo feature `cuda`.
    Cuda,
    /// The first WebGPU adapter; needs the cargo feature `wgpu`.
    Wgpu,
}

impl DeviceKind {
    /// The device, without automatic differentiation.
    ///
    /// # Errors
    /// [`ModelError::DeviceNotBuilt`] if the backend was not compiled in.
    pub fn open(self) -> Result<Device, ModelError> {
        match self {
            Self::Cpu => Ok(Device::flex()),
            #[cfg(feature = "cuda")]
            Self::Cuda => Ok(Device::cuda(0)),
            #[cfg(feature = "wgpu")]
            Self::Wgpu => Ok(Device::wgpu(burn::tensor::DeviceKind::DefaultDevice)),
            #[cfg(not(all(feature = "cuda", feature = "wgpu")))]
            other => Err(ModelError::DeviceNotBuilt(other)),
        }
    }
}

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
        let embed = from.take();
        let blocks = (0..config.n_layers).map(|_| Block {
            norm_attn: from.take(),
            wq: from.take(),
            wk: from.take(),
            wv: from.take(),
            wo: from.take(),
            norm_ffn: from.take(),
            w_gate: from.take(),
            w_up: from.take(),
            w_down: from.take(),
        });
        let blocks = blocks.collect();
        let norm = from.take();
        Ok(Self {
            embed,
            blocks,
            norm,
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
        let h = rms_norm(x, &self.norm_attn, c.norm_eps);
        let (b, t, hd, kv) = (pass.batch, pass.len, c.head_dim(), c.n_kv_heads);
        let group = c.n_heads / kv;
        let q = pass.rotated(h.clone(), self.wq.val(), true);
        let k = pass.rotated(h.clone(), self.wk.val(), false);
        let q = q.reshape([b, t, kv, group, hd]).permute([0, 2, 3, 1, 4]);
        let k = k.reshape([b, t, kv, 1, hd]).permute([0, 2, 3, 4, 1]);
        let v = h.matmul(self.wv.val());
        let v = v.reshape([b, t, kv, 1, hd]).permute([0, 2, 3, 1, 4]);
        // The softmax is divided out after the values are summed: `[T, hd]` is smaller than `[T, T]`.
        let scores = q.matmul(k) + pass.causal.clone();
        let peak = scores.clone().detach().max_dim(4);
        let weight = (scores - peak).exp();
        let total = weight.clone().sum_dim(4);
        let mixed = weight.matmul(v) / total;
        mixed.permute([0, 3, 1, 2, 4]).reshape([b * t, c.d_model])
    }

    /// `x + down(silu(gate(h)) * up(h))` with `h = norm(x)`, both `[B * T, d]`.
    fn feed_forward(&self, x: Tensor<2>, c: &ModelConfig) -> Tensor<2> {
        let h = rms_norm(x.clone(), &self.norm_ffn, c.norm_eps);
        let gate = burn::tensor::activation::silu(h.clone().matmul(self.w_gate.val()));
        let up = h.matmul(self.w_up.val());
        x + (gate * up).matmul(self.w_down.val())
    }
}
