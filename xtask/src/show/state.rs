//! Where a run stands: a function of the files in its folder.
//!
//! A job is one arm with one seed. Its numbers come from `metrics.jsonl`; before that has its lines, from the
//! state that an unfinished arm keeps in `checkpoints/`; before there is one, from the attempts in
//! `trajectories/`, which are those of some steps only.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use harness_core::{Outcome, RolloutRole};
use harness_pool::Sibling;
use serde::{Deserialize, Serialize};

use super::harnesses::pools;
use super::jobs::{Job, Settings};
use super::rows;
use crate::run_dir::RunDir;

/// Steps over which the shares of a job are taken.
pub const WINDOW_STEPS: usize = 10;

/// Where a run stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RunState {
    /// Version of this format: 1.
    pub format_version: u32,
    /// The environment.
    pub env: String,
    /// The scale that the settings started from.
    pub scale: String,
    /// Rollouts that each job may spend.
    pub budget_rollouts: u64,
    /// Steps over which shares are taken, or as many as there are.
    pub window_steps: usize,
    /// When the run wrote its report; absent before.
    pub ended: Option<String>,
    /// Seconds that the run took, parts from a cache not counted; absent before it ended.
    pub wall_s: Option<f64>,
    /// Every job of the settings, in the order in which they run.
    pub jobs: Vec<JobState>,
    /// Every pool that can be read.
    pub pools: Vec<PoolState>,
    /// The arms' results on test from the report, by arm; empty before there is one.
    pub results: BTreeMap<String, TestResult>,
    /// What a reader should not overlook.
    pub warnings: Vec<String>,
}

/// How far a job is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Nothing of it is there.
    #[default]
    Waiting,
    /// It trains, or was stopped while it did.
    Training,
    /// It is done.
    Done,
}

/// Where a job stands. Shares are in `[0, 1]` and absent where there is nothing to share.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct JobState {
    /// The name of its files.
    pub name: String,
    /// The arm.
    pub arm: String,
    /// The training seed.
    pub seed: u64,
    /// How far it is.
    pub stage: Stage,
    /// Steps made.
    pub steps: u64,
    /// Rollouts spent; absent if only kept attempts tell of it.
    pub rollouts: Option<u64>,
    /// Share of valid attempts under the base that solved their task, in the window.
    pub base_solved: Option<f64>,
    /// The same of rescue attempts.
    pub rescue_solved: Option<f64>,
    /// Share of groups that failed as a whole under the base, in the window.
    pub all_failed: Option<f64>,
    /// Groups that failed as a whole, in all steps.
    pub failed_groups: u64,
    /// Of these, groups in which a further attempt solved the task.
    pub rescued_groups: u64,
    /// The last evaluation under the base on the dev split.
    pub dev: Option<DevPoint>,
    /// Rollouts per second since the job began, evaluations and pauses included; only while it trains.
    pub rollouts_per_s: Option<f64>,
}

/// An evaluation on the dev split.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DevPoint {
    /// Rollouts spent before it.
    #[serde(default)]
    pub rollouts: u64,
    /// Share of valid attempts that solved their task, in `[0, 1]`.
    pub success: f64,
}

/// A pool's file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PoolState {
    /// Its name.
    pub file: String,
    /// Its siblings.
    pub siblings: Vec<SiblingState>,
}

/// A sibling, and what confirmed it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SiblingState {
    /// Its name.
    pub name: String,
    /// The repair direction.
    pub direction: String,
    /// Share of confirmation attempts that it solved, in `[0, 1]`; absent if it was never confirmed.
    pub solved: Option<f64>,
    /// The same of as many fresh attempts under the base.
    pub base_solved: Option<f64>,
}

/// What a report says of an arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestResult {
    /// Success under the base on test, over all seeds, with its 95 % interval; absent if test was not read.
    pub base_success: Option<Estimate>,
}

/// A mean with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The 95 % interval.
    pub ci95: [f64; 2],
}

