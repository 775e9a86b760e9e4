//! What must be equal between two runs with the same seeds.

use serde::Serialize;
use serde_json::Value;

/// Keys whose values depend on the clock.
const TIME_KEYS: [&str; 3] = ["wall_s", "started", "ended"];

/// The value without keys that depend on the clock: `wall_s`, `started`, `ended` and all that end in
/// `_per_s`, at every depth.
///
/// # Example
/// ```
/// let value = serde_json::json!({"wall_s": 1, "arms": [{"tokens_per_s": 2, "tokens": 3}]});
/// let expect = serde_json::json!({"arms": [{"tokens": 3}]});
/// assert_eq!(xtask::report::strip_time_keys(value), expect);
/// ```
#[must_use]
pub fn strip_time_keys(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .filter(|(key, _)| !is_time_key(key))
                .map(|(key, value)| (key, strip_time_keys(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(strip_time_keys).collect()),
        other => other,
    }
}

/// A value's JSON by [`strip_time_keys`], as text: equal for two runs with the same seeds.
///
/// # Errors
/// The value has no JSON form.
pub fn without_time(value: &impl Serialize) -> serde_json::Result<String> {
    crate::files::canonical_json(&strip_time_keys(serde_json::to_value(value)?))
}

fn is_time_key(key: &str) -> bool {
    TIME_KEYS.contains(&key) || key.ends_with("_per_s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_only_look_alike_stay() {
        let value = serde_json::json!({"wall_secs": 1, "restarted": 2, "per_seed": 3});
        assert_eq!(strip_time_keys(value.clone()), value);
    }

    #[test]
    fn two_reports_that_differ_in_time_alone_are_equal() {
        let mut report = crate::report::Report::default();
        let before = without_time(&report).unwrap();
        report.wall_s = 9.0;
        report.started = Some("2026-01-01T00:00:00Z".into());
        assert_eq!(without_time(&report).unwrap(), before);
    }
}
