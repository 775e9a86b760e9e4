//! Failure labels: how an attempt ended, what the agent did, and which error dominated.
//!
//! Labels are made by rules over a packet's signals alone. They see no family and no verdict, so equal
//! labels mean equal behaviour, not equal tasks.

use std::fmt;

use harness_core::Moment;
use serde::{Deserialize, Serialize};

use crate::config::EvolveConfig;
use crate::packet::Signals;

/// The mechanism of an attempt without errors.
pub const NO_ERROR: &str = "no_error";
/// The mechanism of a coarse label, which joins labels that differ in mechanism only.
pub const MIXED: &str = "mixed";

/// What an undirected run calls its one group.
pub const UNDIRECTED: &str = "undirected";

/// How a failed attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TerminalCause {
    /// The agent gave up.
    GaveUp,
    /// The agent finished, but wrongly.
    WrongEnd,
    /// The turn limit ended it.
    TurnLimit,
    /// In any way: the one group of an undirected run.
    Any,
}

/// What the agent did that a repair could change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Behaviour {
    /// It sent one action again and again.
    RepeatedAction,
    /// It ended on an error, or one turn after it.
    ErrorNotHandled,
    /// It ended after writes that it did not check.
    UnverifiedWrite,
    /// It ended although the last list it saw was full, so that more may follow.
    ListCut,
    /// It ended of itself within the first turns.
    StoppedEarly,
    /// None of these.
    Other,
    /// Anything: the one group of an undirected run.
    Any,
}

/// The label of a failure.
///
/// # Source
/// Ours: the abstract speaks of directions; cause, behaviour and mechanism are our reconstruction.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Label {
    /// How it ended.
    pub terminal: TerminalCause,
    /// What the agent did.
    pub behaviour: Behaviour,
    /// The dominant error kind, [`NO_ERROR`], or [`MIXED`].
    pub mechanism: String,
}

impl fmt::Display for Label {
    /// For instance `wrong_end/list_cut/no_error`; [`UNDIRECTED`] for the group of all failures.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_undirected() {
            return f.write_str(UNDIRECTED);
        }
        let (terminal, behaviour) = (self.terminal.as_str(), self.behaviour.as_str());
        write!(f, "{terminal}/{behaviour}/{}", self.mechanism)
    }
}

impl TerminalCause {
    /// The name used in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GaveUp => "gave_up",
            Self::WrongEnd => "wrong_end",
            Self::TurnLimit => "turn_limit",
            Self::Any => "any",
        }
    }
}

impl Behaviour {
    /// The name used in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RepeatedAction => "repeated_action",
            Self::ErrorNotHandled => "error_not_handled",
            Self::UnverifiedWrite => "unverified_write",
            Self::ListCut => "list_cut",
            Self::StoppedEarly => "stopped_early",
            Self::Other => "other",
            Self::Any => "any",
        }
    }
}

impl Label {
    /// Labels a failure. Of several behaviours the first in the order of [`Behaviour`] counts, since it is
    /// the most specific.
    pub fn of(signals: &Signals, config: &EvolveConfig) -> Self {
        let terminal = if signals.gave_up {
            TerminalCause::GaveUp
        } else if signals.never_completed {
            TerminalCause::TurnLimit
        } else {
            TerminalCause::WrongEnd
        };
        let is_early = signals.n_turns <= config.early_turns;
        let behaviour = if signals.max_repeats >= config.repeat_threshold {
            Behaviour::RepeatedAction
        } else if signals.turns_since_error.is_some_and(|n| n <= 1) {
            Behaviour::ErrorNotHandled
        } else if signals.write_unchecked && signals.n_writes > 0 {
            Behaviour::UnverifiedWrite
        } else if signals.last_page_full {
            Behaviour::ListCut
        } else if is_early && terminal != TerminalCause::TurnLimit {
            Behaviour::StoppedEarly
        } else {
            Behaviour::Other
        };
        Self {
            terminal,
            behaviour,
            mechanism: signals.dominant_error().unwrap_or(NO_ERROR).to_owned(),
        }
    }

    /// What stands in place of a label where all failures are one group and nothing is told of them.
    pub fn undirected() -> Self {
        Self {
            terminal: TerminalCause::Any,
            behaviour: Behaviour::Any,
            mechanism: MIXED.to_owned(),
        }
    }

