//! Log-probs and gradients of many rows: rows are sorted by length and cut into micro-batches, worker
//! threads compute them, and gradients are summed in micro-batch order, so that neither the number of
//! threads nor their timing changes a bit of the result.
//!
//! On the processor that is done by [`host`], elsewhere by burn's graph; the two are tested against each other.
//! Only hidden states that predict a masked token pass the end of the last block and are projected onto the
//! vocabulary: most tokens are context.

mod host;

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::tensor::{Device, Gradients, Int, Tensor, TensorData};

use crate::model::{DeviceKind, ModelConfig, ModelError, ParamRef, Transformer};
use host::{Host, Plan, Workspace};

/// At most this many rows share a micro-batch: eight rows' attention scores fit a core's cache (ours; 4, 8
/// and 16 measured).
const MAX_ROWS: usize = 32;
/// At most this many tokens, padding included, share a micro-batch (unless one row alone is longer).
const MAX_TOKENS: usize = 2048;

/// A row: ids and which of them count. `mask[0]` must be false, nothing predicts the first id.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MaskedIds<'a> {
    pub(crate) ids: &'a [u32],
    pub(crate) mask: &'a [bool],
}

impl MaskedIds<'_> {
    /// Why the row cannot be computed, if so.
    pub(crate) fn problem(&self, config: &ModelConfig) -> Option<String> {
        if self.ids.len() != self.mask.len() {
            let (ids, mask) = (self.ids.len(), self.mask.len());
            return Some(format!("{ids} ids but {mask} mask entries"));
        }
        if self.ids.len() > config.max_context {
            let (len, most) = (self.ids.len(), config.max_context);
            return Some(format!("{len} ids, the context holds {most}"));
        }
        if self.mask.first() == Some(&true) {
            return Some("the first id is masked, but nothing predicts it".into());
        }
        let alien = self.ids.iter().find(|&&id| id as usize >= config.vocab);
        alien.map(|id| format!("id {id} is outside the vocabulary of {}", config.vocab))
    }

    /// Positions of the masked ids.
    pub(crate) fn positions(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.ids.len()).filter(|&i| self.mask[i])
    }
}

/// Coefficients of one row's log-probs in the function to differentiate, given the row's index and the
/// log-probs themselves; as long as these.
pub(crate) type Coefficients<'a> = dyn Fn(usize, &[f32]) -> Vec<f32> + Sync + 'a;

/// What a gradient pass found.
#[derive(Debug)]
pub(crate) struct Pass {
    /// `d/d weights` of `sum over rows and masked tokens of coefficient * logprob`, flat.
    pub(crate) gradient: Vec<f32>,
    /// Log-probs of the masked ids of every row, in order of position.
    pub(crate) logprobs: Vec<Vec<f32>>,
}

/// Where gradients are computed.
#[derive(Debug, Clone)]
pub(crate) enum Backend {
    /// On the processor, by the loops of [`host`].
    Host(Plan),
    /// On a device of burn, through its graph.
    Graph(Device),
}

/// Computes log-probs and gradients with a fixed number of threads.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    pub(crate) config: ModelConfig,
    pub(crate) backend: Backend,
    pub(crate) n_threads: usize,
}

impl Backend {
    /// The backend of a kind of device, for a model of valid sizes.
    ///
    /// # Errors
    /// [`ModelError::DeviceNotBuilt`].
    pub(crate) fn open(kind: DeviceKind, config: &ModelConfig) -> Result<Self, ModelError> {
        match kind {
            DeviceKind::Cpu => Ok(Self::Host(Plan::new(config))),
            kind => kind.open().map(Self::Graph),
        }
    }
}

/// Rows of one micro-batch, by index into the caller's rows.
type MicroBatch = Vec<usize>;

/// A micro-batch's tensors.
struct Inputs {
    /// `[B, T]`.
    ids: Tensor<2, Int>,
    /// Flat positions of the hidden states that predict, `[M]`.
    from: Tensor<1, Int>,
    /// The ids they predict, `[M]`.
    targets: Tensor<1, Int>,
    /// Masked ids per row.
    counts: Vec<usize>,
}

