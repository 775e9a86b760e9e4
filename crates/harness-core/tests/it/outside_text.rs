//! Text from outside never panics, and what is accepted can be written and read again: harnesses and edits
//! as JSON, templates.

use harness_core::rules::{RuleRun, Scene, opening};
use harness_core::testing::json_tree;
use harness_core::{BaseHarness, Fact, Facts, HarnessEdit, HarnessSpec, Moment};
use proptest::prelude::*;
use serde_json::{Value, json};

fn rule() -> Value {
    json!({
        "name": "r",
        "moment": "before_turn",
        "when": {"any": [
            {"compare": {"left": {"fact": "kind"}, "op": "ne", "right": {"literal": "none"}}},
            {"not": {"compare": {"left": {"counter": "c"}, "op": "ge", "right": "turns_left"}}},
            {"contains": {"value": "instruction", "text": "song"}},
            {"predicate": "done"},
        ]},
        "effect": {"say": "Log in first."},
        "max_fires": 2,
        "count": [{"counter": "c", "add": 1}],
    })
}

fn harness() -> Value {
    json!({
        "kind": "native",
        "base": {
            "system": "You are {{ name }}: {% for t in tools %}{{ t }} {% endfor %}",
            "task": "{{ task.instruction }}",
            "tools": ["run"],
            "observation": {"max_chars": 20, "errors": "message"},
            "action": "fenced_code",
            "limits": {"max_turns": 4, "max_reply_tokens": 8},
        },
        "overlay": {"rules": [rule()], "overrides": {"notes": ["Lists are cut."], "tools": ["look"]}},
    })
}

fn edits() -> Value {
    json!([
        {"replace_rule": rule()},
        {"set_observation": {"max_chars": 5, "errors": "full"}},
        {"set_limits": {"max_turns": 9, "max_reply_tokens": 5}},
        {"add_note": "Lists are cut."},
        {"remove_rule": "r"},
    ])
}

fn changes() -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec(any::<(usize, usize)>(), 0..4)
}

/// Opens an episode and asks every rule at every moment.
fn run(harness: &HarnessSpec) {
    let facts = Facts::from([
        ("name".to_owned(), Fact::Text("Ann".into())),
        ("kind".to_owned(), Fact::Text("401".into())),
        ("n".to_owned(), Fact::Int(i64::MAX)),
    ]);
    let scene = Scene {
        facts: &facts,
        turn: 2,
        turns_left: usize::MAX,
        action: Some("look"),
        observation: None,
        instruction: "play a song",
    };
    let mut rules = RuleRun::new(&harness.overlay);
    let opened = opening(harness, &mut rules, scene);
    assert_eq!(
        opened,
        opening(harness, &mut RuleRun::new(&harness.overlay), scene)
    );
    for moment in [Moment::BeforeTurn, Moment::BeforeAction, Moment::AfterStep] {
        rules.fire(moment, scene);
    }
}

/// Pieces that combine into templates, many of them broken.
fn template() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{{ ",
        " }}",
        "{% ",
        " %}",
        "{# ",
        " #}",
        "for x in tools",
        "endfor",
        "if name",
        "else",
        "endif",
        "set a = ",
        "set name = name ~ name",
        "a",
        "x",
        "n",
        "name",
        "task.instruction",
        "tools",
        "nope",
        "1",
        "'b'",
        "[1, 2]",
        " ~ ",
        " * ",
        " ** ",
        " // ",
        " in ",
        " is odd",
        "|upper",
        "|join(name)",
        "|replace('n', name)",
        "|indent(99999)",
        "|list",
        "|batch(2)",
        "|tojson",
        "[::-1]",
        "range(99999)",
        "loop.index",
        "raw",
        "endraw",
        "é",
        "\n",
        "(",
        ")",
        "9223372036854775807",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn changed_harnesses_and_edits(of_harness in changes(), of_edits in changes()) {
        let text = json_tree::changed(harness(), &of_harness).to_string();
        let Ok(mut harness) = serde_json::from_str::<HarnessSpec>(&text) else { return Ok(()) };
        let json = serde_json::to_string(&harness).unwrap();
        prop_assert_eq!(&serde_json::from_str::<HarnessSpec>(&json).unwrap(), &harness);
        if harness.validate().is_err() { return Ok(()) }
        run(&harness);
        let edits = json_tree::changed(edits(), &of_edits);
        for edit in edits.as_array().into_iter().flatten() {
            let Ok(edit) = serde_json::from_value::<HarnessEdit>(edit.clone()) else { continue };
            if let Ok(next) = harness.apply(&edit) {
                prop_assert_eq!(next.validate(), Ok(()));
                harness = next;
            }
        }
        run(&harness);
    }

    #[test]
    fn any_template(system in template(), task in template()) {
        let harness = HarnessSpec::base(BaseHarness { system, task, ..BaseHarness::default() });
        if harness.validate().is_ok() {
            run(&harness);
        }
    }
}
