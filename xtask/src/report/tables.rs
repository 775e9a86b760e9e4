//! The tables of a report as text, for both of its forms. A table without rows does not exist.

mod method;

use std::collections::{BTreeMap, BTreeSet};

pub(super) use method::{
    candidates, fate, matrix, nonstationarity, profiles, rank1, rank1_columns, rank1_rows, routed,
    solved_of, transfer,
};

use super::format::{DASH, count, estimate, points, share, signed_list};
use super::{AblationReport, ArmReport, Report};
use crate::arm::Arm;
use crate::stats::Estimate;

/// A table of text; the first column names the row.
pub(super) struct Table {
    /// Names of the columns.
    pub header: Vec<String>,
    /// Rows of as many cells.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    fn of<S: ToString>(
        header: impl IntoIterator<Item = S>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Option<Self> {
        let rows: Vec<_> = rows.into_iter().collect();
        let header = header.into_iter().map(|name| name.to_string()).collect();
        (!rows.is_empty()).then_some(Self { header, rows })
    }
}

/// One of the differences that a report is about.
pub(super) struct NamedDelta<'a> {
    /// Its name in `report.json`.
    pub name: &'static str,
    /// What is compared, in plain words.
    pub words: &'static str,
    /// The difference with its bootstrap interval.
    pub value: Option<&'a Estimate>,
    /// The difference of each seed.
    pub per_seed: &'a [f64],
    /// The difference with its t interval.
    pub t_interval: Option<&'a Estimate>,
    /// How many seeds agree.
    pub agreement: Option<super::Agreement>,
}

/// The differences by name, those that were not measured too; the claim first, and last the one that is
/// charged with the pool.
pub(super) fn named_deltas(report: &Report) -> [NamedDelta<'_>; 4] {
    let delta = &report.delta;
    let named = |name, words, value| NamedDelta {
        name,
        words,
        value,
        per_seed: delta.per_seed.get(name).map_or(&[], Vec::as_slice),
        t_interval: delta.t_interval.get(name),
        agreement: delta.agreement.get(name).copied(),
    };
    let charged = &delta.charged;
    [
        named(
            "harness_s_minus_policy_only_matched",
            "rescue − matched control",
            delta.harness_s_minus_policy_only_matched.as_ref(),
        ),
        named(
            "harness_s_minus_policy_only",
            "rescue − GRPO alone",
            delta.harness_s_minus_policy_only.as_ref(),
        ),
        named(
            "harness_s_sibling_minus_policy_only_matched",
            "literal reading − matched control",
            delta.harness_s_sibling_minus_policy_only_matched.as_ref(),
        ),
        NamedDelta {
            name: "charged.harness_s_minus_policy_only_matched",
            words: "rescue − matched control, pool charged",
            value: charged.harness_s_minus_policy_only_matched.as_ref(),
            per_seed: &charged.per_seed,
            t_interval: charged.t_interval.as_ref(),
            agreement: charged.agreement,
        },
    ]
}

/// The arms in the order of [`Arm::ALL`], unknown names last.
pub(super) fn arms_in_order(report: &Report) -> Vec<(&str, &ArmReport)> {
    let mut arms: Vec<_> = report.arms.iter().map(|(n, a)| (n.as_str(), a)).collect();
    arms.sort_by_key(|(name, _)| place(name));
    arms
}

/// Where an arm stands among all.
pub(super) fn place(name: &str) -> usize {
    let place = Arm::ALL.iter().position(|arm| arm.as_str() == name);
    place.unwrap_or(Arm::ALL.len())
}

pub(super) fn deltas(report: &Report) -> Option<Table> {
    let rows = named_deltas(report).map(|delta| {
        vec![
            delta.name.to_owned(),
            points(delta.value),
            points(delta.t_interval),
            signed_list(delta.per_seed),
            agreement(delta.agreement),
        ]
    });
    let header = [
        "difference of success, percentage points",
        "mean [bootstrap]",
        "mean [t over seeds]",
        "per seed",
        "seeds that agree",
    ];
    Table::of(header, rows)
}

fn agreement(value: Option<super::Agreement>) -> String {
    value.map_or_else(|| DASH.into(), |a| format!("{} of {}", a.agree, a.n))
}

pub(super) fn arms(report: &Report) -> Option<Table> {
    let rows = arms_in_order(report).into_iter().map(|(name, arm)| {
        vec![
            name.to_owned(),
            estimate(arm.base_success.as_ref()),
            estimate(arm.base_success_greedy.as_ref()),
            share(arm.rescue_rate),
            share(arm.all_failed_share.first().copied()),
            share(arm.all_failed_share.last().copied()),
        ]
    });
    let header = [
        "arm",
        "success",
        "greedy",
        "rescue rate",
        "all-failed share, start",
        "end",
    ];
    Table::of(header, rows)
}

pub(super) fn outcomes(report: &Report) -> Option<Table> {
    let arms = arms_in_order(report);
    let rows = arms
        .into_iter()
        .filter(|(_, arm)| !arm.outcomes.is_empty())
        .map(|(name, arm)| {
            let counts = harness_core::Outcome::ALL.map(|outcome| {
                let known = arm.outcomes.get(outcome.as_str()).copied();
                count(known.unwrap_or_default())
            });
            std::iter::once(name.to_owned()).chain(counts).collect()
        });
    let names = harness_core::Outcome::ALL.map(harness_core::Outcome::as_str);
    Table::of(std::iter::once("training attempts").chain(names), rows)
}

