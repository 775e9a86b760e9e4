//! An evolution as a tree for readers: one node for each proposal, with what became of it in plain words.
//!
//! It only rewrites what the report holds; nothing is measured or decided here.

use harness_core::{Effect, HarnessEdit, HarnessId, Moment, Rule};

use crate::check::Rejection;
use crate::confirm::Measured;
use crate::leak::Leak;
use crate::report::{Admission, CandidateRecord, ConfirmationRecord, EvolutionReport, Verdict};
use crate::text::cut_middle;

/// Longest text of an edit that a node shows, in characters.
const SHOWN_CHARS: usize = 80;

/// One proposal of an evolution, as a reader sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeNode {
    /// Index of its direction in [`EvolutionReport::directions`].
    pub direction: usize,
    /// The direction's label, for instance `wrong_end/list_cut/no_error`; empty if there is no such direction.
    pub label: String,
    /// Round, from 0.
    pub round: u32,
    /// The harness that was edited: the base, or the `harness` of another node.
    pub parent: HarnessId,
    /// The harness that came out; none if the proposal was refused.
    pub harness: Option<HarnessId>,
    /// What each edit does, in short, for instance `on_start rule: 'read every page'`.
    pub edits: Vec<String>,
    /// What became of it.
    pub fate: Fate,
    /// Why, in plain words.
    pub reason: String,
    /// Success over the base's on the search slice, in \[-1, 1\]; none if it was not run.
    pub search_gain: Option<f64>,
    /// Its confirmation, if it was confirmed: both arms' success is at [`Measured::sibling_rate`] and
    /// [`Measured::retry_rate`].
    pub confirmation: Option<ConfirmationRecord>,
}

/// What became of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// Refused before any rerun.
    Refused,
    /// Run on the search slice, and not chosen for confirmation.
    Outranked,
    /// Chosen, and not confirmed.
    NotConfirmed,
    /// In the pool.
    Admitted,
}

impl EvolutionReport {
    /// Every proposal in the order in which it was made; `parent` and `harness` make a forest for each
    /// direction that grows from the base.
    pub fn tree(&self) -> Vec<TreeNode> {
        self.candidates.iter().map(|c| self.node(c)).collect()
    }

    fn node(&self, candidate: &CandidateRecord) -> TreeNode {
        let confirmation = self.confirmation(candidate);
        let (fate, reason) = outcome(&candidate.verdict, confirmation);
        let search_gain = match &candidate.verdict {
            Verdict::Rejected(_) => None,
            Verdict::Ranked(score) | Verdict::Finalist(score) => Some(score.gain),
        };
        let direction = self.directions.get(candidate.direction);
        TreeNode {
            direction: candidate.direction,
            label: direction.map(|d| d.label.to_string()).unwrap_or_default(),
            round: candidate.round,
            parent: candidate.parent.clone(),
            harness: candidate.harness.clone(),
            edits: candidate.edits.iter().map(edit_text).collect(),
            fate,
            reason,
            search_gain,
            confirmation: confirmation.cloned(),
        }
    }

    fn confirmation(&self, candidate: &CandidateRecord) -> Option<&ConfirmationRecord> {
        let harness = candidate.harness.as_ref()?;
        if !matches!(candidate.verdict, Verdict::Finalist(_)) {
            return None;
        }
        let mut all = self.confirmations.iter();
        all.find(|c| c.direction == candidate.direction && c.harness == *harness)
    }
}

fn outcome(verdict: &Verdict, confirmation: Option<&ConfirmationRecord>) -> (Fate, String) {
    match (verdict, confirmation) {
        (Verdict::Rejected(rejection), _) => (Fate::Refused, refusal(rejection)),
        (Verdict::Ranked(score), _) => {
            let reason = if score.value > 0.0 {
                "another candidate did better on the search slice, or has the same content"
            } else if score.gain > 0.0 {
                "its gain on the search slice does not outweigh the cost of its edits"
            } else {
                "it did no better than the base on the search slice"
            };
            (Fate::Outranked, reason.to_owned())
        }
        (Verdict::Finalist(_), None) => (Fate::NotConfirmed, "it was not confirmed yet".to_owned()),
        (Verdict::Finalist(_), Some(record)) => {
            let fate = match record.admission {
                Admission::Admitted => Fate::Admitted,
                _ => Fate::NotConfirmed,
            };
            (fate, admission(record))
        }
    }
}

