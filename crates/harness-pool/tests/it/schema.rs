//! The schemas of pool and profile files against the readers, on frozen samples and with one thing wrong.

use std::fs;
use std::path::Path;

use harness_core::testing::json_schema::{mutations, problem, sample};
use harness_core::{HarnessSpec, Overlay, Seed};
use harness_pool::{BehaviorProfile, PoolBuilder, RecordError, Sibling, SiblingPool};
use proptest::prelude::*;
use serde_json::Value;

use crate::support::{base, profile, rich_pool, rows_strategy, sibling};

fn read_json(path: impl AsRef<Path>) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn data(name: &str) -> Value {
    read_json(Path::new("tests/data").join(name))
}

#[test]
fn j4_frozen_samples_fit_the_schema_of_today() {
    let (pool, profile) = (SiblingPool::file_schema(), BehaviorProfile::file_schema());
    assert_eq!(problem(pool.as_value(), &data("pool-v1.json")), None);
    for name in ["profile-v1.json", "profile-v2.json"] {
        assert_eq!(problem(profile.as_value(), &data(name)), None, "{name}");
    }
    let mut newer = data("pool-v1.json");
    newer["format_version"] = 2.into();
    let found = problem(pool.as_value(), &newer);
    assert_eq!(
        found.as_deref(),
        Some("$.format_version: `maximum` refuses 2")
    );
}

/// A pool of siblings whose overlays are drawn from the schema, as far as they break no bound.
fn drawn_pool(seed: u64) -> SiblingPool {
    let schema = schemars::schema_for!(Overlay);
    let mut builder = PoolBuilder::new(base(), "p".into(), "m".into());
    for n in 0..8 {
        let drawn = sample(schema.as_value(), Seed::new(8 * seed + n), 10);
        let overlay = serde_json::from_value(drawn).unwrap();
        let harness = HarnessSpec { overlay, ..base() };
        // What is drawn may be no sibling: an effect where it has no meaning, or the base itself.
        let _ = builder.add(Sibling {
            harness,
            lineage: vec![],
            ..sibling(&format!("s{n}"), "note")
        });
    }
    builder.freeze()
}

/// What was saved fits the schema, and is read as what was saved.
#[track_caller]
fn check_written(
    schema: &Value,
    save: impl Fn(&Path) -> Result<(), RecordError>,
    is_same: impl Fn(&Path) -> bool,
) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.json");
    save(&path).unwrap();
    assert_eq!(problem(schema, &read_json(&path)), None);
    assert!(is_same(&path), "read as it was written");
}

#[test]
fn pools_that_are_written_fit() {
    let schema = SiblingPool::file_schema();
    let mut n_siblings = 0;
    for pool in (0..40).map(drawn_pool).chain([rich_pool()]) {
        n_siblings += pool.len();
        check_written(
            schema.as_value(),
            |path| pool.save(path),
            |path| SiblingPool::load(path).unwrap() == pool,
        );
    }
    assert!(n_siblings > 40, "got: {n_siblings}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn profiles_that_are_written_fit(rows in rows_strategy()) {
        let profile = profile(rows);
        check_written(
            BehaviorProfile::file_schema().as_value(),
            |path| profile.save(path),
            |path| BehaviorProfile::load(path).unwrap() == profile,
        );
    }
}

/// Gives a changed file the hash of its content, so that only its shape can be wrong.
fn rehash(file: &mut Value) {
    let Some(object) = file.as_object_mut() else {
        return;
    };
    if object
        .get("hash")
        .is_none_or(|hash| hash.as_str().is_none_or(|hash| hash.len() != 64))
    {
        return;
    }
    object.remove("hash");
    let mut sorted = file.clone();
    sorted.sort_all_objects();
    let hash = blake3::hash(sorted.to_string().as_bytes())
        .to_hex()
        .to_string();
    file["hash"] = hash.into();
}

/// Whatever the schema refuses, the reader refuses for its shape; and what it takes, no reader calls misshapen
/// but for texts and numbers that have a form of their own.
#[track_caller]
fn check(sample: &Value, schema: &Value, load: impl Fn(&Path) -> Result<(), RecordError>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.json");
    let mut n_refused = 0;
    for mut file in mutations(sample) {
        rehash(&mut file);
        fs::write(&path, file.to_string()).unwrap();
        let read = load(&path);
        let found = problem(schema, &file);
        n_refused += usize::from(found.is_some());
        match read {
            Ok(()) => assert_eq!(found, None, "{file}"),
            Err(RecordError::Shape { .. }) => assert!(found.is_some(), "{file}"),
            Err(_) => {}
        }
    }
    assert!(n_refused > 100, "most changes are seen, got: {n_refused}");
}

#[test]
fn the_reader_refuses_what_the_schema_of_a_pool_refuses() {
    let schema = SiblingPool::file_schema();
    check(&data("pool-v1.json"), schema.as_value(), |path| {
        SiblingPool::load(path).map(drop)
    });
}

#[test]
fn the_reader_refuses_what_the_schema_of_a_profile_refuses() {
    let schema = BehaviorProfile::file_schema();
    for name in ["profile-v1.json", "profile-v2.json"] {
        check(&data(name), schema.as_value(), |path| {
            BehaviorProfile::load(path).map(drop)
        });
    }
}
