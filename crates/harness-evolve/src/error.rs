//! What can go wrong in an evolution. A failed candidate is data, not an error.

use harness_core::{HarnessError, HarnessId, PolicyVersion, RolloutId, Split, TaskId};
use harness_pool::PoolError;

use crate::proposal::ProposeError;
use crate::rerun::RerunError;

/// A field of a configuration is outside its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("configuration: {field} must be {expected}")]
pub struct ConfigError {
    /// The field.
    pub field: &'static str,
    /// What it must be.
    pub expected: &'static str,
}

impl ConfigError {
    pub(crate) fn check(
        field: &'static str,
        expected: &'static str,
        holds: bool,
    ) -> Result<(), Self> {
        if holds {
            Ok(())
        } else {
            Err(Self { field, expected })
        }
    }
}

/// Why an evolution stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvolveError {
    /// The configuration is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The harness that is to be evolved has an overlay already.
    #[error("evolution starts from a base without overlay, got harness: {0}")]
    NotABase(HarnessId),
    /// The base breaks a bound.
    #[error("the base harness is invalid")]
    InvalidBase(#[source] HarnessError),
    /// A slice has no tasks (bug report E6: nothing is reused in its place).
    #[error("no tasks of split: {0}")]
    NoTasks(Split),
    /// A task of another split was given.
    #[error("task {task} belongs to split {got}, expected: {expected}")]
    WrongSplit {
        /// The task.
        task: TaskId,
        /// The split of the slice.
        expected: Split,
        /// The task's own.
        got: Split,
    },
    /// A task is given twice, or one of its scenario is in both slices.
    #[error("task is given twice, or its scenario is in both slices: {0}")]
    Overlap(TaskId),
    /// Reruns broke, or do not prove that they ran what was asked.
    #[error(transparent)]
    Rerun(#[from] RerunError),
    /// A trajectory cannot be used as evidence.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The proposer cannot go on.
    #[error("the proposer failed")]
    Propose(#[source] ProposeError),
    /// The pool refused a sibling.
    #[error("the pool refused a sibling")]
    Pool(#[from] PoolError),
}

/// Why a trajectory cannot be used as evidence (bug report E7).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// It ran under another harness than the one that was asked for.
    #[error("attempt {rollout} ran under harness {got}, expected: {expected}")]
    WrongHarness {
        /// The attempt.
        rollout: RolloutId,
        /// The harness that was asked for.
        expected: HarnessId,
        /// The harness that ran.
        got: HarnessId,
    },
    /// It is for a task that was not asked for.
    #[error("attempt {rollout} is for a task that was not asked for: {task}")]
    UnknownTask {
        /// The attempt.
        rollout: RolloutId,
        /// Its task.
        task: TaskId,
    },
    /// A task has another number of attempts than asked for.
    #[error("task {task} has {got} attempts, expected: {expected}")]
    WrongCount {
        /// The task.
        task: TaskId,
        /// Attempts asked for.
        expected: u32,
        /// Attempts returned.
        got: u32,
    },
    /// Another version of the policy made it.
    #[error("attempt {rollout} was made by policy {got}, expected: {expected}")]
    OtherPolicy {
        /// The attempt.
        rollout: RolloutId,
        /// The version of the first attempt seen.
        expected: PolicyVersion,
        /// Its own.
        got: PolicyVersion,
    },
    /// One attempt was returned twice in an evolution.
    #[error("attempt occurs twice: {0}")]
    Duplicate(RolloutId),
}
