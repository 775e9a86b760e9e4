//! Journals: what is on disk when the process is killed, and what is made of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use harness_core::testing::{ByteCodec, ScriptedPolicy, ToyMaker};
use harness_core::{
    Action, Deadline, EnvError, Environment, ExecOptions, Facts, FileError, FileJournal, Outcome,
    Policy, StepResult, Task, Trajectory, Verdict, read_journal, run_jobs,
};

use crate::executor::{base, jobs, options, peeker};

fn journaled(path: &Path) -> ExecOptions {
    let journal = FileJournal::open(path).expect("a journal can be opened");
    ExecOptions {
        journal: Some(Arc::new(journal)),
        ..options()
    }
}

fn run(path: &Path, envs: &ToyMaker, n: u32, n_threads: usize) -> Vec<Trajectory> {
    let policies = (0..n_threads).map(|_| -> Box<dyn Policy> { Box::new(peeker()) });
    let jobs = jobs(base(), n);
    run_jobs(policies.collect(), &ByteCodec, envs, jobs, &journaled(path))
}

fn temporary() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("journal.jsonl");
    (folder, path)
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("a journal is text")
}

#[test]
fn a_journal_gives_back_what_was_run() {
    let (_folder, path) = temporary();
    let done = run(&path, &ToyMaker::default(), 8, 2);
    let mut back = read_journal(&path).expect("its own output");
    back.trajectories
        .sort_by(|a, b| a.rollout_id.cmp(&b.rollout_id));
    assert_eq!(back.trajectories, done);
    assert_eq!(back.n_torn_bytes, 0);
    assert_eq!(text(&path).lines().count(), 8 * 4);
}

/// F6: a first try that broke is not mixed with the second; both are there, the last one counts.
#[test]
fn f6_retries_are_not_mixed_up() {
    let (_folder, path) = temporary();
    let envs = ToyMaker::faulty(2, EnvError::Infra("gone".into()));
    let done = run(&path, &envs, 3, 1);
    assert_eq!(envs.n_made(), 5);
    let back = read_journal(&path).expect("its own output");
    assert_eq!(back.trajectories, done);
    assert_eq!(text(&path).matches("{\"start\":").count(), 5);
}

/// F6: wherever the last line is torn, what stands before it is read, and a new process can go on.
#[test]
fn f6_a_torn_last_line_is_cut_off() {
    let (_folder, path) = temporary();
    let done = run(&path, &ToyMaker::default(), 1, 1);
    let whole = text(&path);
    let last = whole.trim_end().rfind('\n').expect("many lines") + 1;
    for cut in last..whole.len() {
        fs::write(&path, &whole[..cut]).expect("it can be written");
        let back = read_journal(&path).expect("the last line is forgiven");
        assert_eq!(back.n_torn_bytes, cut - last);
        let [t] = back.trajectories.as_slice() else {
            panic!("one attempt")
        };
        assert_eq!((t.outcome, t.reward), (Outcome::Cancelled, None));
        assert_eq!(t.turns, done[0].turns);
        assert!(t.error.is_some() && t.validate().is_ok());
    }
    assert_eq!(run(&path, &ToyMaker::default(), 1, 1), done);
    let back = read_journal(&path).expect("torn lines are gone");
    assert_eq!(back.trajectories, done);
}

#[test]
fn lines_that_are_missing_or_changed_are_named() {
    let (_folder, path) = temporary();
    run(&path, &ToyMaker::default(), 1, 1);
    let lines: Vec<String> = text(&path).lines().map(str::to_owned).collect();
    let error = |lines: &[String]| {
        fs::write(&path, lines.join("\n") + "\n").expect("it can be written");
        read_journal(&path).expect_err("it is not what was written")
    };
    let mut moved = lines.clone();
    moved.swap(1, 2);
    for lines in [
        &moved,
        &lines[1..].to_vec(),
        &[&lines[..2], &lines[3..]].concat(),
    ] {
        let error = error(lines);
        assert!(matches!(error, FileError::OutOfOrder { .. }), "{error}");
    }
    let mut changed = lines.clone();
    changed[1] = changed[1].replace("peek", "Peek");
    let error = error(&changed);
    assert!(
        matches!(error, FileError::HashMismatch { line: 2, .. }),
        "{error}"
    );
}

const CHILD: &str = "HARNESS_CORE_F6_JOURNAL";

/// A world that hangs at its third step, once it has left a file that says so.
struct Hanging(usize);

impl Environment for Hanging {
    fn reset(&mut self, _: &Task, _: Deadline) -> Result<Facts, EnvError> {
        Ok([("world".into(), harness_core::Fact::Int(0))].into())
    }
    fn step(&mut self, _: &Action, _: Deadline) -> Result<StepResult, EnvError> {
        self.0 += 1;
        if self.0 == 3 {
            let path = std::env::var(CHILD).expect("the parent has set it");
            fs::write(path + ".ready", "").expect("it can be written");
            std::thread::sleep(Duration::from_mins(2));
        }
        Ok(StepResult::new(vec![], false))
    }
    fn evaluate(&mut self, _: Deadline) -> Result<Verdict, EnvError> {
        Ok(Verdict::from_solved(false))
    }
    fn predicates(&self) -> Facts {
        Facts::new()
    }
}

/// What the next test starts and kills; by itself it does nothing.
#[test]
fn f6_child() {
    let Ok(path) = std::env::var(CHILD) else {
        return;
    };
    let envs = || -> Result<Box<dyn Environment>, EnvError> { Ok(Box::new(Hanging(0))) };
    let silent = Box::new(ScriptedPolicy::new(|_, _| "hm".into()));
    let options = journaled(path.as_ref());
    run_jobs(vec![silent], &ByteCodec, &envs, jobs(base(), 1), &options);
}

/// F6: killed after turn 2, two turns are on disk.
#[test]
fn f6_a_killed_process_leaves_its_turns() {
    let (_folder, path) = temporary();
    let mut child = Command::new(std::env::current_exe().expect("a test has a program"))
        .args(["--exact", "journal::f6_child"])
        .env(CHILD, &path)
        .stdout(Stdio::null())
        .spawn()
        .expect("the test's own program runs");
    let ready = path.with_extension("jsonl.ready");
    while !ready.exists() {
        let ended = child.try_wait().expect("it is our child");
        assert!(ended.is_none(), "it ended by itself: {ended:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("it is still there");
    child.wait().expect("it is our child");
    let back = read_journal(&path).expect("what a killed process leaves is readable");
    let [t] = back.trajectories.as_slice() else {
        panic!("one attempt")
    };
    assert_eq!(t.outcome, Outcome::Cancelled);
    assert_eq!(t.turns.len(), 2);
    assert!(t.n_sampled() > 0 && !t.prompt.is_empty());
}
