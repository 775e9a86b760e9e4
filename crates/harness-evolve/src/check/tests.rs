//! Tests of `check`.

use std::sync::Arc;

use harness_core::testing::json_tree;
use harness_core::{Condition, Effect, Limits, ObservationPolicy, Operand};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::fixture::{base, rule, say, task};

const INSTRUCTION: &str = "Pay back the ten dollars that I owe to Anna since our trip to the lake";

fn proposal(edits: Vec<HarnessEdit>) -> Proposal {
    Proposal {
        edits,
        why: String::new(),
    }
}

fn leaks() -> LeakIndex {
    LeakIndex::new(&[Arc::new(task("task_17", INSTRUCTION))], &[], 8, 40)
}

#[track_caller]
fn check(config: &CheckConfig, edits: Vec<HarnessEdit>, expect: &str) {
    let leaks = leaks();
    let got = Checker::new(&base(), config, &leaks).check(&base(), &proposal(edits));
    assert_eq!(
        got.as_ref().map_or_else(Rejection::kind, |_| "ok"),
        expect,
        "{got:?}"
    );
}

#[test]
fn sound_edits_pass() {
    let config = CheckConfig::default();
    check(&config, vec![say("pages", "ask for the next page")], "ok");
    check(
        &config,
        vec![HarnessEdit::AddNote("log in first".into())],
        "ok",
    );
    check(&config, Vec::new(), "empty");
    check(
        &config,
        vec![HarnessEdit::RemoveRule("none".into())],
        "invalid",
    );
}

#[test]
fn e3_leaks_are_refused_wherever_they_stand() {
    let config = CheckConfig::default();
    check(
        &config,
        vec![say("a", &format!("hint: {INSTRUCTION}"))],
        "leak",
    );
    check(
        &config,
        vec![HarnessEdit::AddNote(INSTRUCTION.to_uppercase())],
        "leak",
    );
    check(&config, vec![say("task_17", "fine")], "leak");
    let mut memorised = rule("a", "fine");
    memorised.when = Condition::Not(Box::new(Condition::Contains {
        value: Operand::Instruction,
        text: INSTRUCTION[..45].into(),
    }));
    check(&config, vec![HarnessEdit::AddRule(memorised)], "leak");
    let mut rewrite = rule("a", "");
    rewrite.moment = harness_core::Moment::BeforeAction;
    rewrite.effect = Effect::Rewrite {
        find: "x".into(),
        replace: "task_17".into(),
    };
    check(&config, vec![HarnessEdit::AddRule(rewrite)], "leak");
}

#[test]
fn e1_what_a_cut_reply_leaves_is_refused() {
    let config = CheckConfig::default();
    check(&config, vec![say("a", " \n")], "cut_text");
    check(
        &config,
        vec![say("a", "write it as\n```python\nprint(")],
        "cut_text",
    );
    check(
        &config,
        vec![say("a", "<think>the agent fails since")],
        "cut_text",
    );
    check(
        &config,
        vec![HarnessEdit::AddNote("<Thinking> I".into())],
        "cut_text",
    );
    check(
        &config,
        vec![say("a", "write it as\n```python\nprint(1)\n```")],
        "ok",
    );
    let mut drops = rule("a", "");
    drops.moment = harness_core::Moment::BeforeAction;
    drops.effect = Effect::Rewrite {
        find: "x".into(),
        replace: String::new(),
    };
    check(&config, vec![HarnessEdit::AddRule(drops)], "ok");
}

#[test]
fn protected_parts_stay() {
    let mut config = CheckConfig {
        protected: vec!["complete_task".into()],
        ..CheckConfig::default()
    };
    check(
        &config,
        vec![say("a", "call Complete_Task at once")],
        "protected_phrase",
    );
    let mut looks = rule("a", "check what you wrote");
    looks.when = Condition::Contains {
        value: Operand::Action,
        text: "complete_task".into(),
    };
    check(&config, vec![HarnessEdit::AddRule(looks)], "ok");
    let more = Limits {
        max_turns: 99,
        max_reply_tokens: 64,
    };
    check(
        &config,
        vec![HarnessEdit::SetLimits(more)],
        "protected_part",
    );
    config.allow_limits = true;
    check(&config, vec![HarnessEdit::SetLimits(more)], "ok");
}

