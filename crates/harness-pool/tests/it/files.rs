//! Files of pools and profiles: whole or absent, versioned, never silently different.

use std::fs;
use std::path::{Path, PathBuf};

use harness_core::testing::json_tree;
use harness_pool::{BehaviorProfile, ClusterScope, Given, PoolBuilder, RecordError, SiblingPool};
use proptest::prelude::*;

use crate::support::{base, profile, rich_pool, row};

/// Tests run in the package's folder.
fn data(name: &str) -> PathBuf {
    Path::new("tests/data").join(name)
}

/// Loads a pool from a text.
fn load_text(text: &[u8]) -> Result<SiblingPool, RecordError> {
    SiblingPool::from_slice(text, "pool.json")
}

#[test]
fn round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool.json");
    let pool = rich_pool();
    pool.save(&path).unwrap();
    pool.save(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), pool.to_vec());
    assert_eq!(SiblingPool::load(&path).unwrap(), pool);
    let files = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files, 1, "nothing is left aside");
    let empty = PoolBuilder::new(base(), "p".into(), "m".into()).freeze();
    empty.save(&path).unwrap();
    assert_eq!(SiblingPool::load(&path).unwrap(), empty);
}

#[test]
fn j4_frozen_samples_of_format_1_load_for_ever() {
    let pool = SiblingPool::load(data("pool-v1.json")).unwrap();
    assert_eq!(pool.len(), 2);
    let names: Vec<&str> = pool.siblings().iter().map(|s| s.name.as_str()).collect();
    assert!(names.contains(&"login-first") && names.contains(&"paging"));
    assert_eq!(pool.policy_hash(), "policy-0");
    let rules = pool
        .siblings()
        .iter()
        .map(|s| s.harness.overlay.rules.len());
    assert_eq!(rules.sum::<usize>(), 2);
    let profile = BehaviorProfile::load(data("profile-v1.json")).unwrap();
    assert_eq!(profile.rows().len(), 4);
}

#[test]
fn j4_profiles_of_format_1_have_no_flags_and_those_of_format_2_keep_them() {
    let old = BehaviorProfile::load(data("profile-v1.json")).unwrap();
    assert!(old.rows().all(|row| row.flags.is_empty()));
    let new = BehaviorProfile::load(data("profile-v2.json")).unwrap();
    assert_eq!(new.rows().len(), 3);
    let with_flags = new.rows().find(|row| row.solved).unwrap();
    assert_eq!(with_flags.flags, ["logged_in", "task_completed"]);
    // An old profile that is saved again is a new file with the same evidence.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.json");
    old.save(&path).unwrap();
    assert_eq!(BehaviorProfile::load(&path).unwrap(), old);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("{\"format_version\":2,") && !text.contains("flags"));
}

#[test]
fn j4_a_newer_profile_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.json");
    let text = fs::read_to_string(data("profile-v2.json")).unwrap();
    fs::write(
        &path,
        text.replace("\"format_version\":2", "\"format_version\":3"),
    )
    .unwrap();
    let error = BehaviorProfile::load(&path).unwrap_err().to_string();
    let wanted = "made by a newer version (format 3, this code reads up to 2): update harness-pool";
    assert!(error.ends_with(wanted), "{error}");
}

#[test]
fn j4_a_newer_format_is_refused_by_name() {
    let error = SiblingPool::load(data("pool-v2.json")).unwrap_err();
    let text = error.to_string();
    let wanted = "made by a newer version (format 2, this code reads up to 1): update harness-pool";
    assert!(text.ends_with(wanted), "{text}");
    assert!(text.contains("pool-v2.json"), "{text}");
}

#[test]
fn j5_zero_is_not_missing() {
    let pool = SiblingPool::load(data("pool-v1.json")).unwrap();
    let by_name = |name: &str| pool.siblings().iter().find(|s| s.name == name).unwrap();
    assert_eq!(by_name("login-first").evidence.regressions, Some(0));
    assert_eq!(
        by_name("login-first").evidence.retry_gain.to_bits(),
        0.0_f64.to_bits()
    );
    assert_eq!(by_name("paging").evidence.regressions, None);
}

