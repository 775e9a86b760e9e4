//! `report.json` (stable: other tools read it) and what is made from it alone: `report.md`, `report.html`.
//!
//! A field that a run did not measure is `null`, never a made-up number.

mod compare;
mod format;
mod html;
mod markdown;
#[cfg(test)]
mod sample;
mod summarise;
mod svg;
mod tables;
mod words;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use compare::{strip_time_keys, without_time};
pub use html::html;
pub use markdown::markdown;
pub use summarise::{CurveMark, agreement, arm_report, curve, delta, difference};

use crate::stats::Estimate;

/// The version of `report.json` that this code writes, and the newest that it reads.
pub const SCHEMA_VERSION: u32 = 1;

/// Everything that a run reports.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The environment's name.
    pub env: String,
    /// The scale's name.
    pub scale: String,
    /// Seeds of training.
    pub seeds: Vec<u64>,
    /// Hashes or names of the warm starts, in the order of their seeds.
    pub warm_starts: Vec<String>,
    /// When the run started, RFC 3339.
    pub started: Option<String>,
    /// When the run ended, RFC 3339.
    pub ended: Option<String>,
    /// Seconds of wall clock.
    pub wall_s: f64,
    /// Tasks of the test split.
    pub n_test_tasks: usize,
    /// Scenarios of the test split.
    pub n_test_scenarios: usize,
    /// Which code and which settings made it.
    #[serde(default)]
    pub provenance: Provenance,
    /// Rates of the demonstrations that the initial policy imitates, by the names of the settings.
    #[serde(default)]
    pub demo_rates: BTreeMap<String, f64>,
    /// The initial policy.
    pub initial: Initial,
    /// The arms by name.
    pub arms: BTreeMap<String, ArmReport>,
    /// Differences between arms.
    pub delta: Delta,
    /// Variants of the method by name, each with one thing changed.
    #[serde(default)]
    pub ablations: BTreeMap<String, AblationReport>,
    /// Runs in which rescue must gain nothing, by name.
    #[serde(default)]
    pub controls: BTreeMap<String, ControlReport>,
    /// The same comparison at several chances of the base, ascending by `eps`.
    #[serde(default)]
    pub sweep: Vec<SweepLevel>,
    /// The pool of the first warm start.
    pub pool: Option<PoolReport>,
    /// The pools of all warm starts, in their order.
    #[serde(default)]
    pub pools: Vec<PoolReport>,
    /// What profiles say of the siblings of the first warm start, at the start and at the end of training.
    #[serde(default)]
    pub profiles: Vec<ProfileRow>,
    /// How the siblings' ranks change as the policy learns.
    pub nonstationarity: Option<Nonstationarity>,
    /// What reached the base harness.
    pub transfer: Option<Transfer>,
    /// One harness for each task at inference.
    pub rank1: Option<Rank1>,
    /// Success of every harness in every family at several moments, for heat maps.
    pub harness_by_family: Option<Vec<HarnessMatrix>>,
    /// Rollouts that only measured and are charged to no arm: evaluations, matrices, Rank-1.
    #[serde(default)]
    pub measuring_rollouts: u64,
    /// What a reader should not overlook.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Hash of all else but the keys that depend on the clock, put in when it is written: a file that was
    /// damaged is refused. `null` is not checked.
    #[serde(default)]
    pub content_hash: Option<String>,
}

impl Report {
    /// The same with its hash.
    ///
    /// # Errors
    /// It has no JSON form.
    pub fn sealed(&self) -> anyhow::Result<Self> {
        let content_hash = Some(hash_of(serde_json::to_value(self)?)?);
        Ok(Self {
            content_hash,
            ..self.clone()
        })
    }
}

/// The hash of a report, whatever hash it carries.
fn hash_of(mut report: serde_json::Value) -> anyhow::Result<String> {
    if let Some(map) = report.as_object_mut() {
        map.remove("content_hash");
    }
    crate::cache::content_hash(&strip_time_keys(report))
}

/// Which code and which settings made a report.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Provenance {
    /// The commit of the code; `null` outside a repository.
    pub commit: Option<String>,
    /// The last commit that changed the settings' file; `null` outside a repository.
    pub config_commit: Option<String>,
    /// Whether the file of the settings stands in that commit as it was used, and no setting was given
    /// on the command line but seeds, arms, threads and folders.
    pub is_config_committed: bool,
    /// Hash of all settings that a result depends on.
    pub config_hash: Option<String>,
}