impl Engine {
    /// Log-probs of the masked ids of every row.
    pub(crate) fn logprobs(&self, flat: &[f32], rows: &[MaskedIds<'_>]) -> Vec<Vec<f32>> {
        let batches = micro_batches(rows);
        let done = match &self.backend {
            Backend::Host(plan) => self.on_host(plan, flat, &batches, |host, batch, ws| {
                host.logprobs(batch.iter().map(|&r| rows[r]), ws)
            }),
            Backend::Graph(device) => self.each(&batches, |batch| {
                let inputs = inputs(rows, batch, device);
                let counts = inputs.counts.clone();
                split(
                    &floats(logprobs(&self.model(flat, device), inputs)),
                    &counts,
                )
            }),
        };
        scatter(rows.len(), &batches, done)
    }

    /// Whether each masked id is the greedy choice (the lowest id wins a tie).
    pub(crate) fn greedy_hits(&self, flat: &[f32], rows: &[MaskedIds<'_>]) -> Vec<Vec<bool>> {
        let batches = micro_batches(rows);
        let done = match &self.backend {
            Backend::Host(plan) => self.on_host(plan, flat, &batches, |host, batch, ws| {
                host.greedy_hits(batch.iter().map(|&r| rows[r]), ws)
            }),
            Backend::Graph(device) => self.each(&batches, |batch| {
                let model = self.model(flat, device);
                let inputs = inputs(rows, batch, device);
                let hidden = model.hidden_at(inputs.ids, inputs.from);
                let logits = hidden.matmul(model.embedding().transpose());
                let choices = greedy(&floats(logits), self.config.vocab);
                let masked = |&r: &usize| rows[r].positions().map(move |i| rows[r].ids[i]);
                let targets = batch.iter().flat_map(masked);
                let hits: Vec<bool> = choices.iter().zip(targets).map(|(c, t)| *c == t).collect();
                split(&hits, &inputs.counts)
            }),
        };
        scatter(rows.len(), &batches, done)
    }

    /// Log-probs and the gradient of their weighted sum.
    pub(crate) fn gradient(
        &self,
        flat: &[f32],
        rows: &[MaskedIds<'_>],
        coefficients: &Coefficients<'_>,
    ) -> Pass {
        let batches = micro_batches(rows);
        let (gradient, found) = match &self.backend {
            Backend::Host(plan) => {
                let done = self.on_host(plan, flat, &batches, |host, batch, ws| {
                    let mut gradient = vec![0.0; flat.len()];
                    let of = |found: &[Vec<f32>]| weights_of(batch, found, coefficients);
                    let rows = batch.iter().map(|&r| rows[r]);
                    let logprobs = host.gradient(rows, of, &mut gradient, ws);
                    (gradient, logprobs)
                });
                let (gradient, found) = summed(flat.len(), done);
                (plan.packed.unpack(&gradient), found)
            }
            Backend::Graph(device) => {
                let work =
                    |batch: &[usize]| self.graph_gradient(device, flat, rows, batch, coefficients);
                summed(flat.len(), self.each(&batches, work))
            }
        };
        Pass {
            gradient,
            logprobs: scatter(rows.len(), &batches, found),
        }
    }

    fn graph_gradient(
        &self,
        device: &Device,
        flat: &[f32],
        rows: &[MaskedIds<'_>],
        batch: &[usize],
        coefficients: &Coefficients<'_>,
    ) -> (Vec<f32>, Vec<Vec<f32>>) {
        let device = device.clone().autodiff();
        let model = self.model(flat, &device);
        let inputs = inputs(rows, batch, &device);
        let counts = inputs.counts.clone();
        let lp = logprobs(&model, inputs);
        let values = split(&floats(lp.clone().inner()), &counts);
        let weights = weights_of(batch, &values, coefficients);
        if weights.iter().all(|w| *w == 0.0) {
            return (Vec::new(), values);
        }
        let n = weights.len();
        let weights = Tensor::<1>::from_data(TensorData::new(weights, [n]), &device);
        let gradients = (lp * weights).sum().backward();
        (flat_gradient(&model, &gradients, flat.len()), values)
    }

    fn model(&self, flat: &[f32], device: &Device) -> Transformer {
        Transformer::from_flat(&self.config, flat, device)
            .expect("an engine is only built with sizes that fit its weights")
    }

    /// Runs `work` on every micro-batch with weights packed once, and one workspace a thread.
    fn on_host<T: Send>(
        &self,
        plan: &Plan,
        flat: &[f32],
        batches: &[MicroBatch],
        work: impl Fn(&Host<'_>, &[usize], &mut Workspace) -> T + Sync,
    ) -> Vec<T> {
        thread_local! {
            static WORKSPACE: RefCell<Workspace> = RefCell::default();
        }
        let host = Host::new(plan, flat);
        self.each(batches, |batch| {
            WORKSPACE.with_borrow_mut(|ws| work(&host, batch, ws))
        })
    }

    /// Runs `work` on every micro-batch and returns the results in order.
    fn each<T: Send>(&self, batches: &[MicroBatch], work: impl Fn(&[usize]) -> T + Sync) -> Vec<T> {
        let n_workers = self.n_threads.min(batches.len()).max(1);
        if n_workers == 1 {
            return batches.iter().map(|b| work(b)).collect();
        }
        let next = AtomicUsize::new(0);
        let drain = || {
            let mut mine = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                match batches.get(at) {
                    Some(batch) => mine.push((at, work(batch))),
                    None => return mine,
                }
            }
        };
        let mut all: Vec<(usize, T)> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..n_workers).map(|_| scope.spawn(drain)).collect();
            let mut all = drain();
            for worker in others {
                match worker.join() {
                    Ok(mine) => all.extend(mine),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            all
        });
        all.sort_by_key(|(at, _)| *at);
        all.into_iter().map(|(_, result)| result).collect()
    }
}

/// The gradients of micro-batches added up in f64, in their order, beside their log-probs. One may be empty, for
/// zero.
fn summed<T>(n: usize, done: Vec<(Vec<f32>, T)>) -> (Vec<f32>, Vec<T>) {
    let mut sum = vec![0.0f64; n];
    let mut found = Vec::with_capacity(done.len());
    for (gradient, logprobs) in done {
        for (total, part) in sum.iter_mut().zip(&gradient) {
            *total += f64::from(*part);
        }
        found.push(logprobs);
    }
    (sum.into_iter().map(|g| g as f32).collect(), found)
}

/// The weights of a micro-batch's log-probs, one after the other.
fn weights_of(batch: &[usize], found: &[Vec<f32>], coefficients: &Coefficients<'_>) -> Vec<f32> {
    let rows = batch.iter().zip(found);
    rows.flat_map(|(&row, lps)| coefficients(row, lps))
        .collect()
}

/// Rows that hold a masked id, sorted by length (stable) and cut. Longest first, so that the last batches
/// that threads wait for are the cheap ones.
fn micro_batches(rows: &[MaskedIds<'_>]) -> Vec<MicroBatch> {
    let mut order: Vec<usize> = (0..rows.len())
        .filter(|&r| rows[r].mask.contains(&true))
        .collect();
    order.sort_by_key(|&r| std::cmp::Reverse(rows[r].ids.len()));
    let mut batches: Vec<MicroBatch> = Vec::new();
    for row in order {
        let fits = |batch: &MicroBatch| {
            batch.len() < MAX_ROWS && (batch.len() + 1) * rows[batch[0]].ids.len() <= MAX_TOKENS
        };
        match batches.last_mut().filter(|batch| fits(batch)) {
            Some(batch) => batch.push(row),
            None => batches.push(vec![row]),
        }
    }
    batches
}

fn inputs(rows: &[MaskedIds<'_>], batch: &[usize], device: &Device) -> Inputs {
    let len = batch.iter().map(|&r| rows[r].ids.len()).max().unwrap_or(0);
    let mut ids = vec![0i32; batch.len() * len];
    let (mut from, mut targets, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for (line, &r) in batch.iter().enumerate() {
        let row = rows[r];
        for (slot, id) in ids[line * len..].iter_mut().zip(row.ids) {
            *slot = *id as i32;
        }
        let before = targets.len();
        for i in row.positions() {
            from.push((line * len + i - 1) as i32);
            targets.push(row.ids[i] as i32);
        }
        counts.push(targets.len() - before);
    }
    let list = |values: Vec<i32>| {
        let n = values.len();
        Tensor::from_data(TensorData::new(values, [n]), device)
    };
    Inputs {
        ids: Tensor::from_data(TensorData::new(ids, [batch.len(), len]), device),
        from: list(from),
        targets: list(targets),
        counts,
    }
}

/// `[M]`: the log-prob of every target.
fn logprobs(model: &Transformer, inputs: Inputs) -> Tensor<1> {
    let n = inputs.targets.dims()[0];
    let hidden = model.hidden_at(inputs.ids, inputs.from);
    let embed = model.embedding();
    let chosen = hidden.clone() * embed.clone().select(0, inputs.targets);
    let logits = hidden.matmul(embed.transpose());
    let peak = logits.clone().detach().max_dim(1);
    let total = (logits - peak.clone()).exp().sum_dim(1);
    (chosen.sum_dim(1) - total.log() - peak).reshape([n])
}

/// Gradients of all parameters, in layout order; zeros where none flowed.
fn flat_gradient(model: &Transformer, gradients: &Gradients, len: usize) -> Vec<f32> {
    let mut flat = Vec::with_capacity(len);
    model.visit_params(|param| {
        let (gradient, n) = match param {
            ParamRef::Vector(p) => (p.val().grad(gradients).map(floats), p.val().shape()),
            ParamRef::Matrix(p) => (p.val().grad(gradients).map(floats), p.val().shape()),
        };
        match gradient {
            Some(values) => flat.extend(values),
            None => flat.extend(std::iter::repeat_n(0.0, n.num_elements())),
        }
    });
    flat
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    let data = tensor.into_data().convert::<f32>();
    data.try_to_vec()
        .expect("the data was just converted to f32")
}

/// The highest of every `width` logits; the lowest id wins a tie.
fn greedy(logits: &[f32], width: usize) -> Vec<u32> {
    let best = |row: &[f32]| {
        let first = (0u32, f32::NEG_INFINITY);
        let ids = (0u32..).zip(row.iter().copied());
        ids.fold(first, |a, b| if b.1 > a.1 { b } else { a }).0
    };
    logits.chunks_exact(width).map(best).collect()
}

fn split<T: Clone>(values: &[T], counts: &[usize]) -> Vec<Vec<T>> {
    let mut rest = values;
    counts
        .iter()
        .map(|&n| {
            let (head, tail) = rest.split_at(n);
            rest = tail;
            head.to_vec()
        })
        .collect()
}

/// Puts results of micro-batches back in row order; rows without a masked id get nothing.
fn scatter<T: Clone>(n: usize, batches: &[MicroBatch], done: Vec<Vec<Vec<T>>>) -> Vec<Vec<T>> {
    let mut out = vec![Vec::new(); n];
    for (batch, results) in batches.iter().zip(done) {
        for (&row, result) in batch.iter().zip(results) {
            out[row] = result;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use harness_core::Seed;
    use proptest::prelude::*;
    use rand::Rng;

    use super::*;

    fn engine(config: &ModelConfig, backend: Backend) -> Engine {
        Engine {
            config: config.clone(),
            backend,
            n_threads: 2,
        }
    }

    /// Largest difference, as a share of the largest value.
    fn distance(a: &[f32], b: &[f32]) -> f32 {
        let peak = b.iter().fold(1e-6, |peak: f32, v| peak.max(v.abs()));
        let pairs = a.iter().zip(b);
        pairs.fold(0.0, |far: f32, (a, b)| far.max((a - b).abs())) / peak
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn the_host_agrees_with_the_graph(
            seed in any::<u64>(),
            (kv, group, half) in (1_usize..4, 1_usize..4, 1_usize..9),
            (layers, ff, vocab) in (1_usize..4, 1_usize..40, 2_usize..50),
            lengths in proptest::collection::vec(2_usize..150, 1..14),
        ) {
            let mut config = ModelConfig::nano(vocab, 150);
            (config.n_kv_heads, config.n_heads) = (kv, kv * group);
            (config.d_model, config.d_ff) = (kv * group * 2 * half, ff);
            config.n_layers = layers;
            let flat = config.init(Seed::new(seed));
            let mut rng = Seed::new(seed).rng();
            let rows: Vec<(Vec<u32>, Vec<bool>)> = lengths
                .iter()
                .map(|&len| {
                    let ids = (0..len).map(|_| rng.next_u32() % vocab as u32).collect();
                    let mask = (0..len).map(|i| i > 0 && rng.next_u32().is_multiple_of(3)).collect();
                    (ids, mask)
                })
                .collect();
            let rows: Vec<MaskedIds<'_>> = rows.iter().map(|(ids, mask)| MaskedIds { ids, mask }).collect();
            let slope = |row: usize, lps: &[f32]| -> Vec<f32> {
                lps.iter().map(|lp| (row as f32 - 2.5) * (1.0 + lp)).collect()
            };
            let graph = Backend::Graph(DeviceKind::Cpu.open().unwrap());
            let graph = engine(&config, graph).gradient(&flat, &rows, &slope);
            let host = engine(&config, Backend::open(DeviceKind::Cpu, &config).unwrap());
            let pass = host.gradient(&flat, &rows, &slope);
            for (a, b) in pass.logprobs.iter().zip(&graph.logprobs) {
                prop_assert_eq!(a.len(), b.len());
                prop_assert!(distance(a, b) < 1e-4);
            }
            prop_assert!(distance(&pass.gradient, &graph.gradient) < 2e-4);
            prop_assert_eq!(host.logprobs(&flat, &rows), pass.logprobs);
        }
    }

    #[test]
    fn packing_is_undone_by_unpacking() {
        let mut config = ModelConfig::nano(11, 8);
        (config.n_kv_heads, config.d_ff) = (2, 24);
        let flat: Vec<f32> = (0..config.n_params()).map(|i| i as f32).collect();
        let packed = Plan::new(&config).packed;
        assert_ne!(packed.pack(&flat), flat);
        assert_eq!(packed.unpack(&packed.pack(&flat)), flat);
    }
}
