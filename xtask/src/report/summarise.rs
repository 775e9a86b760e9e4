//! From rows of evaluations to the parts of a report that are statistics.

use std::collections::BTreeMap;

use super::{Agreement, ArmReport, CurvePoint, Delta};
use crate::arm::Arm;
use crate::stats::{
    Bootstrap, Cells, Estimate, EvalRow, at_checkpoint, at_last_checkpoint, per_family, t_interval,
};

/// Where in its training a seed of an arm was when it was evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CurveMark {
    /// Seed of the training run.
    pub seed: u64,
    /// Number of the evaluation, as in [`EvalRow`].
    pub checkpoint: u32,
    /// Updates so far.
    pub step: u64,
    /// Rollouts so far.
    pub rollouts: u64,
}

/// An arm's successes at its last checkpoint; costs, outcomes and curves are left empty for the caller.
pub fn arm_report(rows: &[EvalRow], arm: &str, bootstrap: Bootstrap) -> ArmReport {
    let sampled = at_last_checkpoint(rows, arm, false);
    let greedy = at_last_checkpoint(rows, arm, true);
    let cells = Cells::of(sampled.iter().copied());
    ArmReport {
        base_success: cells.estimate(bootstrap),
        base_success_greedy: Cells::of(greedy).estimate(bootstrap),
        per_seed: cells.per_seed().into_values().collect(),
        per_family: per_family(&sampled, bootstrap),
        ..ArmReport::default()
    }
}

/// An arm's learning curve: one point for each evaluation number that has rows and marks. Step and rollouts
/// are means over the seeds that were evaluated.
pub fn curve(
    rows: &[EvalRow],
    arm: &str,
    marks: &[CurveMark],
    bootstrap: Bootstrap,
) -> Vec<CurvePoint> {
    let mut by_checkpoint: BTreeMap<u32, Vec<CurveMark>> = BTreeMap::new();
    for mark in marks {
        by_checkpoint
            .entry(mark.checkpoint)
            .or_default()
            .push(*mark);
    }
    by_checkpoint
        .into_iter()
        .filter_map(|(checkpoint, marks)| {
            let rows = at_checkpoint(rows, arm, checkpoint, false);
            let estimate = Cells::of(rows).estimate(bootstrap)?;
            let mean = |value: fn(&CurveMark) -> u64| {
                marks.iter().map(|mark| value(mark) as f64).sum::<f64>() / marks.len() as f64
            };
            Some(CurvePoint {
                step: mean(|mark| mark.step),
                rollouts: mean(|mark| mark.rollouts),
                base_success: estimate.mean,
                ci95: Some(estimate.ci95),
            })
        })
        .collect()
}

/// Success of one arm minus that of another at their last checkpoints, temperature 1, paired by seed and
/// scenario: the mean with its crossed bootstrap interval, the mean for each seed in ascending order of the
/// seeds, and the t interval over them. Seeds and scenarios that only one of the arms has are left out, so an
/// arm with fewer seeds is compared on its own seeds alone.
///
/// `None` if no cell is shared; the t interval is `None` for a single seed.
pub fn difference(
    rows: &[EvalRow],
    arm_a: &str,
    arm_b: &str,
    bootstrap: Bootstrap,
) -> Option<(Estimate, Vec<f64>, Option<Estimate>)> {
    let cells = |arm| Cells::of(at_last_checkpoint(rows, arm, false));
    let cells = cells(arm_a).minus(&cells(arm_b));
    let estimate = cells.estimate(bootstrap)?;
    let per_seed: Vec<f64> = cells.per_seed().into_values().collect();
    let over_seeds = t_interval(&per_seed);
    Some((estimate, per_seed, over_seeds))
}

/// How many of the seeds' differences have the sign of their mean; a difference of zero agrees with a mean
/// of zero alone. `None` without seeds.
pub fn agreement(per_seed: &[f64]) -> Option<Agreement> {
    let sign = |v: f64| v.partial_cmp(&0.0);
    let mean = per_seed.iter().sum::<f64>() / per_seed.len() as f64;
    let agree = |v: &&f64| sign(**v) == sign(mean);
    (!per_seed.is_empty()).then(|| Agreement {
        agree: per_seed.iter().filter(agree).count(),
        n: per_seed.len(),
    })
}