/// One variant: an arm with fewer seeds, compared on the same seeds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct AblationReport {
    /// What it changes, in plain words.
    pub changes: String,
    /// The arm's own numbers.
    #[serde(flatten)]
    pub arm: ArmReport,
    /// Its success minus that of `harness_s` on the same seeds.
    pub minus_harness_s: Option<Estimate>,
    /// Its success minus that of `policy_only_matched` on the same seeds.
    pub minus_matched: Option<Estimate>,
}

/// A run in which rescue must gain nothing.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ControlReport {
    /// What is run, in plain words.
    pub what: String,
    /// What must come out, in plain words.
    pub expected: String,
    /// Success of the arms that are compared, by name.
    pub success: BTreeMap<String, Estimate>,
    /// The difference that must be nothing; what is subtracted is said in `expected`.
    pub difference: Option<Estimate>,
    /// The same with a t interval over seeds.
    pub t_interval: Option<Estimate>,
    /// Whether both say what must come out (0 within the interval, or below it where only a gain is
    /// forbidden); `null` if there is nothing to judge by.
    pub holds: Option<bool>,
}

/// The comparison at one chance of the base.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SweepLevel {
    /// The demonstrations' chance to take a skill's decision without a rule, at each decision.
    pub eps: f64,
    /// The initial policy's success per attempt under the base in the families that need a skill.
    pub base_chance: Option<Estimate>,
    /// How many seeds were run.
    pub n_seeds: usize,
    /// Success on test by arm.
    pub arms: BTreeMap<String, Estimate>,
    /// `harness_s` minus `policy_only`.
    pub minus_policy_only: Option<Estimate>,
    /// `harness_s` minus `policy_only_matched`.
    pub minus_matched: Option<Estimate>,
}

/// What a profile says of one harness.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ProfileRow {
    /// The moment: `start` or `end`.
    pub at: String,
    /// The sibling's name, or `base`.
    pub harness: String,
    /// Attempts behind the rates.
    pub attempts: u64,
    /// Attempts, discounted by age.
    pub effective_n: f64,
    /// P(solved) on tasks that the base failed in all attempts, probes only: mean and 95 % bounds of Beta.
    pub rescue: Option<Estimate>,
    /// P(solved) on all anchor tasks, probes only.
    pub unconditional: Option<Estimate>,
    /// Share of attempts in which a rule of the overlay acted.
    pub fire_rate: Option<f64>,
    /// The behaviour that it changes most against the base on the same tasks.
    pub adherence: Option<AdherenceRow>,
    /// Mean turns of an attempt minus the base's.
    pub turns_change: Option<f64>,
    /// Mean tokens of an attempt minus the base's.
    pub tokens_change: Option<f64>,
    /// Attempts that failed a task which the base had solved.
    pub regressions: u64,
}

/// A behaviour under a sibling and under the base.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct AdherenceRow {
    /// The behaviour's name, as the environment publishes it.
    pub behaviour: String,
    /// Its rate under the sibling.
    pub sibling: f64,
    /// Its rate under the base.
    pub base: f64,
}

/// The initial policy under the base harness, test split.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Initial {
    /// Share solved at temperature 1.
    pub base_success: Option<Estimate>,
    /// The same by family.
    pub per_family: BTreeMap<String, Estimate>,
}

/// One arm; successes are those of the last checkpoint under the base harness, test split.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ArmReport {
    /// Share solved at temperature 1: the headline.
    pub base_success: Option<Estimate>,
    /// Share solved with greedy sampling.
    pub base_success_greedy: Option<Estimate>,
    /// Share solved at temperature 1 for each seed, in the order of the seeds.
    pub per_seed: Vec<f64>,
    /// Share solved at temperature 1 by family.
    pub per_family: BTreeMap<String, Estimate>,
    /// Environment rollouts spent on training, all seeds together, probes included.
    pub rollouts: u64,
    /// Tokens sampled in them.
    pub tokens: u64,
    /// Share of failed groups in which a replacement solved the task; `null` if the arm replaces none.
    pub rescue_rate: Option<f64>,
    /// The same for each window of training; a window without a failed group is `null`.
    pub rescue_rate_curve: Vec<Option<f64>>,
    /// Share of groups in which every attempt failed, for each window of training.
    pub all_failed_share: Vec<f64>,
    /// Success over training.
    pub curve: Vec<CurvePoint>,
    /// How training attempts ended, by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Of the rollouts, those of anchor probes.
    #[serde(default)]
    pub probe_rollouts: u64,
    /// Updates of the policy, all seeds together.
    #[serde(default)]
    pub updates: u64,
    /// Rescue attempts that could not be shown in the base's context and were left out.
    #[serde(default)]
    pub unprojectable: u64,
    /// Where routed rescues went: attempts by family and sibling.
    #[serde(default)]
    pub routed: BTreeMap<String, BTreeMap<String, Routed>>,
    /// Share of the loss from negative advantages, for each window of training.
    #[serde(default)]
    pub negative_share: Vec<Option<f64>>,
}

