//! Useful floating-point operations of an update, and which share of the machine's peak they reach.

use std::fmt;

use serde::Serialize;

use super::machine::Machine;
use super::measure::Rates;
use super::work::TrainWork;

/// Operations of one update, forward and backward, in GFLOP; padding and recomputing do not count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flops {
    /// Products with weights, the vocabulary's included.
    pub(super) projections: f64,
    /// Scores and mixed values below the diagonal.
    pub(super) attention: f64,
}

/// Counts an update: two operations a weight and token forward, twice that backward. In the last block only
/// what predicts a masked id passes the output matrix, the feed-forward part and the vocabulary.
pub(super) fn of_update(work: &TrainWork) -> Flops {
    let c = &work.model;
    let (d, kv) = (c.d_model as f64, c.kv_dim() as f64);
    let (ff, vocab, layers) = (c.d_ff as f64, c.vocab as f64, c.n_layers as f64);
    let n = work.n_tokens() as f64;
    let masked: usize = work.masked().map(|at| at.len()).sum();
    let reads = d * d + 2.0 * d * kv;
    let writes = d * d + 3.0 * d * ff;
    let weights =
        n * (layers * reads + (layers - 1.0) * writes) + masked as f64 * (writes + d * vocab);
    let lengths = work.batch.rows.iter().map(|r| r.sequence.ids.len() as f64);
    let pairs: f64 = lengths.map(|t| t * (t + 1.0) / 2.0).sum();
    Flops {
        projections: 6.0 * weights / 1e9,
        attention: 12.0 * layers * d * pairs / 1e9,
    }
}

/// Shares of the peak, in `[0, 1]`.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Shares {
    /// GFLOP/s that a core can reach: the best of this build's product and the twin's.
    peak_gflops: f64,
    /// Projections' operations over the whole update's CPU time, of the peak.
    gemm_share: f64,
    /// Attention's.
    attention_share: f64,
    /// What this build's product reaches at the projections' sizes (forward and both backward products), of
    /// the peak.
    projection_product_share: f64,
}

impl Shares {
    pub(super) fn new(
        flops: Flops,
        work: &TrainWork,
        ours: &Rates,
        machine: &Machine,
        peer_peak: Option<f64>,
    ) -> Self {
        let peak_gflops = machine.gemm_gflops.max(peer_peak.unwrap_or(0.0));
        let per_update = work.n_tokens() as f64 / ours.tok_cpu_s;
        Self {
            peak_gflops,
            gemm_share: flops.projections / per_update / peak_gflops,
            attention_share: flops.attention / per_update / peak_gflops,
            projection_product_share: Machine::projections(&work.model) / peak_gflops,
        }
    }
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "of {:.0} GFLOP/s: projections {:.0} %, attention {:.0} % over the whole update; this build's product \
             at the projections' sizes {:.0} %",
            self.peak_gflops,
            100.0 * self.gemm_share,
            100.0 * self.attention_share,
            100.0 * self.projection_product_share
        )
    }
}
