//! The folder of a run, and which folders may become one.
//!
//! ```text
//! runs/<env>-<stamp>/  config.toml  report.json  report.md  report.html  pool.json  metrics.jsonl
//!                      profiles/  trajectories/  checkpoints/  logs/run.jsonl  .lock
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;

use crate::clock;
use crate::config::Config;
use crate::files::{self, JsonLines, write_atomic};
use crate::report::{self, Report};
use crate::usage::UsageError;
use crate::{run_lock, say};

/// First line of a run's `config.toml`, by which a folder is known as a run's.
const MARK: &str =
    "# A run of Harness-S. Rebuild its reports with: cargo xtask report <this folder>\n";
const CONFIG: &str = "config.toml";
const FOLDERS: [&str; 4] = ["profiles", "trajectories", "checkpoints", "logs"];
const FILES: [&str; 5] = [
    "report.json",
    "report.md",
    "report.html",
    "pool.json",
    "metrics.jsonl",
];

/// The folder of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    root: PathBuf,
}

/// A line of `metrics.jsonl`.
#[derive(Serialize)]
struct MetricsLine<'a> {
    world: &'a str,
    #[serde(flatten)]
    line: &'a serde_json::Value,
}

impl RunDir {
    /// The folder's default place: `runs/<env>-<stamp>` in the current folder, where nothing is yet.
    pub fn default_path(env: &str) -> PathBuf {
        Self::unused_path(Path::new("runs"), env, clock::unix_secs())
    }

    /// A clock may show the same second twice, so the stamp alone does not make a name new.
    fn unused_path(runs: &Path, env: &str, unix_secs: u64) -> PathBuf {
        let name = format!("{env}-{}", clock::stamp(unix_secs));
        let numbered = (2_u64..).map(|n| runs.join(format!("{name}-{n}")));
        let mut paths = std::iter::once(runs.join(&name)).chain(numbered);
        let unused = paths.find(|path| !path.exists());
        unused.unwrap_or_else(|| runs.join(&name))
    }

    /// Whether `root` may become a run's folder: it does not exist, is empty, or is a run's already.
    /// Writes nothing.
    ///
    /// # Errors
    /// [`UsageError`] for a file and for a folder with other content; an error of the file system.
    pub fn check(root: &Path) -> anyhow::Result<()> {
        let shown = root.display();
        if !root.exists() || is_run(root) {
            return Ok(());
        }
        if !root.is_dir() {
            return Err(UsageError::new(format!("--out `{shown}` is a file, not a folder")).into());
        }
        let mut entries = fs::read_dir(root).with_context(|| format!("reading `{shown}`"))?;
        let is_other = |entry: std::io::Result<fs::DirEntry>| {
            entry.map_or(true, |entry| {
                entry.file_name() != run_lock::FILE && !files::is_aside(&entry.path())
            })
        };
        if entries.any(is_other) {
            return Err(UsageError::new(format!(
                "--out `{shown}` holds other files and is not the folder of a run\n  \
                 give a new folder, an empty one, or that of an earlier run"
            ))
            .into());
        }
        Ok(())
    }

    /// Makes the folder and writes `config.toml`. What an earlier run left in it is removed; files that no
    /// run writes stay.
    ///
    /// # Errors
    /// As [`RunDir::check`], with nothing written; an error of the file system.
    pub fn create(root: &Path, config: &Config) -> anyhow::Result<Self> {
        Self::check(root)?;
        if is_run(root) {
            say::note(format_args!("replacing the run in `{}`", root.display()));
            remove_run(root)?;
        }
        fs::create_dir_all(root).with_context(|| format!("creating `{}`", root.display()))?;
        // First of all, so that a run that is killed here can be gone on with.
        let text = format!("{MARK}\n{}", config.to_toml()?);
        write_atomic(&root.join(CONFIG), text.as_bytes())?;
        make_folders(root)?;
        Ok(Self { root: root.into() })
    }

    /// The folder of a run that was stopped, to go on with: made anew if there is no run in it. Nothing in it
    /// is removed, and folders that are missing in it are made.
    ///
    /// # Errors
    /// As [`RunDir::check`]; [`UsageError`] if the run has other settings than these, on which its results
    /// depend.
    pub fn resume(root: &Path, config: &Config) -> anyhow::Result<Self> {
        if !is_run(root) {
            return Self::create(root, config);
        }
        let run = Self { root: root.into() };
        if run.config()?.essence() != config.essence() {
            return Err(UsageError::new(format!(
                "the run in `{}` has other settings than these: give the ones of its {CONFIG}, or another --out",
                root.display()
            ))
            .into());
        }
        make_folders(root)?;
        Ok(run)
    }

