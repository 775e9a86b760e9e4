//! What an arm leaves in the run's folder so that a run that was stopped at any point goes on from there and
//! ends with the same bytes.
//!
//! ```text
//! checkpoints/<name>/step-<n>/     policy.safetensors, profile.json, state.json
//! ```
//!
//! What is done is kept by the stage cache, not here.
//! A step's folder is written under another name, synced and renamed, so it is whole or not there (bug report
//! C1); the one before it is removed after that. State of other settings, another build or another policy is
//! never used: its key is another.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use harness_core::PolicyVersion;
use harness_pool::BehaviorProfile;
use rescue_grpo::Checkpoint;
use serde::{Deserialize, Serialize};

use super::arms::ArmResult;
use crate::files::{JsonLines, sync_folder, write_atomic};
use crate::say;

/// The format that this code writes and reads.
const FORMAT_VERSION: u32 = 1;
const STATE: &str = "state.json";
const POLICY: &str = "policy.safetensors";
const PROFILE: &str = "profile.json";

/// Where one arm with one seed keeps its state.
pub(super) struct Keeper {
    folder: PathBuf,
    trajectories: PathBuf,
    key: String,
    /// Steps between two states; 0 keeps none.
    every: u64,
}

/// The state of an arm between two steps.
pub(super) struct State {
    /// What it did so far.
    pub(super) result: ArmResult,
    /// Training tasks drawn so far.
    pub(super) drawn: u64,
    /// Rollouts at which the learning curve gets its next point.
    pub(super) next_curve: u64,
    /// The policy with the optimizer's memory.
    pub(super) policy: Checkpoint,
    /// What the router knows and when it was anchored last, if a router chooses.
    pub(super) router: Option<(BehaviorProfile, PolicyVersion)>,
}

/// The content of `state.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateFile {
    format_version: u32,
    key: String,
    policy_hash: String,
    anchored_at: Option<PolicyVersion>,
    drawn: u64,
    next_curve: u64,
    /// How long the file of trajectories was.
    trajectory_bytes: u64,
    result: ArmResult,
}

impl Keeper {
    /// State under `checkpoints/<name>` of a run. `key` names everything that the arm depends on.
    pub(super) fn new(run: &crate::run_dir::RunDir, name: &str, key: String, every: u64) -> Self {
        Self {
            folder: run.root().join("checkpoints").join(name),
            trajectories: run.trajectory_path(name),
            key,
            every,
        }
    }

    /// Removes all state: the arm is done.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(super) fn finish(&self) -> anyhow::Result<()> {
        remove(&self.folder)
    }

    /// The newest state that is whole and of this arm, with the file of trajectories cut back to it; a new
    /// file and no state otherwise.
    ///
    /// # Errors
    /// If the file of trajectories cannot be made.
    pub(super) fn open(&self) -> anyhow::Result<(Option<State>, JsonLines)> {
        for (step, path) in self.steps() {
            match self.read(&path) {
                Ok((state, bytes)) => match JsonLines::resume(&self.trajectories, bytes) {
                    Ok(lines) => {
                        say::note(format_args!(
                            "going on from step {step}: {}",
                            path.display()
                        ));
                        return Ok((Some(state), lines));
                    }
                    Err(error) => say::warn(format_args!("cannot go on from there: {error:#}")),
                },
                Err(error) => {
                    let shown = path.display();
                    say::warn(format_args!("`{shown}` is not used: {error:#}"));
                }
            }
        }
        Ok((None, JsonLines::create(&self.trajectories)?))
    }

    /// Whether a state is due after this many steps.
    pub(super) fn is_due(&self, steps: u64) -> bool {
        self.every > 0 && steps.is_multiple_of(self.every)
    }

    /// Keeps a state in place of the one before.
    ///
    /// # Errors
    /// If a file cannot be written; the state before is then still there.
    pub(super) fn save(&self, state: &State, trajectories: &JsonLines) -> anyhow::Result<()> {
        let step = state.result.steps;
        let part = self.folder.join(format!("step-{step}.part"));
        let whole = self.folder.join(format!("step-{step}"));
        remove(&part)?;
        fs::create_dir_all(&part).with_context(|| format!("creating `{}`", part.display()))?;
        state.policy.save(part.join(POLICY))?;
        if let Some((profile, _)) = &state.router {
            profile.save(part.join(PROFILE))?;
        }
        let file = StateFile {
            format_version: FORMAT_VERSION,
            key: self.key.clone(),
            policy_hash: state.policy.content_hash(),
            anchored_at: state.router.as_ref().map(|(_, version)| *version),
            drawn: state.drawn,
            next_curve: state.next_curve,
            trajectory_bytes: trajectories.n_bytes(),
            result: state.result.clone(),
        };
        write_atomic(&part.join(STATE), &serde_json::to_vec(&file)?)?;
        trajectories.sync()?;
        remove(&whole)?;
        fs::rename(&part, &whole).with_context(|| format!("renaming `{}`", part.display()))?;
        sync_folder(&self.folder);
        for (other, path) in self.steps() {
            if other != step {
                remove(&path)?;
            }
        }
        Ok(())
    }

    /// Whole steps, newest first.
    fn steps(&self) -> Vec<(u64, PathBuf)> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let number = |path: &Path| {
            path.file_name()?
                .to_str()?
                .strip_prefix("step-")?
                .parse()
                .ok()
        };
        let mut steps: Vec<(u64, PathBuf)> = entries
            .filter_map(|entry| Some((number(&entry.path())?, entry.path())))
            .collect();
        steps.sort_by_key(|(step, _)| std::cmp::Reverse(*step));
        steps
    }

    /// A state and the length of the file of trajectories at its time.
    fn read(&self, folder: &Path) -> anyhow::Result<(State, u64)> {
        let bytes = fs::read(folder.join(STATE)).context("reading its state")?;
        let file: StateFile = serde_json::from_slice(&bytes).context("reading its state")?;
        ensure!(
            file.format_version == FORMAT_VERSION,
            "it has format {}, this program knows {FORMAT_VERSION}",
            file.format_version
        );
        ensure!(
            file.key == self.key,
            "it belongs to other settings or another build"
        );
        let policy = Checkpoint::load(folder.join(POLICY))?;
        ensure!(
            policy.content_hash() == file.policy_hash,
            "its policy is another one"
        );
        let router = match file.anchored_at {
            Some(version) => Some((BehaviorProfile::load(folder.join(PROFILE))?, version)),
            None => None,
        };
        let state = State {
            result: file.result,
            drawn: file.drawn,
            next_curve: file.next_curve,
            policy,
            router,
        };
        Ok((state, file.trajectory_bytes))
    }
}

/// Removes a folder with all that is in it; it need not be there.
fn remove(folder: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing `{}`", folder.display()))
        }
        _ => Ok(()),
    }
}
