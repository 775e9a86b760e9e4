//! Tests of the strict form, and of the plain schemas of this crate against serde.

use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::*;
use crate::testing::json_schema::{check_agreement, check_strict, problem};
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

#[test]
fn serde_takes_what_strict_schemas_allow() {
    for seed in (0..300).map(Seed::new) {
        check_strict::<Small>(seed, 14);
        check_strict::<Condition>(seed, 14);
        check_strict::<HarnessEdit>(seed, 14);
        check_strict::<Overlay>(seed, 14);
        check_strict::<HarnessSpec>(seed, 14);
    }
}

#[track_caller]
fn agrees<T: JsonSchema + DeserializeOwned + Serialize>() {
    let counts = (0..40).map(|n| check_agreement::<T>(Seed::new(n), 10));
    let (taken, refused) = counts.fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    assert!(
        taken > 20 && refused > 100,
        "{taken} taken, {refused} refused"
    );
}

#[test]
fn schema_and_serde_agree() {
    agrees::<HarnessEdit>();
    agrees::<Overlay>();
    agrees::<HarnessSpec>();
    agrees::<Trajectory>();
}