/// Rescue attempts at the tasks of one family under one sibling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Routed {
    /// Attempts.
    pub attempts: u64,
    /// Attempts that solved their task.
    pub solved: u64,
}

/// One evaluation during training, all seeds together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CurvePoint {
    /// Updates so far, mean over seeds.
    pub step: f64,
    /// Rollouts so far, mean over seeds.
    pub rollouts: f64,
    /// Share solved under the base harness, dev split.
    pub base_success: f64,
    /// Its 95 % interval.
    pub ci95: Option<[f64; 2]>,
}

/// Differences of `base_success`, paired by seed and scenario.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Delta {
    /// Against GRPO alone.
    pub harness_s_minus_policy_only: Option<Estimate>,
    /// Against GRPO with as many more attempts under the base: the control that can kill the claim.
    pub harness_s_minus_policy_only_matched: Option<Estimate>,
    /// The literal reading against the same control.
    pub harness_s_sibling_minus_policy_only_matched: Option<Estimate>,
    /// Each of them for each seed, in the order of the seeds.
    pub per_seed: BTreeMap<String, Vec<f64>>,
    /// Each of them with a t interval over seeds, where there are several.
    pub t_interval: BTreeMap<String, Estimate>,
    /// How many seeds agree with each of them.
    #[serde(default)]
    pub agreement: BTreeMap<String, Agreement>,
    /// The same with the cost of building the pool charged to the arms that use it.
    pub charged: Charged,
}

/// How many seeds have a difference of the same sign as the mean over seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Agreement {
    /// Seeds of that sign.
    pub agree: usize,
    /// All seeds.
    pub n: usize,
}

/// Differences at a budget from which the pool was paid.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Charged {
    /// As the field of the same name in [`Delta`], with `harness_s` judged when its rollouts and those that
    /// built the pool together reach the budget of the control.
    pub harness_s_minus_policy_only_matched: Option<Estimate>,
    /// The same for each seed, in the order of the seeds.
    #[serde(default)]
    pub per_seed: Vec<f64>,
    /// The same with a t interval over seeds.
    #[serde(default)]
    pub t_interval: Option<Estimate>,
    /// How many seeds agree with it.
    #[serde(default)]
    pub agreement: Option<Agreement>,
    /// Rollouts at which `harness_s` was judged, mean over seeds: what the pool left of the budget.
    #[serde(default)]
    pub at_rollouts: Option<f64>,
}

/// The pool of siblings.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PoolReport {
    /// How many siblings it holds.
    pub size: usize,
    /// Names of the repair directions that were tried.
    pub directions: Vec<String>,
    /// Names of the siblings that were confirmed.
    pub confirmed: Vec<String>,
    /// Candidates that were not.
    pub rejected: usize,
    /// Rollouts that building it took.
    pub rollouts: u64,
    /// Share solved of the tasks that the base failed, by sibling and direction.
    pub locality: BTreeMap<String, BTreeMap<String, Option<f64>>>,
    /// What the siblings solve together.
    pub complementarity: Option<Complementarity>,
    /// Every candidate that was proposed, in order: with `parent` and `id` a forest that grows from the base.
    #[serde(default)]
    pub tree: Vec<Candidate>,
}

