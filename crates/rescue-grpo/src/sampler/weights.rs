//! Weights as the decoder reads them: packed once per policy version, shared by all of its samplers.

use crate::model::{ModelConfig, ParamSpec};

use super::kernels::padded;
use super::product::Panels;

/// One block's weights.
#[derive(Debug)]
pub(super) struct BlockWeights {
    pub(super) norm_attn: Vec<f32>,
    /// Queries, keys and values side by side, each padded.
    pub(super) qkv: Panels,
    pub(super) out: Panels,
    pub(super) norm_ffn: Vec<f32>,
    /// Gate and up side by side, each padded.
    pub(super) gate_up: Panels,
    pub(super) down: Panels,
}

/// A model's weights packed for the sampler; immutable, so snapshots share it through an `Arc`.
#[derive(Debug)]
pub struct SamplerWeights {
    pub(super) config: ModelConfig,
    /// `[V, padded(d)]`.
    pub(super) embed: Vec<f32>,
    pub(super) blocks: Vec<BlockWeights>,
    pub(super) norm: Vec<f32>,
    /// The embeddings again, as output projection.
    pub(super) head: Panels,
    /// `[max_context, hd / 2]` each.
    pub(super) cos: Vec<f32>,
    pub(super) sin: Vec<f32>,
}

/// Hands out the flat weights' tensors in layout order.
struct Reader<'a> {
    flat: &'a [f32],
    specs: std::vec::IntoIter<ParamSpec>,
}

impl<'a> Reader<'a> {
    fn take(&mut self) -> Matrix<'a> {
        let spec = self.specs.next().expect("the layout lists every parameter");
        let (values, tail) = self.flat.split_at(spec.len());
        self.flat = tail;
        let columns = *spec.shape.last().expect("no parameter is a scalar");
        Matrix { values, columns }
    }
}

/// A row-major matrix; a vector is a matrix of one row.
struct Matrix<'a> {
    values: &'a [f32],
    columns: usize,
}

impl Matrix<'_> {
    fn rows(&self) -> usize {
        self.values.len() / self.columns
    }

    fn at(&self, row: usize, column: usize) -> f32 {
        self.values[row * self.columns + column]
    }

    fn padded_rows(&self) -> Vec<f32> {
        let stride = padded(self.columns);
        let mut out = vec![0.0; self.rows() * stride];
        for (to, from) in out
            .chunks_exact_mut(stride)
            .zip(self.values.chunks_exact(self.columns))
        {
            to[..self.columns].copy_from_slice(from);
        }
        out
    }
}

/// Packs matrices of equal height side by side, each padded to whole lanes.
fn side_by_side(parts: &[Matrix<'_>]) -> Panels {
    let widths: Vec<usize> = parts.iter().map(|m| padded(m.columns)).collect();
    Panels::pack(parts[0].rows(), widths.iter().sum(), |row, mut column| {
        for (part, width) in parts.iter().zip(&widths) {
            if column < *width {
                return if column < part.columns {
                    part.at(row, column)
                } else {
                    0.0
                };
            }
            column -= width;
        }
        0.0
    })
}

impl SamplerWeights {
    /// Packs flat weights.
    ///
    /// # Panics
    /// If `flat` is not as long as the layout of `config`, or `config` is not valid.
    pub fn pack(config: &ModelConfig, flat: &[f32]) -> Self {
        let mut from = Reader {
            flat,
            specs: config.layout().into_iter(),
        };
        let embed = from.take();
        let blocks = (0..config.n_layers).map(|_| {
            let norm_attn = from.take().padded_rows();
            let qkv = side_by_side(&[from.take(), from.take(), from.take()]);
            let out = side_by_side(&[from.take()]);
            let norm_ffn = from.take().padded_rows();
            let gate_up = side_by_side(&[from.take(), from.take()]);
            let down = side_by_side(&[from.take()]);
            BlockWeights {
                norm_attn,
                qkv,
                out,
                norm_ffn,
                gate_up,
                down,
            }
        });
        let blocks = blocks.collect();
        let (cos, sin) = config.rope_tables(config.max_context);
        Self {
            blocks,
            norm: from.take().padded_rows(),
            head: Panels::pack(config.d_model, config.vocab, |k, n| embed.at(n, k)),
            embed: embed.padded_rows(),
            cos,
            sin,
            config: config.clone(),
        }
    }

    /// The model's sizes.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }
}
