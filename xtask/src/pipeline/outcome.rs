//! From the results of arms to a report.

use std::collections::{BTreeMap, BTreeSet};

use harness_core::Seed;

use super::World;
use super::arms::ArmResult;
use crate::arm::Arm;
use crate::config::Config;
use crate::report::{
    self, ArmReport, CurveMark, HarnessMatrix, Initial, PoolReport, Report, SCHEMA_VERSION,
};
use crate::stats::{Bootstrap, EvalRow};

/// Windows into which training is cut for shares over time.
const N_WINDOWS: usize = 10;

/// The report of a run, without its times.
pub(super) fn report(config: &Config, worlds: &[World], results: &[ArmResult]) -> Report {
    let bootstrap = Bootstrap {
        n_resamples: config.run.bootstrap_resamples,
        seed: Seed::new(config.run.task_seed).derive("bootstrap", &[]),
    };
    let test: Vec<EvalRow> = results
        .iter()
        .flat_map(|r| r.test.eval_rows(r.arm.as_str(), r.seed, r.steps as u32))
        .collect();
    let tasks: BTreeSet<&str> = test.iter().map(|r| r.task.as_str()).collect();
    let scenarios: BTreeSet<&str> = test.iter().map(|r| r.scenario.as_str()).collect();
    let arms = config.run.arms.iter().map(|arm| {
        let own: Vec<&ArmResult> = results.iter().filter(|r| r.arm == *arm).collect();
        (arm.to_string(), arm_report(&test, *arm, &own, bootstrap))
    });
    Report {
        schema_version: SCHEMA_VERSION,
        env: config.env.clone(),
        scale: config.scale.as_str().to_owned(),
        seeds: config.run.seeds.clone(),
        warm_starts: worlds.iter().map(|w| w.hash.clone()).collect(),
        n_test_tasks: tasks.len(),
        n_test_scenarios: scenarios.len(),
        demo_rates: demo_rates(config),
        initial: initial(worlds, bootstrap),
        arms: arms.collect(),
        delta: report::delta(&test, bootstrap),
        pool: worlds.first().map(pool_report),
        harness_by_family: worlds.first().map(|w| vec![matrix(w)]),
        ..Report::default()
    }
}

/// The rates on which the claim depends, as the settings name them.
fn demo_rates(config: &Config) -> BTreeMap<String, f64> {
    let warm = &config.warm_start;
    [
        ("rel", warm.rel),
        ("eps", warm.eps),
        ("base_context_share", warm.base_context_share),
        ("matching_share", warm.matching_share),
        ("hint_share", warm.hint_share),
        ("wrong_wastes", warm.wrong_wastes),
        ("wrong_gives_up", warm.wrong_gives_up),
        ("recovery_share", warm.recovery_share),
    ]
    .map(|(name, rate)| (name.to_owned(), rate))
    .into()
}

/// One line for the terminal.
pub(super) fn headline(report: &Report) -> String {
    let arms = report.arms.iter().filter_map(|(name, arm)| {
        let mean = arm.base_success.as_ref()?.mean;
        Some(format!("{name} {mean:.3}"))
    });
    let parts: Vec<String> = arms.collect();
    format!("success under the base on test: {}", parts.join(", "))
}

fn initial(worlds: &[World], bootstrap: Bootstrap) -> Initial {
    let rows: Vec<EvalRow> = worlds
        .iter()
        .zip(1..)
        .flat_map(|(w, number)| w.initial.eval_rows("initial", number, 0))
        .collect();
    let arm = report::arm_report(&rows, "initial", bootstrap);
    Initial {
        base_success: arm.base_success,
        per_family: arm.per_family,
    }
}

fn arm_report(test: &[EvalRow], arm: Arm, own: &[&ArmResult], bootstrap: Bootstrap) -> ArmReport {
    let mut dev = Vec::new();
    let mut marks = Vec::new();
    for result in own {
        for (checkpoint, point) in (0..).zip(&result.curve) {
            dev.extend(point.dev.eval_rows(arm.as_str(), result.seed, checkpoint));
            marks.push(CurveMark {
                seed: result.seed,
                checkpoint,
                step: point.step,
                rollouts: point.rollouts,
            });
        }
    }
    let windows: Vec<[u64; 3]> = (0..N_WINDOWS).map(|w| window(own, w)).collect();
    let total = windows.iter().fold([0; 3], |sum, w| add(sum, *w));
    let rate = |[_, failed, rescued]: [u64; 3]| {
        (arm != Arm::PolicyOnly && failed > 0).then(|| rescued as f64 / failed as f64)
    };
    ArmReport {
        rollouts: own.iter().map(|r| r.rollouts).sum(),
        tokens: own.iter().map(|r| r.tokens).sum(),
        rescue_rate: rate(total),
        rescue_rate_curve: windows.iter().map(|w| rate(*w)).collect(),
        all_failed_share: windows
            .iter()
            .map(|[n, failed, _]| *failed as f64 / (*n).max(1) as f64)
            .collect(),
        curve: report::curve(&dev, arm.as_str(), &marks, bootstrap),
        outcomes: outcomes(own),
        ..report::arm_report(test, arm.as_str(), bootstrap)
    }
}

/// Groups, all-failed groups and rescued groups of one window of training, all seeds together.
fn window(own: &[&ArmResult], number: usize) -> [u64; 3] {
    own.iter().fold([0; 3], |sum, result| {
        let n = result.groups.len();
        let span = number * n / N_WINDOWS..(number + 1) * n / N_WINDOWS;
        result.groups[span]
            .iter()
            .fold(sum, |sum, step| add(sum, *step))
    })
}

const fn add(a: [u64; 3], b: [u64; 3]) -> [u64; 3] {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

fn outcomes(own: &[&ArmResult]) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (name, n) in own.iter().flat_map(|r| &r.outcomes) {
        *sums.entry(name.clone()).or_default() += n;
    }
    sums
}

fn pool_report(world: &World) -> PoolReport {
    let siblings = world.pool.siblings();
    let report = PoolReport {
        size: siblings.len(),
        confirmed: siblings.iter().map(|s| s.name.clone()).collect(),
        ..PoolReport::default()
    };
    match &world.evolved.report {
        None => report,
        Some(evolution) => PoolReport {
            directions: evolution
                .directions
                .iter()
                .map(|d| d.label.to_string())
                .collect(),
            rejected: evolution.candidates.len().saturating_sub(siblings.len()),
            rollouts: evolution.rollouts.total(),
            ..report
        },
    }
}

fn matrix(world: &World) -> HarnessMatrix {
    let rows = world.evolved.matrix.iter().map(|(harness, rates)| {
        let rates = rates
            .iter()
            .map(|(family, rate)| (family.clone(), Some(*rate)));
        (harness.clone(), rates.collect())
    });
    HarnessMatrix {
        at: "start".into(),
        rollouts: 0.0,
        success: rows.collect(),
    }
}
