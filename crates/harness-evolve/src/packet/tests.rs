//! Tests of `packet`.

use super::*;
use crate::fixture;

fn turn(action: &str, observation: &str, facts: &[(&str, Fact)]) -> Turn {
    Turn {
        action: action.into(),
        observation: observation.into(),
        facts: facts
            .iter()
            .map(|(k, v)| ((*k).to_owned(), v.clone()))
            .collect(),
        ..Turn::default()
    }
}

fn signals(turns: &[Turn]) -> Signals {
    let limits = Limits {
        max_turns: 3,
        max_reply_tokens: 8,
    };
    Signals::of(turns, limits)
}

#[track_caller]
fn check_kind(observation: &str, facts: &[(&str, Fact)], expect: Option<&str>) {
    assert_eq!(
        error_kind(&turn("a", observation, facts)).as_deref(),
        expect
    );
}

#[test]
fn error_kinds_come_from_facts_then_text() {
    let kind = |k: &str| ("error_kind", Fact::Text(k.into()));
    let said = |b| ("last_result_error", Fact::Bool(b));
    check_kind("fine", &[kind("not_found")], Some("not_found"));
    check_kind("KeyError: x", &[kind("")], None);
    check_kind("KeyError: x", &[kind("none")], None);
    check_kind("fine", &[kind("not_found"), said(false)], None);
    check_kind("Traceback\n  File\nKeyError: 'x'", &[], Some("KeyError"));
    check_kind("pkg.mod.ApiException", &[], Some("ApiException"));
    check_kind("ERROR 1064 (42000): syntax", &[], Some("ERROR"));
    check_kind("no such thing", &[said(true)], Some("error"));
    check_kind("the KeyError was mine", &[], None);
    check_kind("Errors are listed", &[], None);
}

#[test]
fn only_failed_attempts_have_packets() {
    let bounds = PacketBounds::default();
    for outcome in Outcome::ALL {
        let mut t = fixture::attempt("t1", outcome);
        t.turns = vec![turn("a", "b", &[])];
        let packet = FailurePacket::new("do it", &t, Limits::default(), &bounds);
        assert_eq!(packet.is_some(), outcome == Outcome::Failed);
    }
}

#[test]
fn packets_are_bounded() {
    let long = "x".repeat(10_000);
    let mut t = fixture::attempt("t1", Outcome::Failed);
    t.turns = vec![turn(&long, &long, &[]); 40];
    t.error = Some("the verdict".into());
    let bounds = PacketBounds::default();
    let packet = FailurePacket::new(&long, &t, Limits::default(), &bounds).unwrap();
    let json = serde_json::to_string(&packet).unwrap();
    assert!(json.len() < 4_000, "got {}", json.len());
    assert!(!json.contains("verdict") && !json.contains("t1"));
    assert_eq!(packet.steps.len(), 4);
    assert_eq!(packet.steps[0].turn, 36);
}

#[test]
fn ends_are_told_apart() {
    let plain = turn("a", "ok", &[]);
    let other = turn("b", "ok", &[]);
    let limit = signals(&[plain.clone(), other.clone(), plain.clone()]);
    assert!(limit.is_turn_limit && limit.never_completed && limit.max_repeats == 2);
    let early = signals(&[plain.clone(), other]);
    assert!(!early.is_turn_limit && !early.never_completed && early.max_repeats == 1);
    let done = turn("done", "", &[("completed", Fact::Bool(true))]);
    assert!(!signals(&[plain.clone(), plain.clone(), done]).is_turn_limit);
    let gave = turn("stop", "", &[("gave_up", Fact::Bool(true))]);
    let gave = signals(&[plain.clone(), plain, gave]);
    assert!(gave.gave_up && !gave.is_turn_limit && !gave.never_completed);
    assert_eq!(signals(&[]).max_repeats, 0);
}

#[test]
fn dominant_error_is_the_most_frequent() {
    let e = |k: &str| turn("a", "", &[("error_kind", Fact::Text(k.into()))]);
    let got = signals(&[e("b"), e("b"), e("a"), turn("a", "", &[])]);
    assert_eq!(got.dominant_error(), Some("b"));
    assert_eq!(got.turns_since_error, Some(1));
    assert_eq!(signals(&[e("b"), e("a")]).dominant_error(), Some("a"));
    assert_eq!(signals(&[]).dominant_error(), None);
}
