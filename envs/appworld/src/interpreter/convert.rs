//! Values between JSON and monty. Nested deeper than [`MAX_DEPTH`], a value is refused.

use monty_types::{DictPairs, MontyObject};
use serde_json::{Map, Number, Value};

/// Deepest nesting of an argument.
pub(super) const MAX_DEPTH: usize = 32;

/// A JSON value as a Python value.
pub(super) fn to_python(value: Value) -> MontyObject {
    match value {
        Value::Null => MontyObject::None,
        Value::Bool(b) => MontyObject::Bool(b),
        Value::Number(n) => n.as_i64().map_or_else(
            || MontyObject::Float(n.as_f64().unwrap_or(f64::NAN)),
            MontyObject::Int,
        ),
        Value::String(s) => MontyObject::String(s),
        Value::Array(items) => MontyObject::List(items.into_iter().map(to_python).collect()),
        Value::Object(map) => {
            let pairs: Vec<_> = map
                .into_iter()
                .map(|(k, v)| (MontyObject::String(k), to_python(v)))
                .collect();
            MontyObject::Dict(DictPairs::from(pairs))
        }
    }
}

/// A Python value as JSON; `Err` names the type that has no JSON form.
pub(super) fn to_json(object: &MontyObject, depth: usize) -> Result<Value, String> {
    if depth > MAX_DEPTH {
        return Err("deeply nested value".into());
    }
    Ok(match object {
        MontyObject::None => Value::Null,
        MontyObject::Bool(b) => Value::Bool(*b),
        MontyObject::Int(i) => Value::from(*i),
        MontyObject::BigInt(i) => Value::String(i.to_string()),
        MontyObject::Float(f) => {
            Number::from_f64(*f).map_or_else(|| Value::String(f.to_string()), Value::Number)
        }
        MontyObject::String(s) | MontyObject::Path(s) => Value::String(s.clone()),
        MontyObject::List(items)
        | MontyObject::Tuple(items)
        | MontyObject::Set(items)
        | MontyObject::FrozenSet(items)
        | MontyObject::NamedTuple { values: items, .. } => Value::Array(
            items
                .iter()
                .map(|item| to_json(item, depth + 1))
                .collect::<Result<_, _>>()?,
        ),
        MontyObject::Dict(pairs) => {
            let mut map = Map::new();
            for (key, value) in pairs {
                map.insert(key_text(key), to_json(value, depth + 1)?);
            }
            Value::Object(map)
        }
        MontyObject::Date(_) | MontyObject::DateTime(_) | MontyObject::Time(_) => {
            Value::String(object.to_string())
        }
        MontyObject::Repr(_) | MontyObject::Function { .. } => return Err("function".into()),
        _ => return Err(object.type_name().to_owned()),
    })
}

/// The text of a dictionary key.
pub(super) fn key_text(key: &MontyObject) -> String {
    match key {
        MontyObject::String(s) => s.clone(),
        other => other.to_string(),
    }
}
