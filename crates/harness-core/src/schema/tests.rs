//! Tests of the strict form, and of the plain schemas of this crate against serde.

use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::*;
use crate::testing::json_schema::{mutations, problem, sample};
use crate::{Condition, HarnessEdit, HarnessSpec, Overlay, Seed, Trajectory};

/// Keywords that strict modes take.
const KEPT: [&str; 9] = [
    "$defs",
    "$ref",
    "additionalProperties",
    "anyOf",
    "description",
    "enum",
    "items",
    "properties",
    "required",
];

/// Bug report J1: a tagged enum, a documented field of an own type, and an option.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Small {
    /// What is done.
    action: Act,
    /// How often.
    #[serde(default)]
    times: Option<u32>,
    /// How loud.
    #[serde(default = "seven")]
    volume: i32,
}

const fn seven() -> i32 {
    7
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Act {
    /// Nothing.
    Rest,
    /// A call.
    Call(Call),
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Call {
    /// Whom.
    name: Option<String>,
}

/// Panics unless strict modes take the schema.
#[track_caller]
fn assert_strict(schema: &Value) {
    assert_eq!(schema["type"], "object", "the root is an object");
    assert!(schema.get("anyOf").is_none(), "the root is no alternative");
    assert_part(schema);
}

#[track_caller]
fn assert_part(schema: &Value) {
    let map = schema.as_object().expect("a schema is an object");
    for keyword in map.keys() {
        assert!(
            keyword == "type" || KEPT.contains(&keyword.as_str()),
            "{keyword} in {schema}"
        );
    }
    if map.contains_key("$ref") {
        assert_eq!(map.len(), 1, "a reference stands alone: {schema}");
    }
    if schema["type"] == "object" {
        let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(schema["required"], json!(names), "{schema}");
        assert_eq!(schema["additionalProperties"], false, "{schema}");
    }
    for keyword in ["properties", "$defs"] {
        map.get(keyword)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .for_each(|(_, part)| assert_part(part));
    }
    map.get("anyOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .for_each(assert_part);
    map.get("items").into_iter().for_each(assert_part);
}

fn strict_value(schema: &Schema) -> Value {
    strict(schema).unwrap().to_value()
}

#[test]
fn j1_tagged_enum_documented_field_and_option() {
    let schema = strict_value(&schema_for!(Small));
    assert_strict(&schema);
    let expected = json!({
        "type": "object",
        "properties": {
            "action": {"description": "What is done.", "anyOf": [{"$ref": "#/$defs/Act"}]},
            "times": {"description": "How often. At least 0.", "type": ["integer", "null"]},
            "volume": {"description": "How loud. Usual value: 7.", "type": "integer"},
        },
        "required": ["action", "times", "volume"],
        "additionalProperties": false,
        "$defs": {
            "Act": {"anyOf": [
                {
                    "description": "Nothing.",
                    "type": "object",
                    "properties": {"kind": {"type": "string", "enum": ["rest"]}},
                    "required": ["kind"],
                    "additionalProperties": false,
                },
                {
                    "description": "A call.",
                    "type": "object",
                    "properties": {
                        "name": {"description": "Whom.", "type": ["string", "null"]},
                        "kind": {"type": "string", "enum": ["call"]},
                    },
                    "required": ["name", "kind"],
                    "additionalProperties": false,
                },
            ]},
        },
    });
    // `title` stands nowhere, so the struct's name is not told; its docs are, at the root.
    let mut found = schema.clone();
    found.as_object_mut().unwrap().shift_remove("description");
    assert_eq!(found, expected);
    let text = r#"{"action": {"kind": "call", "name": null}, "times": null, "volume": 7}"#;
    let value: Value = serde_json::from_str(text).unwrap();
    assert_eq!(problem(&schema, &value), None);
    let small: Small = serde_json::from_value(value).unwrap();
    assert!(small.times.is_none() && matches!(small.action, Act::Call(Call { name: None })));
}

#[test]
fn real_types_have_a_strict_form() {
    for schema in [
        schema_for!(HarnessSpec),
        schema_for!(Overlay),
        schema_for!(HarnessEdit),
    ] {
        assert_strict(&strict_value(&schema));
    }
}

#[test]
fn a_recursive_answer_stays_recursive() {
    let schema = strict_value(&schema_for!(Condition));
    assert_strict(&schema);
    let text = schema.to_string();
    assert!(
        text.contains("#/$defs/Answer") && !text.contains("\"#\""),
        "{text}"
    );
    let answer = json!({"answer": {"not": {"any": ["always"]}}});
    assert_eq!(problem(&schema, &answer), None);
}

#[test]
fn what_no_strict_mode_can_say_is_refused() {
    let refusal = |schema: Value| strict(&schema.try_into().unwrap()).unwrap_err().to_string();
    let map = refusal(json!({"type": "object", "properties": {"a": {
        "type": "object", "additionalProperties": {"type": "string"}}}}));
    assert!(
        map.ends_with("free keys, at: #/properties/a/additionalProperties"),
        "{map}"
    );
    let any = refusal(json!({"type": "object", "properties": {"a": true}}));
    assert!(any.ends_with("any value, at: #/properties/a"), "{any}");
    let tuple = refusal(json!({"type": "array", "prefixItems": []}));
    assert!(tuple.contains("`prefixItems`"), "{tuple}");
    let nowhere = refusal(json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/B"}}}));
    assert!(nowhere.ends_with("nowhere: #/$defs/B"), "{nowhere}");
    let circle = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/B", "type": "object"}},
        "$defs": {"B": {"$ref": "#/$defs/B", "type": "object"}}});
    assert!(refusal(circle).ends_with("nowhere: #/$defs/B"));
}

/// What the strict schema allows, serde and the plain schema take; what serde writes, the plain one takes.
#[track_caller]
fn check_answers<T: JsonSchema + DeserializeOwned + Serialize>() {
    let plain = schema_for!(T);
    let schema = strict_value(&plain);
    for n in 0..300 {
        let answer = sample(&schema, Seed::new(n), 14);
        assert_eq!(problem(&schema, &answer), None);
        let content = answer.get(ANSWER).unwrap_or(&answer);
        assert_eq!(problem(plain.as_value(), content), None);
        let read: T =
            serde_json::from_value(content.clone()).expect("serde takes what the schema allows");
        let written = serde_json::to_value(&read).unwrap();
        assert_eq!(problem(plain.as_value(), &written), None);
    }
}

#[test]
fn serde_takes_what_strict_schemas_allow() {
    check_answers::<Small>();
    check_answers::<Condition>();
    check_answers::<HarnessEdit>();
    check_answers::<Overlay>();
    check_answers::<HarnessSpec>();
}

/// Plain schema and serde agree on values that fit and on values with one thing wrong.
#[track_caller]
fn check_agreement<T: JsonSchema + DeserializeOwned + Serialize>() {
    let schema = schema_for!(T);
    let (mut n_taken, mut n_refused) = (0, 0);
    for n in 0..40 {
        let value = sample(schema.as_value(), Seed::new(n), 10);
        for value in mutations(&value).into_iter().chain([value]) {
            let read = serde_json::from_value::<T>(value.clone());
            let found = problem(schema.as_value(), &value);
            assert_eq!(
                read.is_ok(),
                found.is_none(),
                "{found:?}, {:?}, {value}",
                read.err()
            );
            let written = read.ok().map(|read| serde_json::to_value(&read).unwrap());
            let again = written.and_then(|written| problem(schema.as_value(), &written));
            assert_eq!(again, None, "what serde writes");
            let count = if found.is_none() {
                &mut n_taken
            } else {
                &mut n_refused
            };
            *count += 1;
        }
    }
    assert!(
        n_taken > 20 && n_refused > 100,
        "{n_taken} taken, {n_refused} refused"
    );
}

#[test]
fn schema_and_serde_agree() {
    check_agreement::<HarnessEdit>();
    check_agreement::<Overlay>();
    check_agreement::<HarnessSpec>();
    check_agreement::<Trajectory>();
}