impl RunState {
    /// Reads the files of a run. What cannot be read is a warning.
    ///
    /// # Errors
    /// The settings cannot be read, or an error of the file system other than a file that is not there.
    pub fn read(run: &RunDir) -> anyhow::Result<Self> {
        let path = run.root().join("config.toml");
        let reading = || format!("reading `{}`", path.display());
        let text = fs::read_to_string(&path).with_context(reading)?;
        let settings: Settings = toml::from_str(&text).with_context(reading)?;
        let mut warnings = Vec::new();
        let report = read_report(&run.root().join("report.json"), &mut warnings);
        let blocks = read_metrics(&run.root().join("metrics.jsonl"), &mut warnings)?;
        let jobs = job_states(
            run,
            settings.jobs(),
            blocks,
            report.is_some(),
            &mut warnings,
        )?;
        let report = report.unwrap_or_default();
        warnings.extend(report.warnings);
        Ok(Self {
            format_version: 1,
            budget_rollouts: settings.budget_rollouts(),
            env: settings.env,
            scale: settings.scale,
            window_steps: WINDOW_STEPS,
            ended: report.ended,
            wall_s: report.wall_s,
            jobs,
            pools: pool_states(run, &mut warnings),
            results: report.arms,
            warnings,
        })
    }
}

/// The part of `report.json` that is shown, of whatever version.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ReportPart {
    ended: Option<String>,
    wall_s: Option<f64>,
    arms: BTreeMap<String, TestResult>,
    warnings: Vec<String>,
}

fn read_report(path: &Path, warnings: &mut Vec<String>) -> Option<ReportPart> {
    let file = File::open(path).ok()?;
    match serde_json::from_reader(BufReader::new(file)) {
        Ok(report) => Some(report),
        Err(error) => {
            warnings.push(format!("`{}` cannot be read: {error}", path.display()));
            None
        }
    }
}

fn pool_states(run: &RunDir, warnings: &mut Vec<String>) -> Vec<PoolState> {
    let share = |n: u32, of: u32| (of > 0).then(|| f64::from(n) / f64::from(of));
    let state_of = |sibling: &Sibling| SiblingState {
        name: sibling.name.clone(),
        direction: sibling.direction.clone(),
        solved: share(sibling.evidence.sibling_solved, sibling.evidence.n_attempts),
        base_solved: share(sibling.evidence.retry_solved, sibling.evidence.n_attempts),
    };
    let mut states = Vec::new();
    for (file, pool) in pools(run) {
        match pool {
            Ok(pool) => states.push(PoolState {
                file,
                siblings: pool.siblings().iter().map(state_of).collect(),
            }),
            Err(error) => warnings.push(format!("`{file}` cannot be read: {error}")),
        }
    }
    states
}

/// A line of `metrics.jsonl`: a step, a re-anchoring or an evaluation.
#[derive(Deserialize)]
struct Line {
    arm: String,
    seed: u64,
    step: u64,
    rollouts: u64,
    #[serde(default)]
    n_tasks: u64,
    /// Present in the line of a step.
    base: Option<Counts>,
    #[serde(default)]
    rescue: Counts,
    #[serde(default)]
    groups: Groups,
    dev: Option<DevPoint>,
}

/// Attempts by outcome.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Counts {
    solved: u64,
    failed: u64,
    truncated: u64,
    infra_error: u64,
    verifier_error: u64,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Groups {
    all_failed: u64,
    rescued: u64,
}

impl Counts {
    fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Solved => self.solved += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Truncated => self.truncated += 1,
            Outcome::InfraError => self.infra_error += 1,
            Outcome::VerifierError => self.verifier_error += 1,
            Outcome::Cancelled => {}
        }
    }

    const fn n_valid(self) -> u64 {
        self.solved + self.failed + self.truncated
    }

    const fn n_broken(self) -> u64 {
        self.infra_error + self.verifier_error
    }
}

/// One step.
#[derive(Clone, Copy, Default)]
struct Step {
    n_tasks: u64,
    base: Counts,
    rescue: Counts,
    groups: Groups,
}

/// What is known of a job so far.
#[derive(Default)]
struct Tally {
    /// The last steps, at most [`WINDOW_STEPS`].
    window: VecDeque<Step>,
    steps: u64,
    rollouts: Option<u64>,
    groups: Groups,
    n_valid: u64,
    n_broken: u64,
    n_truncated: u64,
    dev: Option<DevPoint>,
}

impl Tally {
    fn take(&mut self, line: &Line) {
        self.rollouts = Some(line.rollouts);
        if let Some(dev) = line.dev {
            self.dev = Some(DevPoint {
                rollouts: line.rollouts,
                ..dev
            });
        }
        if let Some(base) = line.base {
            self.steps = line.step + 1;
            self.push(Step {
                n_tasks: line.n_tasks,
                base,
                rescue: line.rescue,
                groups: line.groups,
            });
        }
    }

