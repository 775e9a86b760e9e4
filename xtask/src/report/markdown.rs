//! `report.md`: the report as text.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::{Delta, PoolReport, Rank1Row, Report};
use crate::stats::Estimate;

/// The report as Markdown, one sentence per line.
pub fn markdown(report: &Report) -> String {
    let mut out = String::new();
    for section in [
        head,
        deltas,
        arms,
        families,
        pool,
        nonstationarity,
        transfer,
        rank1,
    ] {
        section(report, &mut out);
    }
    out
}

/// `0.75 [0.70, 0.80]`, or a dash for what was not measured.
pub(super) fn estimate(value: Option<&Estimate>) -> String {
    value.map_or_else(
        || "–".into(),
        |e| format!("{:.3} [{:.3}, {:.3}]", e.mean, e.ci95[0], e.ci95[1]),
    )
}

/// `0.750`, or a dash.
pub(super) fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), |v| format!("{v:.3}"))
}

/// The differences by name, those that were not measured too.
pub(super) fn named_deltas(delta: &Delta) -> [(&'static str, Option<&Estimate>); 3] {
    [
        (
            "harness_s_minus_policy_only",
            delta.harness_s_minus_policy_only.as_ref(),
        ),
        (
            "harness_s_minus_policy_only_matched",
            delta.harness_s_minus_policy_only_matched.as_ref(),
        ),
        (
            "harness_s_sibling_minus_policy_only_matched",
            delta.harness_s_sibling_minus_policy_only_matched.as_ref(),
        ),
    ]
}

/// Families of any arm, in order.
pub(super) fn family_names(report: &Report) -> BTreeSet<&String> {
    let arms = report.arms.values().flat_map(|arm| arm.per_family.keys());
    report.initial.per_family.keys().chain(arms).collect()
}

/// The ways to choose a harness by name.
pub(super) fn rank1_columns(row: &Rank1Row) -> [(&'static str, Option<&Estimate>); 5] {
    [
        ("base", row.base.as_ref()),
        ("router", row.router.as_ref()),
        ("random sibling", row.random.as_ref()),
        ("best fixed", row.best_fixed.as_ref()),
        ("oracle", row.oracle.as_ref()),
    ]
}

/// What the numbers of a report mean, in sentences for both forms.
pub(super) const EXPLANATION: [&str; 3] = [
    "Success is the share of test tasks solved at temperature 1 under the base harness, at the last checkpoint.",
    "Brackets are 95 % intervals: a bootstrap crossed over seeds and scenarios.",
    "A dash is something that this run did not measure.",
];

fn line(out: &mut String, text: impl std::fmt::Display) {
    writeln!(out, "{text}").expect("writing to a String cannot fail");
}

fn table(out: &mut String, header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    line(out, format_args!("| {} |", header.join(" | ")));
    line(
        out,
        format_args!("|---|{}", "--:|".repeat(header.len() - 1)),
    );
    for row in rows {
        let cells: Vec<_> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        line(out, format_args!("| {} |", cells.join(" | ")));
    }
    line(out, "");
}

fn head(report: &Report, out: &mut String) {
    line(
        out,
        format_args!("# Harness-S on {}, scale {}\n", report.env, report.scale),
    );
    for sentence in EXPLANATION {
        line(out, sentence);
    }
    line(
        out,
        format_args!(
            "Seeds: {:?}; warm starts: {}; test tasks: {} in {} scenarios; {:.0} s.\n",
            report.seeds,
            report.warm_starts.len(),
            report.n_test_tasks,
            report.n_test_scenarios,
            report.wall_s
        ),
    );
    let initial = estimate(report.initial.base_success.as_ref());
    line(out, format_args!("Initial policy: {initial}.\n"));
    if !report.demo_rates.is_empty() {
        let rates = report
            .demo_rates
            .iter()
            .map(|(name, rate)| format!("{name} {rate}"));
        let rates = rates.collect::<Vec<_>>().join(", ");
        line(
            out,
            format_args!("Rates of the demonstrations that it imitates: {rates}.\n"),
        );
    }
}

fn deltas(report: &Report, out: &mut String) {
    line(out, "## Differences\n");
    let row = |(name, value): (&str, Option<&Estimate>)| {
        let per_seed: Vec<_> = report
            .delta
            .per_seed
            .get(name)
            .map_or_else(Vec::new, |values| {
                values.iter().map(|v| format!("{v:+.3}")).collect()
            });
        let over_seeds = report.delta.t_interval.get(name);
        vec![
            name.to_owned(),
            estimate(value),
            per_seed.join(", "),
            estimate(over_seeds),
        ]
    };
    let charged = &report.delta.charged.harness_s_minus_policy_only_matched;
    let charged = vec![
        "harness_s_minus_policy_only_matched, pool charged".to_owned(),
        estimate(charged.as_ref()),
        String::new(),
        estimate(None),
    ];
    table(
        out,
        &["difference", "mean", "per seed", "t interval over seeds"],
        named_deltas(&report.delta)
            .map(row)
            .into_iter()
            .chain([charged]),
    );
}

fn arms(report: &Report, out: &mut String) {
    line(out, "## Arms\n");
    let rows = report.arms.iter().map(|(name, arm)| {
        vec![
            name.clone(),
            estimate(arm.base_success.as_ref()),
            estimate(arm.base_success_greedy.as_ref()),
            arm.rollouts.to_string(),
            arm.tokens.to_string(),
            number(arm.rescue_rate),
            number(arm.all_failed_share.first().copied()),
            number(arm.all_failed_share.last().copied()),
        ]
    });
    let header = [
        "arm",
        "success",
        "greedy",
        "rollouts",
        "tokens",
        "rescue rate",
        "all-failed share, start",
        "end",
    ];
    table(out, &header, rows);
    let rows = report.arms.iter().map(|(name, arm)| {
        let outcome = |o: &harness_core::Outcome| {
            let count = arm.outcomes.get(o.as_str()).copied();
            count.unwrap_or_default().to_string()
        };
        let counts = harness_core::Outcome::ALL.iter().map(outcome);
        std::iter::once(name.clone()).chain(counts).collect()
    });
    let outcomes = harness_core::Outcome::ALL.map(harness_core::Outcome::as_str);
    let header: Vec<_> = std::iter::once("training attempts")
        .chain(outcomes)
        .collect();
    table(out, &header, rows);
}

fn families(report: &Report, out: &mut String) {
    let names = family_names(report);
    if names.is_empty() {
        return;
    }
    line(out, "## Families\n");
    let rows = names.iter().map(|family| {
        let arms = report.arms.values().map(|arm| arm.per_family.get(*family));
        let cells = std::iter::once(report.initial.per_family.get(*family)).chain(arms);
        std::iter::once((*family).clone())
            .chain(cells.map(estimate))
            .collect()
    });
    let header: Vec<_> = ["family", "initial"]
        .into_iter()
        .chain(report.arms.keys().map(String::as_str))
        .collect();
    table(out, &header, rows);
}

fn pool(report: &Report, out: &mut String) {
    let Some(pool) = &report.pool else { return };
    line(out, "## Pool of siblings\n");
    line(
        out,
        format_args!(
            "{} siblings from {} directions; {} candidates rejected; {} rollouts.\n",
            pool.size,
            pool.directions.len(),
            pool.rejected,
            pool.rollouts
        ),
    );
    locality(pool, out);
    if let Some(gain) = &pool.complementarity {
        line(
            out,
            format_args!(
                "Union of siblings minus the best one: {}; as many re-runs of the base minus one: {}.\n",
                estimate(gain.union_gain.as_ref()),
                estimate(gain.retry_gain.as_ref())
            ),
        );
    }
}

fn locality(pool: &PoolReport, out: &mut String) {
    let directions: BTreeSet<&String> = pool.locality.values().flat_map(|row| row.keys()).collect();
    if directions.is_empty() {
        return;
    }
    let header: Vec<_> = std::iter::once("sibling")
        .chain(directions.iter().map(|name| name.as_str()))
        .collect();
    let rows = pool.locality.iter().map(|(sibling, row)| {
        let cells = directions
            .iter()
            .map(|name| number(row.get(*name).copied().flatten()));
        std::iter::once(sibling.clone()).chain(cells).collect()
    });
    table(out, &header, rows);
}

fn nonstationarity(report: &Report, out: &mut String) {
    let Some(n) = &report.nonstationarity else {
        return;
    };
    line(out, "## Nonstationarity\n");
    let rows = [
        ("rank correlation", n.rank_corr, n.rank_corr_repeat),
        ("sign flips", n.sign_flips, n.sign_flips_repeat),
    ];
    table(
        out,
        &["measure", "between checkpoints", "repeat at one"],
        rows.map(|(name, between, repeat)| vec![name.into(), number(between), number(repeat)]),
    );
}

fn transfer(report: &Report, out: &mut String) {
    let Some(transfer) = &report.transfer else {
        return;
    };
    line(out, "## Transfer to the base harness\n");
    let rows = transfer.behaviours.iter().flat_map(|(behaviour, arms)| {
        arms.iter().map(move |(arm, rate)| {
            let behaviour = format!("{behaviour}, {arm}");
            vec![behaviour, number(rate.before), number(rate.after)]
        })
    });
    table(out, &["behaviour under the base", "before", "after"], rows);
    let gap: Vec<_> = transfer
        .support_gap
        .iter()
        .map(|v| format!("{v:.3}"))
        .collect();
    if !gap.is_empty() {
        line(
            out,
            format_args!(
                "Best sibling minus base over training: {}.\n",
                gap.join(", ")
            ),
        );
    }
}

fn rank1(report: &Report, out: &mut String) {
    let Some(rank1) = &report.rank1 else { return };
    line(out, "## Rank-1: one harness for each task\n");
    let rows = [("initial", &rank1.initial), ("trained", &rank1.trained)];
    let rows = rows.into_iter().filter_map(|(policy, row)| {
        let cells = rank1_columns(row.as_ref()?).map(|(_, value)| estimate(value));
        Some(std::iter::once(policy.to_owned()).chain(cells).collect())
    });
    let names = rank1_columns(&Rank1Row::default()).map(|(name, _)| name);
    let header: Vec<_> = std::iter::once("policy").chain(names).collect();
    table(out, &header, rows);
}

#[cfg(test)]
mod tests {
    use super::super::summarise::tests::sample;
    use super::*;

    #[test]
    fn every_table_has_equal_rows() {
        let text = markdown(&sample());
        let mut width = None;
        for line in text.lines() {
            let n = line.starts_with('|').then(|| line.matches('|').count());
            if let (Some(now), Some(before)) = (n, width) {
                assert_eq!(now, before, "{line}");
            }
            width = n;
        }
    }

    #[test]
    fn what_was_not_measured_is_a_dash() {
        let text = markdown(&sample());
        let line = text
            .lines()
            .find(|l| l.starts_with("| harness_s_minus_policy_only_matched |"));
        assert!(line.unwrap().contains('–'));
        assert!(!text.contains("## Rank-1"));
    }

    #[test]
    fn an_empty_report_is_still_a_report() {
        assert!(markdown(&Report::default()).starts_with("# Harness-S"));
    }
}
