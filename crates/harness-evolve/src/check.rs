//! Refuses proposals before any rerun is spent on them, each for a typed reason.

use std::collections::{BTreeMap, BTreeSet};

use harness_core::{HarnessEdit, HarnessId, HarnessSpec};
use serde::{Deserialize, Serialize};

use crate::edit_text;
use crate::error::ConfigError;
use crate::leak::{Leak, LeakIndex};
use crate::proposal::{Proposal, apply_all};

/// What makes a proposal unfit. All defaults are ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckConfig {
    /// Phrases that no text of a rule or note may contain, case ignored: how to finish, how an action is
    /// written. Conditions may look for them, so that a rule may still act before the end. Default none:
    /// the environment knows its own.
    pub protected: Vec<String>,
    /// Whether an edit may change the limits. More turns are a larger budget, not a better harness (bug
    /// report E10). Default false.
    pub allow_limits: bool,
    /// Longest text of one rule or note, in characters; at least 1. Default 400.
    pub max_text_chars: usize,
    /// Most characters in all texts of an overlay (bug report E11); at least 1. Default 1600.
    pub max_overlay_chars: usize,
    /// Length of a run of words that leaks a task; at least 3. Default 8.
    pub ngram_words: usize,
    /// Length of a run of characters that leaks a task; at least 10. Default 40.
    pub ngram_chars: usize,
}

impl Default for CheckConfig {
    fn default() -> Self {
        Self {
            protected: Vec::new(),
            allow_limits: false,
            max_text_chars: 400,
            max_overlay_chars: 1600,
            ngram_words: 8,
            ngram_chars: 40,
        }
    }
}

impl CheckConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// [`ConfigError`] naming the first field out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let are_filled = self.protected.iter().all(|p| !p.trim().is_empty());
        ConfigError::check("check.protected", "without empty phrases", are_filled)?;
        ConfigError::check(
            "check.max_text_chars",
            "at least 1",
            self.max_text_chars >= 1,
        )?;
        ConfigError::check(
            "check.max_overlay_chars",
            "at least 1",
            self.max_overlay_chars >= 1,
        )?;
        ConfigError::check("check.ngram_words", "at least 3", self.ngram_words >= 3)?;
        ConfigError::check("check.ngram_chars", "at least 10", self.ngram_chars >= 10)
    }
}

/// Why a proposal was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rejection {
    /// It has no edits.
    Empty,
    /// The same edits were refused for this parent before.
    RejectedBefore,
    /// It changes a part that edits may not change.
    ProtectedPart {
        /// The part, for instance `limits`.
        part: String,
    },
    /// A text is blank, or stops within a code fence or a thought: what a cut reply leaves (bug report E1).
    CutText,
    /// A text contains a protected phrase.
    ProtectedPhrase {
        /// The phrase.
        phrase: String,
    },
    /// A text gives away a task (bug report E3).
    Leak(Leak),
    /// A text, or all texts together, are too long (bug report E11).
    OverBudget {
        /// `text` or `overlay`.
        what: String,
        /// Characters.
        got: usize,
        /// Most characters.
        max: usize,
    },
    /// An edit does not apply, or its result breaks a bound.
    Invalid {
        /// The bound.
        reason: String,
    },
    /// The base, or a candidate of this direction, has the same content under another name (bug report
    /// E10).
    Duplicate {
        /// The one that was there.
        of: HarnessId,
    },
}

impl Rejection {
    /// The kind alone, which tells a proposer nothing of a task.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::RejectedBefore => "rejected_before",
            Self::ProtectedPart { .. } => "protected_part",
            Self::CutText => "cut_text",
            Self::ProtectedPhrase { .. } => "protected_phrase",
            Self::Leak(_) => "leak",
            Self::OverBudget { .. } => "over_budget",
            Self::Invalid { .. } => "invalid",
            Self::Duplicate { .. } => "duplicate",
        }
    }
}

/// The key of a harness's content: equal for harnesses that differ only in names of rules, in rules or notes
/// that stand twice, or in overrides that say what the base says.
pub fn content_key(harness: &HarnessSpec) -> HarnessId {
    let mut plain = harness.clone();
    let (base, overlay) = (&plain.base, &mut plain.overlay);
    for rule in &mut overlay.rules {
        rule.name = String::new();
    }
    keep_first(&mut overlay.rules);
    let overrides = &mut overlay.overrides;
    keep_first(&mut overrides.notes);
    overrides.observation.take_if(|o| *o == base.observation);
    overrides.tools.take_if(|t| *t == base.tools);
    overrides.limits.take_if(|l| *l == base.limits);
    plain.id()
}

