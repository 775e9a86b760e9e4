//! From everything that was run to a report.

use std::collections::{BTreeMap, BTreeSet};

use harness_core::Seed;
use harness_evolve::tree::{Fate as NodeFate, TreeNode};

use super::arms::ArmResult;
use super::measures::{
    base_chance, complement, locality, matrices, mean, measured, nonstationarity, rank1, transfer,
};
use super::push_new_kind;
use super::study::Study;
use super::world::World;
use crate::arm::Arm;
use crate::config::{Config, Control};
use crate::report::{
    self, AblationReport, ArmReport, Candidate, Charged, ControlReport, CurveMark, Fate, Initial,
    PoolReport, Report, Routed, SCHEMA_VERSION, SweepLevel,
};
use crate::stats::{Bootstrap, Cells, Estimate, EvalRow, at_last_checkpoint};

/// Windows into which training is cut for shares over time.
const N_WINDOWS: usize = 10;

/// The report of a run, without its times and provenance.
pub(super) fn report(config: &Config, study: &Study) -> Report {
    let bootstrap = Bootstrap {
        n_resamples: config.run.bootstrap_resamples,
        seed: Seed::new(config.run.task_seed).derive("bootstrap", &[]),
    };
    let test = rows(&study.main);
    let tasks: BTreeSet<&str> = test.iter().map(|r| r.task.as_str()).collect();
    let scenarios: BTreeSet<&str> = test.iter().map(|r| r.scenario.as_str()).collect();
    let arms = config.run.arms.iter().map(|arm| {
        let own: Vec<&ArmResult> = study.main.iter().filter(|r| r.arm == *arm).collect();
        (
            arm.to_string(),
            arm_report(study, &test, *arm, &own, bootstrap),
        )
    });
    let mut delta = report::delta(&test, bootstrap);
    delta.charged = charged(study, &test, bootstrap);
    let pools: Vec<PoolReport> = study
        .worlds
        .iter()
        .map(|w| pool_report(w, bootstrap))
        .collect();
    Report {
        schema_version: SCHEMA_VERSION,
        env: config.env.clone(),
        scale: config.scale.as_str().to_owned(),
        seeds: config.run.seeds.clone(),
        warm_starts: study.worlds.iter().map(|w| w.hash.clone()).collect(),
        n_test_tasks: tasks.len(),
        n_test_scenarios: scenarios.len(),
        demo_rates: demo_rates(config),
        initial: initial(&study.worlds, bootstrap),
        arms: arms.collect(),
        delta,
        ablations: ablations(study, &test, bootstrap),
        controls: controls(study, &test, bootstrap),
        sweep: sweep(config, study, &test, bootstrap),
        pool: pools.first().cloned(),
        pools,
        profiles: profiles(study),
        nonstationarity: nonstationarity(study),
        transfer: transfer(study),
        rank1: rank1(study, bootstrap),
        harness_by_family: Some(matrices(study)).filter(|m| !m.is_empty()),
        measuring_rollouts: measuring(study),
        warnings: warnings(config, study),
        ..Report::default()
    }
}

/// The attempts on test of some results, as rows for statistics.
fn rows<'a>(results: impl IntoIterator<Item = &'a ArmResult>) -> Vec<EvalRow> {
    let of = |r: &ArmResult| r.test.eval_rows(r.arm.as_str(), r.seed, r.steps as u32);
    results.into_iter().flat_map(of).collect()
}

/// One arm's success minus another's, paired by seed and scenario; `None` if nothing is shared.
fn minus(rows: &[EvalRow], arm: Arm, other: Arm, bootstrap: Bootstrap) -> Option<Estimate> {
    let difference = report::difference(rows, arm.as_str(), other.as_str(), bootstrap);
    difference.map(|(estimate, _, _)| estimate)
}

/// Success of an arm over the seeds of some rows.
fn success(rows: &[EvalRow], arm: Arm, bootstrap: Bootstrap) -> Option<Estimate> {
    Cells::of(at_last_checkpoint(rows, arm.as_str(), false)).estimate(bootstrap)
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
    if parts.is_empty() {
        let dev = report.arms.iter().filter_map(|(name, arm)| {
            Some(format!("{name} {:.3}", arm.curve.last()?.base_success))
        });
        let dev: Vec<String> = dev.collect();
        return format!(
            "success under the base on dev, test unread: {}",
            dev.join(", ")
        );
    }
    format!("success under the base on test: {}", parts.join(", "))
}

