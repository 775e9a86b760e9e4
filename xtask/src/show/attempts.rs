//! The attempts that a run kept: a line for each, and one by its id.
//!
//! Ids of rollouts are unique in one file of `trajectories/`; with the file's name before them,
//! `harness_s-s1/s0-t1-r0`, they are unique in the run.

use std::fmt::Write as _;
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::Context as _;
use harness_core::{Outcome, RolloutRole, Trajectory};

use super::harnesses::Harnesses;
use super::jobs::arm_of;
use super::rows;
use super::transcript::plain;
use crate::arm::Arm;
use crate::run_dir::RunDir;
use crate::say;
use crate::usage::UsageError;

/// Why a run may have kept nothing.
const NOTHING_KEPT: &str = "none are kept of an arm that was read from the shared cache: run it with --no-cache to keep some";
/// How many near ids are told for an unknown one.
const N_NEAR: usize = 3;

/// Which attempts are listed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Filter {
    arm: Option<Arm>,
    outcome: Option<Outcome>,
    role: Option<RolloutRole>,
}

impl Filter {
    /// # Errors
    /// [`UsageError`] for an unknown outcome or role.
    pub(super) fn new(
        arm: Option<Arm>,
        outcome: Option<&str>,
        role: Option<&str>,
    ) -> Result<Self, UsageError> {
        let outcome_of = |text: &str| {
            let found = Outcome::ALL.into_iter().find(|o| o.as_str() == text);
            found.ok_or_else(|| {
                UsageError::unknown("outcome", text, Outcome::ALL.map(Outcome::as_str))
            })
        };
        let role_of = |text: &str| {
            let found = RolloutRole::ALL.into_iter().find(|r| r.as_str() == text);
            found.ok_or_else(|| {
                UsageError::unknown("role", text, RolloutRole::ALL.map(RolloutRole::as_str))
            })
        };
        Ok(Self {
            arm,
            outcome: outcome.map(outcome_of).transpose()?,
            role: role.map(role_of).transpose()?,
        })
    }

    fn takes(self, t: &Trajectory) -> bool {
        self.outcome.is_none_or(|outcome| outcome == t.outcome)
            && self.role.is_none_or(|role| role == t.role)
    }
}

/// Prints a line for each attempt that the filter takes.
///
/// # Errors
/// An error of the file system.
pub(super) fn list(run: &RunDir, filter: Filter) -> anyhow::Result<()> {
    let harnesses = Harnesses::read(run);
    let (mut n_listed, mut n_all, mut problems) = (0_usize, 0_usize, Vec::new());
    for (name, path) in files(run, filter.arm)? {
        rows::read(&path, &mut problems, |t: Trajectory| {
            n_all += 1;
            if filter.takes(&t) {
                if n_listed == 0 {
                    say::out(head());
                }
                n_listed += 1;
                say::out(line(&name, &t, &harnesses));
            }
            ControlFlow::Continue(())
        })?;
    }
    problems.iter().for_each(say::warn);
    say::note(format_args!("{n_listed} of {n_all} kept attempts"));
    if n_all == 0 {
        say::note(NOTHING_KEPT);
    }
    if n_listed > 0 {
        let dir = run.root().display();
        say::note(format_args!(
            "one of them as text: cargo xtask show {dir} --rollout ID"
        ));
    }
    Ok(())
}

fn head() -> String {
    format!(
        "{:<34} {:<7} {:<14} {:>6} {:>5}  {:<28} task",
        "id", "role", "outcome", "reward", "turns", "harness"
    )
}

/// An attempt in one line. Columns are of a fixed width, since nobody knows the lines that follow.
pub(super) fn line(name: &str, t: &Trajectory, harnesses: &Harnesses) -> String {
    let mut notes = String::new();
    let n_blocked = t.turns.iter().filter(|turn| turn.is_blocked).count();
    if n_blocked > 0 {
        let _ = write!(notes, ", {n_blocked} blocked");
    }
    if t.unprojectable.is_some() {
        notes.push_str(", not to be seen under the base");
    }
    if let Some(error) = &t.error {
        let _ = write!(notes, ", error: {error}");
    }
    let id = format!("{name}/{}", t.rollout_id.as_str());
    let reward = t.reward.map_or("-".into(), |reward| reward.to_string());
    let text = format!(
        "{id:<34} {:<7} {:<14} {reward:>6} {:>5}  {:<28} {}{notes}",
        t.role.as_str(),
        t.outcome.as_str(),
        t.turns.len(),
        harnesses.name(&t.harness_id),
        t.task_id.as_str(),
    );
    plain(&text.replace('\n', " "))
}

