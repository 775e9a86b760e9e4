//! Base and siblings side by side on test tasks: what Rank-1, complementarity and locality are read from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use harness_core::{HarnessSpec, Outcome, RolloutRole, Seed, Split, Task, Trajectory};
use harness_evolve::{EvolveConfig, FailurePacket, Label};
use harness_pool::{Digest, EvidenceRow};
use rescue_grpo::NanoLearner;
use serde::{Deserialize, Serialize};

use super::arms::{BASE, Shared};
use super::chooser::Chooser;
use super::evaluate::{Attempt, Evaluation, Plan, evaluate};
use super::jobs::Attempts;
use super::warm_start::tasks;

/// Sampled attempts of every harness at every test task, and which harness a router would take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Rank1Table {
    /// The router's choice by task.
    pub(super) picks: BTreeMap<String, String>,
    /// The one harness that is best on dev.
    pub(super) best_fixed: String,
    /// Attempts by harness.
    pub(super) rows: BTreeMap<String, Vec<Attempt>>,
    /// Rollouts that it took beyond those of the base that were there.
    pub(super) n_rollouts: u64,
}

/// Runs every sibling on every test task.
///
/// `base` holds the base's attempts, which are not made again; `best` is the harness that is best on dev.
///
/// # Errors
/// If attempts cannot be run.
pub(super) fn rank1_table(
    shared: Shared<'_>,
    learner: &NanoLearner,
    chooser: &Chooser,
    best: Option<String>,
    base: &Evaluation,
) -> anyhow::Result<Rank1Table> {
    let run = &shared.config.run;
    let plan = Plan::test(run, run.test_attempts);
    let sampled = |rows: Vec<Attempt>| -> Vec<Attempt> {
        rows.into_iter().filter(|r| !r.is_greedy).collect()
    };
    let mut table = Rank1Table {
        picks: test_tasks(shared)
            .iter()
            .map(|task| (task.id.to_string(), chooser.rank1(shared, task)))
            .collect(),
        best_fixed: best.unwrap_or_else(|| BASE.to_owned()),
        rows: BTreeMap::from([(BASE.to_owned(), sampled(base.rows.clone()))]),
        n_rollouts: 0,
    };
    for sibling in shared.pool.siblings() {
        let done = evaluate(shared, learner, &sibling.harness, plan)?;
        table.n_rollouts += done.rows.len() as u64;
        table.rows.insert(sibling.name.clone(), done.rows);
    }
    Ok(table)
}

/// Every harness, the base as fresh retries, on the test tasks that the base failed in all attempts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RescueTable {
    /// Failed tasks: their scenario and the direction that their failures are of (`other` if of none).
    pub(super) tasks: BTreeMap<String, FailedTask>,
    /// One row for each valid attempt.
    pub(super) rows: Vec<EvidenceRow>,
    /// Rollouts that it took.
    pub(super) n_rollouts: u64,
}

/// A test task that the base failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct FailedTask {
    /// Its scenario.
    pub(super) scenario: String,
    /// The direction of its failures.
    pub(super) direction: String,
}

/// The direction of failures that belong to none.
pub(super) const OTHER: &str = "other";

/// Runs base and siblings on the test tasks that the base failed.
///
/// # Errors
/// If attempts cannot be run.
pub(super) fn rescue_table(
    shared: Shared<'_>,
    learner: &NanoLearner,
) -> anyhow::Result<RescueTable> {
    let config = shared.config;
    let root = Seed::new(config.run.test_seed).derive("rescue-table", &[]);
    let run = |harness: &HarnessSpec, tasks: &[Arc<Task>], n: u32, name: &str, number: u64| {
        let attempts = Attempts {
            config,
            warm: shared.warm,
            learner,
            role: RolloutRole::Eval,
            prefix: name,
            seed: root.derive("harness", &[number]),
            temperature: 1.0,
        };
        attempts.run(harness, tasks, n)
    };
    let tasks = test_tasks(shared);
    let base = shared.pool.base();
    let first = run(base, &tasks, config.run.test_attempts, "first", 0)?;
    let mut table = RescueTable {
        tasks: BTreeMap::new(),
        rows: Vec::new(),
        n_rollouts: first.len() as u64,
    };
    let mut failed: Vec<(Arc<Task>, Digest)> = Vec::new();
    let directions: BTreeSet<&str> = directions(shared);
    let n = config.run.test_attempts as usize;
    for (task, attempts) in tasks.iter().zip(first.chunks(n)) {
        if attempts.iter().any(|t| t.outcome == Outcome::Solved) {
            continue;
        }
        let direction = direction(&task.instruction, attempts, base, &directions);
        let scenario = task.scenario.to_string();
        let entry = FailedTask {
            scenario,
            direction,
        };
        table.tasks.insert(task.id.to_string(), entry);
        let max_turns = base.limits().max_turns;
        let digest = Digest::from_attempts_within(&task.instruction, attempts, max_turns);
        failed.push((Arc::clone(task), digest));
    }
    let failed_tasks: Vec<Arc<Task>> = failed.iter().map(|(task, _)| Arc::clone(task)).collect();
    for (number, (_, harness)) in (1..).zip(shared.harnesses()) {
        let n = config.measure.rescue_attempts;
        let prefix = format!("rescue-{number}");
        let done = run(harness, &failed_tasks, n, &prefix, number)?;
        table.n_rollouts += done.len() as u64;
        let attempts = done.chunks(n as usize).zip(&failed);
        table
            .rows
            .extend(attempts.flat_map(|(attempts, (_, digest))| {
                attempts
                    .iter()
                    .filter_map(|t| EvidenceRow::from_trajectory(t, digest.cluster(), true, false))
            }));
    }
    Ok(table)
}

fn directions(shared: Shared<'_>) -> BTreeSet<&str> {
    let siblings = shared.pool.siblings().iter();
    siblings.map(|s| s.direction.as_str()).collect()
}

/// The direction of a task's failures: the most frequent label, ties to the first in the alphabet.
fn direction(
    instruction: &str,
    attempts: &[Trajectory],
    base: &HarnessSpec,
    known: &BTreeSet<&str>,
) -> String {
    let config = EvolveConfig::default();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for t in attempts {
        let packet = FailurePacket::new(instruction, t, base.limits(), &config.packet);
        if let Some(packet) = packet {
            let label = Label::of(&packet.signals, &config);
            let coarse = label.coarse().to_string();
            let label = label.to_string();
            let name = [label, coarse]
                .into_iter()
                .find(|l| known.contains(l.as_str()));
            *counts
                .entry(name.unwrap_or_else(|| OTHER.to_owned()))
                .or_default() += 1;
        }
    }
    let most = counts.iter().rev().max_by_key(|(_, n)| **n);
    most.map_or_else(|| OTHER.to_owned(), |(name, _)| name.clone())
}

fn test_tasks(shared: Shared<'_>) -> Vec<Arc<Task>> {
    let run = &shared.config.run;
    tasks(Split::Test, run.n_test_per_family, Seed::new(run.test_seed))
}
