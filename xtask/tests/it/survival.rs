//! What the machine does to a run: a full disk, a folder that cannot be written or goes away, a second process.
//! Each ends with exit code 1 and a message that helps, and `--resume` then ends with the bytes of a run that
//! nothing happened to (bug reports C1, C2).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::resume::{command, remains};
use crate::stderr;

/// What a run leaves that nothing happens to.
fn whole() -> &'static BTreeMap<String, Vec<u8>> {
    static WHOLE: OnceLock<BTreeMap<String, Vec<u8>>> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let folder = new_folder();
        let status = small(folder.path(), "whole").status().expect("it starts");
        assert!(status.success());
        remains(&folder.path().join("whole"))
    })
}

/// A folder that other users can read too.
fn new_folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let all_read = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder.path(), all_read).expect("its owner may");
    folder
}

/// The run of these tests in `out`, with `--resume`.
fn small(folder: &Path, out: &str) -> Command {
    let mut command = command(folder, out);
    command
        .args(["--arms", "policy_only,harness_s"])
        .args(["--set", "study.ablations=[]"])
        .args(["--set", "study.controls=[]"])
        .args(["--set", "run.checkpoint_every_steps=1"])
        .stderr(Stdio::piped());
    command
}

/// The same command under a shell that does something first.
fn after(shell: &str, command: &Command) -> Command {
    let mut wrapped = Command::new("bash");
    let script = format!("{shell}; exec \"$0\" \"$@\"");
    wrapped.arg("-c").arg(script).arg(command.get_program());
    wrapped.args(command.get_args());
    wrapped.current_dir(command.get_current_dir().expect("a folder"));
    wrapped.stdout(Stdio::null()).stderr(Stdio::piped());
    wrapped
}

#[track_caller]
fn fails_with(output: &Output, parts: &[&str]) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in parts {
        assert!(said.contains(part), "`{part}` is not in:\n{said}");
    }
    assert_eq!(said.matches("error: ").count(), 1, "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

#[track_caller]
fn goes_on_to_the_same_bytes(folder: &Path, out: &str) {
    let output = small(folder, out).output().expect("it starts");
    assert!(output.status.success(), "{}", stderr(&output));
    let (got, expect) = (remains(&folder.join(out)), whole());
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&got), names(expect));
    for (name, bytes) in expect {
        assert!(got[name] == *bytes, "{name} differs");
    }
}

