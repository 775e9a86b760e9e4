//! Sizes of the decoder, the order of its flat weights, fresh weights, and the choice of a device.

use burn::tensor::Device;
use harness_core::Seed;
use rand::Rng;
use serde::{Deserialize, Serialize};

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
    /// Added to the mean square in `RMSNorm`.
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
