//! Places in a JSON document by number, for tests that change a valid document anywhere.
//!
//! Place 0 is the document; then come its parts in order, each before its own parts.

use serde_json::Value;

/// Values that are likely to stand at some boundary of a reader, as JSON.
pub const EDGES: [&str; 24] = [
    "null",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "2",
    "100",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "0.5",
    "-0.0",
    "1e-320",
    "1e38",
    "1e39",
    "1e308",
    "\"\"",
    "\"\\u0000\"",
    "\"\u{e9}\u{1f980}\u{3a3}\"",
    "[]",
    "{}",
];

/// The edge of this number, modulo their count.
///
/// # Panics
/// Never: every edge is JSON.
pub fn edge(number: usize) -> Value {
    serde_json::from_str(EDGES[number % EDGES.len()]).expect("every edge is JSON")
}

/// How many places a document has.
///
/// # Example
/// ```
/// use harness_core::testing::json_tree;
/// let document = serde_json::json!({"a": [1, 2], "b": null});
/// assert_eq!(json_tree::count(&document), 5);
/// assert_eq!(json_tree::at(&document, 3), Some(&serde_json::json!(2)));
/// ```
pub fn count(document: &Value) -> usize {
    1 + match document {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(map) => map.values().map(count).sum(),
        _ => 0,
    }
}

/// The value at a place; `None` past the last.
pub fn at(document: &Value, mut place: usize) -> Option<&Value> {
    fn find<'a>(value: &'a Value, place: &mut usize) -> Option<&'a Value> {
        if *place == 0 {
            return Some(value);
        }
        *place -= 1;
        match value {
            Value::Array(items) => items.iter().find_map(|item| find(item, place)),
            Value::Object(map) => map.values().find_map(|item| find(item, place)),
            _ => None,
        }
    }
    find(document, &mut place)
}

/// The value at a place, to be changed; `None` past the last.
pub fn at_mut(document: &mut Value, mut place: usize) -> Option<&mut Value> {
    fn find<'a>(value: &'a mut Value, place: &mut usize) -> Option<&'a mut Value> {
        if *place == 0 {
            return Some(value);
        }
        *place -= 1;
        match value {
            Value::Array(items) => items.iter_mut().find_map(|item| find(item, place)),
            Value::Object(map) => map.values_mut().find_map(|item| find(item, place)),
            _ => None,
        }
    }
    find(document, &mut place)
}

/// The document after changes: at the place `at`, modulo the number of places, comes an edge, or, for an odd
/// `with`, what stands at another place of the document.
pub fn changed(mut document: Value, changes: &[(usize, usize)]) -> Value {
    for (place, with) in changes {
        let n_places = count(&document);
        let value = match at(&document, with / 2 % n_places) {
            Some(other) if with % 2 == 1 => other.clone(),
            _ => edge(with / 2),
        };
        if let Some(slot) = at_mut(&mut document, place % n_places) {
            *slot = value;
        }
    }
    document
}