    /// The folder of a run that was made before.
    ///
    /// # Errors
    /// [`UsageError`] if it is not one.
    pub fn open(root: &Path) -> Result<Self, UsageError> {
        if is_run(root) {
            return Ok(Self { root: root.into() });
        }
        Err(UsageError::new(format!(
            "`{}` is not the folder of a run: it has no {CONFIG} written by reproduce",
            root.display()
        )))
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The settings that the run used.
    ///
    /// # Errors
    /// The file cannot be read, or holds settings that this version does not know.
    pub fn config(&self) -> anyhow::Result<Config> {
        let path = self.root.join(CONFIG);
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading `{}`", path.display()))?;
        Config::from_toml(&text).with_context(|| format!("reading `{}`", path.display()))
    }

    /// `pool.json`.
    pub fn pool_path(&self) -> PathBuf {
        self.root.join("pool.json")
    }

    /// A file of behaviour profiles: `profiles/<name>.json`.
    pub fn profile_path(&self, name: &str) -> PathBuf {
        self.root.join("profiles").join(format!("{name}.json"))
    }

    /// A checkpoint: `checkpoints/<name>.safetensors`.
    pub fn checkpoint_path(&self, name: &str) -> PathBuf {
        self.root
            .join("checkpoints")
            .join(format!("{name}.safetensors"))
    }

    /// Stages of a run that shares no cache: `checkpoints/stages`.
    pub fn stages_path(&self) -> PathBuf {
        self.root.join("checkpoints").join("stages")
    }

    /// A log: `logs/<name>`.
    pub fn log_path(&self, name: &str) -> PathBuf {
        self.root.join("logs").join(name)
    }

    /// Starts `metrics.jsonl` anew.
    ///
    /// # Errors
    /// An error of the file system.
    pub fn start_metrics(&self) -> anyhow::Result<()> {
        JsonLines::create(&self.root.join("metrics.jsonl")).map(drop)
    }

    /// Adds lines to `metrics.jsonl`: those of an arm that is done. Each gets the key `world`: that of the arm, by
    /// the name of its pool's file.
    ///
    /// # Errors
    /// An error of the file system; the file was not started.
    pub fn append_metrics(&self, world: &str, lines: &[serde_json::Value]) -> anyhow::Result<()> {
        let path = self.root.join("metrics.jsonl");
        let len = fs::metadata(&path).with_context(|| format!("reading `{}`", path.display()))?;
        let mut file = JsonLines::resume(&path, len.len())?;
        let mut lines = lines.iter();
        lines.try_for_each(|line| file.push(&MetricsLine { world, line }))
    }

    /// A file of trajectories: `trajectories/<name>.jsonl`.
    pub fn trajectory_path(&self, name: &str) -> PathBuf {
        self.root.join("trajectories").join(format!("{name}.jsonl"))
    }

    /// Writes `report.json`, and `report.md` and `report.html` from it.
    ///
    /// # Errors
    /// An error of the file system, or a report without a JSON form.
    pub fn write_report(&self, report: &Report) -> anyhow::Result<()> {
        crate::files::write_json(&self.root.join("report.json"), &report.sealed()?)?;
        self.rebuild_report()
    }

    /// Writes `report.md` and `report.html` from `report.json` alone.
    ///
    /// # Errors
    /// An error of the file system, or a `report.json` that is missing or of a version that is not known.
    pub fn rebuild_report(&self) -> anyhow::Result<()> {
        let report = report::read(&self.root.join("report.json"))?;
        let markdown = report::markdown(&report);
        write_atomic(&self.root.join("report.md"), markdown.as_bytes())?;
        let html = report::html(&report);
        write_atomic(&self.root.join("report.html"), html.as_bytes())
    }
}

/// Makes the folders that are missing, and removes what a process that was killed left half written.
fn make_folders(root: &Path) -> anyhow::Result<()> {
    for folder in FOLDERS {
        files::make_folder(&root.join(folder))?;
    }
    for folder in [root.to_owned(), root.join("profiles")] {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if files::is_aside(&entry.path()) {
                // No reader looks at it, so it may stay.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
    Ok(())
}

fn is_run(root: &Path) -> bool {
    fs::read_to_string(root.join(CONFIG)).is_ok_and(|text| text.starts_with(MARK))
}

/// Removes what runs write, `config.toml` last: a half-removed run is still known as one.
fn remove_run(root: &Path) -> anyhow::Result<()> {
    let folders = FOLDERS.map(|name| (name, true));
    let files = FILES.map(|name| (name, false));
    for (name, is_folder) in folders.into_iter().chain(files).chain([(CONFIG, false)]) {
        let path = root.join(name);
        let removed = if is_folder {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("removing `{}`", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Scale;

    fn config() -> Config {
        Config::builtin("appworld", Scale::Smoke).unwrap()
    }

    #[test]
    fn a_new_folder_knows_its_settings() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("a/b");
        RunDir::create(&root, &config()).unwrap();
        assert_eq!(RunDir::open(&root).unwrap().config().unwrap(), config());
    }

    #[test]
    fn an_earlier_run_is_replaced_and_other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path(), &config()).unwrap();
        fs::write(run.pool_path(), "{}").unwrap();
        fs::write(run.log_path("a.log"), "old").unwrap();
        fs::write(folder.path().join("notes.txt"), "mine").unwrap();
        RunDir::create(folder.path(), &config()).unwrap();
        assert!(!run.pool_path().exists() && !run.log_path("a.log").exists());
        assert!(folder.path().join("notes.txt").exists());
    }

    #[test]
    fn a_clock_that_shows_a_second_twice_replaces_no_run() {
        let folder = tempfile::tempdir().unwrap();
        // As on a machine whose clock was set back, or stands before 1970.
        for (stamp, name) in [
            (5, "e-19700101T000005Z"),
            (0, "e-19700101T000000Z"),
            (5, "e-19700101T000005Z-2"),
            (5, "e-19700101T000005Z-3"),
        ] {
            let path = RunDir::unused_path(folder.path(), "e", stamp);
            assert_eq!(path, folder.path().join(name));
            RunDir::create(&path, &config()).unwrap();
        }
    }

    #[test]
    fn a_run_goes_on_with_its_own_settings_only() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::resume(folder.path(), &config()).unwrap();
        fs::write(run.pool_path(), "{}").unwrap();
        let mut same = config();
        same.threads = 7;
        assert_eq!(RunDir::resume(folder.path(), &same).unwrap(), run);
        assert!(run.pool_path().exists());
        let mut other = config();
        other.grpo.k = 4;
        let error = RunDir::resume(folder.path(), &other).unwrap_err();
        assert!(error.is::<UsageError>() && error.to_string().contains("other settings"));
    }

    #[test]
    fn c1_a_damaged_config_is_refused_by_name_or_says_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path(), &config()).unwrap();
        let path = run.root().join(CONFIG);
        let good = fs::read(&path).unwrap();
        let full = Config::builtin("appworld", Scale::Full).unwrap();
        let other = format!("{MARK}\n{}", full.to_toml().unwrap());
        for (round, bad) in crate::damage::damaged(&good, other.as_bytes()).enumerate() {
            fs::write(&path, bad).unwrap();
            match RunDir::resume(run.root(), &config()) {
                Ok(run) => {
                    let essence = run.config().unwrap().essence();
                    assert_eq!(essence, config().essence(), "round {round}");
                }
                Err(error) => {
                    let name = run.root().display().to_string();
                    assert!(format!("{error:#}").contains(&name), "{error:#}");
                }
            }
        }
        assert!(n_entries_but_folders(run.root()) == 1);
    }