pub(super) fn families(report: &Report) -> Option<Table> {
    let arms = arms_in_order(report);
    let of_arms = arms.iter().flat_map(|(_, arm)| arm.per_family.keys());
    let names: BTreeSet<&String> = report.initial.per_family.keys().chain(of_arms).collect();
    let rows = names.into_iter().map(|family| {
        let cells = arms.iter().map(|(_, arm)| arm.per_family.get(family));
        let cells = std::iter::once(report.initial.per_family.get(family)).chain(cells);
        std::iter::once(family.clone())
            .chain(cells.map(estimate))
            .collect()
    });
    let header = ["family", "initial policy"].into_iter();
    Table::of(header.chain(arms.iter().map(|(name, _)| *name)), rows)
}

pub(super) fn sweep(report: &Report) -> Option<Table> {
    let arms: BTreeSet<&String> = report
        .sweep
        .iter()
        .flat_map(|level| level.arms.keys())
        .collect();
    let mut arms: Vec<_> = arms.into_iter().collect();
    arms.sort_by_key(|name| place(name));
    let rows = report.sweep.iter().map(|level| {
        let first = [
            level.eps.to_string(),
            estimate(level.base_chance.as_ref()),
            level.n_seeds.to_string(),
        ];
        let successes = arms.iter().map(|name| estimate(level.arms.get(*name)));
        let gaps = [&level.minus_policy_only, &level.minus_matched];
        let gaps = gaps.map(|gap| points(gap.as_ref()));
        first.into_iter().chain(successes).chain(gaps).collect()
    });
    let header = ["eps", "base's chance per attempt", "seeds"].into_iter();
    let header = header.chain(arms.iter().map(|name| name.as_str()));
    Table::of(header.chain(["minus policy_only", "minus matched"]), rows)
}

pub(super) fn ablations(report: &Report) -> Option<Table> {
    let rows = report.ablations.iter().map(|(name, ablation)| {
        vec![
            name.clone(),
            ablation.changes.clone(),
            estimate(ablation.arm.base_success.as_ref()),
            points(ablation.minus_harness_s.as_ref()),
            points(ablation.minus_matched.as_ref()),
        ]
    });
    let header = [
        "variant",
        "what it changes",
        "success",
        "minus harness_s",
        "minus matched",
    ];
    Table::of(header, rows)
}

pub(super) fn controls(report: &Report) -> Option<Table> {
    let rows = report.controls.iter().map(|(name, control)| {
        let holds = match control.holds {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "not measured",
        };
        vec![
            name.clone(),
            holds.to_owned(),
            control.what.clone(),
            control.expected.clone(),
            points(control.difference.as_ref()),
            points(control.t_interval.as_ref()),
        ]
    });
    let header = [
        "control",
        "holds",
        "what is run",
        "what must come out",
        "difference [bootstrap]",
        "difference [t]",
    ];
    Table::of(header, rows)
}

/// Rollouts, tokens and updates of everything that ran.
pub(super) fn costs(report: &Report) -> Option<Table> {
    let arms = arms_in_order(report)
        .into_iter()
        .map(|(name, arm)| cost(name, arm));
    let ablation = |(name, variant): (&String, &AblationReport)| cost(name, &variant.arm);
    let blank = || std::iter::repeat_n(DASH.to_owned(), 4);
    let alone = |name: String, n: u64| [name, count(n)].into_iter().chain(blank()).collect();
    let pools = pool_costs(report).map(|(name, n)| alone(name, n));
    let measuring = report.measuring_rollouts;
    let measuring =
        (measuring > 0).then(|| alone("measuring (charged to no arm)".into(), measuring));
    let header = [
        "all seeds together",
        "rollouts",
        "of these anchor probes",
        "tokens sampled",
        "updates",
        "rescues that cannot be shown under the base",
    ];
    let rows = arms.chain(report.ablations.iter().map(ablation));
    Table::of(header, rows.chain(pools).chain(measuring))
}

/// What an arm cost; what old reports do not hold is a dash.
fn cost(name: &str, arm: &ArmReport) -> Vec<String> {
    let since = |n: u64| {
        if arm.updates > 0 {
            count(n)
        } else {
            DASH.into()
        }
    };
    vec![
        name.to_owned(),
        count(arm.rollouts),
        since(arm.probe_rollouts),
        count(arm.tokens),
        since(arm.updates),
        since(arm.unprojectable),
    ]
}

/// Rollouts that building each pool took, by a name for the pool.
fn pool_costs(report: &Report) -> impl Iterator<Item = (String, u64)> + '_ {
    let several = report.pools.iter().zip(&report.warm_starts);
    let several = several.map(|(pool, warm_start)| {
        (
            format!("building the pool of warm start {warm_start}"),
            pool.rollouts,
        )
    });
    let only = report.pool.iter().filter(|_| report.pools.is_empty());
    several.chain(only.map(|pool| ("building the pool".to_owned(), pool.rollouts)))
}

/// Shares by row and column.
pub(super) type Matrix = BTreeMap<String, BTreeMap<String, Option<f64>>>;

/// The columns of a matrix.
pub(super) fn columns(matrix: &Matrix) -> BTreeSet<&String> {
    matrix.values().flat_map(BTreeMap::keys).collect()
}
