//! The contract by which siblings are selected, and what passes through it.
//!
//! A trainer sees a router only through [`SelectSiblings`].

use std::error::Error;

use harness_core::{HarnessId, PolicyVersion, RolloutId, Seed, TaskId};
use serde::{Deserialize, Serialize};

use crate::cluster::Cluster;
use crate::digest::Digest;
use crate::evidence::EvidenceRow;
use crate::pool::SiblingPool;
use crate::profile::ProfileError;

/// What a selector may know of the task at hand: never its family.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteContext {
    /// The task that is to be rescued, or at inference the one to be run.
    pub task_id: TaskId,
    /// What the agent is told.
    pub instruction: String,
    /// The failed base attempts; `None` if there are none to look at (Rank-1 routing).
    pub digest: Option<Digest>,
    /// The version of the policy that will run.
    pub policy_version: PolicyVersion,
    /// The training step, for the log.
    pub step: u64,
    /// The seed of this decision's random choices, already particular to step and task.
    pub seed: Seed,
}

impl RouteContext {
    /// The context of a task that nobody attempted yet: no digest, step 0, version 0. Where more is known, set the
    /// fields.
    pub fn new(task_id: TaskId, instruction: impl Into<String>, seed: Seed) -> Self {
        Self {
            task_id,
            instruction: instruction.into(),
            digest: None,
            policy_version: PolicyVersion(0),
            step: 0,
            seed,
        }
    }

    /// The failure cluster of the digest, or that of a task not attempted yet.
    pub fn cluster(&self) -> Cluster {
        match &self.digest {
            Some(digest) => digest.cluster(),
            None => Cluster::unseen(&self.instruction),
        }
    }
}

/// What was selected, and why: one log entry.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// The siblings, best first, none twice.
    pub chosen: Vec<HarnessId>,
    /// What each voter said, counted or not.
    pub ballots: Vec<BallotRecord>,
    /// Whether the last of `chosen` was drawn at random to learn of it.
    pub explored: bool,
    /// Why another rule than the usual one decided, if so (for instance a quorum that was missed).
    pub fallback: Option<String>,
    /// What a reader of the log should know besides: a stale profile, an unroutable sibling that had to
    /// stand in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One voter's ballot as it is logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BallotRecord {
    /// The voter's name.
    pub voter: String,
    /// The ranking, best first; what the voter said even if it was not counted.
    pub ranking: Vec<HarnessId>,
    /// Why the ballot was not counted; `None` if it was.
    pub rejected: Option<String>,
    /// Whether the voter is an embedded one that stood in below the quorum.
    #[serde(default)]
    pub is_stand_in: bool,
}

/// What came of a rescue under one selected sibling.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RescueEvidence {
    /// The context in which the sibling was selected.
    pub context: RouteContext,
    /// The sibling that ran, or the base where its retries are told.
    pub harness: HarnessId,
    /// Valid attempts that solved the task.
    pub solved: u32,
    /// Attempts that say something about the policy, as many as there are rows.
    pub attempts: u32,
    /// One row for each valid attempt.
    pub rows: Vec<EvidenceRow>,
}

/// Runs a fixed anchor set with the current policy.
///
/// Obligatory: every call uses the same tasks and number of attempts; rows carry the harness that really
/// ran, the current policy version, and `is_selected: false`; attempts that say nothing about the policy
/// give no row. Rows of the base with `base_failed_all` are *fresh retries*, made after the attempts by which
/// the failure was found: were it found by those very attempts, all of them would be unsolved by
/// construction, and every sibling would look better than the base.
pub trait Probe {
    /// Attempts under one sibling, or under the base for `None`.
    ///
    /// # Errors
    /// [`SelectError::Probe`] if no rollouts can be had.
    fn probe(&mut self, harness: Option<&HarnessId>) -> Result<Vec<EvidenceRow>, SelectError>;

    /// Attempts under the base and each of `siblings`: every probe of a re-anchoring, before anything is changed
    /// by it.
    ///
    /// # Errors
    /// [`SelectError`] of the first probe that fails, [`SelectError::EmptyProbe`] if all together gave no row.
    fn probe_all(&mut self, siblings: &[HarnessId]) -> Result<Vec<EvidenceRow>, SelectError> {
        let mut rows = self.probe(None)?;
        for id in siblings {
            rows.extend(self.probe(Some(id))?);
        }
        if rows.is_empty() {
            return Err(SelectError::EmptyProbe);
        }
        Ok(rows)
    }
}

/// Selects siblings for tasks on which the base failed, and learns from what came of it.
///
/// Contract for implementers:
/// - `select` returns at most `k` siblings of the pool, none twice, never the base, and exactly
///   `min(k, n)` of a pool of `n`; `k = 0` and an empty pool give an empty decision, not an error;
/// - `select` is a function of the selector's state and the context: the same context gives the same
///   decision until `observe` or `reanchor` is called, and all randomness comes from `context.seed`;
/// - `observe` may be told the same rows twice and must count them once;
/// - `reanchor` probes the base and every sibling of the pool, and changes nothing if it fails.
///
/// Call order: `select`, then `observe` once for each harness that ran; `reanchor` between steps.
pub trait SelectSiblings {
    /// Chooses `min(k, n)` siblings, best first.
    ///
    /// # Errors
    /// [`SelectError`] if no decision can be made; a voter that fails is no reason.
    fn select(&mut self, context: &RouteContext, k: usize) -> Result<Decision, SelectError>;

