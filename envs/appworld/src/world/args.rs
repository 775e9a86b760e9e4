//! Checking a call's arguments against its parameters, with the messages of a validating server.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::ApiError;
use super::spec::{Api, Kind, Param};

/// Checked arguments; parameters that were left out hold their default.
#[derive(Debug, Default)]
pub(crate) struct Args(BTreeMap<String, Value>);

impl Args {
    /// Checks arguments; unknown ones are ignored, as `AppWorld` does by default.
    ///
    /// # Errors
    /// 422 with one line per bad parameter.
    pub(crate) fn check(api: &Api, mut given: Map<String, Value>) -> Result<Self, ApiError> {
        let mut values = BTreeMap::new();
        let mut problems = Vec::new();
        for param in &api.params {
            match check_one(param, given.remove(&param.name)) {
                Ok(value) => {
                    values.insert(param.name.clone(), value);
                }
                Err(problem) => problems.push(format!("{}: {problem}", param.name)),
            }
        }
        if problems.is_empty() {
            Ok(Self(values))
        } else {
            Err(ApiError::invalid(format!(
                "Validation error. Reason: \n{}",
                problems.join("\n")
            )))
        }
    }

    /// A text; empty if it was left out.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.optional_text(name).unwrap_or_default()
    }

    /// A text; `None` if it was left out.
    pub(crate) fn optional_text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// A whole number; 0 if it was left out.
    pub(crate) fn int(&self, name: &str) -> i64 {
        self.0.get(name).and_then(Value::as_i64).unwrap_or_default()
    }

    /// A value as given.
    pub(crate) fn value(&self, name: &str) -> Value {
        self.0.get(name).cloned().unwrap_or_default()
    }

    /// The arguments as text, without one of them: the same listing on another page reads the same.
    pub(crate) fn key_without(&self, name: &str) -> String {
        let rest: BTreeMap<_, _> = self.0.iter().filter(|(k, _)| *k != name).collect();
        format!("{rest:?}")
    }
}

fn check_one(param: &Param, given: Option<Value>) -> Result<Value, String> {
    let value = match (given, &param.default) {
        (None, None) => return Err("field required".into()),
        (None, Some(default)) => return Ok(default.clone()),
        (Some(Value::Null), Some(Value::Null)) => return Ok(Value::Null),
        (Some(Value::Null), _) => return Err("none is not an allowed value".into()),
        (Some(value), _) => value,
    };
    match param.kind {
        Kind::Int { min, max } => int(&value, min, max).map(Value::from),
        Kind::Text { max, blank } => text(value, max, blank).map(Value::from),
        Kind::Status => status(&value),
        Kind::Answer => answer(value, true),
    }
}

fn int(value: &Value, min: i64, max: i64) -> Result<i64, String> {
    let number = match value {
        Value::Number(n) => n.as_i64().or_else(|| n.as_f64().and_then(whole)),
        Value::Bool(b) => Some(i64::from(*b)),
        Value::String(s) => s.trim().parse().ok(),
        _ => None,
    };
    let number = number.ok_or("value is not a valid integer")?;
    if number < min {
        Err(format!(
            "ensure this value is greater than or equal to {min}"
        ))
    } else if number > max {
        Err(format!("ensure this value is less than or equal to {max}"))
    } else {
        Ok(number)
    }
}

/// Cuts a float towards zero, as Python's `int` does.
fn whole(float: f64) -> Option<i64> {
    (float.abs() < 9e15).then_some(float.trunc() as i64)
}

fn text(value: Value, max: usize, blank: bool) -> Result<String, String> {
    let text = match value {
        Value::String(s) => s,
        Value::Number(n) => n.to_string(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        _ => return Err("str type expected".into()),
    };
    if !blank && text.is_empty() {
        Err("ensure this value has at least 1 characters".into())
    } else if text.chars().count() > max {
        Err(format!("ensure this value has at most {max} characters"))
    } else {
        Ok(text)
    }
}

fn status(value: &Value) -> Result<Value, String> {
    match value.as_str() {
        Some("success" | "fail") => Ok(value.clone()),
        _ => Err("unexpected value; permitted: 'success', 'fail'".into()),
    }
}

/// Answers are numbers, texts or flat lists of those.
fn answer(value: Value, list: bool) -> Result<Value, String> {
    match value {
        Value::String(s) => text(Value::String(s), 5_000, true).map(Value::from),
        Value::Number(_) | Value::Bool(_) | Value::Null => Ok(value),
        Value::Array(items) if list && items.len() <= 1_000 => items
            .into_iter()
            .map(|item| answer(item, false))
            .collect::<Result<_, _>>()
            .map(Value::Array),
        _ => Err("value is not a valid answer".into()),
    }
}