/// Waits until a file is there.
fn wait_for(path: &Path, child: &mut Child) {
    let end = Instant::now() + Duration::from_mins(2);
    while !path.exists() && Instant::now() < end {
        let is_over = child.try_wait().expect("it can be asked").is_some();
        assert!(!is_over, "it ended before {} was there", path.display());
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn c1_a_disk_that_is_full_in_the_middle() {
    let folder = new_folder();
    // A limit on the size of a file stops a write as a full disk does; in units of 1024 bytes.
    for limit in [2, 200] {
        let out = format!("limit-{limit}");
        let shell = format!("trap '' XFSZ; ulimit -f {limit}");
        let output = after(&shell, &small(folder.path(), &out)).output();
        let parts = [
            out.as_str(),
            "File too large",
            "make room",
            "go on with: cargo xtask reproduce",
        ];
        fails_with(&output.expect("it starts"), &parts);
        goes_on_to_the_same_bytes(folder.path(), &out);
    }
}

/// Writes to this device fail with the error of a full disk.
#[cfg(target_os = "linux")]
#[test]
fn f6_a_full_disk_under_the_trajectories_and_under_the_log() {
    let folder = new_folder();
    let lines = folder.path().join("full/trajectories/harness_s-s1.jsonl");
    let log = folder.path().join("full/logs/run.jsonl");
    let mut child = small(folder.path(), "full").spawn().expect("it starts");
    wait_for(&folder.path().join("full/trajectories"), &mut child);
    child.kill().expect("SIGKILL");
    child.wait().expect("it is gone");
    symlink("/dev/full", &lines).expect("a link");
    let _ = fs::remove_file(&log);
    symlink("/dev/full", &log).expect("a link");
    let output = small(folder.path(), "full").output().expect("it starts");
    let parts = [
        "harness_s-s1.jsonl",
        "No space left on device",
        "make room",
        "go on with",
        "the log ends here",
    ];
    fails_with(&output, &parts);
    fs::remove_file(&lines).expect("a removal");
    // A log that cannot be written costs no run.
    goes_on_to_the_same_bytes(folder.path(), "full");
}

#[test]
fn a_folder_that_cannot_be_made() {
    let folder = new_folder();
    fs::write(folder.path().join("file"), "mine").expect("a write");
    let output = small(folder.path(), "file/run")
        .output()
        .expect("it starts");
    fails_with(
        &output,
        &["file/run", "Not a directory", "give another --out"],
    );
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
#[test]
fn c1_a_folder_that_cannot_be_written() {
    let folder = new_folder();
    let mut child = small(folder.path(), "run").spawn().expect("it starts");
    wait_for(&folder.path().join("run/pool.json"), &mut child);
    child.kill().expect("SIGKILL");
    child.wait().expect("it is gone");
    // The rights of files do not hold for root, so somebody else has to try.
    let mut other = small(folder.path(), "run");
    let is_root = fs::metadata(folder.path()).expect("ours").uid() == 0;
    if is_root {
        other.uid(65_534).gid(65_534);
    } else {
        let read_only = fs::Permissions::from_mode(0o555);
        for name in ["run/.lock", "run"] {
            fs::set_permissions(folder.path().join(name), read_only.clone()).expect("an owner may");
        }
    }
    match other.output() {
        Ok(output) => fails_with(&output, &["run", "Permission denied", "make it writable"]),
        // The program itself lies where nobody else may look.
        Err(error) => eprintln!("skipped, no other user can start the program: {error}"),
    }
    if !is_root {
        for name in ["run", "run/.lock"] {
            let own = fs::Permissions::from_mode(0o755);
            fs::set_permissions(folder.path().join(name), own).expect("an owner may");
        }
    }
    goes_on_to_the_same_bytes(folder.path(), "run");
}

#[test]
fn c1_a_folder_that_goes_away_in_the_middle() {
    let folder = new_folder();
    for seen in [
        "config.toml",
        "trajectories/policy_only-s1.jsonl",
        "trajectories/harness_s-s1.jsonl",
    ] {
        let run = folder.path().join("run");
        let output = loop {
            let mut child = small(folder.path(), "run").spawn().expect("it starts");
            wait_for(&run.join(seen), &mut child);
            // At once, as another disk in its place would: a removal file by file could end in a race.
            let gone = tempfile::tempdir_in(folder.path()).expect("a folder");
            fs::rename(&run, gone.path().join("run")).expect("it is moved");
            let output = child.wait_with_output().expect("it ends");
            // On a busy machine it may have ended before it was moved.
            if !gone.path().join("run/report.html").exists() {
                break output;
            }
        };
        let parts = [
            "run",
            "No such file or directory",
            "moved or removed",
            "go on with",
        ];
        fails_with(&output, &parts);
        assert!(!run.exists(), "after {seen} a part of it came back");
    }
    goes_on_to_the_same_bytes(folder.path(), "run");
}

#[test]
fn two_processes_on_one_folder() {
    let folder = new_folder();
    let mut first = small(folder.path(), "run").spawn().expect("it starts");
    wait_for(&folder.path().join("run/config.toml"), &mut first);
    let second = small(folder.path(), "run").output().expect("it starts");
    fails_with(
        &second,
        &["another process is at work in `run`", "another --out"],
    );
    // Without --resume it would remove the run of the first.
    let replacing = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["reproduce", "appworld", "--scale", "smoke", "--out", "run"])
        .current_dir(folder.path())
        .output();
    fails_with(
        &replacing.expect("it starts"),
        &["another process is at work in `run`"],
    );
    first.kill().expect("SIGKILL");
    first.wait().expect("it is gone");
    // The lock is gone with the process, however it went.
    goes_on_to_the_same_bytes(folder.path(), "run");
}

/// What `--resume` writes anew it does not read: damage to it is gone afterwards.
#[test]
fn c1_damage_to_what_is_only_written() {
    let folder = new_folder();
    goes_on_to_the_same_bytes(folder.path(), "run");
    for name in [
        "metrics.jsonl",
        "report.json",
        "report.md",
        "report.html",
        "pool.json",
    ] {
        fs::write(folder.path().join("run").join(name), "damaged").expect("a write");
    }
    fs::remove_dir_all(folder.path().join("run/profiles")).expect("a removal");
    goes_on_to_the_same_bytes(folder.path(), "run");
    let whole = |name: &str| {
        fs::read(folder.path().join("run").join(name))
            .expect("a file")
            .len()
            > 7
    };
    assert!(whole("report.md") && whole("report.html"));
}