/// Differences between arms by [`difference`]; `charged` is left empty for the caller. A difference whose
/// arms were not both run is `None`.
pub fn delta(rows: &[EvalRow], bootstrap: Bootstrap) -> Delta {
    let mut delta = Delta::default();
    let mut add = |a: Arm, b: Arm| -> Option<Estimate> {
        let (estimate, per_seed, over_seeds) = difference(rows, a.as_str(), b.as_str(), bootstrap)?;
        let name = format!("{a}_minus_{b}");
        delta
            .t_interval
            .extend(over_seeds.map(|e| (name.clone(), e)));
        delta
            .agreement
            .extend(agreement(&per_seed).map(|a| (name.clone(), a)));
        delta.per_seed.insert(name, per_seed);
        Some(estimate)
    };
    let against_policy_only = add(Arm::HarnessS, Arm::PolicyOnly);
    let against_matched = add(Arm::HarnessS, Arm::PolicyOnlyMatched);
    let literal = add(Arm::HarnessSSibling, Arm::PolicyOnlyMatched);
    delta.harness_s_minus_policy_only = against_policy_only;
    delta.harness_s_minus_policy_only_matched = against_matched;
    delta.harness_s_sibling_minus_policy_only_matched = literal;
    delta
}

#[cfg(test)]
pub(super) mod tests {
    use harness_core::Seed;

    use super::*;
    use crate::report::{Complementarity, HarnessMatrix, Initial, PoolReport, Report};

    pub(in crate::report) const BOOTSTRAP: Bootstrap = Bootstrap {
        n_resamples: 100,
        seed: Seed::new(1),
    };

    /// Two seeds, eight scenarios, two families; `harness_s` solves everything at its last checkpoint,
    /// `policy_only` one family.
    pub(in crate::report) fn rows() -> Vec<EvalRow> {
        let mut rows = Vec::new();
        for (seed, checkpoint, greedy) in [
            (1, 0, false),
            (1, 1, false),
            (1, 1, true),
            (2, 0, false),
            (2, 1, false),
        ] {
            for arm in [Arm::PolicyOnly, Arm::HarnessS] {
                for scenario in 0..8 {
                    let is_easy = scenario % 2 == 0;
                    rows.push(EvalRow {
                        seed,
                        arm: arm.to_string(),
                        checkpoint,
                        task: format!("s{scenario}-1"),
                        scenario: format!("s{scenario}"),
                        family: if is_easy { "easy" } else { "hard" }.into(),
                        attempt: 0,
                        solved: Some(is_easy || (arm == Arm::HarnessS && checkpoint == 1)),
                        greedy,
                    });
                }
            }
        }
        rows
    }

    fn marks() -> Vec<CurveMark> {
        let mark = |seed, checkpoint| CurveMark {
            seed,
            checkpoint,
            step: u64::from(checkpoint) * (10 + seed),
            rollouts: u64::from(checkpoint) * 1000,
        };
        vec![mark(1, 0), mark(1, 1), mark(2, 0), mark(2, 1)]
    }

