//! `report.json` (stable: other tools read it) and what is made from it alone: `report.md`, `report.html`.
//!
//! A field that a run did not measure is `null`, never a made-up number.

mod compare;
mod html;
mod markdown;
mod summarise;
mod svg;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

pub use compare::{strip_time_keys, without_time};
pub use html::html;
pub use markdown::markdown;
pub use summarise::{CurveMark, arm_report, curve, delta};

use crate::stats::Estimate;

/// The version of `report.json` that this code writes, and the newest that it reads.
pub const SCHEMA_VERSION: u32 = 1;

/// Everything that a run reports.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
    /// Rates of the demonstrations that the initial policy imitates, by the names of the settings.
    #[serde(default)]
    pub demo_rates: BTreeMap<String, f64>,
    /// The initial policy.
    pub initial: Initial,
    /// The arms by name.
    pub arms: BTreeMap<String, ArmReport>,
    /// Differences between arms.
    pub delta: Delta,
    /// The pool of siblings.
    pub pool: Option<PoolReport>,
    /// How the siblings' ranks change as the policy learns.
    pub nonstationarity: Option<Nonstationarity>,
    /// What reached the base harness.
    pub transfer: Option<Transfer>,
    /// One harness for each task at inference.
    pub rank1: Option<Rank1>,
    /// Success of every harness in every family at several moments, for heat maps.
    pub harness_by_family: Option<Vec<HarnessMatrix>>,
}

/// The initial policy under the base harness, test split.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Initial {
    /// Share solved at temperature 1.
    pub base_success: Option<Estimate>,
    /// The same by family.
    pub per_family: BTreeMap<String, Estimate>,
}

/// One arm; successes are those of the last checkpoint under the base harness, test split.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
}

/// One evaluation during training, all seeds together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
    /// The same with the cost of building the pool charged to the arms that use it.
    pub charged: Charged,
}

/// Differences at a budget from which the pool was paid.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Charged {
    /// As the field of the same name in [`Delta`].
    pub harness_s_minus_policy_only_matched: Option<Estimate>,
}

/// The pool of siblings.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
}

/// Union of rescued tasks minus what one choice alone would have given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Complementarity {
    /// Union over siblings minus the best single sibling, cross-fitted.
    pub union_gain: Option<Estimate>,
    /// As many re-runs of the base minus one.
    pub retry_gain: Option<Estimate>,
}

/// How the siblings' ranks change between checkpoints, against a repeat at the same checkpoint.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Nonstationarity {
    /// Rank correlation of utilities between checkpoints.
    pub rank_corr: Option<f64>,
    /// The same between two measurements at one checkpoint.
    pub rank_corr_repeat: Option<f64>,
    /// Share of utilities that change sign between checkpoints.
    pub sign_flips: Option<f64>,
    /// The same between two measurements at one checkpoint.
    pub sign_flips_repeat: Option<f64>,
}

/// What reached the base harness.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Transfer {
    /// Rates of behaviours under the base, by behaviour and arm.
    pub behaviours: BTreeMap<String, BTreeMap<String, BeforeAfter>>,
    /// Success of the best sibling minus success of the base, over training.
    pub support_gap: Vec<f64>,
}

/// A rate before and after training, in `[0, 1]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BeforeAfter {
    /// Of the initial policy.
    pub before: Option<f64>,
    /// Of the last checkpoint.
    pub after: Option<f64>,
}

/// One harness for each task, one rollout.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Rank1 {
    /// With the initial policy.
    pub initial: Option<Rank1Row>,
    /// With the trained policy.
    pub trained: Option<Rank1Row>,
}

/// Success of ways to choose a harness, at equal rollouts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HarnessMatrix {
    /// The moment, for instance `start`.
    pub at: String,
    /// Share solved by harness and family.
    pub success: BTreeMap<String, BTreeMap<String, Option<f64>>>,
}

/// Reads a `report.json`.
///
/// # Errors
/// The file cannot be read, is no report, or is of a newer version than this code knows.
pub fn read(path: &Path) -> anyhow::Result<Report> {
    #[derive(Deserialize)]
    struct Version {
        schema_version: u32,
    }
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("reading `{shown}`"))?;
    let version: Version =
        serde_json::from_str(&text).with_context(|| format!("`{shown}` is no report"))?;
    anyhow::ensure!(
        version.schema_version <= SCHEMA_VERSION,
        "`{shown}` has schema_version {}, this program reads up to: {SCHEMA_VERSION}",
        version.schema_version
    );
    serde_json::from_str(&text).with_context(|| format!("`{shown}` is no report"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_version_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        std::fs::write(&path, r#"{"schema_version": 99, "new": {}}"#).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("schema_version 99"), "{error}");
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
    fn round_trip() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        let report = summarise::tests::sample();
        crate::files::write_json(&path, &report).unwrap();
        assert_eq!(read(&path).unwrap(), report);
    }
}
