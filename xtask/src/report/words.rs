//! What the numbers of a report say, in sentences for both of its forms. Every number in them is one of the
//! report.

mod verdict;

use super::format::{DASH, bounds, decimal, estimate, percent, points, share, signed};
use super::tables::{arms_in_order, rank1_rows};
use super::{Complementarity, HarnessMatrix, Provenance, Report, SweepLevel};
use crate::stats::Estimate;
use verdict::excludes;
pub(super) use verdict::{evidence, reasons, verdict};

/// What the numbers of a report mean.
pub(super) const EXPLANATION: [&str; 5] = [
    "Success is the share of test tasks solved at temperature one under the base harness, at the last checkpoint.",
    "Shares are in percent, their differences in percentage points.",
    "Brackets are 95 % intervals: a bootstrap crossed over seeds and scenarios, or a t interval over seeds where it is said.",
    "An interval that excludes zero is unlikely to be luck of the draw.",
    "A dash is something that this run did not measure.",
];

/// What a newcomer must know, by term.
pub(super) const TERMS: [(&str, &str); 5] = [
    (
        "Base harness",
        "the prompts, rules and limits around the model with which it is judged in the end.",
    ),
    (
        "Sibling",
        "the base harness plus a few rules that repair one kind of failure.",
    ),
    (
        "Rescue (harness_s)",
        "where every attempt of a group fails under the base, fresh attempts under siblings replace the group before the policy learns from it.",
    ),
    (
        "Matched control (policy_only_matched)",
        "the same, but the fresh attempts are made under the base: as many rollouts, no sibling. If it does as well, siblings are not the reason.",
    ),
    (
        "GRPO alone (policy_only)",
        "no fresh attempts: a group in which all failed teaches nothing.",
    ),
];

/// Where each arm's curve ends.
pub(super) fn curve_ends(report: &Report) -> String {
    let arms = arms_in_order(report).into_iter();
    let ends = arms.filter_map(|(name, arm)| {
        let last = arm.curve.last()?;
        Some(format!("{name} {} %", percent(last.base_success)))
    });
    ends.collect::<Vec<_>>().join(", ")
}

/// The gap at the least and at the greatest chance of the base.
pub(super) fn sweep_words(levels: &[SweepLevel]) -> Option<String> {
    let measured: Vec<_> = levels
        .iter()
        .filter_map(|level| Some((level, level.minus_matched.as_ref()?)))
        .collect();
    let say = |(level, gap): &(&SweepLevel, &Estimate)| {
        let chance = level.base_chance.as_ref().map_or_else(
            || format!("eps is {}", level.eps),
            |chance| {
                format!(
                    "the untrained base solves {} % of its attempts (eps {})",
                    percent(chance.mean),
                    level.eps
                )
            },
        );
        format!(
            "Where {chance}, rescue is {} points from the matched control {}, which {}.",
            signed(gap.mean),
            bounds(gap.ci95, signed),
            excludes(gap)
        )
    };
    let first = measured.first().map(say)?;
    let last = measured.get(1..).and_then(<[_]>::last).map(say);
    Some(
        [Some(first), last]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" "),
    )
}

/// Where a sibling is furthest ahead of the base.
pub(super) fn matrix_words(matrix: &HarnessMatrix) -> Option<String> {
    let base = matrix.success.get("base")?;
    let siblings = matrix.success.iter().filter(|(name, _)| *name != "base");
    let gaps = siblings.flat_map(|(name, row)| {
        row.iter().filter_map(move |(family, own)| {
            Some((name, family, (*own)?, base.get(family).copied().flatten()?))
        })
    });
    let (name, family, own, base) = gaps.max_by(|a, b| (a.2 - a.3).total_cmp(&(b.2 - b.3)))?;
    let (own, base) = (percent(own), percent(base));
    Some(format!(
        "A sibling is furthest ahead of the base in family “{family}”: “{name}” {own} %, base {base} %."
    ))
}

/// Whether ranks change more between checkpoints than between two measurements at one.
pub(super) fn nonstationarity_words(report: &Report) -> Option<String> {
    let n = report.nonstationarity.as_ref()?;
    let (between, repeat) = (n.rank_corr?, n.rank_corr_repeat?);
    let reading = if between < repeat {
        "ranks agree less than between repeats: which sibling helps changes as the policy learns"
    } else {
        "ranks agree as well as between repeats: no change beyond noise is seen"
    };
    Some(format!(
        "Between checkpoints the rank correlation is {}, between two measurements at one checkpoint {}: {reading}.",
        decimal(Some(between)),
        decimal(Some(repeat))
    ))
}

/// Code, settings and size of the run, as pairs of name and value.
pub(super) fn provenance(report: &Report) -> Vec<(&'static str, String)> {
    let seeds: Vec<_> = report.seeds.iter().map(u64::to_string).collect();
    let mut out = vec![
        ("seeds", seeds.join(", ")),
        ("warm starts", report.warm_starts.join(", ")),
        (
            "test",
            format!(
                "{} tasks in {} scenarios",
                report.n_test_tasks, report.n_test_scenarios
            ),
        ),
        (
            "initial policy",
            estimate(report.initial.base_success.as_ref()),
        ),
    ];
    out.extend(origin(&report.provenance));
    out.extend(report.started.clone().map(|at| ("started", at)));
    out.extend(report.ended.clone().map(|at| ("ended", at)));
    let rates = report.demo_rates.iter();
    let rates: Vec<_> = rates.map(|(name, rate)| format!("{name} {rate}")).collect();
    out.extend((!rates.is_empty()).then(|| ("demonstrations", rates.join(", "))));
    out
}

/// Commits and hash; a report that does not hold them says so.
fn origin(provenance: &Provenance) -> Vec<(&'static str, String)> {
    if *provenance == Provenance::default() {
        return vec![("code and settings", "not recorded".into())];
    }
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| DASH.into());
    let committed = if provenance.is_config_committed {
        "yes: they stand in that commit as they were used"
    } else {
        "NO: they were not committed as they were used"
    };
    vec![
        ("commit of the code", text(&provenance.commit)),
        ("commit of the settings", text(&provenance.config_commit)),
        ("settings committed", committed.to_owned()),
        ("hash of the settings", text(&provenance.config_hash)),
    ]
}

/// What siblings solve together against what one choice alone would.
pub(super) fn complementarity_words(report: &Report) -> Option<String> {
    let Complementarity {
        union_gain,
        retry_gain,
    } = report.pool.as_ref()?.complementarity.as_ref()?;
    union_gain.as_ref().or(retry_gain.as_ref())?;
    Some(format!(
        "All siblings together solve {} points more of the failed tasks than the best one alone; as many re-runs of the base gain {} points over one.",
        points(union_gain.as_ref()),
        points(retry_gain.as_ref())
    ))
}

/// The support gap at its moments.
pub(super) fn support_words(report: &Report) -> Option<String> {
    let gap = &report.transfer.as_ref()?.support_gap;
    let (first, last) = (gap.first()?, gap.last()?);
    Some(format!(
        "Best sibling minus base: {} points at the start, {} at the end. A gap that closes means that the base has learned what the siblings knew.",
        signed(*first),
        signed(*last)
    ))
}

/// How the router does against the base, with the trained policy or else the initial one.
pub(super) fn rank1_words(report: &Report) -> Option<String> {
    let rows = rank1_rows(report);
    let (policy, row) = rows.last()?;
    let (router, base) = (row.router.as_ref()?, row.base.as_ref()?);
    Some(format!(
        "With the {policy} the router's choice solves {}, always the base {}.",
        share(Some(router.mean)),
        share(Some(base.mean))
    ))
}
