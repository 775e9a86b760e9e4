//! Wrong usage: exit code 2, a message that helps, nothing written.

use std::fs;

use crate::{n_entries, stderr, stdout, xtask};

/// Runs in an empty folder and expects exit code 2, every part in the message, and a folder still empty.
#[track_caller]
fn check(args: &[&str], parts: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let output = xtask(folder.path(), args);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in:\n{message}");
    }
    assert_eq!(n_entries(folder.path()), 0);
    assert_eq!(stdout(&output), "");
}

#[test]
fn an_unknown_environment() {
    check(
        &["reproduce", "apworld"],
        &[
            "unknown environment: apworld",
            "did you mean: appworld",
            "valid: appworld, dbbench, swe-gym",
        ],
    );
}

#[test]
fn an_environment_that_is_not_there_yet() {
    check(&["reproduce", "dbbench"], &["dbbench is not there yet"]);
    check(&["warm-start", "swe-gym"], &["swe-gym is not there yet"]);
}

#[test]
fn an_unknown_scale() {
    check(
        &["reproduce", "appworld", "--scale", "smok"],
        &[
            "unknown scale: smok",
            "did you mean: smoke",
            "valid: smoke, default, full",
        ],
    );
}

#[test]
fn an_unknown_arm() {
    check(
        &["reproduce", "appworld", "--arms", "policy_only,harness-s"],
        &[
            "unknown arm: harness-s",
            "did you mean: harness_s",
            "policy_only_matched",
        ],
    );
}

#[test]
fn an_unknown_setting() {
    check(
        &["reproduce", "appworld", "--set", "grpo.learning_rat=1"],
        &[
            "unknown setting: grpo.learning_rat",
            "did you mean: grpo.learning_rate",
        ],
    );
}

#[test]
fn a_setting_of_another_type() {
    check(
        &["reproduce", "appworld", "--set", "grpo.group_size=eight"],
        &["grpo.group_size expects a whole number, got: eight"],
    );
}

#[test]
fn a_setting_out_of_range() {
    check(
        &["reproduce", "appworld", "--set", "grpo.group_size=1"],
        &["grpo.group_size must be at least 2, got: 1"],
    );
}

#[test]
fn an_unknown_device() {
    check(
        &["reproduce", "appworld", "--device", "gpu"],
        &["unknown device: gpu", "cpu, cuda"],
    );
}

#[test]
fn an_unknown_command_and_an_unknown_option() {
    check(&["reprodce", "appworld"], &["reproduce"]);
    check(&["reproduce", "appworld", "--scal", "smoke"], &["--scale"]);
}

#[test]
fn a_file_as_folder() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("out"), "mine").unwrap();
    let output = xtask(
        folder.path(),
        &["reproduce", "appworld", "--scale", "smoke", "--out", "out"],
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("is a file, not a folder"));
    assert_eq!(
        fs::read_to_string(folder.path().join("out")).unwrap(),
        "mine"
    );
    assert_eq!(n_entries(folder.path()), 1);
}

#[test]
fn a_folder_with_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("thesis.tex"), "mine").unwrap();
    let output = xtask(
        folder.path(),
        &["reproduce", "appworld", "--scale", "smoke", "--out", "out"],
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("is not the folder of a run"));
    assert_eq!(n_entries(&out), 1);
}

#[test]
fn a_report_of_no_run() {
    check(
        &["report", "nowhere"],
        &["`nowhere` is not the folder of a run"],
    );
}

#[test]
fn a_show_of_no_run_or_of_unknown_names() {
    check(
        &["show", "nowhere"],
        &["`nowhere` is not the folder of a run"],
    );
    let folder = tempfile::tempdir().unwrap();
    let config = xtask::config::Config::builtin("appworld", xtask::config::Scale::Smoke);
    xtask::run_dir::RunDir::create(folder.path(), &config.unwrap()).unwrap();
    for (args, message) in [
        (["--arm", "harness-s"], "did you mean: harness_s"),
        (["--outcome", "faild"], "did you mean: failed"),
        (["--role", "rescu"], "did you mean: rescue"),
    ] {
        let output = xtask(
            folder.path(),
            &[["show", ".", "--list"].as_slice(), &args].concat(),
        );
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
    }
}

#[test]
fn a_file_of_settings_that_cannot_be_used() {
    check(
        &["reproduce", "appworld", "--config", "absent.toml"],
        &["--config `absent.toml` cannot be read"],
    );
}
