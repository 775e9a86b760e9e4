//! JSON Schemas for models that answer in a strict structured-output mode.
//!
//! [`schemars`] says what serde reads. The strict modes of model servers take a small part of JSON Schema only
//! and refuse the rest; [`strict`] turns the one into the other. What the files of this workspace look like
//! is said by the plain schemas, which `cargo xtask schema` writes.

use std::collections::BTreeMap;

/// The version of `schemars` whose [`Schema`] and `JsonSchema` stand in the signatures of these crates.
pub use schemars;
use schemars::Schema;
use serde_json::{Map, Value, json};

/// The one property of a strict schema whose answer is no object by itself: strict modes want an object at
/// the root. Read the answer from there.
pub const ANSWER: &str = "answer";

/// Name under which such an answer is defined.
const ANSWER_DEF: &str = "Answer";
/// Deepest chain of definitions that stand in each other's place.
const MAX_CHAIN: usize = 32;
/// Keywords that bound or annotate; strict modes refuse them, and serde or validation checks what matters.
const DROPPED: [&str; 19] = [
    "$defs",
    "$schema",
    "default",
    "deprecated",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "multipleOf",
    "pattern",
    "readOnly",
    "title",
    "uniqueItems",
];

/// Why a schema has no strict form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// An object whose keys are not fixed, such as a map.
    #[error("a strict schema cannot hold an object with free keys, at: {at}")]
    OpenObject {
        /// Where it stands in the schema.
        at: String,
    },
    /// A place where any value may stand.
    #[error("a strict schema cannot hold a place for any value, at: {at}")]
    AnyValue {
        /// Where it stands in the schema.
        at: String,
    },
    /// A keyword that has no strict form where it stands.
    #[error("a strict schema cannot hold the keyword `{keyword}`, at: {at}")]
    Keyword {
        /// The keyword.
        keyword: String,
        /// Where it stands in the schema.
        at: String,
    },
    /// A reference to a definition that is not there, or that only leads back to itself.
    #[error("a reference leads nowhere: {reference}")]
    Reference {
        /// The reference.
        reference: String,
    },
}

/// The part of a schema that strict modes accept, with the same meaning where they can say it.
///
/// - The root is an object; any other answer is put under the one property [`ANSWER`].
/// - Every object is closed and lists all its properties as required. A property that serde takes as absent
///   is nullable exactly if its type is an `Option`, so serde reads whatever the strict schema allows; any
///   other default must be written out.
/// - `oneOf` becomes `anyOf`, `const` an `enum` of one value.
/// - A `$ref` stands alone: beside a description it moves into an `anyOf` of one part; beside properties (a
///   tagged variant that holds a struct) the definition is put in its place. References stay where they can,
///   so a recursive type such as a condition stays recursive.
/// - Titles, formats, bounds and defaults go. Numeric bounds and plain defaults are told in the description;
///   serde and `validate` check them.
///
/// Servers that take no recursive schema at all refuse that of a harness; there, give it as text.
///
/// # Errors
/// [`SchemaError`] if a part has no strict form: a map, a place for any value, a tuple, a negation.
///
/// # Example
/// ```
/// let plain = schemars::schema_for!(harness_core::HarnessEdit);
/// let strict = harness_core::schema::strict(&plain).unwrap();
/// assert_eq!(strict.as_value()["required"], serde_json::json!(["answer"]));
/// ```
/// # Source
/// Bug report J1 (akitaonrails/ai-memory issue 30, 0xPlaygrounds/rig issue 1120), and the supported schemas in
/// `OpenAI`'s guide to structured outputs. Ours: references stay instead of being inlined to a bounded depth,
/// since inlining a condition at three places and eight levels gives some thousand copies.
pub fn strict(schema: &Schema) -> Result<Schema, SchemaError> {
    let source = Source {
        root: schema.as_value(),
        is_object: schema.get("type") == Some(&json!("object")),
    };
    let mut defs = BTreeMap::new();
    let mut root = if source.is_object {
        source.strict(source.root, "#")?
    } else {
        let answer = json!({"$ref": format!("#/$defs/{ANSWER_DEF}")});
        closed(Map::from_iter([(ANSWER.to_owned(), answer)]))
    };
    let mut wanted = references(&Value::Object(root.clone()));
    while let Some(reference) = wanted.pop() {
        let name = reference.strip_prefix("#/$defs/").unwrap_or_default();
        if reference == "#" || defs.contains_key(name) {
            continue;
        }
        let def = Value::Object(source.strict(source.resolve(&reference)?, &reference)?);
        wanted.extend(references(&def));
        defs.insert(name.to_owned(), def);
    }
    if !defs.is_empty() {
        root.insert("$defs".into(), Value::Object(defs.into_iter().collect()));
    }
    Ok(Schema::from(root))
}

