//! [`Policy`] on the CPU: continuous batching over ragged rows with a key-value cache each, kept between
//! turns. Hand-written f32 loops, because burn's cost per operation dominates at this size.
//!
//! # Determinism
//! What a rollout gets is a function of the weights, its ids, its sampling and its seed: sums run in an
//! order that depends on the row alone (see `kernels`), draws come from a generator per request.
//!
//! Rollouts that open with the same ids (siblings of a group) read them once; the others copy the cache.

mod aligned;
mod attend;
mod cache;
mod decoder;
mod draw;
pub(crate) mod kernels;
mod prefix;
mod product;
mod weights;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use harness_core::{
    Deadline, Finish, Generation, Policy, PolicyError, PolicyVersion, Request, RolloutId, Sampling,
};
use rand_chacha::ChaCha8Rng;

use cache::Cache;
use decoder::{Decoder, STEP_TOKENS, Token};
use draw::Drawer;
use prefix::Prefixes;
pub use weights::SamplerWeights;

/// An answer of [`Policy::poll`].
type Answer = (RolloutId, Result<Generation, PolicyError>);

/// A generation in flight.
#[derive(Debug)]
struct Job {
    sampling: Sampling,
    deadline: Deadline,
    rng: ChaCha8Rng,
    /// Tokens that may be drawn, by request and by window.
    limit: usize,
    ids: Vec<u32>,
    logprobs: Vec<f32>,
}

impl Job {
    fn new(request: &Request, limit: usize) -> Self {
        Self {
            sampling: request.sampling,
            deadline: request.deadline,
            rng: request.seed.rng(),
            limit,
            ids: Vec::with_capacity(limit),
            logprobs: Vec::with_capacity(limit),
        }
    }

    /// Why it ends after the last drawn id, if it does.
    fn finish(&self, is_stop: bool) -> Option<Finish> {
        if is_stop {
            Some(Finish::Stop)
        } else if self.ids.len() < self.limit {
            None
        } else if self.limit == self.sampling.max_new_tokens {
            Some(Finish::Length)
        } else {
            Some(Finish::Window)
        }
    }
}

/// A rollout's context; its index is its cache's.
#[derive(Debug)]
struct Row {
    rollout: RolloutId,
    /// Tokens in the cache.
    len: usize,
    /// Tokens not yet read; between turns the last drawn one.
    pending: Vec<u32>,
    /// How many of `pending` were read.
    n_read: usize,
    job: Option<Job>,
    /// The ids it opened with.
    opening: Arc<[u32]>,
    /// Whether another row is reading the same opening.
    waits: bool,
}

impl Row {
    fn n_left(&self) -> usize {
        self.pending.len() - self.n_read
    }
}

/// Samples from one version of a nano policy.
///
/// After [`PolicyError::Deadline`] or [`PolicyError::Backend`] the rollout's context is gone, as if it
/// had been released. A request whose ids do not fit the window is answered with [`Finish::Window`] and
/// no ids, and leaves the context as it was.
#[derive(Debug)]
pub struct NanoSampler {
    weights: Arc<SamplerWeights>,
    version: PolicyVersion,
    stop_ids: Vec<u32>,
    decoder: Decoder,
    drawer: Drawer,
    caches: Vec<Cache>,
    rows: Vec<Option<Row>>,
    free: Vec<usize>,
    slots: HashMap<RolloutId, usize>,
    /// Rows with a job, in order of submission.
    active: Vec<usize>,
    prefixes: Prefixes,
    done: Vec<Answer>,
    tokens: Vec<Token>,
    /// Indices into `tokens` after which logits are wanted, and whose they are.
    wanted: Vec<usize>,
    drawing: Vec<usize>,
    n_computed: u64,
}

impl NanoSampler {
    /// A sampler with shared weights. `stop_ids` end a generation.
    pub fn new(weights: Arc<SamplerWeights>, version: PolicyVersion, stop_ids: Vec<u32>) -> Self {
        let decoder = Decoder::new(&weights);
        let drawer = Drawer::new(decoder.arch(), weights.config().vocab);
        Self {
            weights,
            version,
            stop_ids,
            decoder,
            drawer,
            caches: Vec::new(),
            rows: Vec::new(),
            free: Vec::new(),
            slots: HashMap::new(),
            active: Vec::new(),
            prefixes: Prefixes::default(),
            done: Vec::new(),
            tokens: Vec::with_capacity(STEP_TOKENS),
            wanted: Vec::with_capacity(STEP_TOKENS),
            drawing: Vec::with_capacity(STEP_TOKENS),
            n_computed: 0,
        }
    }