    fn n_entries_but_folders(root: &Path) -> usize {
        let entries = fs::read_dir(root).unwrap();
        entries
            .filter(|e| e.as_ref().unwrap().path().is_file())
            .count()
    }

    #[test]
    fn c1_a_process_killed_while_it_made_the_folder_leaves_one_to_go_on_with() {
        let folder = tempfile::tempdir().unwrap();
        let half = folder.path().join(format!("{CONFIG}.123.tmp"));
        fs::write(folder.path().join(run_lock::FILE), "").unwrap();
        fs::write(&half, &MARK[..9]).unwrap();
        RunDir::resume(folder.path(), &config()).unwrap();
        assert!(!half.exists());
        fs::remove_dir(folder.path().join("logs")).unwrap();
        RunDir::resume(folder.path(), &config()).unwrap();
        assert!(folder.path().join("logs").is_dir());
    }

    #[test]
    fn j5_a_copied_run_does_not_follow_the_original() {
        let (original, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let run = RunDir::create(original.path(), &config()).unwrap();
        let mut report = Report {
            env: "first".into(),
            ..Report::default()
        };
        run.write_report(&report).unwrap();
        for name in ["config.toml", "report.json"] {
            fs::copy(original.path().join(name), copy.path().join(name)).unwrap();
            let text = fs::read_to_string(original.path().join(name)).unwrap();
            let path = original.path().to_string_lossy().into_owned();
            assert!(!text.contains(&path), "{name} names its own folder");
        }
        report.env = "second".into();
        run.write_report(&report).unwrap();
        let moved = RunDir::open(copy.path()).unwrap();
        moved.rebuild_report().unwrap();
        let markdown = fs::read_to_string(copy.path().join("report.md")).unwrap();
        assert!(
            markdown.contains("first") && !markdown.contains("second"),
            "{markdown}"
        );
    }

    #[test]
    fn a_file_and_a_foreign_folder_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        fs::write(&file, "mine").unwrap();
        for path in [file.as_path(), folder.path()] {
            let error = RunDir::create(path, &config()).unwrap_err();
            assert!(error.is::<UsageError>(), "{error}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_without_a_run_cannot_be_opened() {
        let folder = tempfile::tempdir().unwrap();
        assert!(RunDir::open(folder.path()).is_err());
    }
}
