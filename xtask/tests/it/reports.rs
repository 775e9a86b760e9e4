//! What works without training: settings, help, reports, tidy.

use xtask::config::{Config, Scale};
use xtask::report::Report;
use xtask::run_dir::RunDir;

use crate::{n_entries, stderr, stdout, xtask};

#[test]
fn a_dry_run_prints_settings_that_can_be_read_back_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let args = [
        "reproduce",
        "appworld",
        "--dry-run",
        "--set",
        "grpo.learning_rate=5e-4",
        "--out",
        "o",
    ];
    let output = xtask(folder.path(), &args);
    assert!(output.status.success(), "{}", stderr(&output));
    let config = Config::from_toml(&stdout(&output)).unwrap();
    let expect = Config::builtin("appworld", Scale::Default).unwrap();
    assert_eq!(
        config,
        expect.with_overrides(["grpo.learning_rate=5e-4"]).unwrap()
    );
    assert_eq!(n_entries(folder.path()), 0);
}

#[test]
fn help_teaches_by_example() {
    let folder = tempfile::tempdir().unwrap();
    let output = xtask(folder.path(), &["reproduce", "--help"]);
    let help = stdout(&output);
    for part in [
        "cargo xtask reproduce appworld --scale smoke",
        "--set",
        "--dry-run",
        "harness_s",
    ] {
        assert!(help.contains(part), "`{part}` is not in:\n{help}");
    }
}

#[test]
fn reports_are_rebuilt_from_the_json_alone() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config::builtin("appworld", Scale::Smoke).unwrap();
    let run = RunDir::create(&folder.path().join("run"), &config).unwrap();
    let report = Report {
        schema_version: 1,
        env: "appworld".into(),
        ..Report::default()
    };
    run.write_report(&report).unwrap();
    let markdown = run.root().join("report.md");
    let before = std::fs::read(&markdown).unwrap();
    std::fs::remove_file(&markdown).unwrap();
    let output = xtask(folder.path(), &["report", "run"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(std::fs::read(&markdown).unwrap(), before);
    assert!(run.root().join("report.html").is_file());
}

#[test]
fn a_run_without_a_report_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config::builtin("appworld", Scale::Smoke).unwrap();
    RunDir::create(&folder.path().join("run"), &config).unwrap();
    let output = xtask(folder.path(), &["report", "run"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("report.json"));
}

#[test]
fn settings_come_from_scale_then_file_then_set_then_options() {
    let folder = tempfile::tempdir().unwrap();
    let text =
        "scale = \"smoke\"\nthreads = 3\n[grpo]\nk = 4\nlearning_rate = 1e-3\n[run]\nseeds = [8]\n";
    std::fs::write(folder.path().join("mine.toml"), text).unwrap();
    let args = [
        "reproduce",
        "appworld",
        "--dry-run",
        "--config",
        "mine.toml",
        "--set",
        "grpo.k=8",
        "--set",
        "run.seeds=[9]",
        "--seeds",
        "2",
    ];
    let output = xtask(folder.path(), &args);
    assert!(output.status.success(), "{}", stderr(&output));
    let config = Config::from_toml(&stdout(&output)).unwrap();
    let mut expect = Config::builtin("appworld", Scale::Smoke).unwrap();
    (expect.threads, expect.grpo.k, expect.grpo.learning_rate) = (3, 8, 1e-3);
    expect.run.seeds = vec![1, 2];
    assert_eq!(config, expect);
}

#[test]
fn the_settings_of_a_run_are_a_file_for_another() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config::builtin("appworld", Scale::Full).unwrap();
    RunDir::create(&folder.path().join("run"), &config).unwrap();
    let args = [
        "reproduce",
        "appworld",
        "--dry-run",
        "--config",
        "run/config.toml",
    ];
    let output = xtask(folder.path(), &args);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(Config::from_toml(&stdout(&output)).unwrap(), config);
}

#[test]
fn a_run_without_anything_is_shown_and_listed() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config::builtin("appworld", Scale::Smoke).unwrap();
    RunDir::create(&folder.path().join("run"), &config).unwrap();
    let output = xtask(folder.path(), &["show", "run"]);
    assert!(
        stdout(&output).contains("nothing was trained yet"),
        "{}",
        stderr(&output)
    );
    let output = xtask(folder.path(), &["show", "run", "--json"]);
    let state: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(state["jobs"][0]["name"], "policy_only-s1");
    let output = xtask(folder.path(), &["show", "run", "--list"]);
    assert!(output.status.success() && stderr(&output).contains("0 of 0 kept attempts"));
    let output = xtask(folder.path(), &["show", "run", "--rollout", "s0-t0-a0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("has kept no attempts"));
}
