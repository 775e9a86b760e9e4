//! Failure packets: what a proposer may see of a failed attempt, bounded in size.
//!
//! A packet holds the instruction, the last steps cut head and tail, and signals that are counted, not
//! judged. It holds no task id, no family, no answer and no text of the verdict.

use std::collections::BTreeMap;

use harness_core::{Fact, Facts, Limits, Outcome, Trajectory, Turn};
use serde::{Deserialize, Serialize};

use crate::error::ConfigError;
use crate::text::cut_middle;

/// How large a packet may be. All defaults are ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PacketBounds {
    /// Most steps, the last ones are kept; 1 to 64. Default 4.
    pub max_steps: usize,
    /// Most characters of the instruction; at least 16. Default 600.
    pub instruction_chars: usize,
    /// Most characters of one action; at least 16. Default 300.
    pub action_chars: usize,
    /// Most characters of one observation; at least 16. Default 300.
    pub observation_chars: usize,
}

impl Default for PacketBounds {
    fn default() -> Self {
        Self {
            max_steps: 4,
            instruction_chars: 600,
            action_chars: 300,
            observation_chars: 300,
        }
    }
}

impl PacketBounds {
    /// Checks every field.
    ///
    /// # Errors
    /// [`ConfigError`] naming the first field out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check(
            "packet.max_steps",
            "1 to 64",
            (1..=64).contains(&self.max_steps),
        )?;
        let shortest = self
            .instruction_chars
            .min(self.action_chars)
            .min(self.observation_chars);
        ConfigError::check("packet.*_chars", "at least 16", shortest >= 16)
    }
}

/// One failed attempt as a proposer sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailurePacket {
    /// What the agent was told, cut.
    pub instruction: String,
    /// The last steps, oldest first.
    pub steps: Vec<PacketStep>,
    /// What was counted over the whole attempt.
    pub signals: Signals,
}

/// One step of a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketStep {
    /// Number of the turn, from 0.
    pub turn: usize,
    /// The action, cut.
    pub action: String,
    /// The observation, cut.
    pub observation: String,
}

/// What was counted over an attempt. Facts of the environment are read where it publishes them; without
/// them the generic reading in brackets is used.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent observations, no state machine"
)]
pub struct Signals {
    /// Turns taken.
    pub n_turns: usize,
    /// The turn limit ended the attempt.
    pub is_turn_limit: bool,
    /// Fact `gave_up` at the end \[false\].
    pub gave_up: bool,
    /// The agent neither finished nor gave up: the limit ended it.
    pub never_completed: bool,
    /// How often the most frequent action was sent; 1 if no action was sent twice, 0 without turns.
    pub max_repeats: usize,
    /// Turns in error by kind: fact `error_kind` \[the exception's name in the observation\].
    pub error_kinds: BTreeMap<String, usize>,
    /// Turns after the last error; none if there was no error.
    pub turns_since_error: Option<usize>,
    /// Turns that the embedded interpreter could not carry out.
    pub n_unsupported: usize,
    /// Fact `n_writes` at the end \[0\].
    pub n_writes: i64,
    /// Fact `write_unchecked` at the end \[false\].
    pub write_unchecked: bool,
    /// Fact `last_page_full` at the end \[false\].
    pub last_page_full: bool,
}

impl FailurePacket {
    /// Makes the packet of a failed attempt; none if the attempt is not [`Outcome::Failed`].
    ///
    /// `limits` are those of the harness that ran. A solved, truncated or broken attempt says nothing about
    /// what a repair should change.
    ///
    /// # Source
    /// Ours: the abstract does not describe packets.
    pub fn new(
        instruction: &str,
        trajectory: &Trajectory,
        limits: Limits,
        bounds: &PacketBounds,
    ) -> Option<Self> {
        if trajectory.outcome != Outcome::Failed {
            return None;
        }
        let turns = &trajectory.turns;
        let first = turns.len().saturating_sub(bounds.max_steps);
        let step = |(turn, t): (usize, &Turn)| PacketStep {
            turn,
            action: cut_middle(&t.action, bounds.action_chars),
            observation: cut_middle(&t.observation, bounds.observation_chars),
        };
        Some(Self {
            instruction: cut_middle(instruction, bounds.instruction_chars),
            steps: turns.iter().enumerate().skip(first).map(step).collect(),
            signals: Signals::of(turns, limits),
        })
    }

