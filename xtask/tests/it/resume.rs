//! A run that is killed again and again ends with the same bytes as one that is not (bug reports C1, C2, F6).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use xtask::report::strip_time_keys;

/// How often runs are killed before the test is over.
const N_KILLS: usize = 20;

/// A small run that goes on in `out`.
pub(crate) fn command(folder: &Path, out: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command
        .args([
            "reproduce",
            "appworld",
            "--scale",
            "smoke",
            "--no-cache",
            "--resume",
        ])
        .args(["--out", out, "--threads", "2"])
        .args(["--set", "run.budget_rollouts=300"])
        .args(["--set", "evolution.candidates=2"])
        .args(["--set", "evolution.rounds=1"])
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn start(folder: &Path, out: &str) -> Child {
    command(folder, out).spawn().expect("the program starts")
}

/// Waits that long; whether the program ended by itself.
fn ends_within(child: &mut Child, span: Duration) -> bool {
    let end = Instant::now() + span;
    while Instant::now() < end {
        if let Some(status) = child.try_wait().expect("a child can be asked") {
            assert!(status.success(), "a resumed run failed");
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// Everything that a run leaves, but for times and for what it goes on from.
pub(crate) fn remains(run: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for folder in [
        run.to_owned(),
        run.join("trajectories"),
        run.join("profiles"),
    ] {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path
                .strip_prefix(run)
                .expect("inside")
                .display()
                .to_string();
            let is_shown = ["report.html", "report.md", ".lock"].contains(&name.as_str());
            if path.is_dir() || is_shown {
                continue;
            }
            let mut bytes = fs::read(&path).expect("a file");
            if name == "report.json" {
                let report: Value = serde_json::from_slice(&bytes).expect("JSON");
                bytes = strip_time_keys(report).to_string().into_bytes();
            }
            files.insert(name, bytes);
        }
    }
    files
}

#[test]
fn c1_c2_f6_a_run_killed_at_twenty_points_ends_with_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let started = Instant::now();
    let mut child = start(folder.path(), "whole");
    assert!(ends_within(&mut child, Duration::from_mins(5)));
    let whole = remains(&folder.path().join("whole"));
    assert!(whole.len() >= 10, "{:?}", whole.keys());
    // Delays that grow from one to the next by an odd step reach every part of a run.
    let span = started.elapsed().max(Duration::from_secs(1));
    let mut n_kills = 0;
    let mut round = 0;
    while n_kills < N_KILLS {
        let out = format!("cut-{round}");
        round += 1;
        for kills_here in 0.. {
            // Longer and longer, so that every stage ends once.
            let part =
                (0.02 + (n_kills as f64 * 0.37) % 0.45) * (1.0 + 0.1 * f64::from(kills_here));
            let mut child = start(folder.path(), &out);
            if ends_within(&mut child, span.mul_f64(part)) {
                break;
            }
            child.kill().expect("SIGKILL");
            child.wait().expect("it is gone");
            n_kills += 1;
        }
        let cut = remains(&folder.path().join(&out));
        assert_eq!(
            cut.keys().collect::<Vec<_>>(),
            whole.keys().collect::<Vec<_>>()
        );
        for (name, bytes) in &whole {
            assert!(cut[name] == *bytes, "{name} differs after {n_kills} kills");
        }
        fs::remove_dir_all(folder.path().join(&out)).expect("a removal");
    }
}

/// What Ctrl-C sends; only Unix has it as a signal that a test can send.
#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_run_within_two_seconds_and_says_how_to_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = command(folder.path(), "cut");
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let pool = folder.path().join("cut/pool.json");
    let end = Instant::now() + Duration::from_mins(2);
    while !pool.exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status();
    assert!(sent.expect("kill").success());
    let sent_at = Instant::now();
    while child.try_wait().expect("it can be asked").is_none() {
        if sent_at.elapsed() > Duration::from_secs(2) {
            child.kill().expect("SIGKILL");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().expect("it is gone");
    // A killed child has no code.
    assert_eq!(output.status.code(), Some(130));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("go on with: cargo xtask reproduce appworld"),
        "{said}"
    );
    assert!(said.contains("--resume --out cut"), "{said}");
}