fn initial(worlds: &[World], bootstrap: Bootstrap) -> Initial {
    let rows: Vec<EvalRow> = worlds
        .iter()
        .zip(1..)
        .flat_map(|(w, number)| w.initial.test.eval_rows("initial", number, 0))
        .collect();
    let arm = report::arm_report(&rows, "initial", bootstrap);
    Initial {
        base_success: arm.base_success,
        per_family: arm.per_family,
    }
}

fn arm_report(
    study: &Study,
    test: &[EvalRow],
    arm: Arm,
    own: &[&ArmResult],
    bootstrap: Bootstrap,
) -> ArmReport {
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
    let rescues = !matches!(arm, Arm::PolicyOnly | Arm::Resampling | Arm::AlwaysSibling);
    let rate = |[_, failed, rescued]: [u64; 3]| {
        (rescues && failed > 0).then(|| rescued as f64 / failed as f64)
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
        probe_rollouts: own.iter().map(|r| r.probe_rollouts).sum(),
        updates: own.iter().map(|r| r.updates).sum(),
        unprojectable: own.iter().map(|r| r.unprojectable).sum(),
        routed: routed(study, own),
        negative_share: (0..N_WINDOWS).map(|w| negative_share(own, w)).collect(),
        ..report::arm_report(test, arm.as_str(), bootstrap)
    }
}

/// Groups, all-failed groups and rescued groups of one window of training, all seeds together.
fn window(own: &[&ArmResult], number: usize) -> [u64; 3] {
    own.iter().fold([0; 3], |sum, result| {
        let groups = &result.groups;
        groups[span(groups.len(), number)]
            .iter()
            .fold(sum, |sum, step| add(sum, *step))
    })
}

fn negative_share(own: &[&ArmResult], number: usize) -> Option<f64> {
    let shares = own.iter().flat_map(|r| {
        let all = &r.negative_share;
        all[span(all.len(), number)].iter().flatten().copied()
    });
    mean(shares)
}

