//! The catalogue's bug reports A1 to A5 and A7.

use serde_json::json;

use super::Session;
use crate::Family;
use crate::evaluate::normalise;
use crate::expert::{DoNothing, ScriptedAgent as _, expert_actions};

/// Lets the expert do everything but mark the task complete; returns its last block.
fn all_but_last(session: &mut Session) -> String {
    let mut expert = expert_actions(&session.task);
    let mut seen = None;
    loop {
        let code = expert.next_block(seen.as_deref()).unwrap();
        if code.contains("complete_task") {
            return code;
        }
        seen = Some(session.run(&code));
    }
}

#[test]
fn a1_an_agent_that_never_completes_has_failed() {
    for family in Family::ALL {
        let mut session = Session::new(family);
        assert_eq!(DoNothing.next_block(None), None);
        let verdict = session.verdict();
        assert!(!verdict.solved);
        assert_eq!(verdict.failures[0], "the task is marked complete");
        all_but_last(&mut session);
        assert!(!session.verdict().solved);
    }
}

#[test]
fn a2_the_later_completion_stands() {
    let mut session = Session::new(Family::Lookup);
    let right = all_but_last(&mut session);
    session.run("apis.supervisor.complete_task(answer=1)");
    assert_eq!(session.verdict().failures, ["the answer is right"]);
    session.run(&right);
    assert!(session.verdict().solved);
    session.run("apis.supervisor.complete_task(answer=2)");
    assert!(!session.verdict().solved);
}

#[test]
fn a2_giving_up_later_overwrites_success() {
    let mut session = Session::new(Family::Lookup);
    let right = all_but_last(&mut session);
    session.run(&right);
    session.run("apis.supervisor.complete_task(status='fail')");
    assert!(session.is("gave_up"));
    assert!(!session.verdict().solved);
}

#[test]
fn a3_a_right_answer_with_a_stray_note_is_a_failure() {
    let mut session = Session::new(Family::Lookup);
    let right = all_but_last(&mut session);
    session.run("apis.simple_note.create_note(title='stray', content='x')");
    session.run(&right);
    assert_eq!(session.verdict().failures, ["nothing was changed"]);
}

#[test]
fn a3_a_like_is_collateral_damage_until_it_is_taken_back() {
    let mut session = Session::new(Family::Lookup);
    let right = all_but_last(&mut session);
    session.run(
        "song = apis.spotify.search_songs()[0]['song_id']\napis.spotify.like_song(song_id=song)",
    );
    session.run(&right);
    assert!(!session.verdict().solved);
    session.run("apis.spotify.unlike_song(song_id=song)");
    assert!(session.verdict().solved);
}

#[test]
fn a3_a_duplicate_note_fails_the_write_task() {
    let mut session = Session::new(Family::Write);
    all_but_last(&mut session);
    session.run("apis.supervisor.complete_task()");
    assert!(session.verdict().solved);
    let (title, code) = (
        session.entity(),
        session.task.data["goal"]["create"]["code"].clone(),
    );
    session.run(&format!(
        "apis.simple_note.create_note(title='{title}', content='{code}')"
    ));
    assert_eq!(session.verdict().failures, ["exactly one note was added"]);
}

#[test]
fn a4_answers_are_compared_after_normalising() {
    let same =
        |a: serde_json::Value, b: serde_json::Value| assert_eq!(normalise(&a), normalise(&b));
    same(json!("12.0"), json!(12));
    same(json!(12.0), json!(12));
    same(json!(" Alice "), json!("alice"));
    same(json!("\"Alice\""), json!("alice"));
    same(json!(["b", 1, "A"]), json!(["a", "b", "1.0"]));
    same(json!(null), json!("null"));
    same(json!(0.126), json!("0.13"));
    same(json!("-3"), json!(-3));
    let differ =
        |a: serde_json::Value, b: serde_json::Value| assert_ne!(normalise(&a), normalise(&b));
    differ(json!("12 likes"), json!(12));
    differ(json!(null), json!(0));
    differ(json!("1e3"), json!(1_000));
    differ(json!("inf"), json!("nan"));
    differ(json!(1_234), json!("1,234"));
}

#[test]
fn a4_a_text_with_blanks_is_a_right_answer() {
    let mut session = Session::new(Family::Lookup);
    let right = all_but_last(&mut session);
    let text = right.replace("answer=", "answer=' ").replace(')', " ')");
    session.run(&text);
    assert!(session.verdict().solved, "{text}");
}

#[test]
fn a5_the_clock_is_frozen() {
    let mut session = Session::new(Family::Lookup);
    let code = "import datetime as d\nfrom datetime import datetime\nprint(datetime.now(), d.date.today())";
    let now = session.run(code);
    assert!(
        now.starts_with("2023-") && now.contains(" 12:00:00 2023-"),
        "{now}"
    );
    session.run("for i in range(1000):\n    i += 1");
    assert_eq!(session.run(code), now);
    let facts = crate::env::world_of(&session.task).unwrap();
    assert_eq!(crate::interpreter::Host::now(&facts.1).hour, 12);
}

#[test]
fn a7_output_before_an_exception_is_lost_and_variables_stay() {
    let mut session = Session::new(Family::Lookup);
    let seen = session.run("kept = 5\nprint('before')\napis.spotify.show_song(song_id=1000000)");
    assert!(!seen.contains("before\n"), "{seen}");
    assert!(seen.starts_with("Execution failed. Traceback:\n"));
    assert_eq!(session.run("print(kept)"), "5\n");
}