/// Finds an attempt by `<file>/<rollout>`, or by its rollout's id alone where only one file has it. Returns its
/// full id with it.
///
/// # Errors
/// [`UsageError`] with the nearest ids if there is none, with all if there are several; an error of the file
/// system.
pub(super) fn find(
    run: &RunDir,
    id: &str,
    arm: Option<Arm>,
) -> anyhow::Result<(String, Trajectory)> {
    let mut found: Vec<(String, Trajectory)> = Vec::new();
    let mut near: Vec<(f64, String)> = Vec::new();
    let mut problems = Vec::new();
    for (name, path) in files(run, arm)? {
        rows::read(&path, &mut problems, |t: Trajectory| {
            let full = format!("{name}/{}", t.rollout_id.as_str());
            if full == id || t.rollout_id.as_str() == id {
                found.push((full, t));
                return ControlFlow::Break(());
            }
            let of_rollout = strsim::jaro_winkler(id, t.rollout_id.as_str());
            let likeness = of_rollout.max(strsim::jaro_winkler(id, &full));
            near.push((likeness, full));
            near.sort_by(|a, b| b.0.total_cmp(&a.0));
            near.truncate(N_NEAR);
            ControlFlow::Continue(())
        })?;
    }
    problems.iter().for_each(say::warn);
    let dir = run.root().display();
    let how = format!("list them with: cargo xtask show {dir} --list");
    match found.len() {
        1 => Ok(found.remove(0)),
        0 if near.is_empty() => Err(UsageError::new(format!(
            "`{dir}` has kept no attempts{}\n  {NOTHING_KEPT}",
            arm.map_or(String::new(), |arm| format!(" of arm {arm}"))
        ))
        .into()),
        0 => {
            let near: Vec<&str> = near.iter().map(|(_, full)| full.as_str()).collect();
            Err(UsageError::new(format!(
                "unknown rollout: {id}\n  near: {}\n  {how}",
                near.join(", ")
            ))
            .into())
        }
        _ => {
            let all: Vec<&str> = found.iter().map(|(full, _)| full.as_str()).collect();
            Err(UsageError::new(format!(
                "several files have a rollout {id}\n  give one of: {}",
                all.join(", ")
            ))
            .into())
        }
    }
}

/// Files of trajectories by name, ascending.
fn files(run: &RunDir, arm: Option<Arm>) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let folder = run.root().join("trajectories");
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("reading `{}`", folder.display()))?,
    };
    let mut files: Vec<(String, PathBuf)> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .filter_map(|path| Some((path.file_stem()?.to_str()?.to_owned(), path)))
        .filter(|(name, _)| arm.is_none_or(|arm| arm_of(name) == arm.as_str()))
        .collect();
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Scale};

    const ATTEMPT: &str = r#"{"schema_version":1,"run_id":"r","rollout_id":"ID","group_id":"g","task_id":"toy_1_1",
        "env":"toy","split":"train","harness_id":"b43e6048043822df9f2f52b756bfe682","policy_version":0,"attempt":0,
        "role":"rescue","outcome":"infra_error","reward":null,"prompt":[],"turns":[],"error":"gone\u001b[2J away",
        "sampling":{"temperature":1.0,"max_new_tokens":24}}"#;

    fn run(root: &std::path::Path) -> RunDir {
        let config = Config::builtin("appworld", Scale::Smoke).unwrap();
        let run = RunDir::create(root, &config).unwrap();
        for (name, ids) in [
            ("harness_s-s1", &["s0-t1-r0", "s0-t2-r0"][..]),
            ("policy_only-s1", &["s0-t1-r0", "s3-t2-a7"]),
        ] {
            let lines = ids
                .iter()
                .map(|id| ATTEMPT.replace('\n', "").replace("ID", id) + "\n");
            let text = lines.collect::<String>() + "{\"schema";
            fs::write(run.trajectory_path(name), text).unwrap();
        }
        run
    }

    #[test]
    fn an_attempt_is_found_by_its_full_id_or_by_one_that_is_unique() {
        let folder = tempfile::tempdir().unwrap();
        let run = run(folder.path());
        let id = |id: &str, arm| find(&run, id, arm).map(|(full, _)| full);
        assert_eq!(
            id("harness_s-s1/s0-t1-r0", None).unwrap(),
            "harness_s-s1/s0-t1-r0"
        );
        assert_eq!(id("s3-t2-a7", None).unwrap(), "policy_only-s1/s3-t2-a7");
        let arm = Some(Arm::PolicyOnly);
        assert_eq!(id("s0-t1-r0", arm).unwrap(), "policy_only-s1/s0-t1-r0");
        let several = id("s0-t1-r0", None).unwrap_err();
        assert!(
            several
                .to_string()
                .contains("give one of: harness_s-s1/s0-t1-r0, policy_only-s1/")
        );
        let unknown = id("s3-t2-a8", None).unwrap_err();
        assert!(unknown.is::<UsageError>());
        let unknown = unknown.to_string();
        assert!(
            unknown.contains("near: policy_only-s1/s3-t2-a7"),
            "{unknown}"
        );
        assert!(unknown.contains("--list"), "{unknown}");
    }

    #[test]
    fn a_line_of_the_list_holds_no_control_characters() {
        let t: Trajectory = serde_json::from_str(&ATTEMPT.replace("ID", "a-1")).unwrap();
        assert_eq!(
            line("harness_s-s1", &t, &Harnesses::default()),
            "harness_s-s1/a-1                   rescue  infra_error         -     0  \
             b43e6048                     toy_1_1, error: gone\\u{1b}[2J away"
        );
    }
}