fn span(n: usize, window: usize) -> std::ops::Range<usize> {
    window * n / N_WINDOWS..(window + 1) * n / N_WINDOWS
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

/// Where rescues went, over the seeds of the first warm start: other pools have other siblings.
fn routed(study: &Study, own: &[&ArmResult]) -> BTreeMap<String, BTreeMap<String, Routed>> {
    let n = study.worlds.len().max(1);
    let mut sums: BTreeMap<String, BTreeMap<String, Routed>> = BTreeMap::new();
    for (family, by_name) in own.iter().step_by(n).flat_map(|r| &r.routed) {
        for (name, [solved, attempts]) in by_name {
            let row = sums.entry(family.clone()).or_default();
            let routed = row.entry(name.clone()).or_default();
            routed.attempts += attempts;
            routed.solved += solved;
        }
    }
    sums
}

/// The difference to the control with `harness_s` judged when pool and training together have used the budget
/// up; every seed pays for the whole pool.
fn charged(study: &Study, test: &[EvalRow], bootstrap: Bootstrap) -> Charged {
    let ours = study.main.iter().filter(|r| r.arm == Arm::HarnessS);
    let judged: Vec<_> = ours
        .filter_map(|r| r.charged.as_ref().map(|(at, test)| (r.seed, *at, test)))
        .filter(|(_, _, test)| !test.rows.is_empty())
        .collect();
    let matched = Arm::PolicyOnlyMatched;
    let ours = judged
        .iter()
        .flat_map(|(seed, _, test)| test.eval_rows(Arm::HarnessS.as_str(), *seed, 0));
    let control = test.iter().filter(|r| r.arm == matched.as_str()).cloned();
    let rows: Vec<EvalRow> = ours.chain(control).collect();
    let (ours, matched) = (Arm::HarnessS.as_str(), matched.as_str());
    let difference = report::difference(&rows, ours, matched, bootstrap);
    let (estimate, per_seed, t) = difference.map_or((None, Vec::new(), None), |(e, seeds, t)| {
        (Some(e), seeds, t)
    });
    Charged {
        harness_s_minus_policy_only_matched: estimate,
        agreement: report::agreement(&per_seed),
        per_seed,
        t_interval: t,
        at_rollouts: mean(judged.iter().map(|(_, at, _)| *at as f64)),
    }
}

fn ablations(
    study: &Study,
    test: &[EvalRow],
    bootstrap: Bootstrap,
) -> BTreeMap<String, AblationReport> {
    let own_rows = rows(&study.ablations);
    let all: Vec<EvalRow> = own_rows.iter().chain(test).cloned().collect();
    let mut by_arm: BTreeMap<Arm, Vec<&ArmResult>> = BTreeMap::new();
    for result in &study.ablations {
        by_arm.entry(result.arm).or_default().push(result);
    }
    let made = by_arm.into_iter().map(|(arm, own)| {
        let ablation = AblationReport {
            changes: arm.changes().to_owned(),
            minus_harness_s: minus(&all, arm, Arm::HarnessS, bootstrap),
            minus_matched: minus(&all, arm, Arm::PolicyOnlyMatched, bootstrap),
            arm: arm_report(study, &own_rows, arm, &own, bootstrap),
        };
        (arm.to_string(), ablation)
    });
    made.collect()
}

fn controls(
    study: &Study,
    test: &[EvalRow],
    bootstrap: Bootstrap,
) -> BTreeMap<String, ControlReport> {
    let made = study.controls.iter().map(|(control, results)| {
        let own = rows(results);
        let (arm, what) = match control {
            Control::Identity => (Arm::IdentitySiblings, "siblings that never do anything"),
            Control::Distractors => (
                Arm::DistractorPool,
                "siblings that the policy obeys and that repair nothing",
            ),
            Control::Obedient => (
                Arm::HarnessS,
                "a warm start whose base already does what siblings would say",
            ),
        };
        let matched = Arm::PolicyOnlyMatched;
        // The obedient base has a control of its own; the others are compared with that of the headline.
        let mut compared = own.clone();
        if *control != Control::Obedient {
            let seeds: BTreeSet<u64> = own.iter().map(|r| r.seed).collect();
            let is_control = |r: &&EvalRow| r.arm == matched.as_str() && seeds.contains(&r.seed);
            compared.extend(test.iter().filter(is_control).cloned());
        }
        let difference = report::difference(&compared, arm.as_str(), matched.as_str(), bootstrap);
        let (estimate, t) = difference.map_or((None, None), |(e, _, t)| (Some(e), t));
        let is_equality = *control == Control::Identity;
        let expected = if is_equality {
            format!("{arm} minus {matched} is 0 within its interval")
        } else {
            format!("{arm} minus {matched} is not above 0")
        };
        let report = ControlReport {
            what: what.to_owned(),
            expected,
            success: [arm, matched]
                .into_iter()
                .filter_map(|arm| Some((arm.to_string(), success(&compared, arm, bootstrap)?)))
                .collect(),
            difference: estimate,
            t_interval: t,
            holds: holds(estimate, t, is_equality),
        };
        (control.as_str().to_owned(), report)
    });
    made.collect()
}

/// Whether a difference is nothing: 0 in both intervals, or (where only a gain is forbidden) both not above 0.
fn holds(estimate: Option<Estimate>, t: Option<Estimate>, is_equality: bool) -> Option<bool> {
    let intervals = [estimate?, t?];
    Some(intervals.iter().all(|e| {
        let [low, high] = e.ci95;
        low <= 0.0 && (!is_equality || high >= 0.0)
    }))
}

fn sweep(
    config: &Config,
    study: &Study,
    test: &[EvalRow],
    bootstrap: Bootstrap,
) -> Vec<SweepLevel> {
    if study.sweep.is_empty() {
        return Vec::new();
    }
    let n_seeds = config.study.n_seeds;
    let level = |eps, world: &World, rows: &[EvalRow]| {
        let arms = super::study::SWEPT.into_iter();
        let arms = arms.filter_map(|arm| Some((arm.to_string(), success(rows, arm, bootstrap)?)));
        let minus = |other| minus(rows, Arm::HarnessS, other, bootstrap);
        SweepLevel {
            eps,
            base_chance: base_chance(world, bootstrap),
            n_seeds,
            arms: arms.collect(),
            minus_policy_only: minus(Arm::PolicyOnly),
            minus_matched: minus(Arm::PolicyOnlyMatched),
        }
    };
    let few: BTreeSet<u64> = config.run.seeds.iter().take(n_seeds).copied().collect();
    let main: Vec<EvalRow> = test
        .iter()
        .filter(|r| few.contains(&r.seed))
        .cloned()
        .collect();
    let mut levels: Vec<SweepLevel> = study
        .sweep
        .iter()
        .map(|(world, results)| level(world.config.warm_start.eps, world, &rows(results)))
        .collect();
    if let Some(world) = study.worlds.first() {
        levels.push(level(config.warm_start.eps, world, &main));
    }
    levels.sort_by(|a, b| a.eps.total_cmp(&b.eps));
    levels
}

fn profiles(study: &Study) -> Vec<crate::report::ProfileRow> {
    let start = study.worlds.first().map(|w| w.initial.profile_rows.clone());
    let end = measured(study)
        .into_iter()
        .next()
        .map(|(_, r)| r.profile_rows.clone());
    start.into_iter().chain(end).flatten().collect()
}

fn measuring(study: &Study) -> u64 {
    let sweep = study.sweep.iter().map(|(world, _)| world);
    let worlds = study
        .worlds
        .iter()
        .chain(sweep)
        .map(|w| w.initial.n_rollouts);
    worlds.sum::<u64>() + study.results().map(|r| r.measuring_rollouts).sum::<u64>()
}

fn warnings(config: &Config, study: &Study) -> Vec<String> {
    let mut warnings = Vec::new();
    if config.run.dev_only {
        warnings.push("test was not read: all numbers are of the dev split".to_owned());
    }
    if study.worlds.len() == 1 {
        let text = "one warm start: all seeds share its luck, and no interval here covers that";
        warnings.push(text.to_owned());
    }
    for result in study.results() {
        for warning in &result.warnings {
            push_new_kind(&mut warnings, format!("{}: {warning}", result.arm));
        }
    }
    warnings
}

fn pool_report(world: &World, bootstrap: Bootstrap) -> PoolReport {
    let siblings = world.pool.siblings();
    let report = PoolReport {
        size: siblings.len(),
        confirmed: siblings.iter().map(|s| s.name.clone()).collect(),
        locality: locality(world),
        complementarity: complement(world, bootstrap),
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
            tree: evolution.tree().into_iter().map(candidate).collect(),
            ..report
        },
    }
}

