//! The whole pipeline at a small size: same seed, same bytes, whatever the number of threads; and policies
//! and pools from elsewhere that cannot be used.

use std::fs;
use std::path::Path;

use harness_pool::{BehaviorProfile, ClusterScope, EvidenceRow, SiblingPool};
use serde_json::Value;
use xtask::report::strip_time_keys;

use crate::{n_entries, stderr, xtask};

/// Runs a small reproduction and returns its report without times.
fn reproduce(folder: &Path, out: &str, threads: &str) -> Value {
    let output = xtask(
        folder,
        &[
            "reproduce",
            "appworld",
            "--scale",
            "smoke",
            "--no-cache",
            "--out",
            out,
            "--threads",
            threads,
            "--set",
            "run.budget_rollouts=300",
            "--set",
            "evolution.candidates=3",
        ],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let text = fs::read_to_string(folder.join(out).join("report.json")).expect("a report");
    strip_time_keys(serde_json::from_str(&text).expect("a report is JSON"))
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_one_and_on_two_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let one = reproduce(folder.path(), "one", "1");
    let two = reproduce(folder.path(), "two", "2");
    assert_eq!(one, two);
    for name in [
        "metrics.jsonl",
        "pool.json",
        "trajectories/harness_s-s1.jsonl",
    ] {
        let read = |out: &str| fs::read(folder.path().join(out).join(name)).expect("it is written");
        assert_eq!(read("one"), read("two"), "{name}");
    }
    for arm in [
        "policy_only",
        "policy_only_matched",
        "harness_s",
        "harness_s_sibling",
    ] {
        assert!(
            one["arms"][arm]["base_success"]["mean"].is_number(),
            "{arm}"
        );
    }
    for measured in ["rank1", "nonstationarity", "transfer", "harness_by_family"] {
        assert!(!one[measured].is_null(), "{measured}");
    }
    assert!(one["controls"]["identity"]["difference"]["mean"].is_number());
    assert!(one["ablations"]["sibling_dropout"]["minus_harness_s"]["mean"].is_number());
    budgets_are_equal(&one);
    profiles_come_from_their_rows(&folder.path().join("one"), &one);
}

/// Every arm, variants among them, spends its 300 rollouts to within 1 %, or a task's attempts.
fn budgets_are_equal(report: &Value) {
    let arms = report["arms"].as_object().expect("arms").values();
    let ablations = report["ablations"].as_object().expect("ablations").values();
    for arm in arms.chain(ablations) {
        let rollouts = arm["rollouts"].as_u64().expect("a count");
        assert!((285..=300).contains(&rollouts), "{rollouts}");
    }
}

/// Every profile of a run is a function of its rows, and what the report says of it is too.
fn profiles_come_from_their_rows(run: &Path, report: &Value) {
    let pool = SiblingPool::load(run.join("pool.json")).expect("a pool");
    let mut n = 0;
    for entry in fs::read_dir(run.join("profiles")).expect("profiles") {
        let path = entry.expect("an entry").path();
        let profile = BehaviorProfile::load(&path).expect("a profile");
        let mut rows: Vec<EvidenceRow> = profile.rows().cloned().collect();
        rows.reverse();
        rows.extend(rows.clone());
        let version = profile.policy_version();
        let again = BehaviorProfile::from_rows(rows, version, profile.config()).expect("rows");
        assert_eq!(again, profile, "{}", path.display());
        for id in pool.ids() {
            let summary = |p: &BehaviorProfile| p.summary(id, pool.base_id(), ClusterScope::All);
            assert_eq!(summary(&again), summary(&profile));
            if path.ends_with("harness_s-s1.json") {
                let name = &pool.get(id).expect("a sibling").name;
                let rows = report["profiles"].as_array().expect("rows of profiles");
                let told = rows
                    .iter()
                    .find(|r| r["at"] == "end" && r["harness"] == name.as_str());
                let told = told.expect("a row for each sibling");
                assert_eq!(told["attempts"], summary(&profile).attempts);
                assert_eq!(told["rescue"]["mean"], summary(&profile).rescue.mean);
            }
        }
        n += 1;
    }
    assert!(n >= 3, "{n} profiles");
}

/// Copies the shipped warm start into a folder.
fn shipped(folder: &Path) {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    for entry in fs::read_dir(assets).expect("the shipped warm start") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), folder.join(entry.file_name())).expect("a copy");
    }
}

#[track_caller]
fn refused(args: &[&str], change: impl FnOnce(&Path), message: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    shipped(folder.path());
    change(folder.path());
    let before = n_entries(folder.path());
    let mut all = vec!["reproduce", "appworld", "--scale", "smoke", "--out", "run"];
    all.extend(args);
    let output = xtask(folder.path(), &all);
    assert!(!output.status.success());
    let said = stderr(&output);
    assert!(said.contains(message), "{said}");
    assert_eq!(n_entries(folder.path()), before, "something was written");
}

#[test]
fn policies_that_cannot_be_used_are_refused_before_anything_is_written() {
    let weights = "appworld-nano.safetensors";
    let policy = ["--policy", "."];
    let flip = |folder: &Path| {
        let mut bytes = fs::read(folder.join(weights)).expect("weights");
        let last = bytes.len() - 5;
        bytes[last] ^= 1;
        fs::write(folder.join(weights), bytes).expect("a write");
    };
    refused(&policy, flip, "appworld-nano.safetensors");
    let cut = |folder: &Path| fs::write(folder.join(weights), b"short").expect("a write");
    refused(&policy, cut, "appworld-nano.safetensors");
    let gone =
        |folder: &Path| fs::remove_file(folder.join("appworld-nano.bpe.json")).expect("a removal");
    refused(&policy, gone, "appworld-nano.bpe.json");
}

#[test]
fn pools_that_cannot_be_used_are_refused_before_anything_is_written() {
    let pool = ["--pool", "pool.json"];
    let write = |text: &'static str| {
        move |folder: &Path| fs::write(folder.join("pool.json"), text).expect("a write")
    };
    refused(&pool, write("{"), "pool.json");
    refused(
        &pool,
        write("{\"format_version\": 99, \"kind\": \"sibling_pool\"}"),
        "newer",
    );
    refused(&["--pool", "absent.json"], |_| (), "absent.json");
}