    fn push(&mut self, step: Step) {
        self.groups.all_failed += step.groups.all_failed;
        self.groups.rescued += step.groups.rescued;
        for counts in [step.base, step.rescue] {
            self.n_valid += counts.n_valid();
            self.n_broken += counts.n_broken();
            self.n_truncated += counts.truncated;
        }
        if self.window.len() == WINDOW_STEPS {
            self.window.pop_front();
        }
        self.window.push_back(step);
    }

    fn share(&self, of: impl Fn(&Step) -> (u64, u64)) -> Option<f64> {
        let (n, all) = self
            .window
            .iter()
            .map(of)
            .fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        (all > 0).then(|| n as f64 / all as f64)
    }

    fn warnings(&self, name: &str) -> Vec<String> {
        let mut warnings = Vec::new();
        let n_all = self.n_valid + self.n_broken;
        if self.n_broken > 0 {
            warnings.push(format!(
                "{name}: {} of {n_all} attempts broke (infra_error, verifier_error) and say nothing of the policy",
                self.n_broken
            ));
        }
        if 10 * self.n_truncated >= self.n_valid && self.n_truncated > 0 {
            warnings.push(format!(
                "{name}: {} of {} attempts were cut by the token window",
                self.n_truncated, self.n_valid
            ));
        }
        warnings
    }

    fn into_state(self, job: Job, stage: Stage) -> JobState {
        let solved = |c: Counts| (c.solved, c.n_valid());
        JobState {
            name: job.name,
            arm: job.arm,
            seed: job.seed,
            stage,
            steps: self.steps,
            rollouts: self.rollouts,
            base_solved: self.share(|step| solved(step.base)),
            rescue_solved: self.share(|step| solved(step.rescue)),
            all_failed: self.share(|step| (step.groups.all_failed, step.n_tasks)),
            failed_groups: self.groups.all_failed,
            rescued_groups: self.groups.rescued,
            dev: self.dev,
            rollouts_per_s: None,
        }
    }
}

/// The lines of one job in `metrics.jsonl`.
struct Block {
    arm: String,
    seed: u64,
    tally: Tally,
}

/// The jobs of `metrics.jsonl`. Their lines stand together; another one begins where arm or seed change or the
/// count of rollouts falls.
fn read_metrics(path: &Path, warnings: &mut Vec<String>) -> anyhow::Result<Vec<Block>> {
    let mut blocks: Vec<Block> = Vec::new();
    rows::read(path, warnings, |line: Line| {
        let is_same = blocks.last().is_some_and(|block| {
            let is_one = block.arm == line.arm && block.seed == line.seed;
            is_one && block.tally.rollouts.is_none_or(|n| n <= line.rollouts)
        });
        if !is_same {
            blocks.push(Block {
                arm: line.arm.clone(),
                seed: line.seed,
                tally: Tally::default(),
            });
        }
        if let Some(block) = blocks.last_mut() {
            block.tally.take(&line);
        }
        ControlFlow::Continue(())
    })?;
    Ok(blocks)
}

/// A job with what was found of it.
struct Found {
    job: Job,
    tally: Option<Tally>,
    /// Whether its numbers are final.
    is_final: bool,
    rollouts_per_s: Option<f64>,
}