    /// Takes in what came of a rescue.
    ///
    /// # Errors
    /// [`SelectError`] if the evidence contradicts itself or what is known, or is of a harness outside the
    /// pool; nothing of it is then kept.
    fn observe(&mut self, evidence: &RescueEvidence) -> Result<(), SelectError>;

    /// Refreshes what is known with the current policy.
    ///
    /// # Errors
    /// [`SelectError`] if a probe fails or gives nothing; what was known is then as it was.
    fn reanchor(&mut self, probe: &mut dyn Probe) -> Result<(), SelectError>;
}

/// Why a selector could not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// Evidence is of a harness that is neither the base nor in the pool.
    #[error("evidence of a harness that is not in the pool: {0}")]
    UnknownHarness(HarnessId),
    /// The parts of the evidence do not fit together.
    #[error("evidence of harness {harness} contradicts itself: {problem}")]
    Inconsistent {
        /// The harness.
        harness: HarnessId,
        /// What does not fit.
        problem: &'static str,
    },
    /// The profile refused the rows.
    #[error("the behaviour profile refused the evidence: {0}")]
    Profile(#[from] ProfileError),
    /// A probe could not run.
    #[error("a re-anchoring probe failed: {0}")]
    Probe(#[source] Box<dyn Error + Send + Sync>),
    /// Re-anchoring gave no row at all, so nothing is known of the current policy.
    #[error("re-anchoring gave no evidence: no probe returned a row")]
    EmptyProbe,
    /// The profile is too old for the policy that runs, and the selector is set to refuse (bug report V9).
    #[error(
        "the behaviour profile is stale: anchored at v{}, due again by v{}, now v{}",
        anchored_at.0, due.0, now.0
    )]
    StaleProfile {
        /// The version of the policy at the last re-anchoring.
        anchored_at: PolicyVersion,
        /// The last version at which the profile is not stale.
        due: PolicyVersion,
        /// The version that runs.
        now: PolicyVersion,
    },
    /// The selector's configuration cannot be.
    #[error("the selector's configuration is not valid: {0}")]
    Config(String),
}

impl SelectError {
    /// Wraps whatever kept a probe from running.
    pub fn probe(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Probe(source.into())
    }
}

impl RescueEvidence {
    /// Makes the evidence of its rows, with both counts taken from them.
    pub fn from_rows(context: RouteContext, harness: HarnessId, rows: Vec<EvidenceRow>) -> Self {
        Self {
            context,
            harness,
            solved: rows.iter().filter(|row| row.solved).count() as u32,
            attempts: rows.len() as u32,
            rows,
        }
    }

    /// Makes the evidence of a rescue of which nothing is known but which attempts solved the task, as with agents
    /// that no executor of this workspace runs. Turns and tokens count as 0 and no rule as fired; whoever knows
    /// them sets them in `rows`.
    pub fn from_solved(
        context: &RouteContext,
        harness: &HarnessId,
        attempts: impl IntoIterator<Item = (RolloutId, bool)>,
    ) -> Self {
        let row = |(rollout, solved)| EvidenceRow {
            rollout,
            harness: harness.clone(),
            task: context.task_id.clone(),
            cluster: context.cluster(),
            solved,
            base_failed_all: true,
            is_selected: true,
            turns: 0,
            tokens: 0,
            policy_version: context.policy_version,
            fired: false,
            flags: Vec::new(),
        };
        let rows = attempts.into_iter().map(row).collect();
        Self::from_rows(context.clone(), harness.clone(), rows)
    }

    /// Checks the evidence, and that it is of the base or a sibling of `pool`: what every `observe` begins with.
    ///
    /// # Errors
    /// Those of [`RescueEvidence::check`], and [`SelectError::UnknownHarness`].
    pub fn check_in(&self, pool: &SiblingPool) -> Result<(), SelectError> {
        if self.harness != *pool.base_id() && pool.get(&self.harness).is_none() {
            return Err(SelectError::UnknownHarness(self.harness.clone()));
        }
        self.check()
    }

    /// Checks that counts and rows agree.
    ///
    /// # Errors
    /// [`SelectError::Inconsistent`] if they do not, or if a row is of another harness or task.
    pub fn check(&self) -> Result<(), SelectError> {
        let solved = self.rows.iter().filter(|row| row.solved).count() as u32;
        let is_other_task = |row: &EvidenceRow| row.task != self.context.task_id;
        let problem = if self.attempts as usize != self.rows.len() {
            "the number of attempts is not the number of rows"
        } else if self.solved != solved {
            "the number of solved attempts is not that of the rows"
        } else if self.rows.iter().any(|row| row.harness != self.harness) {
            "a row is of another harness"
        } else if self.rows.iter().any(is_other_task) {
            "a row is of another task"
        } else {
            return Ok(());
        };
        Err(SelectError::Inconsistent {
            harness: self.harness.clone(),
            problem,
        })
    }
}
