//! Attempts that are only counted.

use std::collections::BTreeMap;

use env_appworld::BEHAVIOURS;
use harness_core::{HarnessSpec, Outcome, RolloutRole, Seed, Split, Trajectory};
use rescue_grpo::NanoLearner;
use serde::{Deserialize, Serialize};

use super::arms::Shared;
use super::families;
use super::jobs::Attempts;
use super::warm_start::tasks;
use crate::config::RunConfig;
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
    /// Number of the repeat: attempts of another repeat have other seeds.
    pub(super) repeat: u64,
}

impl Plan {
    /// Sampled attempts at the dev tasks.
    pub(super) fn dev(run: &RunConfig, attempts: u32) -> Self {
        Self {
            split: Split::Dev,
            n_per_family: run.n_dev_per_family,
            attempts,
            is_greedy: false,
            repeat: 0,
        }
    }

    /// Sampled attempts at the test tasks.
    pub(super) fn test(run: &RunConfig, attempts: u32) -> Self {
        Self {
            split: Split::Test,
            n_per_family: run.n_test_per_family,
            ..Self::dev(run, attempts)
        }
    }
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
    /// Those of [`BEHAVIOURS`] that it showed.
    pub(super) behaviours: Vec<String>,
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

    /// Solved and valid sampled attempts by family.
    pub(super) fn counts(&self) -> BTreeMap<String, [u64; 2]> {
        let of = |family: &'static str| {
            let rows = self.rows.iter();
            count(rows.filter(move |r| !r.is_greedy && r.family == family))
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
            solved: r.solved(),
            greedy: r.is_greedy,
        };
        self.rows.iter().map(row).collect()
    }
}

impl Attempt {
    /// Whether it solved its task; `None` if it says nothing.
    pub(super) fn solved(&self) -> Option<bool> {
        self.outcome
            .is_valid()
            .then_some(self.outcome == Outcome::Solved)
    }
}

/// Solved and valid attempts.
pub(super) fn count<'a>(rows: impl IntoIterator<Item = &'a Attempt>) -> [u64; 2] {
    let solved = rows.into_iter().filter_map(Attempt::solved);
    solved.fold([0, 0], |[n, all], solved| [n + u64::from(solved), all + 1])
}

/// Share of valid attempts that solved their task; 0 without any.
fn share<'a>(rows: impl IntoIterator<Item = &'a Attempt>) -> f64 {
    let [solved, valid] = count(rows);
    solved as f64 / valid.max(1) as f64
}

/// The seed from which the tasks of a split are drawn: test has its own.
fn task_seed(run: &RunConfig, split: Split) -> Seed {
    Seed::new(match split {
        Split::Test => run.test_seed,
        _ => run.task_seed,
    })
}

/// Attempts every task of the plan under a harness; whole trajectories.
///
/// # Errors
/// If an id cannot be formed.
pub(super) fn attempts(
    shared: Shared<'_>,
    learner: &NanoLearner,
    harness: &HarnessSpec,
    plan: Plan,
) -> anyhow::Result<Vec<Trajectory>> {
    let root = task_seed(&shared.config.run, plan.split);
    let seed = root.derive("evaluate", &[plan.split as u64]);
    let attempts = Attempts {
        config: shared.config,
        warm: shared.warm,
        learner,
        role: RolloutRole::Eval,
        prefix: "e",
        seed: match plan.repeat {
            0 => seed,
            repeat => seed.derive("repeat", &[repeat]),
        },
        temperature: if plan.is_greedy { 0.0 } else { 1.0 },
    };
    let tasks = tasks(plan.split, plan.n_per_family, root);
    attempts.run(harness, &tasks, plan.attempts)
}

/// The same, counted.
///
/// # Errors
/// If an id cannot be formed.
pub(super) fn evaluate(
    shared: Shared<'_>,
    learner: &NanoLearner,
    harness: &HarnessSpec,
    plan: Plan,
) -> anyhow::Result<Evaluation> {
    let done = attempts(shared, learner, harness, plan)?;
    Ok(counted(shared, &done, plan))
}

/// What came of the plan's attempts.
pub(super) fn counted(shared: Shared<'_>, done: &[Trajectory], plan: Plan) -> Evaluation {
    let root = task_seed(&shared.config.run, plan.split);
    let tasks = tasks(plan.split, plan.n_per_family, root);
    let n = plan.attempts as usize;
    let rows = done.iter().enumerate().map(|(i, t)| {
        let task = &tasks[i / n];
        let shown = t
            .flags()
            .filter(|flag| BEHAVIOURS.iter().any(|b| b.flag == *flag));
        Attempt {
            task: task.id.to_string(),
            scenario: task.scenario.to_string(),
            family: task.family.clone(),
            number: t.attempt,
            outcome: t.outcome,
            is_greedy: plan.is_greedy,
            turns: t.turns.len(),
            behaviours: shown.map(str::to_owned).collect(),
        }
    });
    Evaluation {
        rows: rows.collect(),
    }
}