/// One proposal of evolution and what became of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// Number of its direction in `directions`.
    pub direction: usize,
    /// Round, from 0.
    pub round: u32,
    /// Short id of the harness; `null` if the proposal was refused before it became one.
    pub id: Option<String>,
    /// Short id of the harness that was edited.
    pub parent: String,
    /// What it adds, in short.
    pub edits: Vec<String>,
    /// What became of it.
    pub fate: Fate,
    /// Why, in plain words.
    pub reason: String,
    /// Gain in success over the base on the search slice, if it was run.
    pub search_gain: Option<f64>,
    /// Success on the confirmation slice, if it was confirmed there.
    pub confirm_success: Option<f64>,
    /// Success of as many fresh base retries there.
    pub retry_success: Option<f64>,
    /// One-sided p-value of the confirmation.
    pub p_value: Option<f64>,
    /// The Holm level that it had to reach.
    pub threshold: Option<f64>,
}

/// What became of a candidate.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Refused before any rerun.
    #[default]
    Refused,
    /// Run on the search slice, and another one was better.
    Outranked,
    /// The best of its direction, and not confirmed.
    NotConfirmed,
    /// In the pool.
    Admitted,
}

/// Union of rescued tasks minus what one choice alone would have given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Complementarity {
    /// Union over siblings minus the best single sibling, cross-fitted.
    pub union_gain: Option<Estimate>,
    /// As many re-runs of the base minus one.
    pub retry_gain: Option<Estimate>,
}

/// How the siblings' ranks change between checkpoints, against a repeat at the same checkpoint.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Nonstationarity {
    /// Rank correlation of utilities between checkpoints.
    pub rank_corr: Option<f64>,
    /// The same between two measurements at one checkpoint.
    pub rank_corr_repeat: Option<f64>,
    /// Share of utilities that change sign between checkpoints.
    pub sign_flips: Option<f64>,
    /// The same between two measurements at one checkpoint.
    pub sign_flips_repeat: Option<f64>,
    /// Each of the four for each seed, in the order of the seeds; a seed without a value is left out.
    #[serde(default)]
    pub per_seed: BTreeMap<String, Vec<f64>>,
    /// Utilities (siblings times families) that a seed's correlation is taken over, mean.
    #[serde(default)]
    pub n_utilities: f64,
}

/// What reached the base harness.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Transfer {
    /// Rates of behaviours under the base, by behaviour and arm.
    pub behaviours: BTreeMap<String, BTreeMap<String, BeforeAfter>>,
    /// Success of the best sibling of each family minus success of the base, mean over families, at the
    /// moments of the heat maps; the best is chosen on one repeat and scored on the other.
    pub support_gap: Vec<f64>,
}

/// A rate before and after training, in `[0, 1]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BeforeAfter {
    /// Of the initial policy.
    pub before: Option<f64>,
    /// Of the last checkpoint.
    pub after: Option<f64>,
}

/// One harness for each task, one rollout.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Rank1 {
    /// With the initial policy.
    pub initial: Option<Rank1Row>,
    /// With the trained policy.
    pub trained: Option<Rank1Row>,
}

/// Success of ways to choose a harness, at equal rollouts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Rank1Row {
    /// Always the base.
    pub base: Option<Estimate>,
    /// The router's first choice.
    pub router: Option<Estimate>,
    /// A random sibling.
    pub random: Option<Estimate>,
    /// The harness that is best on the dev split.
    pub best_fixed: Option<Estimate>,
    /// The best harness of each task, cross-fitted.
    pub oracle: Option<Estimate>,
}

/// Success of every harness in every family at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HarnessMatrix {
    /// The moment: `start`, `middle` or `end` of arm `harness_s`.
    pub at: String,
    /// Rollouts of the arm so far, mean over seeds.
    #[serde(default)]
    pub rollouts: f64,
    /// Share solved by harness and family.
    pub success: BTreeMap<String, BTreeMap<String, Option<f64>>>,
}

/// Reads a `report.json`.
///
/// # Errors
/// The file cannot be read, is no report, or is of a newer version than this code knows.
pub fn read(path: &Path) -> anyhow::Result<Report> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("reading `{shown}`"))?;
    parse(&text, &shown)
}