#[test]
fn j5_a_copied_folder_does_not_follow_the_original() {
    let (original, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (from, to) = (
        original.path().join("pool.json"),
        copy.path().join("pool.json"),
    );
    rich_pool().save(&from).unwrap();
    fs::copy(&from, &to).unwrap();
    let edited = fs::read_to_string(&from)
        .unwrap()
        .replace("Log in first.", "Log in later.");
    fs::write(&from, edited).unwrap();
    assert_eq!(SiblingPool::load(&to).unwrap(), rich_pool());
    let error = SiblingPool::load(&from).unwrap_err();
    assert!(matches!(error, RecordError::HashMismatch { .. }), "{error}");
}

#[test]
fn white_space_and_key_order_do_not_matter() {
    let text = fs::read_to_string(data("pool-v1.json")).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut reversed = serde_json::Map::new();
    for (key, value) in value.as_object().unwrap().iter().rev() {
        reversed.insert(key.clone(), value.clone());
    }
    let text = serde_json::to_vec(&reversed).unwrap();
    let pool = SiblingPool::load(data("pool-v1.json")).unwrap();
    assert_eq!(load_text(&text).unwrap(), pool);
}

#[track_caller]
fn check_refusal(text: &str, wanted: &str) {
    let error = load_text(text.as_bytes()).unwrap_err().to_string();
    assert!(error.contains(wanted), "{error}");
}

#[test]
fn messages_say_what_where_and_what_to_do() {
    check_refusal("{\n  \"a\": x}", "not JSON at line 2, column 8");
    check_refusal(
        "[]",
        "not a sibling_pool file, it is no JSON object: check the path",
    );
    check_refusal(
        "{\"kind\": \"behavior_profile\"}",
        "its kind is \"behavior_profile\"",
    );
    check_refusal(
        "{\"kind\": \"sibling_pool\"}",
        "it has no valid `format_version`",
    );
    check_refusal(
        "{\"kind\": \"sibling_pool\", \"format_version\": 1}",
        "it has no `hash`",
    );
    check_refusal(&"[".repeat(100_000), "recursion limit exceeded");
    let missing = SiblingPool::load("no/such/pool.json")
        .unwrap_err()
        .to_string();
    assert!(
        missing.starts_with("cannot open no/such/pool.json"),
        "{missing}"
    );
    let folder = rich_pool().save("no/such/pool.json").unwrap_err();
    assert!(matches!(folder, RecordError::Io { .. }), "{folder}");
}

/// A file whose hash is right but whose content could never have been frozen.
fn forged(change: impl FnOnce(&mut serde_json::Value)) -> String {
    let text = fs::read_to_string(data("pool-v1.json")).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    change(&mut value);
    sealed(value)
}

/// A document with the hash of its content, if it is an object.
fn sealed(mut value: serde_json::Value) -> String {
    if let Some(object) = value.as_object_mut() {
        object.remove("hash");
        let mut sorted = value.clone();
        sorted.sort_all_objects();
        let hash = blake3::hash(sorted.to_string().as_bytes()).to_hex();
        value["hash"] = hash.as_str().into();
    }
    value.to_string()
}

proptest! {
    #[test]
    fn files_with_a_right_hash_and_any_content(
        file in prop::sample::select(vec!["pool-v1.json", "profile-v1.json", "profile-v2.json"]),
        changes in prop::collection::vec(any::<(usize, usize)>(), 0..4),
    ) {
        let text = fs::read_to_string(data(file)).unwrap();
        let value = serde_json::from_str(&text).unwrap();
        let text = sealed(json_tree::changed(value, &changes));
        if let Ok(pool) = SiblingPool::from_slice(text.as_bytes(), file) {
            let again = SiblingPool::from_slice(&pool.to_vec(), file).unwrap();
            prop_assert_eq!(again.siblings(), pool.siblings());
            prop_assert_eq!(again.base(), pool.base());
        }
        if let Ok(profile) = BehaviorProfile::from_slice(text.as_bytes(), file) {
            prop_assert_eq!(&BehaviorProfile::from_slice(&profile.to_vec(), file).unwrap(), &profile);
            for harness in profile.harnesses() {
                let stats = profile.stats(harness, ClusterScope::All, Given::Anything);
                prop_assert!((0.0..=1.0).contains(&stats.mean()));
                profile.summary(harness, harness, ClusterScope::All).describe();
            }
        }
    }
}

#[test]
fn a_forged_hash_does_not_let_a_bad_harness_in() {
    let long = forged(|file| {
        let overrides = &mut file["siblings"][0]["harness"]["overlay"]["overrides"];
        overrides["notes"] = serde_json::json!(["x".repeat(901)]);
    });
    let name = SiblingPool::load(data("pool-v1.json")).unwrap().siblings()[0]
        .name
        .clone();
    check_refusal(
        &long,
        &format!("sibling `{name}`: its harness is not valid"),
    );
    let shape = forged(|file| file["siblings"][0]["surprise"] = 1.into());
    check_refusal(
        &shape,
        "not the shape of a sibling_pool, at siblings[0].surprise: unknown field `surprise`",
    );
    let twice = forged(|file| {
        let first = file["siblings"][0].clone();
        file["siblings"].as_array_mut().unwrap().push(first);
    });
    check_refusal(&twice, "has the same content as");
}

#[test]
fn too_large_a_file_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool.json");
    let file = fs::File::create(&path).unwrap();
    file.set_len(harness_pool::pool::MAX_POOL_BYTES + 1)
        .unwrap();
    let error = SiblingPool::load(&path).unwrap_err();
    assert!(matches!(error, RecordError::TooLarge { .. }), "{error}");
}

#[test]
fn profiles_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.json");
    let rows = vec![row("a", "t1", 0, true), row("base", "t1", 0, false)];
    let profile = profile(rows);
    profile.save(&path).unwrap();
    assert_eq!(BehaviorProfile::load(&path).unwrap(), profile);
    let error = SiblingPool::load(&path).unwrap_err().to_string();
    assert!(
        error.contains("its kind is \"behavior_profile\""),
        "{error}"
    );
}