fn candidate(node: TreeNode) -> Candidate {
    let short = |id: &harness_core::HarnessId| id.as_str()[..8].to_owned();
    let confirmation = node.confirmation.as_ref();
    Candidate {
        direction: node.direction,
        round: node.round,
        id: node.harness.as_ref().map(short),
        parent: short(&node.parent),
        edits: node.edits,
        fate: match node.fate {
            NodeFate::Refused => Fate::Refused,
            NodeFate::Outranked => Fate::Outranked,
            NodeFate::NotConfirmed => Fate::NotConfirmed,
            NodeFate::Admitted => Fate::Admitted,
        },
        reason: node.reason,
        search_gain: node.search_gain,
        confirm_success: confirmation.and_then(|c| c.measured.sibling_rate()),
        retry_success: confirmation.and_then(|c| c.measured.retry_rate()),
        p_value: confirmation.map(|c| c.measured.p_value),
        threshold: confirmation.map(|c| c.threshold),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(low: f64, high: f64) -> Estimate {
        Estimate {
            mean: f64::midpoint(low, high),
            ci95: [low, high],
            n: 9,
        }
    }

    #[test]
    fn controls_hold_if_both_intervals_say_so() {
        let around = Some(estimate(-0.1, 0.1));
        let zero = Some(estimate(0.0, 0.0));
        assert_eq!(holds(around, around, true), Some(true));
        assert_eq!(holds(zero, zero, true), Some(true));
        let above = Some(estimate(0.01, 0.1));
        assert_eq!(holds(above, around, true), Some(false));
        assert_eq!(holds(around, above, false), Some(false));
        let below = Some(estimate(-0.2, -0.01));
        assert_eq!(holds(below, around, true), Some(false));
        assert_eq!(holds(below, below, false), Some(true));
        assert_eq!(holds(around, None, true), None);
    }
}
