//! Mutation of JSON documents by their structure, for targets that read JSON.
//!
//! Bytes that are changed at random hardly ever stay JSON, and a file that carries a hash of its content is
//! refused before anything else is read. [`mutate`] changes the tree of a document that is one, and lets
//! the target *seal* the result: put the right hash into it. Half of the time it leaves the work to the
//! fuzzer's own byte mutations, so that the JSON reader itself and wrong hashes are met as well.

use std::path::Path;

use harness_core::testing::json_tree;
use libfuzzer_sys::fuzzer_mutate;
use serde_json::{Map, Number, Value};

/// Changes the `size` bytes in `data` and returns how many there are then: a JSON document by its tree,
/// anything else by bytes.
pub fn mutate(
    data: &mut [u8],
    size: usize,
    max_size: usize,
    seed: u32,
    seal: fn(&mut Map<String, Value>),
) -> usize {
    let mut dice = Dice(u64::from(seed));
    let by_tree = dice.below(2) == 0;
    let document = serde_json::from_slice::<Value>(&data[..size]);
    let (Ok(mut document), true) = (document, by_tree) else {
        let size = fuzzer_mutate(data, size, max_size);
        return match serde_json::from_slice(&data[..size]) {
            Ok(document) if dice.below(4) > 0 => write(data, size, max_size, document, seal),
            _ => size,
        };
    };
    for _ in 0..=dice.below(3) {
        change(&mut document, &mut dice);
    }
    write(data, size, max_size, document, seal)
}

/// Leaves a document as it is: what targets seal with whose files carry no hash.
pub fn unsealed(_: &mut Map<String, Value>) {}

/// Puts the hash of a record of `harness-pool` into it.
pub fn seal_record(record: &mut Map<String, Value>) {
    record.remove("hash");
    let mut sorted = Value::Object(record.clone());
    sorted.sort_all_objects();
    let hash = blake3::hash(sorted.to_string().as_bytes()).to_hex();
    record.insert("hash".into(), hash.as_str().into());
}

fn write(
    data: &mut [u8],
    size: usize,
    max_size: usize,
    mut document: Value,
    seal: fn(&mut Map<String, Value>),
) -> usize {
    if let Value::Object(object) = &mut document {
        seal(object);
    }
    let text = document.to_string();
    if text.len() > max_size {
        return size;
    }
    data[..text.len()].copy_from_slice(text.as_bytes());
    text.len()
}

/// Small random numbers from a seed.
struct Dice(u64);

impl Dice {
    /// A number below `n`, which is at least 1.
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

/// Changes the value at one place.
fn change(document: &mut Value, dice: &mut Dice) {
    let n_places = json_tree::count(document);
    let other = json_tree::at(document, dice.below(n_places));
    let other = other.cloned().unwrap_or_default();
    let Some(value) = json_tree::at_mut(document, dice.below(n_places)) else {
        return;
    };
    match (dice.below(8), value) {
        (0, value) => *value = json_tree::edge(dice.below(json_tree::EDGES.len())),
        (1, value) => *value = other,
        (2, value) => *value = Value::Array(vec![value.take(); dice.below(3)]),
        (_, value @ (Value::Null | Value::Bool(_))) => *value = Value::Bool(dice.below(2) == 0),
        (_, Value::Number(number)) => *number = change_number(number, dice),
        (_, Value::String(text)) => *text = change_text(text),
        (_, Value::Array(items)) => {
            let at = dice.below(items.len() + 1);
            if at < items.len() && dice.below(2) == 0 {
                items.remove(at);
            } else {
                items.insert(at, other);
            }
        }
        (_, Value::Object(map)) => change_object(map, other, dice),
    }
}

fn change_number(number: &Number, dice: &mut Dice) -> Number {
    let way = dice.below(3);
    match number.as_i64() {
        Some(n) if way == 0 => n.wrapping_add(1).into(),
        Some(n) if way == 1 => n.wrapping_sub(1).into(),
        Some(n) => n.wrapping_mul(1 << dice.below(63)).into(),
        None => {
            let value = number.as_f64().unwrap_or_default() * [-1.0, 0.5, 1e9][way];
            Number::from_f64(value).unwrap_or_else(|| 0.into())
        }
    }
}

/// Takes a key away, gives its value another key or the key another value, or adds keys.
fn change_object(map: &mut Map<String, Value>, other: Value, dice: &mut Dice) {
    let key = map.keys().nth(dice.below(map.len() + 1)).cloned();
    match (key, dice.below(3), other) {
        (Some(key), 0, _) => drop(map.shift_remove(&key)),
        (Some(key), 1, Value::String(new_key)) => {
            let value = map.shift_remove(&key).unwrap_or_default();
            map.insert(new_key, value);
        }
        (Some(key), _, other) => drop(map.insert(key, other)),
        (None, _, Value::Object(more)) => map.extend(more),
        (None, ..) => {}
    }
}

/// A text changed by the fuzzer's own mutations.
fn change_text(text: &str) -> String {
    let max_size = text.len() + 64;
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(max_size, 0);
    let size = fuzzer_mutate(&mut bytes, text.len(), max_size);
    String::from_utf8_lossy(&bytes[..size]).into_owned()
}

/// Gives `read` the path of a file that holds `data`, for readers that take nothing but paths.
///
/// # Panics
/// If the folder of temporary files cannot be written.
pub fn on_disk(data: &[u8], read: impl FnOnce(&Path)) {
    let name = format!("harness-s-fuzz-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, data).expect("the folder of temporary files can be written");
    read(&path);
}

/// Changes the `size` bytes in `data` and returns how many there are then: now and then a short piece comes
/// many times over, which byte mutations hardly ever do and which makes deep trees; else by bytes.
pub fn repeat(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut dice = Dice(u64::from(seed));
    if size == 0 || dice.below(8) > 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let start = dice.below(size);
    let end = (start + 1 + dice.below(24)).min(size);
    let piece = data[start..end].to_vec();
    let n_times = dice.below((max_size - size) / piece.len() + 1);
    let tail = data[end..size].to_vec();
    let grown = [piece.repeat(n_times), tail].concat();
    data[end..end + grown.len()].copy_from_slice(&grown);
    end + grown.len()
}
