//! A small reader of JSON Schema for tests: whether a value fits, values that fit, and values that may not.
//!
//! It knows the keywords that [`schemars`] writes for our types, and stops at any other: a keyword that is
//! passed over in silence would make a test say more than it knows. A whole validator would bring some sixty
//! crates for the two dozen keywords that occur.

use rand::RngExt as _;
use schemars::{JsonSchema, schema_for};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::schema::{ANSWER, strict};
use crate::seed::Seed;

/// Keywords that refuse nothing.
const WORDS: [&str; 7] = [
    "$defs",
    "$schema",
    "default",
    "description",
    "format",
    "required",
    "title",
];

/// Checks that a type's schema and serde agree on a value that fits, on each of its [`mutations`], and on what
/// serde writes of them. Returns how many were taken and how many refused.
///
/// # Panics
/// If they disagree, or as [`problem`] does.
#[track_caller]
pub fn check_agreement<T>(seed: Seed, depth: usize) -> (usize, usize)
where
    T: JsonSchema + DeserializeOwned + Serialize,
{
    let schema = schema_for!(T).to_value();
    let value = sample(&schema, seed, depth);
    let (mut n_taken, mut n_refused) = (0, 0);
    for value in mutations(&value).into_iter().chain([value]) {
        let found = problem(&schema, &value);
        match (serde_json::from_value::<T>(value.clone()), &found) {
            (Ok(read), None) => {
                n_taken += 1;
                let written = serde_json::to_value(&read).expect("what was read can be written");
                let again = problem(&schema, &written);
                assert_eq!(again, None, "what serde writes does not fit: {written}");
            }
            (Err(_), Some(_)) => n_refused += 1,
            (read, _) => panic!("schema: {found:?}, serde: {:?}, of {value}", read.err()),
        }
    }
    (n_taken, n_refused)
}

/// Checks that the [`strict`] form of a type's schema allows only what the plain one and serde take.
///
/// # Panics
/// If it allows more, if there is no strict form, or as [`problem`] does.
#[track_caller]
pub fn check_strict<T>(seed: Seed, depth: usize)
where
    T: JsonSchema + DeserializeOwned + Serialize,
{
    let plain = schema_for!(T);
    let strict = strict(&plain).unwrap_or_else(|error| panic!("no strict form: {error}"));
    let answer = sample(strict.as_value(), seed, depth);
    assert_eq!(problem(strict.as_value(), &answer), None);
    let content = answer.get(ANSWER).unwrap_or(&answer);
    assert_eq!(problem(plain.as_value(), content), None);
    let read = serde_json::from_value::<T>(content.clone());
    assert!(read.is_ok(), "serde: {:?}, of {content}", read.err());
}

/// The first thing in a value that does not fit a schema; `None` if it fits.
///
/// # Panics
/// If the schema holds a keyword that this reader does not know, or a reference that leads nowhere.
pub fn problem(schema: &Value, value: &Value) -> Option<String> {
    check(schema, schema, value, "$")
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    let schema = match schema {
        Value::Bool(true) => return None,
        Value::Object(schema) => schema,
        other => return Some(format!("{at}: nothing fits {other}")),
    };
    for (keyword, says) in schema {
        let below = |part: &Value| check(root, part, value, at);
        let n_fitting = || {
            list(says)
                .iter()
                .filter(|part| below(part).is_none())
                .count()
        };
        let found = match keyword.as_str() {
            "$ref" => below(target(root, says)),
            "type" => refuse(!has_type(says, value), at, keyword, value),
            "enum" => refuse(!list(says).contains(value), at, keyword, value),
            "const" => refuse(says != value, at, keyword, value),
            "anyOf" => refuse(n_fitting() == 0, at, keyword, value),
            "oneOf" => refuse(n_fitting() != 1, at, keyword, value),
            "allOf" => list(says).iter().find_map(below),
            "minimum" => refuse(is_less(value.as_f64(), says.as_f64()), at, keyword, value),
            "maximum" => refuse(is_less(says.as_f64(), value.as_f64()), at, keyword, value),
            "minLength" => refuse(is_less(length(value), says.as_f64()), at, keyword, value),
            "maxLength" => refuse(is_less(says.as_f64(), length(value)), at, keyword, value),
            "minItems" => refuse(is_less(size(value), says.as_f64()), at, keyword, value),
            "maxItems" => refuse(is_less(says.as_f64(), size(value)), at, keyword, value),
            "items" => list(value)
                .iter()
                .enumerate()
                .find_map(|(i, item)| check(root, says, item, &format!("{at}[{i}]"))),
            "properties" | "additionalProperties" => None,
            word => {
                assert!(WORDS.contains(&word), "unknown keyword `{word}`");
                None
            }
        };
        if found.is_some() {
            return found;
        }
    }
    check_object(root, schema, value.as_object()?, at)
}

fn check_object(
    root: &Value,
    schema: &Map<String, Value>,
    object: &Map<String, Value>,
    at: &str,
) -> Option<String> {
    let required = schema.get("required").map(list).unwrap_or_default();
    let missing = required
        .iter()
        .filter_map(Value::as_str)
        .find(|k| !object.contains_key(*k));
    if let Some(key) = missing {
        return Some(format!("{at}: `{key}` is missing"));
    }
    let known = schema.get("properties").and_then(Value::as_object);
    let other = schema
        .get("additionalProperties")
        .unwrap_or(&Value::Bool(true));
    object.iter().find_map(|(key, value)| {
        let schema = known.and_then(|known| known.get(key)).unwrap_or(other);
        check(root, schema, value, &format!("{at}.{key}"))
    })
}