/// The schema that is turned.
struct Source<'a> {
    root: &'a Value,
    is_object: bool,
}

impl<'a> Source<'a> {
    fn resolve(&self, reference: &str) -> Result<&'a Value, SchemaError> {
        let target = match reference.strip_prefix('#') {
            Some("/$defs/Answer") if !self.is_object => Some(self.root),
            Some(pointer) => self.root.pointer(pointer),
            None => None,
        };
        target.ok_or_else(|| SchemaError::Reference {
            reference: reference.to_owned(),
        })
    }

    fn strict(&self, schema: &Value, at: &str) -> Result<Map<String, Value>, SchemaError> {
        let any_value = || SchemaError::AnyValue { at: at.to_owned() };
        let schema = schema.as_object().ok_or_else(any_value)?;
        if let Some(reference) = lone_reference(schema) {
            return Ok(self.reference(reference, schema.get("description")));
        }
        let schema = self.merged(schema, at, MAX_CHAIN)?;
        let mut out = Map::new();
        if let Some(text) = description(&schema) {
            out.insert("description".into(), text.into());
        }
        for (keyword, value) in &schema {
            let at = format!("{at}/{keyword}");
            match keyword.as_str() {
                "type" | "enum" => drop(out.insert(keyword.clone(), value.clone())),
                "const" => drop(out.insert("enum".into(), json!([value]))),
                "anyOf" | "oneOf" if !schema.contains_key("properties") => {
                    out.insert("anyOf".into(), self.strict_all(value, &at)?);
                }
                "items" => drop(out.insert("items".into(), self.strict(value, &at)?.into())),
                "properties" => out.extend(closed(self.properties(value, &at)?)),
                "additionalProperties" if *value == json!(false) => {}
                "additionalProperties" => return Err(SchemaError::OpenObject { at }),
                "description" | "required" => {}
                other if DROPPED.contains(&other) => {}
                other => {
                    return Err(SchemaError::Keyword {
                        keyword: other.to_owned(),
                        at,
                    });
                }
            }
        }
        let is_object = out.get("type") == Some(&json!("object"));
        if is_object && !out.contains_key("properties") {
            return Err(SchemaError::OpenObject { at: at.to_owned() });
        }
        if ["type", "enum", "anyOf"]
            .iter()
            .all(|k| !out.contains_key(*k))
        {
            return Err(any_value());
        }
        Ok(out)
    }

    fn strict_all(&self, parts: &Value, at: &str) -> Result<Value, SchemaError> {
        let parts = parts.as_array().into_iter().flatten();
        let parts = parts.map(|part| self.strict(part, at).map(Value::Object));
        parts.collect::<Result<Vec<_>, _>>().map(Value::Array)
    }

    fn properties(&self, value: &Value, at: &str) -> Result<Map<String, Value>, SchemaError> {
        let properties = value.as_object().into_iter().flatten();
        let turn = |(name, schema): (&String, &Value)| {
            let schema = self.strict(schema, &format!("{at}/{name}"))?;
            Ok((name.clone(), Value::Object(schema)))
        };
        properties.map(turn).collect()
    }

    fn reference(&self, reference: &str, description: Option<&Value>) -> Map<String, Value> {
        let target = match reference {
            "#" if !self.is_object => format!("#/$defs/{ANSWER_DEF}"),
            other => other.to_owned(),
        };
        let mut out = Map::from_iter([("$ref".to_owned(), target.into())]);
        if let Some(text) = description {
            out = Map::from_iter([
                ("description".to_owned(), text.clone()),
                ("anyOf".to_owned(), json!([out])),
            ]);
        }
        out
    }

    /// The schema with what it refers to, and the parts of its `allOf`, put in it.
    fn merged(
        &self,
        schema: &Map<String, Value>,
        at: &str,
        chain: usize,
    ) -> Result<Map<String, Value>, SchemaError> {
        let mut parts = Vec::new();
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            if chain == 0 {
                let reference = reference.to_owned();
                return Err(SchemaError::Reference { reference });
            }
            parts.push(self.resolve(reference)?);
        }
        parts.extend(
            schema
                .get("allOf")
                .and_then(Value::as_array)
                .into_iter()
                .flatten(),
        );
        let mut out = Map::new();
        for part in parts {
            let any_value = || SchemaError::AnyValue { at: at.to_owned() };
            let part = part.as_object().ok_or_else(any_value)?;
            absorb(&mut out, self.merged(part, at, chain.saturating_sub(1))?);
        }
        let own = schema
            .iter()
            .filter(|(k, _)| !["$ref", "allOf"].contains(&k.as_str()));
        absorb(&mut out, own.map(|(k, v)| (k.clone(), v.clone())).collect());
        Ok(out)
    }
}

