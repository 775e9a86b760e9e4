//! The texts of edits and harnesses: those that the policy reads, and those that only conditions look at.

use harness_core::{Condition, Effect, Fact, HarnessEdit, HarnessSpec, Operand, Rule};

/// Texts that the policy reads or that reach the environment in its name.
pub(crate) fn spoken(edit: &HarnessEdit) -> Vec<&str> {
    match edit {
        HarnessEdit::AddRule(rule) | HarnessEdit::ReplaceRule(rule) => effect_texts(&rule.effect),
        HarnessEdit::AddNote(note) => vec![note],
        _ => Vec::new(),
    }
}

/// Whether an edit puts another text in place of a part of the action.
pub(crate) fn is_rewrite(edit: &HarnessEdit) -> bool {
    match edit {
        HarnessEdit::AddRule(rule) | HarnessEdit::ReplaceRule(rule) => {
            matches!(rule.effect, Effect::Rewrite { .. })
        }
        _ => false,
    }
}

/// Every text of an edit, those of conditions and the rule's name among them.
pub(crate) fn all(edit: &HarnessEdit) -> Vec<&str> {
    let mut texts = spoken(edit);
    match edit {
        HarnessEdit::AddRule(rule) | HarnessEdit::ReplaceRule(rule) => {
            texts.push(&rule.name);
            texts.extend(find_text(&rule.effect));
            condition_texts(&rule.when, &mut texts);
        }
        HarnessEdit::RemoveRule(name) => texts.push(name),
        _ => {}
    }
    texts
}

/// Characters of all texts in an overlay that the policy may be shown.
pub(crate) fn overlay_chars(harness: &HarnessSpec) -> usize {
    let rules = harness.overlay.rules.iter();
    let spoken = rules.flat_map(|r: &Rule| effect_texts(&r.effect));
    let notes = harness.overlay.overrides.notes.iter().map(String::as_str);
    spoken.chain(notes).map(|t| t.chars().count()).sum()
}

fn effect_texts(effect: &Effect) -> Vec<&str> {
    match effect {
        Effect::Say(text) | Effect::Block(text) | Effect::Rewrite { replace: text, .. } => {
            vec![text]
        }
    }
}

fn find_text(effect: &Effect) -> Option<&str> {
    match effect {
        Effect::Rewrite { find, .. } => Some(find),
        Effect::Say(_) | Effect::Block(_) => None,
    }
}

fn condition_texts<'a>(condition: &'a Condition, texts: &mut Vec<&'a str>) {
    match condition {
        Condition::All(parts) | Condition::Any(parts) => {
            for part in parts {
                condition_texts(part, texts);
            }
        }
        Condition::Not(part) => condition_texts(part, texts),
        Condition::Compare { left, right, .. } => {
            texts.extend(literal(left));
            texts.extend(literal(right));
        }
        Condition::Contains { value, text } => {
            texts.extend(literal(value));
            texts.push(text);
        }
        Condition::Always | Condition::Predicate(_) => {}
    }
}

fn literal(operand: &Operand) -> Option<&str> {
    match operand {
        Operand::Literal(Fact::Text(text)) => Some(text),
        _ => None,
    }
}