    /// A report with something in every section.
    pub(in crate::report) fn sample() -> Report {
        let rows = rows();
        let mut arms = BTreeMap::new();
        for name in ["policy_only", "harness_s"] {
            let mut arm = arm_report(&rows, name, BOOTSTRAP);
            arm.curve = curve(&rows, name, &marks(), BOOTSTRAP);
            arm.all_failed_share = vec![0.8, 0.4, 0.1];
            arm.rollouts = 2000;
            arm.outcomes = BTreeMap::from([("solved".into(), 1200), ("failed".into(), 800)]);
            if name == "harness_s" {
                arm.rescue_rate = Some(0.9);
                arm.rescue_rate_curve = vec![Some(0.8), None, Some(0.95)];
            }
            arms.insert(name.to_owned(), arm);
        }
        let by_family = BTreeMap::from([("easy".to_owned(), Some(1.0)), ("<hard>".into(), None)]);
        Report {
            schema_version: super::super::SCHEMA_VERSION,
            env: "appworld".into(),
            scale: "smoke".into(),
            seeds: vec![1, 2],
            warm_starts: vec!["w1".into()],
            n_test_tasks: 8,
            n_test_scenarios: 8,
            initial: Initial {
                base_success: Cells::of(&rows).estimate(BOOTSTRAP),
                per_family: BTreeMap::new(),
            },
            arms,
            delta: delta(&rows, BOOTSTRAP),
            pool: Some(PoolReport {
                size: 2,
                directions: vec!["auth".into()],
                confirmed: vec!["log in <first>".into()],
                locality: BTreeMap::from([("log in <first>".into(), by_family.clone())]),
                complementarity: Some(Complementarity {
                    union_gain: None,
                    retry_gain: None,
                }),
                ..PoolReport::default()
            }),
            harness_by_family: Some(vec![HarnessMatrix {
                at: "start".into(),
                rollouts: 0.0,
                success: BTreeMap::from([("base".into(), by_family)]),
            }]),
            ..Report::default()
        }
    }

    #[test]
    fn the_last_checkpoint_counts() {
        let arm = arm_report(&rows(), "harness_s", BOOTSTRAP);
        assert!((arm.base_success.unwrap().ci95[0] - 1.0).abs() < 1e-12);
        assert_eq!(arm.base_success.unwrap().n, 16);
        assert_eq!(arm.base_success_greedy.unwrap().n, 8);
        assert_eq!(arm.per_seed, [1.0, 1.0]);
        assert_eq!(arm.per_family.len(), 2);
    }

    #[test]
    fn differences_are_of_arms_that_ran() {
        let delta = delta(&rows(), BOOTSTRAP);
        let name = "harness_s_minus_policy_only";
        assert!((delta.harness_s_minus_policy_only.unwrap().mean - 0.5).abs() < 1e-12);
        assert_eq!(delta.per_seed[name], [0.5, 0.5]);
        assert_eq!(delta.t_interval[name].n, 2);
        assert!(delta.harness_s_minus_policy_only_matched.is_none());
        assert_eq!(delta.per_seed.len(), 1);
    }

    #[test]
    fn an_arm_with_fewer_seeds_is_compared_on_them_alone() {
        let mut rows = rows();
        rows.retain(|row| row.arm == "harness_s" || row.seed == 1);
        let (mean, per_seed, over_seeds) =
            difference(&rows, "harness_s", "policy_only", BOOTSTRAP).unwrap();
        assert_eq!((mean.n, per_seed.len()), (8, 1));
        assert!(over_seeds.is_none());
        assert!(difference(&rows, "harness_s", "x", BOOTSTRAP).is_none());
    }

    #[test]
    fn seeds_agree_by_sign() {
        let check = |values: &[f64], agree| {
            let n = values.len();
            assert_eq!(
                agreement(values),
                Some(Agreement { agree, n }),
                "{values:?}"
            );
        };
        check(&[0.3, 0.1, -0.1], 2);
        check(&[0.3, 0.0], 1);
        check(&[-0.3, -0.1], 2);
        check(&[0.0, 0.0], 2);
        assert_eq!(agreement(&[]), None);
    }

    #[test]
    fn a_curve_has_one_point_for_each_evaluation() {
        let curve = curve(&rows(), "harness_s", &marks(), BOOTSTRAP);
        let points: Vec<_> = curve.iter().map(|p| (p.step, p.base_success)).collect();
        assert_eq!(points, [(0.0, 0.5), (11.5, 1.0)]);
    }

    #[test]
    fn an_arm_without_rows_is_empty() {
        assert_eq!(arm_report(&[], "x", BOOTSTRAP), ArmReport::default());
        assert!(curve(&[], "x", &marks(), BOOTSTRAP).is_empty());
    }
}