#[test]
fn e11_long_texts_are_refused() {
    let config = CheckConfig {
        max_text_chars: 20,
        max_overlay_chars: 30,
        ..CheckConfig::default()
    };
    check(&config, vec![say("a", &"x".repeat(20))], "ok");
    check(&config, vec![say("a", &"x".repeat(21))], "over_budget");
    let both = vec![say("a", &"x".repeat(20)), say("b", &"y".repeat(20))];
    check(&config, both, "over_budget");
}

#[test]
fn e10_same_content_under_another_name_is_refused() {
    let (config, leaks) = (CheckConfig::default(), leaks());
    let mut checker = Checker::new(&base(), &config, &leaks);
    let first = checker
        .check(&base(), &proposal(vec![say("a", "text")]))
        .unwrap();
    let again = checker.check(&base(), &proposal(vec![say("b", "text")]));
    assert_eq!(again, Err(Rejection::Duplicate { of: first.id() }));
    let same_as_base = HarnessEdit::SetObservation(ObservationPolicy::default());
    let idle = checker.check(&base(), &proposal(vec![same_as_base]));
    assert_eq!(idle, Err(Rejection::Duplicate { of: base().id() }));
    let doubled = checker.check(&first, &proposal(vec![say("c", "text")]));
    assert_eq!(doubled, Err(Rejection::Duplicate { of: first.id() }));
}

#[test]
fn a_refused_proposal_does_not_come_back() {
    let (config, leaks) = (CheckConfig::default(), leaks());
    let mut checker = Checker::new(&base(), &config, &leaks);
    let bad = proposal(vec![say("a", "see task_17")]);
    assert_eq!(checker.check(&base(), &bad), Err(Rejection::Leak(Leak::Id)));
    assert_eq!(checker.check(&base(), &bad), Err(Rejection::RejectedBefore));
}

proptest! {
    /// E1, E3: whatever a model proposes, what passes is a valid harness, and nothing passes twice.
    #[test]
    fn any_proposal_is_a_valid_harness_or_refused(
        changes in prop::collection::vec(any::<(usize, usize)>(), 0..4),
    ) {
        let rule = json!({
            "name": "r",
            "moment": "before_action",
            "when": {"all": [{"contains": {"value": "action", "text": "finish"}}, "always"]},
            "effect": {"rewrite": {"find": "hm", "replace": "7"}},
            "max_fires": 3,
        });
        let proposal = json!({
            "edits": [
                {"add_rule": rule},
                {"add_note": "log in first"},
                {"set_observation": {"max_chars": 9, "errors": "full"}},
            ],
            "why": "the task needs it",
        });
        let proposal = json_tree::changed(proposal, &changes);
        let Ok(proposal) = serde_json::from_value::<Proposal>(proposal) else { return Ok(()) };
        let (config, leaks) = (CheckConfig::default(), leaks());
        let mut checker = Checker::new(&base(), &config, &leaks);
        let first = checker.check(&base(), &proposal);
        let again = checker.check(&base(), &proposal);
        if let Ok(harness) = first {
            prop_assert_eq!(harness.validate(), Ok(()));
            prop_assert_eq!(again.unwrap_err().kind(), "duplicate");
        } else {
            prop_assert_eq!(again, Err(Rejection::RejectedBefore));
        }
    }

    /// E3: a task is found in its own words, and an answer in its own.
    #[test]
    fn any_task_leaks_itself(words in prop::collection::vec("\\w{1,12}", 3..12), secret in "\\PC{4,20}") {
        let instruction = words.join(" ");
        let n_words = instruction.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).count();
        let tasks = [Arc::new(task("task_17", &instruction))];
        let leaks = LeakIndex::new(&tasks, std::slice::from_ref(&secret), 8, 40);
        prop_assert!(n_words < 3 || leaks.find(&instruction).is_some());
        prop_assert!(secret.trim().chars().count() < 4 || leaks.find(&secret).is_some());
    }
}