fn keep_first<T: PartialEq>(items: &mut Vec<T>) {
    let mut kept = Vec::with_capacity(items.len());
    for item in items.drain(..) {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    *items = kept;
}

/// Checks the proposals of one direction, and remembers what it saw.
#[derive(Debug)]
pub struct Checker<'a> {
    config: &'a CheckConfig,
    leaks: &'a LeakIndex,
    seen: BTreeMap<HarnessId, HarnessId>,
    refused: BTreeSet<(HarnessId, String)>,
}

impl<'a> Checker<'a> {
    /// A checker that has seen the base alone.
    pub fn new(base: &HarnessSpec, config: &'a CheckConfig, leaks: &'a LeakIndex) -> Self {
        Self {
            config,
            leaks,
            seen: BTreeMap::from([(content_key(base), base.id())]),
            refused: BTreeSet::new(),
        }
    }

    /// Gives the harness that a proposal makes of its parent, or the first reason against it. The cheap and
    /// telling reasons come first; the order is that of [`Rejection`].
    ///
    /// # Errors
    /// [`Rejection`]; the same edits on the same parent are then [`Rejection::RejectedBefore`].
    pub fn check(
        &mut self,
        parent: &HarnessSpec,
        proposal: &Proposal,
    ) -> Result<HarnessSpec, Rejection> {
        let edits = serde_json::to_string(&proposal.edits).unwrap_or_default();
        let key = (parent.id(), edits);
        if self.refused.contains(&key) {
            return Err(Rejection::RejectedBefore);
        }
        let checked = self.check_new(parent, proposal);
        match &checked {
            Ok(harness) => {
                self.seen.insert(content_key(harness), harness.id());
            }
            Err(_) => {
                self.refused.insert(key);
            }
        }
        checked
    }

    fn check_new(
        &self,
        parent: &HarnessSpec,
        proposal: &Proposal,
    ) -> Result<HarnessSpec, Rejection> {
        if proposal.edits.is_empty() {
            return Err(Rejection::Empty);
        }
        for edit in &proposal.edits {
            self.check_parts(edit)?;
        }
        let leak = |edit| {
            edit_text::all(edit)
                .into_iter()
                .find_map(|t| self.leaks.find(t))
        };
        if let Some(leak) = proposal.edits.iter().find_map(leak) {
            return Err(Rejection::Leak(leak));
        }
        let texts = proposal.edits.iter().flat_map(edit_text::spoken);
        let longest = texts.map(|t| t.chars().count()).max().unwrap_or(0);
        over_budget("text", longest, self.config.max_text_chars)?;
        let harness = apply_all(parent, &proposal.edits).map_err(|e| Rejection::Invalid {
            reason: e.to_string(),
        })?;
        over_budget(
            "overlay",
            edit_text::overlay_chars(&harness),
            self.config.max_overlay_chars,
        )?;
        match self.seen.get(&content_key(&harness)) {
            Some(of) => Err(Rejection::Duplicate { of: of.clone() }),
            None => Ok(harness),
        }
    }

    fn check_parts(&self, edit: &HarnessEdit) -> Result<(), Rejection> {
        if matches!(edit, HarnessEdit::SetLimits(_)) && !self.config.allow_limits {
            return Err(Rejection::ProtectedPart {
                part: "limits".into(),
            });
        }
        // A rewrite may put nothing in place of what it finds.
        let may_be_blank = edit_text::is_rewrite(edit);
        for text in edit_text::spoken(edit) {
            let text = text.to_lowercase();
            if is_cut(&text) && !(may_be_blank && text.is_empty()) {
                return Err(Rejection::CutText);
            }
            let mut phrases = self.config.protected.iter();
            if let Some(phrase) = phrases.find(|p| text.contains(&p.to_lowercase())) {
                return Err(Rejection::ProtectedPhrase {
                    phrase: phrase.clone(),
                });
            }
        }
        Ok(())
    }
}

/// Whether a lower-case text is blank, or opens a code fence or a thought that it does not close.
fn is_cut(text: &str) -> bool {
    let is_open = |start: &str, end: &str| text.matches(start).count() > text.matches(end).count();
    text.trim().is_empty()
        || text.matches("```").count() % 2 == 1
        || is_open("<think>", "</think>")
        || is_open("<thinking>", "</thinking>")
}

fn over_budget(what: &str, got: usize, max: usize) -> Result<(), Rejection> {
    if got <= max {
        return Ok(());
    }
    Err(Rejection::OverBudget {
        what: what.to_owned(),
        got,
        max,
    })
}

#[cfg(test)]
mod tests;