    /// Whether this is [`Label::undirected`], which tells nothing.
    pub fn is_undirected(&self) -> bool {
        self.terminal == TerminalCause::Any && self.behaviour == Behaviour::Any
    }

    /// Whether a failure with the label `of` belongs to the group of this one: equal, equal but for a
    /// mechanism that is [`MIXED`] here, or anything if this is undirected.
    pub fn holds(&self, of: &Self) -> bool {
        self.is_undirected() || self == of || *self == of.coarse()
    }

    /// The label without its mechanism.
    #[must_use]
    pub fn coarse(&self) -> Self {
        Self {
            mechanism: MIXED.to_owned(),
            ..self.clone()
        }
    }

    /// The moment at which a repair would bite: before the action that spoils the attempt, after the
    /// observation that is not heeded, before the turns that run out, else at the start. Without a label
    /// it is the start, and says nothing.
    pub fn moment(&self) -> Moment {
        match (self.behaviour, self.terminal) {
            (Behaviour::ErrorNotHandled | Behaviour::ListCut, _) => Moment::AfterStep,
            (Behaviour::Other, TerminalCause::TurnLimit) => Moment::BeforeTurn,
            (Behaviour::Any, _) | (Behaviour::Other, TerminalCause::WrongEnd) => Moment::OnStart,
            _ => Moment::BeforeAction,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(signals: &Signals, expect: &str, moment: Moment) {
        let label = Label::of(signals, &EvolveConfig::default());
        assert_eq!(label.to_string(), expect);
        assert_eq!(label.moment(), moment);
    }

    fn base() -> Signals {
        Signals {
            n_turns: 6,
            max_repeats: 1,
            ..Signals::default()
        }
    }

    #[test]
    fn rules_in_order() {
        let mut s = base();
        check(&s, "wrong_end/other/no_error", Moment::OnStart);
        s.n_turns = 1;
        check(&s, "wrong_end/stopped_early/no_error", Moment::BeforeAction);
        s.last_page_full = true;
        check(&s, "wrong_end/list_cut/no_error", Moment::AfterStep);
        s.write_unchecked = true;
        check(&s, "wrong_end/list_cut/no_error", Moment::AfterStep);
        s.n_writes = 1;
        check(
            &s,
            "wrong_end/unverified_write/no_error",
            Moment::BeforeAction,
        );
        s.error_kinds.insert("http_404".into(), 2);
        s.turns_since_error = Some(3);
        check(
            &s,
            "wrong_end/unverified_write/http_404",
            Moment::BeforeAction,
        );
        s.turns_since_error = Some(1);
        check(
            &s,
            "wrong_end/error_not_handled/http_404",
            Moment::AfterStep,
        );
        s.max_repeats = 3;
        check(
            &s,
            "wrong_end/repeated_action/http_404",
            Moment::BeforeAction,
        );
    }

    #[test]
    fn ends() {
        let gave_up = Signals {
            gave_up: true,
            ..base()
        };
        check(&gave_up, "gave_up/other/no_error", Moment::BeforeAction);
        let limit = Signals {
            never_completed: true,
            is_turn_limit: true,
            ..base()
        };
        check(&limit, "turn_limit/other/no_error", Moment::BeforeTurn);
    }

    #[test]
    fn the_undirected_label_tells_nothing_and_holds_all() {
        let (all, some) = (
            Label::undirected(),
            Label::of(&base(), &EvolveConfig::default()),
        );
        assert_eq!(all.to_string(), "undirected");
        assert!(all.is_undirected() && !some.is_undirected());
        assert!(all.holds(&some) && some.coarse().holds(&some) && some.holds(&some));
        assert!(!some.holds(&all) && !some.holds(&some.coarse()));
    }

    #[test]
    fn coarse_labels_join_mechanisms() {
        let label = Label::of(&base(), &EvolveConfig::default());
        assert_eq!(label.coarse().to_string(), "wrong_end/other/mixed");
        let json = serde_json::to_string(&label).unwrap();
        assert_eq!(serde_json::from_str::<Label>(&json).unwrap(), label);
    }
}
