//! What the trainer needs of a policy model: snapshots that sample, log-probs, and one update.

use harness_core::{Policy, PolicyVersion, Sequence};

/// Where the denominator of a row's importance ratio comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum OldLogprobs {
    /// The weights before this update, in the row's own ids: the ratio is exactly 1 on the first and only
    /// step, and its gradient is that of the log-prob. Costs no second forward pass.
    Current,
    /// Given, in nats, as long as the row's ids; read only where the mask is set. NaN is a log-prob that the
    /// engine did not give: the ratio is then 1 (bug report G24).
    Given(Vec<f32>),
}

/// One row of an update.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateRow {
    /// Ids, loss mask, and the log-probs with which the sampler drew them.
    pub sequence: Sequence,
    /// Denominator of the ratio.
    pub old: OldLogprobs,
    /// The row's advantage, the same for all of its tokens.
    pub advantage: f32,
    /// Whether each token is weighted by `min(exp(trainer - sampler), cap)`, detached: right only where the
    /// row's ids are the context in which they were sampled.
    pub corrects_sampler: bool,
}

/// One update's rows and constants.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateBatch {
    /// Rows; those without a sampled token, or with advantage 0, still count in `normalizer`.
    pub rows: Vec<UpdateRow>,
    /// The ratio is clipped to `[1 - clip_low, 1 + clip_high]`.
    pub clip_low: f32,
    /// See `clip_low`.
    pub clip_high: f32,
    /// Cap of the sampler correction.
    pub importance_cap: f32,
    /// The number by which the summed token losses are divided, for the whole step and whatever the
    /// micro-batches (bug report G11); `>= 1`.
    pub normalizer: f32,
    /// Learning rate.
    pub learning_rate: f64,
    /// Largest global gradient norm.
    pub max_grad_norm: f32,
}

/// What an update did.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct UpdateStats {
    /// The loss before the step.
    pub loss: f32,
    /// Its part that comes from rows with negative advantage.
    pub negative_loss: f32,
    /// Global gradient norm before clipping.
    pub grad_norm: f32,
    /// Share of masked tokens whose ratio was clipped, in `[0, 1]`.
    pub clipped_share: f32,
    /// Masked tokens.
    pub n_tokens: usize,
    /// Mean entropy-free surprise of the masked tokens, `-logprob`, in nats.
    pub surprise: f32,
}

/// Why an update was refused; the weights are as before.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LearnerError {
    /// Loss or gradient is NaN or infinite.
    #[error("{what} is not finite in the update of {version}; nothing was changed")]
    NotFinite {
        /// `loss` or `gradient`.
        what: &'static str,
        /// The version that was to be updated.
        version: PolicyVersion,
    },
    /// A row's ids, mask and log-probs differ in length, or it is longer than the model's context.
    #[error("row {row} cannot be trained on: {reason}")]
    BadRow {
        /// Its index in the batch.
        row: usize,
        /// What is wrong.
        reason: String,
    },
}

/// A policy that can be trained.
pub trait Learner {
    /// A policy that samples from the current weights; later updates do not change it. Snapshots of one
    /// version share their weights, so several threads may each have one.
    fn snapshot(&self) -> Box<dyn Policy>;

    /// The log-prob of every masked id under the current weights, 0 elsewhere; as long as the ids.
    ///
    /// # Errors
    /// [`LearnerError::BadRow`].
    fn logprobs(&self, rows: &[Sequence]) -> Result<Vec<Vec<f32>>, LearnerError>;

    /// One optimizer step on
    /// `-(1/normalizer) * sum over masked tokens of w * min(r*A, clip(r)*A)`,
    /// `r = exp(logprob - old)`, `A` the row's advantage, `w` the sampler correction or 1.
    /// The version grows by one.
    ///
    /// # Errors
    /// [`LearnerError`]; the weights are then as before.
    fn update(&mut self, batch: &UpdateBatch) -> Result<UpdateStats, LearnerError>;

    /// The current version.
    fn version(&self) -> PolicyVersion;

    /// The longest row that it can be trained on, in ids.
    fn max_context(&self) -> usize {
        usize::MAX
    }
}