fn job_states(
    run: &RunDir,
    jobs: Vec<Job>,
    mut blocks: Vec<Block>,
    is_ended: bool,
    warnings: &mut Vec<String>,
) -> anyhow::Result<Vec<JobState>> {
    let mut all = Vec::new();
    for job in jobs {
        let place = blocks
            .iter()
            .position(|block| block.arm == job.arm && block.seed == job.seed);
        // The first lines of an arm and a seed are those of the first job that has both.
        let mut found = Found {
            tally: place.map(|place| blocks.remove(place).tally),
            is_final: place.is_some(),
            rollouts_per_s: None,
            job,
        };
        if !found.is_final {
            read_unfinished(run, &mut found, warnings)?;
        }
        all.push(found);
    }
    // One job trains at a time, so all before the last of which something is there are done.
    let last = all.iter().rposition(|found| found.tally.is_some());
    let mut states = Vec::new();
    for (i, found) in all.into_iter().enumerate() {
        let is_done = is_ended || found.is_final || last.is_some_and(|last| i < last);
        let stage = match &found.tally {
            None => Stage::Waiting,
            Some(_) if is_done => Stage::Done,
            Some(_) => Stage::Training,
        };
        let tally = found.tally.unwrap_or_default();
        warnings.extend(tally.warnings(&found.job.name));
        let mut job = tally.into_state(found.job, stage);
        job.rollouts_per_s = found.rollouts_per_s.filter(|_| stage == Stage::Training);
        states.push(job);
    }
    if let Some(block) = blocks.first() {
        warnings.push(format!(
            "metrics.jsonl tells of {} jobs that the settings do not name, the first is {} with seed {}",
            blocks.len(),
            block.arm,
            block.seed
        ));
    }
    Ok(states)
}

/// The part of an unfinished arm's `state.json` that is shown.
#[derive(Deserialize)]
struct StateFile {
    result: StateResult,
}

#[derive(Deserialize)]
struct StateResult {
    #[serde(default)]
    metrics: Vec<Line>,
    #[serde(default)]
    warnings: Vec<String>,
}

/// What the folder says of a job that `metrics.jsonl` says nothing of.
fn read_unfinished(
    run: &RunDir,
    found: &mut Found,
    warnings: &mut Vec<String>,
) -> anyhow::Result<()> {
    let name = &found.job.name;
    let trajectories = run.trajectory_path(name);
    if let Some(path) = newest_state(&run.root().join("checkpoints").join(name)) {
        let file = File::open(&path).ok();
        let state = file.map(|file| serde_json::from_reader::<_, StateFile>(BufReader::new(file)));
        match state {
            Some(Ok(state)) => {
                let mut tally = Tally::default();
                state.result.metrics.iter().for_each(|l| tally.take(l));
                let told = state.result.warnings.into_iter();
                warnings.extend(told.map(|warning| format!("{name}: {warning}")));
                found.rollouts_per_s = tally.rollouts.and_then(|n| rate(&trajectories, &path, n));
                found.tally = Some(tally);
                return Ok(());
            }
            Some(Err(error)) => {
                warnings.push(format!("`{}` cannot be read: {error}", path.display()));
            }
            // A newer one has just taken its place.
            None => {}
        }
    }
    if trajectories.is_file() {
        found.tally = Some(kept_attempts(&trajectories, warnings)?);
    }
    Ok(())
}

/// `state.json` of the newest whole step in a folder of checkpoints.
fn newest_state(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let step = |path: &Path| -> Option<u64> {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix("step-")?.parse().ok()
    };
    let newest = entries
        .filter_map(|entry| step(&entry.path()).map(|step| (step, entry.path())))
        .max()?;
    Some(newest.1.join("state.json"))
}

/// Rollouts per second between the making of a file and the last change of another; `None` where the file
/// system does not say, as after a copy.
fn rate(made: &Path, changed: &Path, rollouts: u64) -> Option<f64> {
    let from = fs::metadata(made).ok()?.created().ok()?;
    let to = fs::metadata(changed).ok()?.modified().ok()?;
    let seconds = to.duration_since(from).ok()?.as_secs_f64();
    (seconds >= 1.0).then(|| rollouts as f64 / seconds)
}

/// The part of a kept attempt that is counted.
#[derive(Deserialize)]
struct Kept {
    rollout_id: String,
    role: RolloutRole,
    outcome: Outcome,
}

/// The steps whose attempts are kept.
fn kept_attempts(path: &Path, warnings: &mut Vec<String>) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    let mut step = Step::default();
    rows::read(path, warnings, |kept: Kept| {
        let number = kept.rollout_id.strip_prefix('s').and_then(|rest| {
            let (number, _) = rest.split_once('-')?;
            number.parse::<u64>().ok()
        });
        let steps = number.map_or(tally.steps, |number| number + 1);
        if steps != tally.steps && tally.steps > 0 {
            tally.push(std::mem::take(&mut step));
        }
        tally.steps = steps;
        match kept.role {
            RolloutRole::Base => step.base.add(kept.outcome),
            RolloutRole::Rescue => step.rescue.add(kept.outcome),
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    tally.push(step);
    Ok(tally)
}
