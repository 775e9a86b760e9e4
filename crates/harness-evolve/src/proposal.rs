//! Proposals of edits, and the trait of those who make them.
//!
//! A proposer never sees the confirmation slice, and its claims accept nothing: what helps is found by
//! reruns. A proposer that asks a model gives it the [`strict`](harness_core::schema::strict()) form of the JSON
//! Schema of [`Proposal`].

use harness_core::{HarnessEdit, HarnessError, HarnessSpec, Moment, Seed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::label::Label;
use crate::packet::FailurePacket;

/// Edits that make a candidate of a parent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Proposal {
    /// The edits, applied in order; not empty.
    pub edits: Vec<HarnessEdit>,
    /// Why, for the report; nothing reads it.
    pub why: String,
}

/// What was tried on this parent before in this direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// The edits, in the order in which they were applied.
    pub edits: Vec<HarnessEdit>,
    /// How it went.
    pub result: TriedResult,
}

/// How an earlier proposal went.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TriedResult {
    /// Success rate minus the base's, over the search tasks; in \[-1, 1\].
    Gain(f64),
    /// Refused before any rerun; the kind alone, so that nothing of a task is told.
    Rejected(&'static str),
}

/// What a proposer is told.
#[derive(Debug, Clone, Copy)]
pub struct DirectionBrief<'a> {
    /// What the failures share.
    pub label: &'a Label,
    /// Where a repair would bite.
    pub moment: Moment,
    /// Failures of the search slice.
    pub packets: &'a [FailurePacket],
    /// The harness to which the edits are applied: the base, or the best candidate so far.
    pub parent: &'a HarnessSpec,
    /// What was tried on this parent before.
    pub tried: &'a [Tried],
}

/// Proposes edits.
pub trait Proposer {
    /// Up to `n` proposals for a direction; more are ignored, fewer (even none) are taken as they are.
    ///
    /// Called several times per direction: once per parent and round, and again while refusals leave
    /// places. Edits in `brief.tried` are refused if they come back.
    ///
    /// # Errors
    /// [`ProposeError::Unusable`] if this reply cannot be used, [`ProposeError::Failed`] if there is no
    /// point in going on.
    ///
    /// # Determinism
    /// Equal brief, `n` and `seed` must give equal proposals where the proposer can promise that.
    fn propose(
        &mut self,
        brief: &DirectionBrief<'_>,
        n: usize,
        seed: Seed,
    ) -> Result<Vec<Proposal>, ProposeError>;
}

/// Why there are no proposals.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProposeError {
    /// This reply gave nothing that could be adopted, for instance because it was cut (bug report E1). It
    /// is recorded, and the evolution goes on.
    #[error("unusable proposal: {reason}")]
    Unusable {
        /// What is wrong with it.
        reason: String,
    },
    /// The proposer cannot go on; the evolution stops.
    #[error("proposer failed")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Applies edits in order; `parent` stays as it is.
///
/// # Errors
/// [`HarnessError`] of the first edit that does not apply.
pub fn apply_all(parent: &HarnessSpec, edits: &[HarnessEdit]) -> Result<HarnessSpec, HarnessError> {
    edits
        .iter()
        .try_fold(parent.clone(), |harness, edit| harness.apply(edit))
}