fn admission(record: &ConfirmationRecord) -> String {
    let Measured {
        p_value,
        union_gain,
        retry_gain,
        ..
    } = record.measured;
    let level = record.threshold;
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    match record.admission {
        Admission::Admitted => format!(
            "confirmed against fresh base retries: p = {p_value:.4} reaches its Holm level {level:.4}"
        ),
        Admission::NotSignificant if p_value > level => format!(
            "not better than fresh base retries: p = {p_value:.4} does not reach its Holm level {level:.4}"
        ),
        Admission::NotSignificant => format!(
            "p = {p_value:.4} is below its Holm level {level:.4}, but a smaller p-value missed its own"
        ),
        Admission::NoUnionGain => format!(
            "it adds no more solved tasks than a base re-run: {} against {}",
            percent(union_gain),
            percent(retry_gain)
        ),
        Admission::Regresses => match record.regressions {
            Some(r) => format!(
                "it fails {} of {} tasks that the base solves, a base re-run fails {}",
                r.sibling, r.n_tasks, r.retry
            ),
            None => "it fails more tasks that the base solves than a base re-run".to_owned(),
        },
    }
}

fn refusal(rejection: &Rejection) -> String {
    match rejection {
        Rejection::Empty => "it has no edits".to_owned(),
        Rejection::RejectedBefore => {
            "the same edits were refused for this harness before".to_owned()
        }
        Rejection::ProtectedPart { part } => format!("it changes a protected part: {part}"),
        Rejection::CutText => "a text is blank or cut off".to_owned(),
        Rejection::ProtectedPhrase { phrase } => {
            format!("a text contains a protected phrase: {phrase}")
        }
        Rejection::Leak(leak) => format!("a text gives away {}", leaked(*leak)),
        Rejection::OverBudget { what, got, max } => {
            format!("the {what} is too long: {got} characters, at most {max}")
        }
        Rejection::Invalid { reason } => format!("the edits do not apply: {reason}"),
        Rejection::Duplicate { of } => format!("it has the same content as {}", short(of)),
    }
}

const fn leaked(leak: Leak) -> &'static str {
    match leak {
        Leak::Id => "the id of a task",
        Leak::Words | Leak::Chars => "a part of a task's instruction",
        Leak::Instruction => "a task's instruction",
        Leak::Secret => "an answer",
    }
}

/// The first 8 characters of a harness's hash.
fn short(id: &HarnessId) -> &str {
    let id = id.as_str();
    id.get(..8).unwrap_or(id)
}

fn edit_text(edit: &HarnessEdit) -> String {
    match edit {
        HarnessEdit::AddRule(rule) => rule_text(rule),
        HarnessEdit::ReplaceRule(rule) => {
            format!("replaces rule {}: {}", rule.name, rule_text(rule))
        }
        HarnessEdit::RemoveRule(name) => format!("removes rule {name}"),
        HarnessEdit::SetObservation(policy) => format!(
            "observations of at most {} characters, errors: {}",
            policy.max_chars,
            json_name(&policy.errors)
        ),
        HarnessEdit::SetLimits(limits) => format!(
            "limits: {} turns, {} tokens a reply",
            limits.max_turns, limits.max_reply_tokens
        ),
        HarnessEdit::AddNote(note) => format!("note: '{}'", shown(note)),
        _ => "another edit".to_owned(),
    }
}

/// For instance `after_step rule: 'ask for the next page'`.
fn rule_text(rule: &Rule) -> String {
    let moment = moment(rule.moment);
    match &rule.effect {
        Effect::Say(text) => format!("{moment} rule: '{}'", shown(text)),
        Effect::Block(text) => format!("{moment} rule blocks: '{}'", shown(text)),
        Effect::Rewrite { find, replace } if find.is_empty() => {
            format!("{moment} rule acts in its place: '{}'", shown(replace))
        }
        Effect::Rewrite { find, replace } => format!(
            "{moment} rule rewrites '{}' to '{}'",
            shown(find),
            shown(replace)
        ),
    }
}

const fn moment(moment: Moment) -> &'static str {
    match moment {
        Moment::OnStart => "on_start",
        Moment::BeforeTurn => "before_turn",
        Moment::BeforeAction => "before_action",
        Moment::AfterStep => "after_step",
    }
}

fn json_name(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_value(value).unwrap_or_default();
    json.as_str().unwrap_or_default().to_owned()
}

/// A text on one line, cut in the middle.
fn shown(text: &str) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    cut_middle(&line.join(" "), SHOWN_CHARS)
}

#[cfg(test)]
mod tests;
