//! Attempts that are only counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use env_appworld::AppWorldMaker;
use harness_core::{
    GroupId, HarnessSpec, Job, Outcome, Policy, RolloutId, RolloutRole, Seed, Split, run_jobs,
};
use rescue_grpo::NanoLearner;
use rescue_grpo::learner::Learner as _;
use serde::{Deserialize, Serialize};

use super::arms::Shared;
use super::warm_start::tasks;
use super::{exec_options, families};
use crate::stats::EvalRow;

/// What is to be attempted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// The split.
    pub(super) split: Split,
    /// Tasks of each family.
    pub(super) n_per_family: usize,
    /// Attempts at each task.
    pub(super) attempts: u32,
    /// Whether tokens are drawn greedily.
    pub(super) is_greedy: bool,
}

/// One counted attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Attempt {
    /// The task.
    pub(super) task: String,
    /// Its scenario.
    pub(super) scenario: String,
    /// Its family, for tables.
    pub(super) family: String,
    /// Number of the attempt.
    pub(super) number: u32,
    /// How it ended.
    pub(super) outcome: Outcome,
    /// Whether tokens were drawn greedily.
    pub(super) is_greedy: bool,
    /// Turns taken.
    pub(super) turns: usize,
}

/// Counted attempts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Evaluation {
    /// One for each attempt.
    pub(super) rows: Vec<Attempt>,
}

impl Evaluation {
    /// Share of valid sampled attempts that solved their task; 0 without any.
    pub(super) fn success(&self) -> f64 {
        share(self.rows.iter().filter(|r| !r.is_greedy))
    }

    /// The same by family.
    pub(super) fn per_family(&self) -> BTreeMap<String, f64> {
        let of = |family: &'static str| {
            let rows = self.rows.iter();
            share(rows.filter(move |r| !r.is_greedy && r.family == family))
        };
        families().map(|f| (f.to_owned(), of(f))).collect()
    }

    /// The attempts as rows for statistics.
    pub(super) fn eval_rows(&self, arm: &str, seed: u64, checkpoint: u32) -> Vec<EvalRow> {
        let row = |r: &Attempt| EvalRow {
            seed,
            arm: arm.to_owned(),
            checkpoint,
            task: r.task.clone(),
            scenario: r.scenario.clone(),
            family: r.family.clone(),
            attempt: r.number,
            solved: r.outcome.is_valid().then_some(r.outcome == Outcome::Solved),
            greedy: r.is_greedy,
        };
        self.rows.iter().map(row).collect()
    }
}

/// Share of valid attempts that solved their task; 0 without any.
fn share<'a>(rows: impl Iterator<Item = &'a Attempt>) -> f64 {
    let (mut solved, mut valid) = (0_usize, 0_usize);
    for row in rows.filter(|r| r.outcome.is_valid()) {
        valid += 1;
        solved += usize::from(row.outcome == Outcome::Solved);
    }
    if valid == 0 {
        0.0
    } else {
        solved as f64 / valid as f64
    }
}

/// Attempts every task of the plan under a harness.
///
/// # Errors
/// If an id cannot be formed.
pub(super) fn evaluate(
    shared: Shared<'_>,
    learner: &NanoLearner,
    harness: &HarnessSpec,
    plan: Plan,
) -> anyhow::Result<Evaluation> {
    let config = shared.config;
    let tasks = tasks(
        plan.split,
        plan.n_per_family,
        Seed::new(config.run.task_seed),
    );
    let harness = Arc::new(harness.clone());
    let seed = Seed::new(config.run.task_seed).derive("evaluate", &[plan.split as u64]);
    let mut jobs = Vec::with_capacity(tasks.len() * plan.attempts as usize);
    for (i, task) in tasks.iter().enumerate() {
        let group_id = GroupId::new(format!("e{i}"))?;
        for attempt in 0..plan.attempts {
            jobs.push(Job {
                rollout_id: RolloutId::new(format!("e{i}-a{attempt}"))?,
                group_id: group_id.clone(),
                task: Arc::clone(task),
                harness: Arc::clone(&harness),
                attempt,
                role: RolloutRole::Eval,
                seed: seed.derive("attempt", &[i as u64, u64::from(attempt)]),
            });
        }
    }
    let mut options = exec_options(config, "evaluate")?;
    options.temperature = if plan.is_greedy { 0.0 } else { 1.0 };
    let policies: Vec<Box<dyn Policy>> = (0..config.n_threads())
        .map(|_| learner.snapshot())
        .collect();
    let done = run_jobs(
        policies,
        shared.warm.codec.as_ref(),
        &AppWorldMaker::default(),
        jobs,
        &options,
    );
    let n = plan.attempts as usize;
    let rows = done.iter().enumerate().map(|(i, t)| {
        let task = &tasks[i / n];
        Attempt {
            task: task.id.to_string(),
            scenario: task.scenario.to_string(),
            family: task.family.clone(),
            number: t.attempt,
            outcome: t.outcome,
            is_greedy: plan.is_greedy,
            turns: t.turns.len(),
        }
    });
    Ok(Evaluation {
        rows: rows.collect(),
    })
}
