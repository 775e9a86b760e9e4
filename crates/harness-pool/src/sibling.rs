//! One sibling harness, and the evidence on which it was accepted.

use harness_core::{HarnessEdit, HarnessError, HarnessId, HarnessSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A base harness with an overlay that repairs one direction of failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sibling {
    /// A name for reports, unique in its pool, 1 to 120 characters without control characters. It is no
    /// part of the harness: the same content has the same id under any name.
    pub name: String,
    /// The base and the overlay.
    pub harness: HarnessSpec,
    /// The repair direction, as evolution labelled it.
    pub direction: String,
    /// The edits that made it of the base, oldest first; empty if it was written by hand.
    pub lineage: Vec<HarnessEdit>,
    /// What was measured when it was accepted.
    pub evidence: AcceptanceEvidence,
}

/// What the one confirmation of a sibling measured (design: exact one-sided sign-flip over tasks, Holm over
/// all confirmations, against as many fresh base retries). Ours: the abstract of arXiv 2611.04277 is silent.
///
/// The default is that of a sibling that was never confirmed: no tasks, and a p-value of 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptanceEvidence {
    /// Tasks of the confirmation slice.
    pub n_tasks: u32,
    /// Attempts under each arm, over all tasks together.
    pub n_attempts: u32,
    /// Attempts under the sibling that solved their task, at most `n_attempts`.
    pub sibling_solved: u32,
    /// Fresh base retries that solved their task, at most `n_attempts`.
    pub retry_solved: u32,
    /// One-sided p-value, in `[0, 1]`; 1 without tasks.
    pub p_value: f64,
    /// The Holm level that it passed, in `[0, 1]`.
    pub threshold: f64,
    /// Share of the slice's tasks, in `[-1, 1]`, that the sibling adds to what was covered before: solved at
    /// least once by the sibling, and not at all by what it was compared with. What that was is the maker's
    /// to say; `harness-evolve` counts the base's first attempts, not the siblings already in the pool.
    pub union_gain: f64,
    /// Share of the same tasks, in `[-1, 1]`, that as many fresh base retries add over the same attempts. A
    /// sibling adds something only if `union_gain` is larger.
    pub retry_gain: f64,
    /// Base-solved tasks that the sibling failed; `None` if it was not measured, which is not zero.
    pub regressions: Option<u32>,
}

impl Default for AcceptanceEvidence {
    fn default() -> Self {
        Self {
            n_tasks: 0,
            n_attempts: 0,
            sibling_solved: 0,
            retry_solved: 0,
            p_value: 1.0,
            threshold: 0.0,
            union_gain: 0.0,
            retry_gain: 0.0,
            regressions: None,
        }
    }
}

impl Sibling {
    /// A sibling that nobody evolved or confirmed: a base with edits of yours, for the direction `none`.
    ///
    /// # Errors
    /// [`HarnessError`] of the first edit that does not apply.
    pub fn by_hand(
        name: impl Into<String>,
        base: &HarnessSpec,
        edits: Vec<HarnessEdit>,
    ) -> Result<Self, HarnessError> {
        let mut sibling = Self {
            name: name.into(),
            harness: base.clone(),
            direction: "none".into(),
            lineage: edits,
            evidence: AcceptanceEvidence::default(),
        };
        sibling.harness = sibling.replay(base)?;
        Ok(sibling)
    }

    /// The content hash of the harness.
    pub fn id(&self) -> HarnessId {
        self.harness.id()
    }

    /// Applies the lineage to a base, and so makes the harness again.
    ///
    /// # Errors
    /// [`HarnessError`] if an edit does not apply.
    pub fn replay(&self, base: &HarnessSpec) -> Result<HarnessSpec, HarnessError> {
        self.lineage
            .iter()
            .try_fold(base.clone(), |harness, edit| harness.apply(edit))
    }
}

impl AcceptanceEvidence {
    /// The name of the first field whose value cannot be, if any.
    pub(crate) fn bad_field(&self) -> Option<&'static str> {
        let is_share = |value: f64| (0.0..=1.0).contains(&value);
        let is_gain = |value: f64| (-1.0..=1.0).contains(&value);
        let checks = [
            ("sibling_solved", self.sibling_solved <= self.n_attempts),
            ("retry_solved", self.retry_solved <= self.n_attempts),
            ("p_value", is_share(self.p_value)),
            ("threshold", is_share(self.threshold)),
            ("union_gain", is_gain(self.union_gain)),
            ("retry_gain", is_gain(self.retry_gain)),
        ];
        checks
            .iter()
            .find(|(_, holds)| !holds)
            .map(|(name, _)| *name)
    }
}