/// The reference of a schema that says nothing else but words about it.
fn lone_reference(schema: &Map<String, Value>) -> Option<&str> {
    let is_word = |keyword: &str| ["$ref", "description", "default", "title"].contains(&keyword);
    let reference = schema.get("$ref")?.as_str()?;
    schema.keys().all(|k| is_word(k)).then_some(reference)
}

/// Puts a part into a schema: properties come together, anything else of the part stands above.
fn absorb(schema: &mut Map<String, Value>, part: Map<String, Value>) {
    for (keyword, value) in part {
        match (schema.get_mut(&keyword), value) {
            (Some(Value::Object(old)), Value::Object(new)) if keyword == "properties" => {
                old.extend(new);
            }
            (_, value) => drop(schema.insert(keyword, value)),
        }
    }
}

/// A closed object of which every property must be there.
fn closed(properties: Map<String, Value>) -> Map<String, Value> {
    let required: Vec<&String> = properties.keys().collect();
    let required = json!(required);
    Map::from_iter([
        ("type".to_owned(), json!("object")),
        ("properties".to_owned(), Value::Object(properties)),
        ("required".to_owned(), required),
        ("additionalProperties".to_owned(), json!(false)),
    ])
}

/// The description, with the bounds and the default that the strict schema cannot hold.
fn description(schema: &Map<String, Value>) -> Option<String> {
    let text = schema.get("description").and_then(Value::as_str);
    let mut parts: Vec<String> = text.map(str::to_owned).into_iter().collect();
    for (keyword, words) in [("minimum", "At least"), ("maximum", "At most")] {
        parts.extend(schema.get(keyword).map(|bound| format!("{words} {bound}.")));
    }
    let default = schema.get("default");
    let is_plain = |value: &&Value| value.is_boolean() || value.is_number() || value.is_string();
    parts.extend(
        default
            .filter(is_plain)
            .map(|value| format!("Usual value: {value}.")),
    );
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// Every reference in a schema.
fn references(schema: &Value) -> Vec<String> {
    match schema {
        Value::Object(map) => {
            let own = map.get("$ref").and_then(Value::as_str).map(str::to_owned);
            own.into_iter()
                .chain(map.values().flat_map(references))
                .collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
