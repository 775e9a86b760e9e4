//! Tests of `tree`: the whole of a small report as a reader sees it.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use harness_core::{ErrorView, ObservationPolicy};

use super::*;
use crate::direction::RepairDirection;
use crate::fixture::{base, failure, rule, say};
use crate::report::{Regressions, SearchScore};

fn id(text: &str) -> HarnessId {
    HarnessId::new(text.repeat(32)).unwrap()
}

fn score(gain: f64, value: f64) -> SearchScore {
    SearchScore {
        n_tasks: 24,
        gain,
        value,
    }
}

fn candidate(
    harness: Option<HarnessId>,
    edits: Vec<HarnessEdit>,
    verdict: Verdict,
) -> CandidateRecord {
    CandidateRecord {
        direction: 0,
        round: 0,
        parent: base().id(),
        harness,
        edits,
        why: "because".into(),
        verdict,
    }
}

fn confirmation(harness: HarnessId, p_value: f64, admission: Admission) -> ConfirmationRecord {
    ConfirmationRecord {
        direction: 0,
        harness,
        measured: Measured {
            n_tasks: 30,
            n_attempts: 120,
            sibling_solved: 48,
            retry_solved: 24,
            effect: 0.2,
            p_value,
            union_gain: 0.25,
            retry_gain: 0.125,
            unique_gain: 0.125,
        },
        threshold: 0.025,
        regressions: Some(Regressions {
            n_tasks: 12,
            sibling: 3,
            retry: 1,
        }),
        admission,
    }
}

fn report(candidates: Vec<CandidateRecord>) -> EvolutionReport {
    let mut report = EvolutionReport::new(base().id());
    let label = failure("t", "http_404").label;
    report.directions = vec![RepairDirection {
        moment: label.moment(),
        label,
        search_tasks: Vec::new(),
        confirm_tasks: Vec::new(),
        n_failures: 40,
    }];
    report.candidates = candidates;
    report
}

fn line(node: &TreeNode) -> String {
    let mut line = format!(
        "d{} {} r{} {} -> {}: {:?}: {}",
        node.direction,
        node.label,
        node.round,
        short(&node.parent),
        node.harness.as_ref().map_or("none", short),
        node.fate,
        node.reason
    );
    if let Some(gain) = node.search_gain {
        write!(line, "; gain {gain}").unwrap();
    }
    if let Some(record) = &node.confirmation {
        let rates = (record.measured.sibling_rate(), record.measured.retry_rate());
        write!(line, "; success {rates:?}").unwrap();
    }
    line
}

#[track_caller]
fn check(lines: impl Iterator<Item = String>, expect: &Expect) {
    let lines: Vec<String> = lines.collect();
    expect.assert_eq(&lines.join("\n"));
}

