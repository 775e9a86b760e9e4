//! What the failed base attempts at a task have in common, in a few words.

use std::collections::BTreeMap;

use harness_core::{Fact, Outcome, Trajectory, Turn};
use serde::{Deserialize, Serialize};

use crate::cluster::{self, Cluster, NO_ERROR};

/// The name of the fact that a digest reads, if the environment publishes it: a text, `"none"` where the
/// last action had no error.
pub const ERROR_KIND_FACT: &str = "error_kind";
/// The name of a fact that says how many turns are left; 0 or less marks an attempt that hit its limit.
pub const TURNS_LEFT_FACT: &str = "turns_left";

/// A summary of the base attempts at one task, without the task's family.
///
/// It is generic in the environment: all that it reads of it is the fact [`ERROR_KIND_FACT`], and
/// [`TURNS_LEFT_FACT`] where no limit is given. A missing fact is as good as `"none"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Digest {
    /// What the agent was told.
    pub instruction: String,
    /// What the task asks for: the first word of the instruction, lower case (two for a question).
    pub verb: String,
    /// The most frequent, over attempts, of the last error kind that is not `"none"`; `"none"` if most
    /// attempts had none. Ties go to an error before `"none"`, then to the first in the alphabet.
    pub error_kind: String,
    /// Whether at least half of the attempts ended at the turn limit.
    pub hit_turn_limit: bool,
    /// Whether at least half of the attempts ended by themselves, with no error in the last turn: the agent
    /// took the task for done.
    pub gave_up: bool,
    /// Attempts that were counted: those that say something about the policy.
    pub n_attempts: u32,
}

impl Digest {
    /// Digests attempts whose turn limit is not known: only [`TURNS_LEFT_FACT`] then tells that it was hit.
    pub fn from_attempts(instruction: &str, attempts: &[Trajectory]) -> Self {
        Self::from_attempts_within(instruction, attempts, usize::MAX)
    }

    /// Digests attempts under a harness with this turn limit.
    ///
    /// Invalid attempts are left out; without any attempt the error kind is `"none"` and both flags are
    /// false. The order of the attempts does not matter.
    pub fn from_attempts_within(
        instruction: &str,
        attempts: &[Trajectory],
        max_turns: usize,
    ) -> Self {
        let valid = || attempts.iter().filter(|t| t.outcome.is_valid());
        let n_attempts = valid().count();
        let n_at_limit = valid().filter(|t| is_at_limit(t, max_turns)).count();
        let n_gave_up = valid().filter(|t| is_given_up(t, max_turns)).count();
        let is_half = |n: usize| n > 0 && 2 * n >= n_attempts;
        Self {
            instruction: instruction.to_owned(),
            verb: cluster::verb(instruction),
            error_kind: majority(valid().map(last_error_kind)),
            hit_turn_limit: is_half(n_at_limit),
            gave_up: is_half(n_gave_up),
            n_attempts: n_attempts as u32,
        }
    }

    /// The failure cluster: verb and error kind.
    pub fn cluster(&self) -> Cluster {
        Cluster::of(&self.instruction, &self.error_kind)
    }
}

fn error_kind(turn: &Turn) -> &str {
    match turn.facts.get(ERROR_KIND_FACT) {
        Some(Fact::Text(kind)) if !kind.trim().is_empty() => kind.trim(),
        _ => NO_ERROR,
    }
}

fn last_error_kind(attempt: &Trajectory) -> &str {
    let mut kinds = attempt.turns.iter().rev().map(error_kind);
    kinds.find(|kind| *kind != NO_ERROR).unwrap_or(NO_ERROR)
}

fn majority<'a>(kinds: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for kind in kinds {
        *counts.entry(kind).or_default() += 1;
    }
    // `max_by_key` keeps the last of equals, hence the reversed order.
    counts
        .iter()
        .rev()
        .max_by_key(|(kind, count)| (**count, **kind != NO_ERROR))
        .map_or(NO_ERROR, |(kind, _)| *kind)
        .to_owned()
}

fn is_at_limit(attempt: &Trajectory, max_turns: usize) -> bool {
    let last = attempt.turns.last();
    let left = last.and_then(|turn| turn.facts.get(TURNS_LEFT_FACT));
    attempt.turns.len() >= max_turns || matches!(left, Some(Fact::Int(n)) if *n <= 0)
}

fn is_given_up(attempt: &Trajectory, max_turns: usize) -> bool {
    let is_clean = attempt.turns.last().map_or(NO_ERROR, error_kind) == NO_ERROR;
    attempt.outcome == Outcome::Failed && is_clean && !is_at_limit(attempt, max_turns)
}
