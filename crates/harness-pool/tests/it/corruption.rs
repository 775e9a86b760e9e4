//! Files that were damaged or exchanged: refused by name, or read as what was written; never something else.

use std::fmt::Debug;
use std::fs;
use std::path::Path;

use harness_core::{HarnessEdit, HarnessSpec, Seed};
use harness_pool::{BehaviorProfile, RecordError, SiblingPool};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::support::{profile, rich_pool, row};

const N_CORRUPTIONS: u64 = 200;

fn data(name: &str) -> Vec<u8> {
    fs::read(Path::new("tests/data").join(name)).unwrap()
}

/// The same file with a line for each value, so that lines can be lost.
fn spread(text: &[u8]) -> Vec<u8> {
    let value: Value = serde_json::from_slice(text).unwrap();
    serde_json::to_vec_pretty(&value).unwrap()
}

/// The `n`-th damage to a text: a flipped bit, a cut end, a lost line, a line that is there twice, or two lines
/// that changed places.
fn corrupted(text: &[u8], n: u64) -> Vec<u8> {
    let draw = |purpose, below: usize| {
        let drawn = Seed::new(n).derive(purpose, &[]).value();
        drawn as usize % below.max(1)
    };
    let mut bytes = text.to_vec();
    let mut lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    let (at, other) = (draw("line", lines.len()), draw("other", lines.len()));
    match n % 5 {
        0 => {
            bytes[draw("byte", text.len())] ^= 1 << draw("bit", 8);
            return bytes;
        }
        1 => {
            bytes.truncate(draw("cut", text.len()));
            return bytes;
        }
        2 => drop(lines.remove(at)),
        3 => lines.insert(at, lines[at]),
        _ => lines.swap(at, other),
    }
    lines.concat()
}

/// Loads every corruption of a file and compares what is read with what was written.
#[track_caller]
fn check<T: PartialEq + Debug>(whole: &[u8], load: impl Fn(&Path) -> Result<T, RecordError>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("some-file.json");
    fs::write(&path, whole).unwrap();
    let original = load(&path).unwrap();
    let mut n_refused = 0;
    for text in [whole.to_vec(), spread(whole)] {
        for n in 0..N_CORRUPTIONS {
            fs::write(&path, corrupted(&text, n)).unwrap();
            match load(&path) {
                Ok(loaded) => assert_eq!(loaded, original, "corruption {n}"),
                Err(error) => {
                    let told = error.to_string();
                    assert!(told.contains("some-file.json"), "corruption {n}: {told}");
                    n_refused += 1;
                }
            }
        }
    }
    assert!(n_refused > 200, "most are noticed, got: {n_refused}");
}

fn saved(save: impl FnOnce(&Path) -> Result<(), RecordError>) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.json");
    save(&path).unwrap();
    fs::read(&path).unwrap()
}

#[test]
fn j5_corrupt_pools_are_refused_or_equal() {
    let fresh = saved(|path| rich_pool().save(path));
    for whole in [data("pool-v1.json"), fresh] {
        check(&whole, |path| SiblingPool::load(path));
    }
}

#[test]
fn j5_corrupt_profiles_are_refused_or_equal() {
    let rows = (0..8).map(|n| row(["a", "base"][n as usize % 2], "t", n, n % 3 == 0));
    let fresh = saved(|path| profile(rows.collect()).save(path));
    for whole in [data("profile-v1.json"), data("profile-v2.json"), fresh] {
        check(&whole, |path| BehaviorProfile::load(path));
    }
}

/// What has no file of its own is known by the id of its harness: damage is refused, or changes the id.
#[track_caller]
fn check_named<T: DeserializeOwned>(text: &[u8], harness: impl Fn(T) -> Option<HarnessSpec>) {
    let of = |text: &[u8]| harness(serde_json::from_slice(text).ok()?);
    let original = of(text).unwrap();
    let (mut n_refused, mut n_changed) = (0, 0);
    for n in 0..N_CORRUPTIONS {
        let Some(read) = of(&corrupted(text, n)) else {
            n_refused += 1;
            continue;
        };
        assert_eq!(read.id() == original.id(), read == original, "{n}");
        n_changed += usize::from(read != original);
    }
    assert!(n_refused > 80, "{n_refused} refused, {n_changed} changed");
}

fn valid(harness: HarnessSpec) -> Option<HarnessSpec> {
    harness.validate().is_ok().then_some(harness)
}

#[test]
fn j5_a_corrupt_harness_overlay_or_edit_is_refused_or_has_another_id() {
    let pool = rich_pool();
    for sibling in pool.siblings() {
        let text = serde_json::to_vec_pretty(&sibling.harness).unwrap();
        check_named(&text, valid);
        let text = serde_json::to_vec_pretty(&sibling.harness.overlay).unwrap();
        check_named(&text, |overlay| {
            let base = pool.base().clone();
            valid(HarnessSpec { overlay, ..base })
        });
        for edit in &sibling.lineage {
            let text = serde_json::to_vec_pretty(edit).unwrap();
            check_named(&text, |edit: HarnessEdit| pool.base().apply(&edit).ok());
        }
    }
}

#[test]
fn exchanged_files_are_refused_by_kind() {
    let folder = tempfile::tempdir().unwrap();
    let (pool, profile) = (folder.path().join("a.json"), folder.path().join("b.json"));
    fs::write(&pool, data("pool-v1.json")).unwrap();
    fs::write(&profile, data("profile-v2.json")).unwrap();
    let as_pool = SiblingPool::load(&profile).unwrap_err().to_string();
    assert!(
        as_pool.contains("b.json") && as_pool.contains("behavior_profile"),
        "{as_pool}"
    );
    let as_profile = BehaviorProfile::load(&pool).unwrap_err().to_string();
    assert!(
        as_profile.contains("a.json") && as_profile.contains("sibling_pool"),
        "{as_profile}"
    );
    let folder = SiblingPool::load(folder.path()).unwrap_err();
    assert!(matches!(folder, RecordError::Io { .. }), "{folder}");
}
