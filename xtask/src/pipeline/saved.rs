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
use serde_json::Value;

use super::arms::ArmResult;
use crate::cache::content_hash;
use crate::files::{JsonLines, make_folder, sync_folder, write_atomic};
use crate::say;

/// The format that this code writes and reads.
const FORMAT_VERSION: u32 = 2;
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
    /// Hash of `kept`.
    content_hash: String,
    kept: Value,
}

/// What is kept beside policy and profile, and which ones belong to it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    key: String,
    policy_hash: String,
    /// The version of the last re-anchoring and the hash of the profile's file, if a router chooses.
    router: Option<(PolicyVersion, String)>,
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
                        let shown = path.display();
                        say::note(format_args!("going on from step {step}: {shown}"));
                        tracing::info!(step, path = %shown, "going on");
                        return Ok((Some(state), lines));
                    }
                    Err(error) => tracing::warn!("cannot go on from there: {error:#}"),
                },
                Err(error) => {
                    let shown = path.display();
                    tracing::warn!("`{shown}` is not used: {error:#}");
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
        make_folder(&self.folder)?;
        make_folder(&part)?;
        state.policy.save(part.join(POLICY))?;
        let router = match &state.router {
            Some((profile, version)) => {
                profile.save(part.join(PROFILE))?;
                Some((*version, hash_of_file(&part.join(PROFILE))?))
            }
            None => None,
        };
        let kept = Kept {
            key: self.key.clone(),
            policy_hash: state.policy.content_hash(),
            router,
            drawn: state.drawn,
            next_curve: state.next_curve,
            trajectory_bytes: trajectories.n_bytes(),
            result: state.result.clone(),
        };
        let kept = serde_json::to_value(kept)?;
        let file = StateFile {
            format_version: FORMAT_VERSION,
            content_hash: content_hash(&kept)?,
            kept,
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
            file.content_hash == content_hash(&file.kept)?,
            "its state is not as it was written"
        );
        let file: Kept = serde_json::from_value(file.kept).context("reading its state")?;
        ensure!(
            file.key == self.key,
            "it belongs to other settings or another build"
        );
        let policy = Checkpoint::load(folder.join(POLICY))?;
        ensure!(
            policy.content_hash() == file.policy_hash,
            "its policy is another one"
        );
        let router = match file.router {
            Some((version, hash)) => {
                let path = folder.join(PROFILE);
                ensure!(hash_of_file(&path)? == hash, "its profile is another one");
                Some((BehaviorProfile::load(path)?, version))
            }
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

fn hash_of_file(path: &Path) -> anyhow::Result<String> {
    let bytes = fs::read(path).with_context(|| format!("reading `{}`", path.display()))?;
    Ok(blake3::hash(&bytes).to_hex().to_string())
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

#[cfg(test)]
mod tests {
    use harness_core::Seed;
    use harness_pool::ProfileConfig;
    use rescue_grpo::ModelConfig;

    use super::*;
    use crate::arm::Arm;
    use crate::config::{Config, Scale};
    use crate::damage::damaged;
    use crate::run_dir::RunDir;

    fn state(step: u64) -> State {
        let mut model = ModelConfig::nano(16, 8);
        (model.d_model, model.d_ff, model.n_layers) = (8, 8, 1);
        let profile = BehaviorProfile::from_rows([], PolicyVersion(step), ProfileConfig::default());
        let mut result = ArmResult::new(Arm::HarnessS, 1);
        result.steps = step;
        result.metrics = (0..step)
            .map(|i| serde_json::json!({"step": i, "loss": 0.5}))
            .collect();
        State {
            result,
            drawn: 12 * step,
            next_curve: 1500,
            policy: Checkpoint {
                weights: model.init(Seed::new(step)),
                model,
                policy_version: PolicyVersion(step),
                world_hash: "w".into(),
                tokenizer_hash: "t".into(),
                generator: Value::Null,
                moments: None,
            },
            router: Some((profile.expect("no rows"), PolicyVersion(step))),
        }
    }

    /// What a state holds, as text.
    fn text(state: &State) -> String {
        let (profile, version) = state.router.as_ref().expect("a router");
        let rows: Vec<_> = profile.rows().collect();
        let result = serde_json::to_string(&state.result).expect("JSON");
        let policy = state.policy.content_hash();
        let of = (
            state.drawn,
            state.next_curve,
            version,
            profile.policy_version(),
        );
        format!("{result} {policy} {of:?} {rows:?}")
    }

    #[test]
    fn c1_a_damaged_state_is_never_gone_on_from() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = Config::builtin("appworld", Scale::Smoke).expect("settings");
        let run = RunDir::create(folder.path(), &config).expect("a run");
        let keep = |name: &str, step| {
            let keeper = Keeper::new(&run, name, format!("key of {name}"), 1);
            let (none, mut lines) = keeper.open().expect("a new file");
            assert!(none.is_none());
            lines.push(&step).expect("a line");
            keeper.save(&state(step), &lines).expect("a state");
            keeper
        };
        let (keeper, other) = (keep("a", 3), keep("b", 4));
        let expect = text(&state(3));
        let step = keeper.folder.join("step-3");
        for name in [STATE, POLICY, PROFILE] {
            let path = step.join(name);
            let good = fs::read(&path).expect("a file");
            let of_other = fs::read(other.folder.join("step-4").join(name)).expect("a file");
            let mut n_refused = 0;
            for (round, bad) in damaged(&good, &of_other).enumerate() {
                fs::write(&path, bad).expect("a write");
                let lines = fs::read(&keeper.trajectories).expect("lines");
                match keeper.open().expect("never an error").0 {
                    Some(state) => assert_eq!(text(&state), expect, "{name}, round {round}"),
                    None => n_refused += 1,
                }
                fs::write(&keeper.trajectories, lines).expect("a write");
            }
            assert!(n_refused > 190, "{name}: {n_refused}");
            fs::write(&path, good).expect("a write");
        }
        assert!(keeper.open().expect("a state").0.is_some());
    }
}