    /// Tokens that were really computed so far; openings copied from a sibling do not count.
    pub fn n_computed(&self) -> u64 {
        self.n_computed
    }

    fn check(&self, request: &Request) -> Result<(), PolicyError> {
        let bad = |reason: String| Err(PolicyError::BadRequest(reason));
        let vocab = self.weights.config().vocab;
        if request.new_ids.is_empty() {
            return bad("no ids to read".into());
        }
        if let Some(id) = request.new_ids.iter().find(|&&id| id as usize >= vocab) {
            return bad(format!("id {id} is outside the vocabulary of {vocab}"));
        }
        if request.sampling.max_new_tokens == 0 {
            return bad("max_new_tokens is 0".into());
        }
        let temperature = request.sampling.temperature;
        if !(temperature >= 0.0 && temperature.is_finite()) {
            return bad(format!("temperature is {temperature}"));
        }
        let row = self
            .slots
            .get(&request.rollout)
            .map(|&slot| &self.rows[slot]);
        if row.is_some_and(|r| r.as_ref().is_some_and(|r| r.job.is_some())) {
            return bad(format!(
                "rollout {} has a request in flight",
                request.rollout
            ));
        }
        Ok(())
    }

    fn open(&mut self, rollout: &RolloutId) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.rows.push(None);
            self.caches.push(self.decoder.new_cache());
            self.rows.len() - 1
        });
        self.rows[slot] = Some(Row {
            rollout: rollout.clone(),
            len: 0,
            pending: Vec::new(),
            n_read: 0,
            job: None,
            opening: Arc::from([]),
            waits: false,
        });
        self.slots.insert(rollout.clone(), slot);
        slot
    }

    /// Drops a row and hands a half-read opening to the next that waits for it.
    fn close(&mut self, slot: usize) {
        let Some(row) = self.rows[slot].take() else {
            return;
        };
        self.slots.remove(&row.rollout);
        self.active.retain(|&s| s != slot);
        self.free.push(slot);
        if let Some(heir) = self.prefixes.leave(&row.opening, slot)
            && let Some(row) = &mut self.rows[heir]
        {
            row.waits = false;
        }
    }

    fn expire(&mut self) {
        let rows = &self.rows;
        let is_late = |&slot: &usize| {
            let job = rows[slot].as_ref().and_then(|row| row.job.as_ref());
            job.is_some_and(|job| job.deadline.has_passed())
        };
        if self.active.iter().any(is_late) {
            let late: Vec<usize> = self.active.iter().copied().filter(is_late).collect();
            for slot in late {
                self.fail(slot, PolicyError::Deadline);
            }
        }
    }

    fn fail(&mut self, slot: usize, error: PolicyError) {
        if let Some(row) = &self.rows[slot] {
            self.done.push((row.rollout.clone(), Err(error)));
        }
        self.close(slot);
    }

    /// Fills `tokens`, `wanted` and `drawing` for one step.
    fn schedule(&mut self) {
        self.tokens.clear();
        self.wanted.clear();
        self.drawing.clear();
        for &slot in &self.active {
            let Some(row) = &mut self.rows[slot] else {
                continue;
            };
            let n = row.n_left().min(STEP_TOKENS - self.tokens.len());
            if n == 0 || row.waits {
                continue;
            }
            let ids = &row.pending[row.n_read..][..n];
            self.tokens
                .extend(
                    (row.len..)
                        .zip(ids)
                        .map(|(position, &id)| Token { slot, position, id }),
                );
            row.len += n;
            row.n_read += n;
            if row.n_left() == 0 {
                self.wanted.push(self.tokens.len() - 1);
                self.drawing.push(slot);
            }
        }
        self.n_computed += self.tokens.len() as u64;
    }

    /// Reads one step's tokens and draws for every row that has read all of its own.
    fn step(&mut self) {
        self.schedule();
        let (tokens, wanted) = (&self.tokens, &self.wanted);
        self.decoder
            .step(&self.weights, &mut self.caches, tokens, wanted);
        let drawing = std::mem::take(&mut self.drawing);
        for (i, &slot) in drawing.iter().enumerate() {
            self.share_opening(slot, i);
            self.draw(slot, Some(i));
        }
        self.drawing = drawing;
    }

    /// If the row has just read its opening for others too, gives them the cache and lets them draw.
    fn share_opening(&mut self, slot: usize, i: usize) {
        let Some(row) = &self.rows[slot] else { return };
        let n = row.opening.len();
        let opening = Arc::clone(&row.opening);
        if row.len != n {
            return;
        }
        let waiting = self.prefixes.finish(&opening, slot, self.decoder.logits(i));
        for other in waiting {
            self.adopt(slot, other, n);
            self.draw(other, None);
        }
    }

    /// Copies the opening of `n` tokens from one row to another.
    fn adopt(&mut self, from: usize, to: usize, n: usize) {
        if let Ok([source, target]) = self.caches.get_disjoint_mut([from, to]) {
            target.reserve(n, 0);
            target.copy_from(source, n);
        }
        if let Some(row) = &mut self.rows[to] {
            (row.len, row.n_read, row.waits) = (n, n, false);
        }
    }

    /// Draws one id for a row, from the step's `i`-th logits or else from its opening's.
    fn draw(&mut self, slot: usize, i: Option<usize>) {
        let Some(row) = &mut self.rows[slot] else {
            return;
        };
        let Some(job) = &mut row.job else { return };
        let logits = match i {
            Some(i) => Some(self.decoder.logits(i)),
            None => self.prefixes.logits(&row.opening),
        };
        let temperature = job.sampling.temperature;
        let drawn = logits.and_then(|l| self.drawer.draw(l, temperature, &mut job.rng));
        let Some((id, logprob)) = drawn else {
            let error = PolicyError::Backend("logits are not finite".into());
            self.fail(slot, error);
            return;
        };
        job.ids.push(id);
        job.logprobs.push(logprob);
        row.pending.clear();
        row.pending.push(id);
        row.n_read = 0;
        let is_stop = self.stop_ids.contains(&id);
        if let Some(finish) = job.finish(is_stop) {
            let generation = Generation {
                ids: std::mem::take(&mut job.ids),
                logprobs: std::mem::take(&mut job.logprobs),
                finish,
            };
            row.job = None;
            self.done.push((row.rollout.clone(), Ok(generation)));
            self.active.retain(|&s| s != slot);
        }
    }

    /// Puts a fresh row's opening on the list of those that are read once.
    fn join_opening(&mut self, slot: usize, opening: Arc<[u32]>) {
        let n = opening.len();
        if let Some(row) = &mut self.rows[slot] {
            row.opening = Arc::clone(&opening);
        }
        match self.prefixes.join(opening, slot) {
            prefix::Place::Reads => {}
            prefix::Place::Waits => {
                if let Some(row) = &mut self.rows[slot] {
                    row.waits = true;
                }
            }
            prefix::Place::Copies(from) => {
                self.adopt(from, slot, n);
                self.draw(slot, None);
            }
        }
    }
}