fn refuse(is_bad: bool, at: &str, keyword: &str, value: &Value) -> Option<String> {
    is_bad.then(|| format!("{at}: `{keyword}` refuses {value}"))
}

fn is_less(a: Option<f64>, b: Option<f64>) -> bool {
    a.zip(b).is_some_and(|(a, b)| a < b)
}

fn length(value: &Value) -> Option<f64> {
    value.as_str().map(|text| text.chars().count() as f64)
}

fn size(value: &Value) -> Option<f64> {
    value.as_array().map(|items| items.len() as f64)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn target<'a>(root: &'a Value, reference: &Value) -> &'a Value {
    let pointer = reference.as_str().and_then(|text| text.strip_prefix('#'));
    let found = pointer.and_then(|pointer| root.pointer(pointer));
    found.unwrap_or_else(|| panic!("a reference leads nowhere: {reference}"))
}

fn has_type(types: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => panic!("no type: {name}"),
    };
    if types.is_array() {
        list(types).iter().any(is)
    } else {
        is(types)
    }
}

/// A value that fits a schema, the same for the same seed. Texts are ids and clusters at once
/// (`verb/kind` with a number), numbers are small and not negative, lists and maps have at most three parts,
/// and below `depth` levels the first alternative is taken, which for our types ends.
///
/// # Panics
/// If the schema has a reference that leads nowhere.
pub fn sample(schema: &Value, seed: Seed, depth: usize) -> Value {
    sample_part(schema, schema, &mut seed.rng(), depth)
}

fn sample_part(root: &Value, schema: &Value, rng: &mut impl rand::Rng, depth: usize) -> Value {
    let mut pick = |n: usize| {
        if depth == 0 {
            0
        } else {
            rng.random_range(0..n)
        }
    };
    let below = depth.saturating_sub(1);
    if let Some(reference) = schema.get("$ref") {
        return sample_part(root, target(root, reference), rng, below);
    }
    if let Some(parts) = schema
        .get("anyOf")
        .or_else(|| schema.get("oneOf"))
        .map(list)
    {
        let part = &parts[pick(parts.len())];
        return sample_part(root, part, rng, below);
    }
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    if let Some(values) = schema.get("enum").map(list) {
        return values[pick(values.len())].clone();
    }
    let types = &schema["type"];
    let kind = match types {
        Value::Array(types) => types[pick(types.len())].as_str(),
        one => one.as_str(),
    };
    match kind {
        Some("boolean") => json!(rng.random_bool(0.5)),
        Some("integer") => json!(rng.random_range(0..10)),
        Some("number") => json!(f64::from(rng.random_range(0..10)) / 4.0),
        Some("string") => json!(format!("play/{}", rng.random_range(0..1000))),
        Some("array") => {
            let least = schema["minItems"].as_u64().unwrap_or(0) as usize;
            let n = match schema["maxItems"].as_u64() {
                Some(most) => most as usize,
                None => least + pick(3),
            };
            (0..n)
                .map(|_| sample_part(root, &schema["items"], rng, below))
                .collect()
        }
        Some("object") => sample_object(root, schema, rng, depth),
        _ => Value::Null,
    }
}

fn sample_object(root: &Value, schema: &Value, rng: &mut impl rand::Rng, depth: usize) -> Value {
    let required = list(&schema["required"]);
    let mut object = Map::new();
    for (name, part) in schema["properties"].as_object().into_iter().flatten() {
        let is_there = required.contains(&json!(name)) || (depth > 0 && rng.random_bool(0.7));
        if is_there {
            object.insert(
                name.clone(),
                sample_part(root, part, rng, depth.saturating_sub(1)),
            );
        }
    }
    if let Some(other) = schema
        .get("additionalProperties")
        .filter(|other| other.is_object())
    {
        for n in 0..if depth == 0 {
            0
        } else {
            rng.random_range(0..3)
        } {
            let value = sample_part(root, other, rng, depth.saturating_sub(1));
            object.insert(format!("key{n}"), value);
        }
    }
    Value::Object(object)
}

/// Every value that differs from the given one in one place: a field dropped, a field that nobody knows, an
/// item dropped, or a part replaced by `null`, `true`, `1.5`, `-1` or a text that is no name of a variant.
///
/// No part is replaced by a list or an object, since serde reads a struct from a list of its fields and a unit
/// variant from an object, which is nothing that anybody writes.
pub fn mutations(value: &Value) -> Vec<Value> {
    let mut out: Vec<Value> = [
        json!(null),
        json!(true),
        json!(1.5),
        json!(-1),
        json!("no/such"),
    ]
    .into();
    match value {
        Value::Object(object) => {
            let mut more = object.clone();
            more.insert("no_such_field".into(), Value::Null);
            out.push(more.into());
            for (key, part) in object {
                let mut less = object.clone();
                less.shift_remove(key);
                out.push(less.into());
                for part in mutations(part) {
                    let mut changed = object.clone();
                    changed.insert(key.clone(), part);
                    out.push(changed.into());
                }
            }
        }
        Value::Array(items) => {
            out.extend(
                items
                    .split_last()
                    .map(|(_, rest)| Value::from(rest.to_vec())),
            );
            for (i, item) in items.iter().enumerate() {
                for part in mutations(item) {
                    let mut changed = items.clone();
                    changed[i] = part;
                    out.push(changed.into());
                }
            }
        }
        _ => {}
    }
    out.retain(|mutation| mutation != value);
    out
}