    /// The packet's words as one text, for lexical search.
    pub fn text(&self) -> String {
        let steps = self
            .steps
            .iter()
            .flat_map(|s| [s.action.as_str(), &s.observation]);
        let kinds = self.signals.error_kinds.keys().map(String::as_str);
        let parts: Vec<&str> = std::iter::once(self.instruction.as_str())
            .chain(steps)
            .chain(kinds)
            .collect();
        parts.join("\n")
    }
}

impl Signals {
    /// Counts over all turns of an attempt.
    fn of(turns: &[Turn], limits: Limits) -> Self {
        let no_facts = Facts::new();
        let end = turns.last().map_or(&no_facts, |t| &t.facts);
        let gave_up = flag(end, "gave_up").unwrap_or(false);
        let finished = flag(end, "completed").unwrap_or(turns.len() < limits.max_turns);
        let is_turn_limit = !gave_up && !finished && turns.len() >= limits.max_turns;
        let errors: Vec<Option<String>> = turns.iter().map(error_kind).collect();
        let mut error_kinds = BTreeMap::new();
        for kind in errors.iter().flatten() {
            *error_kinds.entry(kind.clone()).or_insert(0) += 1;
        }
        Self {
            n_turns: turns.len(),
            is_turn_limit,
            gave_up,
            never_completed: !gave_up && !finished,
            max_repeats: max_repeats(turns),
            error_kinds,
            turns_since_error: errors.iter().rev().position(Option::is_some),
            n_unsupported: turns.iter().filter(|t| t.is_unsupported).count(),
            n_writes: match end.get("n_writes") {
                Some(Fact::Int(n)) => *n,
                _ => 0,
            },
            write_unchecked: flag(end, "write_unchecked").unwrap_or(false),
            last_page_full: flag(end, "last_page_full").unwrap_or(false),
        }
    }

    /// The most frequent error kind, the first in alphabetical order among equals; none without errors.
    pub fn dominant_error(&self) -> Option<&str> {
        let most = self.error_kinds.values().max()?;
        let mut kinds = self.error_kinds.iter();
        kinds
            .find(|(_, n)| *n == most)
            .map(|(kind, _)| kind.as_str())
    }
}

fn flag(facts: &Facts, name: &str) -> Option<bool> {
    match facts.get(name) {
        Some(Fact::Bool(value)) => Some(*value),
        _ => None,
    }
}

fn max_repeats(turns: &[Turn]) -> usize {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for turn in turns {
        *counts.entry(turn.action.trim()).or_insert(0) += 1;
    }
    counts.into_values().max().unwrap_or(0)
}

/// The kind of the error in which a turn ended, if it did.
///
/// Fact `last_result_error` says whether, fact `error_kind` says which; an empty kind and `none` are no
/// error. Without facts the observation is read.
fn error_kind(turn: &Turn) -> Option<String> {
    let told = match turn.facts.get("error_kind") {
        Some(Fact::Text(kind)) => Some(kind.trim()),
        _ => None,
    };
    let named = told.filter(|k| !k.is_empty() && !k.eq_ignore_ascii_case("none"));
    match (flag(&turn.facts, "last_result_error"), named) {
        (Some(false), _) => None,
        (_, Some(kind)) => Some(cut_middle(kind, 60)),
        (Some(true), None) => {
            Some(kind_in_text(&turn.observation).unwrap_or_else(|| "error".into()))
        }
        (None, None) if told.is_some() => None,
        (None, None) => kind_in_text(&turn.observation),
    }
}

/// The exception named by the last line that starts with one at the left margin.
fn kind_in_text(observation: &str) -> Option<String> {
    observation.lines().rev().find_map(|line| {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let end = line.find(|c| !is_name(c)).unwrap_or(line.len());
        let (name, rest) = line.split_at(end);
        let name = name.rsplit('.').next().unwrap_or(name);
        let is_error = name.ends_with("Error") || name.ends_with("Exception") || name == "ERROR";
        (is_error && (rest.is_empty() || rest.starts_with([':', ' '])))
            .then(|| cut_middle(name, 60))
    })
}

#[cfg(test)]
mod tests;