impl Policy for NanoSampler {
    fn submit(&mut self, request: Request) -> Result<(), PolicyError> {
        self.check(&request)?;
        let context = self.weights.config().max_context;
        let known = self.slots.get(&request.rollout).copied();
        let held = known.and_then(|slot| self.rows[slot].as_ref());
        let used = held.map_or(0, |row| row.len + row.n_left()) + request.new_ids.len();
        let limit = request
            .sampling
            .max_new_tokens
            .min(context.saturating_sub(used));
        if limit == 0 {
            let full = Generation {
                ids: Vec::new(),
                logprobs: Vec::new(),
                finish: Finish::Window,
            };
            self.done.push((request.rollout, Ok(full)));
            return Ok(());
        }
        let slot = known.unwrap_or_else(|| self.open(&request.rollout));
        if let Some(row) = &mut self.rows[slot] {
            row.pending.drain(..row.n_read);
            row.n_read = 0;
            row.pending.extend(&request.new_ids);
            row.job = Some(Job::new(&request, limit));
        }
        self.active.push(slot);
        if known.is_none() {
            self.join_opening(slot, request.new_ids.into());
        }
        Ok(())
    }

    fn poll(&mut self, wait: Duration) -> Vec<Answer> {
        let start = Instant::now();
        self.expire();
        while self.done.is_empty() && !self.active.is_empty() {
            self.step();
            self.expire();
            if start.elapsed() >= wait {
                break;
            }
        }
        std::mem::take(&mut self.done)
    }

    fn release(&mut self, rollout: &RolloutId) {
        if let Some(&slot) = self.slots.get(rollout) {
            self.close(slot);
        }
    }

    fn version(&self) -> PolicyVersion {
        self.version
    }
}

#[cfg(test)]
mod tests;
