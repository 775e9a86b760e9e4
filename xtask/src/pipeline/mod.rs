//! The training pipeline: warm start, evolution, arms, judgement, report.
//!
//! Every stage is a function of the configuration and of the hashes of earlier stages, and is cached by
//! them, so a run that was cut off goes on where it was. Nothing here decides how the method works; it only
//! puts the crates together.

mod anchor;
mod arms;
mod chooser;
mod evaluate;
mod evolution;
mod forecast;
mod jobs;
mod measures;
mod moments;
mod outcome;
mod provenance;
mod saved;
mod study;
mod tables;
pub(crate) mod timed;
mod training;
mod warm_start;
mod world;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use env_appworld::Family;
use harness_core::{ExecOptions, RunId};
use harness_pool::SiblingPool;

use crate::cli::Plan;
use crate::config::Config;
use crate::log::kind;
use crate::{clock, say};
use warm_start::WarmStart;
pub(crate) use warm_start::{SHIPPED, assets};

/// Rebuilds the shipped warm start of an environment.
///
/// # Errors
/// If training fails or a family misses the copy gate; the shipped files are then as before.
pub fn warm_start(config: &Config) -> anyhow::Result<()> {
    let gate = warm_start::rebuild(config)?;
    for (family, share) in gate {
        say::out(format_args!("copy gate: {family} {share:.3}"));
    }
    Ok(())
}

/// A policy and a pool from elsewhere.
#[derive(Debug, Default)]
pub struct Inputs {
    warm: Option<Arc<WarmStart>>,
    pool: Option<SiblingPool>,
}

/// Reads and checks a policy and a pool from elsewhere, before anything is written.
///
/// # Errors
/// If a file is missing, corrupt, made by a newer version, or belongs to another world, tokenizer or base
/// harness.
pub fn read_inputs(policy: Option<&Path>, pool: Option<&Path>) -> anyhow::Result<Inputs> {
    let warm = match policy {
        Some(folder) => Some(Arc::new(warm_start::read(folder)?)),
        None => None,
    };
    let pool = match pool {
        Some(path) => Some(evolution::read_pool(path)?),
        None => None,
    };
    Ok(Inputs { warm, pool })
}

/// Runs a whole reproduction into a run folder.
///
/// # Errors
/// If a stage fails; what earlier stages wrote stays, and their results are in the cache.
pub fn reproduce(plan: &Plan) -> anyhow::Result<()> {
    let started = (clock::now_rfc3339(), Instant::now());
    tracing::info!(
        env = plan.config.env,
        scale = plan.config.scale.as_str(),
        "run started"
    );
    forecast::tell(plan)?;
    plan.run_dir.start_metrics()?;
    let study = study::run(plan)?;
    let mut report = outcome::report(&plan.config, &study);
    report.provenance = provenance::of(plan)?;
    if !report.provenance.is_config_committed {
        let text = "the settings differ from the last commit, or were given on the command line";
        report.warnings.push(text.into());
    }
    report.started = Some(started.0);
    report.ended = Some(clock::now_rfc3339());
    report.wall_s = started.1.elapsed().as_secs_f64();
    plan.run_dir.write_report(&report)?;
    tracing::info!(wall_s = report.wall_s, "run ended");
    say::out(outcome::headline(&report));
    Ok(())
}

/// How attempts of the pipeline are run.
fn exec_options(config: &Config, name: &str) -> anyhow::Result<ExecOptions> {
    let threads = config.n_threads().max(1);
    Ok(ExecOptions {
        temperature: config.grpo.temperature as f32,
        max_in_flight: config.run.max_in_flight.div_ceil(threads),
        rollout_timeout: Duration::try_from_secs_f64(config.run.rollout_timeout_s)
            .unwrap_or(Duration::MAX),
        ..ExecOptions::new(RunId::new(name)?)
    })
}

/// Adds a warning unless one of its kind is there: the same text but for its numbers.
fn push_new_kind(warnings: &mut Vec<String>, warning: String) {
    if !warnings.iter().any(|w| kind(w) == kind(&warning)) {
        warnings.push(warning);
    }
}

/// The families' names, in the order of tables.
fn families() -> impl Iterator<Item = &'static str> {
    Family::ALL.into_iter().map(Family::name)
}

#[cfg(test)]
mod tests {
    use rescue_grpo::{StepReport, UpdateReport};
    use serde_json::Value;

    /// Names of fields, those of counts included.
    fn names(value: &Value, into: &mut Vec<String>) {
        for (name, value) in value.as_object().into_iter().flatten() {
            into.push(name.clone());
            names(value, into);
        }
    }

    #[test]
    fn every_metric_is_explained() {
        let explained = include_str!("../../../docs/operations.md");
        let report = StepReport {
            update: Some(UpdateReport::default()),
            ..StepReport::default()
        };
        let mut all = Vec::new();
        names(&serde_json::to_value(report).expect("JSON"), &mut all);
        for name in all {
            let forms = [format!("`{name}"), format!(".{name}`")];
            let is_there = forms.iter().any(|form| explained.contains(form));
            assert!(is_there, "docs/operations.md does not explain {name}");
        }
    }
}