#[test]
fn every_fate_has_a_reason() {
    let add = || vec![say("a", "ask for the next page")];
    let finalist = |letter, verdict| candidate(Some(id(letter)), add(), verdict);
    let best = || Verdict::Finalist(score(0.25, 0.25));
    let mut stacked = finalist("c", Verdict::Ranked(score(0.0625, -0.0175)));
    (stacked.round, stacked.parent) = (1, id("a"));
    let mut report = report(vec![
        finalist("a", best()),
        finalist("b", Verdict::Ranked(score(0.125, 0.125))),
        stacked,
        finalist("d", Verdict::Ranked(score(-0.125, -0.125))),
        candidate(None, add(), Verdict::Rejected(Rejection::Leak(Leak::Words))),
        finalist("1", best()),
        finalist("2", best()),
        finalist("3", best()),
        finalist("4", best()),
        finalist("5", best()),
    ]);
    report.confirmations = vec![
        confirmation(id("a"), 0.001, Admission::Admitted),
        confirmation(id("1"), 0.3, Admission::NotSignificant),
        confirmation(id("2"), 0.02, Admission::NotSignificant),
        confirmation(id("3"), 0.001, Admission::NoUnionGain),
        confirmation(id("4"), 0.001, Admission::Regresses),
    ];
    report.confirmations[3].measured.union_gain = 0.125;
    check(
        report.tree().iter().map(line),
        &expect![[r"
        d0 wrong_end/other/http_404 r0 e22f704e -> aaaaaaaa: Admitted: confirmed against fresh base retries: p = 0.0010 reaches its Holm level 0.0250; gain 0.25; success (Some(0.4), Some(0.2))
        d0 wrong_end/other/http_404 r0 e22f704e -> bbbbbbbb: Outranked: another candidate did better on the search slice, or has the same content; gain 0.125
        d0 wrong_end/other/http_404 r1 aaaaaaaa -> cccccccc: Outranked: its gain on the search slice does not outweigh the cost of its edits; gain 0.0625
        d0 wrong_end/other/http_404 r0 e22f704e -> dddddddd: Outranked: it did no better than the base on the search slice; gain -0.125
        d0 wrong_end/other/http_404 r0 e22f704e -> none: Refused: a text gives away a part of a task's instruction
        d0 wrong_end/other/http_404 r0 e22f704e -> 11111111: NotConfirmed: not better than fresh base retries: p = 0.3000 does not reach its Holm level 0.0250; gain 0.25; success (Some(0.4), Some(0.2))
        d0 wrong_end/other/http_404 r0 e22f704e -> 22222222: NotConfirmed: p = 0.0200 is below its Holm level 0.0250, but a smaller p-value missed its own; gain 0.25; success (Some(0.4), Some(0.2))
        d0 wrong_end/other/http_404 r0 e22f704e -> 33333333: NotConfirmed: it adds no more solved tasks than a base re-run: 12.5 % against 12.5 %; gain 0.25; success (Some(0.4), Some(0.2))
        d0 wrong_end/other/http_404 r0 e22f704e -> 44444444: NotConfirmed: it fails 3 of 12 tasks that the base solves, a base re-run fails 1; gain 0.25; success (Some(0.4), Some(0.2))
        d0 wrong_end/other/http_404 r0 e22f704e -> 55555555: NotConfirmed: it was not confirmed yet; gain 0.25"]],
    );
}

#[test]
fn every_refusal_is_told_in_words() {
    let refusals = [
        Rejection::Empty,
        Rejection::RejectedBefore,
        Rejection::ProtectedPart {
            part: "limits".into(),
        },
        Rejection::CutText,
        Rejection::ProtectedPhrase {
            phrase: "complete_task".into(),
        },
        Rejection::Leak(Leak::Id),
        Rejection::Leak(Leak::Chars),
        Rejection::Leak(Leak::Instruction),
        Rejection::Leak(Leak::Secret),
        Rejection::OverBudget {
            what: "overlay".into(),
            got: 1700,
            max: 1600,
        },
        Rejection::Invalid {
            reason: "there is no rule of this name: a".into(),
        },
        Rejection::Duplicate { of: id("b") },
    ];
    check(
        refusals.iter().map(refusal),
        &expect![[r"
        it has no edits
        the same edits were refused for this harness before
        it changes a protected part: limits
        a text is blank or cut off
        a text contains a protected phrase: complete_task
        a text gives away the id of a task
        a text gives away a part of a task's instruction
        a text gives away a task's instruction
        a text gives away an answer
        the overlay is too long: 1700 characters, at most 1600
        the edits do not apply: there is no rule of this name: a
        it has the same content as bbbbbbbb"]],
    );
}

#[test]
fn every_edit_is_told_in_short() {
    let with = |moment, effect| {
        HarnessEdit::AddRule(Rule {
            moment,
            effect,
            ..rule("a", "")
        })
    };
    let rewrite = |find: &str| Effect::Rewrite {
        find: find.into(),
        replace: "page=1".into(),
    };
    let edits = [
        with(Moment::OnStart, Effect::Say("read\n every page".into())),
        with(Moment::BeforeTurn, Effect::Say("many words ".repeat(20))),
        with(Moment::BeforeAction, Effect::Block("check it first".into())),
        with(Moment::BeforeAction, rewrite("page=0")),
        with(Moment::BeforeAction, rewrite("")),
        HarnessEdit::ReplaceRule(rule("hint", "log in first")),
        HarnessEdit::RemoveRule("hint".into()),
        HarnessEdit::AddNote("dates are numbers".into()),
        HarnessEdit::SetLimits(harness_core::Limits::default()),
        HarnessEdit::SetObservation(ObservationPolicy {
            max_chars: 500,
            errors: ErrorView::Message,
        }),
    ];
    check(
        edits.iter().map(edit_text),
        &expect![[r"
        on_start rule: 'read every page'
        before_turn rule: 'many words many words many words many w...words many words many words many words'
        before_action rule blocks: 'check it first'
        before_action rule rewrites 'page=0' to 'page=1'
        before_action rule acts in its place: 'page=1'
        replaces rule hint: after_step rule: 'log in first'
        removes rule hint
        note: 'dates are numbers'
        limits: 16 turns, 64 tokens a reply
        observations of at most 500 characters, errors: message"]],
    );
}
