//! Harnesses from strangers: unknown fields, sizes and depth are refused, and the field is named.

use expect_test::{Expect, expect};
use harness_core::{HarnessSpec, Overlay};
use serde_json::{Value, json};

use crate::executor::base;

fn overlay(when: &Value, effect: &Value) -> Value {
    json!({"rules": [{"name": "r", "moment": "before_action", "when": when, "effect": effect}]})
}

#[track_caller]
fn refused(overlay: &Value, expect: &Expect) {
    let error = match serde_json::from_str::<Overlay>(&overlay.to_string()) {
        Ok(overlay) => overlay.validate().expect_err("it is refused").to_string(),
        Err(error) => error.to_string(),
    };
    expect.assert_eq(&error);
}

fn block() -> Value {
    json!({"block": "no"})
}

#[test]
fn unknown_fields_are_refused_in_every_part() {
    let compare = json!({"compare": {"left": "turn", "op": "eq", "right": "turn", "of": 1}});
    refused(
        &overlay(&compare, &block()),
        &expect!["unknown field `of`, expected one of `left`, `op`, `right` at line 1 column 109"],
    );
    let contains = json!({"contains": {"value": "action", "text": "x", "case": false}});
    refused(
        &overlay(&contains, &block()),
        &expect!["unknown field `case`, expected `value` or `text` at line 1 column 101"],
    );
    let rewrite = json!({"rewrite": {"find": "x", "replace": "y", "all": true}});
    refused(
        &overlay(&json!("always"), &rewrite),
        &expect!["unknown field `all`, expected `find` or `replace` at line 1 column 114"],
    );
}

#[test]
fn sizes_are_bounded_and_the_field_is_named() {
    let long = "x".repeat(901);
    let always = json!("always");
    let rewrite = json!({"rewrite": {"find": "x", "replace": long}});
    refused(
        &overlay(&always, &rewrite),
        &expect!["`overlay.rules[0].effect.rewrite.replace` has at most 900 characters, got: 901"],
    );
    for when in [
        json!({"predicate": long}),
        json!({"compare": {"left": {"fact": long}, "op": "eq", "right": "turn"}}),
        json!({"compare": {"left": "turn", "op": "eq", "right": {"literal": long}}}),
        json!({"contains": {"value": {"counter": long}, "text": "x"}}),
        json!({"all": vec![json!({"any": vec!["always"; 16]}); 16]}),
    ] {
        refused(
            &overlay(&when, &block()),
            &expect![
                "`when` of rule `r` is too large: at most 8 deep, 16 wide, 128 parts and 900 characters a text"
            ],
        );
    }
    let mut counting = overlay(&always, &block());
    counting["rules"][0]["count"] = json!(vec![json!({"counter": "c", "add": 1}); 17]);
    refused(
        &counting,
        &expect!["`overlay.rules[0].count` has at most 16 entries, got: 17"],
    );
    let rules = overlay(&always, &block())["rules"][0].clone();
    refused(
        &json!({"rules": vec![rules; 13]}),
        &expect!["`overlay.rules` has at most 12 entries, got: 13"],
    );
    let mut named = overlay(&always, &block());
    named["rules"][0]["name"] = json!(long);
    refused(
        &named,
        &expect!["`overlay.rules[0].name` has at most 900 characters, got: 901"],
    );
    let limits = json!({"max_turns": 10_001, "max_reply_tokens": 1});
    refused(
        &json!({"overrides": {"limits": limits}}),
        &expect!["`overlay.overrides.limits.max_turns` must be 1 to 10000, got: 10001"],
    );
    refused(
        &json!({"overrides": {"tools": [long]}}),
        &expect!["`overlay.overrides.tools[0]` has at most 900 characters, got: 901"],
    );
    refused(
        &json!({"overrides": {"notes": ["fine", long]}}),
        &expect!["`overlay.overrides.notes[1]` has at most 900 characters, got: 901"],
    );
}

#[test]
fn deep_nesting_is_an_error_and_no_overflow() {
    let text = r#"{"not":"#.repeat(100_000);
    let text = format!(r#"{{"rules":[{{"name":"r","moment":"before_turn","when":{text}"#);
    assert!(serde_json::from_str::<Overlay>(&text).is_err());
}

#[test]
fn a_base_is_bounded_as_well() {
    #[track_caller]
    fn check(change: impl FnOnce(&mut HarnessSpec), expect: &Expect) {
        let mut spec = base();
        change(&mut spec);
        let error = spec.validate().expect_err("it is refused");
        expect.assert_eq(&error.to_string());
    }
    check(
        |s| s.base.system = "x".repeat(100_001),
        &expect!["`base.system` has at most 100000 characters, got: 100001"],
    );
    check(
        |s| s.base.tools = vec!["t".into(); 1001],
        &expect!["`base.tools` has at most 1000 entries, got: 1001"],
    );
    check(
        |s| s.base.limits.max_turns = 0,
        &expect!["`base.limits.max_turns` must be 1 to 10000, got: 0"],
    );
}
