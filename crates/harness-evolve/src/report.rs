//! The report of an evolution: enough to draw its tree and to account for every rollout.

use harness_core::{HarnessEdit, HarnessId};
use serde::{Deserialize, Serialize};

use crate::check::Rejection;
use crate::confirm::Measured;
use crate::direction::{LabelGroup, RepairDirection};

/// The version of the report that this code writes.
pub const REPORT_FORMAT_VERSION: u32 = 1;

/// Everything that an evolution tried, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvolutionReport {
    /// [`REPORT_FORMAT_VERSION`] of the writer.
    pub format_version: u32,
    /// The base harness.
    pub base: HarnessId,
    /// Set in an undirected run alone, and says what it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undirected: Option<UndirectedBudget>,
    /// Every group of equal labels, largest first, kept or not. In an undirected run they only set the
    /// budget, and `is_direction` says what a directed run would have kept.
    pub groups: Vec<LabelGroup>,
    /// The directions; others refer to them by index. An undirected run has one, which holds all failures.
    pub directions: Vec<RepairDirection>,
    /// Every candidate and every refused proposal; `parent` and `harness` make a tree.
    pub candidates: Vec<CandidateRecord>,
    /// Replies of the proposer that could not be used.
    pub unusable: Vec<UnusableReply>,
    /// One confirmation for each direction whose best candidate beat the base while searching; in an
    /// undirected run for each of the best candidates.
    pub confirmations: Vec<ConfirmationRecord>,
    /// Rollouts spent.
    pub rollouts: RolloutsSpent,
}

impl EvolutionReport {
    pub(crate) fn new(base: HarnessId) -> Self {
        Self {
            format_version: REPORT_FORMAT_VERSION,
            base,
            undirected: None,
            groups: Vec::new(),
            directions: Vec::new(),
            candidates: Vec::new(),
            unusable: Vec::new(),
            confirmations: Vec::new(),
            rollouts: RolloutsSpent::default(),
        }
    }
}

/// What an undirected run was given: the budget of the directed run on the same failures.
///
/// With D the directions that the directed run would have had, R rounds, C candidates of a round, a search
/// attempts and A confirmation attempts a task:
/// - R C D candidates, of which the best D distinct ones that beat the base are confirmed, Holm over them;
///   in later rounds the D best candidates so far are edited on, as the best of each direction would be;
/// - one search slice, drawn at random from *all* failed tasks, so large that its reruns (R C D candidates
///   and one base reference) take as many rollouts as those of D directions (each with its own reference);
/// - one confirmation slice, drawn alike, of the mean size of those of the D directions.
///
/// So the planned rollouts differ by at most half a task's worth: a (1 + R C D) / 2 while searching, A D
/// while confirming; by more only if there are fewer failed tasks than a slice should have. Both plans are upper
/// bounds: a proposer that runs dry, or no candidate above the base, leaves some of it unspent.
///
/// # Source
/// Ours: the abstract of arXiv 2611.04277 does not describe the ablation. Rejected: one slice of all failed
/// tasks, which would spend several times the rollouts; D random groups, which are directions again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndirectedBudget {
    /// Directions that the directed run would have had (D).
    pub n_directions: usize,
    /// Most candidates (R C D).
    pub n_candidates: usize,
    /// Rollouts that the directed run's search would take.
    pub directed_search: u64,
    /// Rollouts that this run's search may take.
    pub search: u64,
    /// Rollouts that the directed run's confirmations would take, both arms.
    pub directed_confirm: u64,
    /// Rollouts that this run's confirmations may take, both arms.
    pub confirm: u64,
}

/// One proposal and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CandidateRecord {
    /// Index of its direction.
    pub direction: usize,
    /// Round, from 0.
    pub round: u32,
    /// The harness that was edited.
    pub parent: HarnessId,
    /// The harness that came out; none if the proposal was refused.
    pub harness: Option<HarnessId>,
    /// The edits on the parent.
    pub edits: Vec<HarnessEdit>,
    /// What the proposer said.
    pub why: String,
    /// What became of it.
    pub verdict: Verdict,
}

/// What became of a proposal while searching.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// Refused before any rerun.
    Rejected(Rejection),
    /// Run on the search slice.
    Ranked(SearchScore),
    /// Run on the search slice, and the one that was confirmed.
    Finalist(SearchScore),
}

/// What a rerun on the search slice measured. It ranks and admits nothing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SearchScore {
    /// Tasks with valid attempts under both.
    pub n_tasks: u32,
    /// Mean success rate of the candidate over tasks minus that of the base; in \[-1, 1\].
    pub gain: f64,
    /// The gain minus the cost of edits beyond the first; what candidates are ranked by.
    pub value: f64,
}

/// A reply that gave no proposals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnusableReply {
    /// Index of the direction.
    pub direction: usize,
    /// Round, from 0.
    pub round: u32,
    /// What was wrong.
    pub reason: String,
}

/// One confirmation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConfirmationRecord {
    /// Index of the direction.
    pub direction: usize,
    /// The harness that was confirmed.
    pub harness: HarnessId,
    /// What was measured.
    pub measured: Measured,
    /// The Holm level over all confirmations of the run.
    pub threshold: f64,
    /// Regressions, where they were counted.
    pub regressions: Option<Regressions>,
    /// Whether it entered the pool, and if not, why.
    pub admission: Admission,
}

/// Base-solved tasks that were failed when attempted once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Regressions {
    /// Tasks that the base solved in every first attempt.
    pub n_tasks: u32,
    /// Those that the sibling failed.
    pub sibling: u32,
    /// Those that a fresh base retry failed.
    pub retry: u32,
}

/// Whether a confirmed candidate entered the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Admission {
    /// It is in the pool.
    Admitted,
    /// Its p-value is above its Holm level, or a smaller one is.
    NotSignificant,
    /// It adds no more coverage than a re-run of the base.
    NoUnionGain,
    /// It has more regressions than a re-run of the base (seesaw gate).
    Regresses,
}

/// Rollouts spent, by purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RolloutsSpent {
    /// First base attempts that evolution made itself; those that the caller brought are not counted.
    pub base: u64,
    /// Search reruns, base references among them.
    pub search: u64,
    /// Confirmations, both arms.
    pub confirm: u64,
    /// Counting regressions, both arms.
    pub regression: u64,
}

impl RolloutsSpent {
    /// All of them.
    pub const fn total(&self) -> u64 {
        self.base + self.search + self.confirm + self.regression
    }
}