/// Reads the text of a `report.json`; `shown` names it in errors.
///
/// # Errors
/// The text is no report, or of a newer version than this code knows.
pub fn parse(text: &str, shown: &str) -> anyhow::Result<Report> {
    #[derive(Deserialize)]
    struct Version {
        schema_version: u32,
    }
    let is_no_report = || format!("`{shown}` is no report");
    let value: serde_json::Value = serde_json::from_str(text).with_context(is_no_report)?;
    let version = Version::deserialize(&value).with_context(is_no_report)?;
    anyhow::ensure!(
        version.schema_version <= SCHEMA_VERSION,
        "`{shown}` has schema_version {}, this program reads up to: {SCHEMA_VERSION}",
        version.schema_version
    );
    let report: Report = serde_json::from_str(text).with_context(is_no_report)?;
    if let Some(written) = &report.content_hash {
        anyhow::ensure!(
            *written == hash_of(value)?,
            "`{shown}` is not as it was written: make it anew with `reproduce --resume`"
        );
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use harness_core::testing::json_tree;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever a `report.json` says, it is refused or can be written, read again and shown.
        #[test]
        fn any_report_is_refused_or_shown(
            changes in prop::collection::vec(any::<(usize, usize)>(), 0..6),
        ) {
            let document = serde_json::to_value(summarise::tests::sample()).unwrap();
            let text = json_tree::changed(document, &changes).to_string();
            let Ok(report) = parse(&text, "report.json") else { return Ok(()) };
            let written = serde_json::to_string(&report).unwrap();
            prop_assert_eq!(&parse(&written, "report.json").unwrap(), &report);
            prop_assert!(html(&report).len() > markdown(&report).len());
        }
    }

    #[test]
    fn a_newer_version_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        std::fs::write(&path, r#"{"schema_version": 99, "new": {}}"#).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("schema_version 99"), "{error}");
    }

    /// All but what the clock says: it is in no hash, since runs are compared without it.
    #[test]
    fn c1_a_damaged_report_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        let report = sample::rich();
        crate::files::write_json(&path, &report.sealed().unwrap()).unwrap();
        let good = std::fs::read(&path).unwrap();
        let expect = without_time(&report.sealed().unwrap()).unwrap();
        let mut n_refused = 0;
        for (round, bad) in crate::damage::damaged(&good, b"# A run of Harness-S").enumerate() {
            std::fs::write(&path, bad).unwrap();
            match read(&path) {
                Ok(read) => assert_eq!(without_time(&read).unwrap(), expect, "round {round}"),
                Err(error) => {
                    assert!(error.to_string().contains("report.json"), "{error}");
                    n_refused += 1;
                }
            }
        }
        assert!(n_refused > 100, "{n_refused}");
    }

    #[test]
    fn what_was_not_measured_is_null() {
        let json = serde_json::to_value(Report::default()).unwrap();
        for key in ["pool", "nonstationarity", "transfer", "rank1", "started"] {
            assert!(json[key].is_null(), "{key}");
        }
        assert!(json["delta"]["harness_s_minus_policy_only"].is_null());
        assert!(json["delta"]["charged"]["harness_s_minus_policy_only_matched"].is_null());
    }

    #[test]
    fn j5_zero_is_not_missing() {
        let zero = crate::stats::Estimate {
            mean: 0.0,
            ci95: [0.0, 0.0],
            n: 4,
        };
        let mut report = summarise::tests::sample();
        report.initial.base_success = Some(zero);
        report.delta.harness_s_minus_policy_only = None;
        let (with_zero, without) = (ArmReport::default(), ArmReport::default());
        report.arms = [("with_zero", with_zero), ("without", without)]
            .map(|(name, arm)| (name.to_owned(), arm))
            .into();
        let arm = report.arms.get_mut("with_zero").unwrap();
        (arm.rescue_rate, arm.rescue_rate_curve) = (Some(0.0), vec![Some(0.0), None]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        crate::files::write_json(&path, &report).unwrap();
        let read = read(&path).unwrap();
        assert_eq!(read, report);
        assert_eq!(read.initial.base_success, Some(zero));
        assert_eq!(read.delta.harness_s_minus_policy_only, None);
        assert_eq!(read.arms["with_zero"].rescue_rate, Some(0.0));
        assert_eq!(read.arms["with_zero"].rescue_rate_curve, [Some(0.0), None]);
        assert_eq!(read.arms["without"].rescue_rate, None);
    }

    #[test]
    fn round_trip() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        let report = summarise::tests::sample();
        crate::files::write_json(&path, &report).unwrap();
        assert_eq!(read(&path).unwrap(), report);
    }
}
