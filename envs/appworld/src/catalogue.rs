//! The edit catalogue that the embedded proposer of harness evolution searches.
//!
//! Less than half of the entries are start rules and hints about the four skills in held-out wordings; the rest
//! repair nothing: rules that the policy obeys to no avail, and overrides. Which of them helps what is not
//! written here; reruns find it.

use harness_core::{
    Comparison, Condition, Effect, ErrorView, Fact, HarnessEdit, Limits, Moment, ObservationPolicy,
    Operand, Rule,
};

use crate::grammar::Topic;

/// One entry: edits under a name.
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogueEdit {
    /// A name that says what the entry is about.
    pub name: String,
    /// The edits, applied in order.
    pub edits: Vec<HarnessEdit>,
    /// Words by which a search may find the entry: those of its text.
    pub keywords: Vec<String>,
}

/// Start rules of one topic in the catalogue.
const N_START_RULES: usize = 2;
/// Start rules of one distractor topic in the catalogue.
const N_DISTRACTOR_RULES: usize = 3;

/// The whole catalogue, in a fixed order.
pub fn catalogue() -> Vec<CatalogueEdit> {
    let mut entries = Vec::new();
    for topic in Topic::SKILLS {
        let wordings = topic.held_out_wordings();
        let start = spread(&wordings, N_START_RULES);
        entries.extend(start.iter().enumerate().map(|(i, text)| {
            entry(
                &format!("{}-start-{i}", topic.name()),
                start_rule(topic, text),
                text,
            )
        }));
        if let Some(text) = wordings.last() {
            entries.push(entry(
                &format!("{}-hint", topic.name()),
                hint_rule(topic, text),
                text,
            ));
        }
    }
    for topic in Topic::DISTRACTORS {
        let start = spread(&topic.held_out_wordings(), N_DISTRACTOR_RULES);
        entries.extend(start.iter().enumerate().map(|(i, text)| {
            entry(
                &format!("{}-start-{i}", topic.name()),
                start_rule(topic, text),
                text,
            )
        }));
    }
    entries.push(entry(
        "short-observations",
        HarnessEdit::SetObservation(ObservationPolicy {
            max_chars: 120,
            errors: ErrorView::Message,
        }),
        "observation short cut",
    ));
    entries.push(entry(
        "fewer-turns",
        HarnessEdit::SetLimits(Limits {
            max_turns: 6,
            max_reply_tokens: 24,
        }),
        "turn limit early end",
    ));
    entries
}

/// One start rule of each topic that repairs nothing: what a negative control makes its siblings of. The
/// policy obeys them, and no task asks for what they want.
pub fn distractors() -> Vec<CatalogueEdit> {
    let of = |topic: &Topic| {
        let text = topic.held_out_wordings().into_iter().next()?;
        Some(entry(topic.name(), start_rule(*topic, &text), &text))
    };
    Topic::DISTRACTORS.iter().filter_map(of).collect()
}

/// `n` texts spread evenly over a list.
fn spread(texts: &[String], n: usize) -> Vec<String> {
    let n = n.min(texts.len());
    (0..n).map(|i| texts[i * texts.len() / n].clone()).collect()
}

fn entry(name: &str, edit: HarnessEdit, text: &str) -> CatalogueEdit {
    CatalogueEdit {
        name: name.to_owned(),
        edits: vec![edit],
        keywords: text.split_whitespace().map(str::to_owned).collect(),
    }
}

/// A rule that adds a text about a topic to the system text.
pub fn start_rule(topic: Topic, text: &str) -> HarnessEdit {
    HarnessEdit::AddRule(Rule {
        name: format!("{}-start", topic.name()),
        moment: Moment::OnStart,
        when: Condition::Always,
        effect: Effect::Say(text.to_owned()),
        max_fires: 1,
        count: Vec::new(),
    })
}

/// A rule that says a text about a topic after an observation to which it applies; a distractor's says it
/// after the first.
pub fn hint_rule(topic: Topic, text: &str) -> HarnessEdit {
    let error_is = |kind: &str| Condition::Compare {
        left: Operand::Fact("error_kind".into()),
        op: Comparison::Eq,
        right: Operand::Literal(Fact::Text(kind.into())),
    };
    let when = match topic {
        Topic::Auth => error_is("401"),
        Topic::Pages => Condition::Predicate("last_page_full".into()),
        Topic::Docs => error_is("no_api"),
        Topic::Verify => Condition::Predicate("write_unchecked".into()),
        Topic::Addresses | Topic::ActiveTask | Topic::CountApps | Topic::Cards => Condition::Always,
    };
    HarnessEdit::AddRule(Rule {
        name: format!("{}-hint", topic.name()),
        moment: Moment::AfterStep,
        when,
        effect: Effect::Say(text.to_owned()),
        max_fires: 1,
        count: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base_harness::base_harness;

    #[test]
    fn entries_are_valid_and_half_repair_nothing() {
        let base = base_harness();
        base.validate().expect("the base is valid");
        let entries = catalogue();
        for entry in &entries {
            for edit in &entry.edits {
                let changed = base.apply(edit).expect("a valid edit");
                assert_ne!(changed.id(), base.id(), "{}", entry.name);
            }
        }
        let is_skill =
            |e: &&CatalogueEdit| Topic::SKILLS.iter().any(|t| e.name.starts_with(t.name()));
        let n_skill = entries.iter().filter(is_skill).count();
        assert!(
            2 * n_skill <= entries.len(),
            "{n_skill} of {}",
            entries.len()
        );
    }
}
