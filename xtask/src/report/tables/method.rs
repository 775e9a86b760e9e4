//! Tables about the parts of the method: pool, profiles, routing, transfer, Rank-1.

use std::collections::{BTreeMap, BTreeSet};

use super::{Matrix, Table, columns};
use crate::report::format::{DASH, count, decimal, estimate, probability, share, signed};
use crate::report::{Candidate, Fate, PoolReport, ProfileRow, Rank1Row, Report, Routed};
use crate::stats::Estimate;

/// A matrix of shares; `corner` names the rows.
pub(in crate::report) fn matrix(corner: &str, matrix: &Matrix) -> Option<Table> {
    let columns = columns(matrix);
    let rows = matrix.iter().map(|(name, row)| {
        let cells = columns
            .iter()
            .map(|column| share(row.get(*column).copied().flatten()));
        std::iter::once(name.clone()).chain(cells).collect()
    });
    let header = std::iter::once(corner).chain(columns.iter().map(|name| name.as_str()));
    Table::of(header, rows)
}

/// What the profiles say at one moment.
pub(in crate::report) fn profiles(rows: &[&ProfileRow]) -> Option<Table> {
    let row = |p: &&ProfileRow| {
        let adherence = p.adherence.as_ref().map_or_else(
            || DASH.to_owned(),
            |a| {
                let (sibling, base) = (share(Some(a.sibling)), share(Some(a.base)));
                format!("{}: {sibling}, base {base}", a.behaviour)
            },
        );
        vec![
            p.harness.clone(),
            estimate(p.rescue.as_ref()),
            estimate(p.unconditional.as_ref()),
            share(p.fire_rate),
            adherence,
            decimal(p.turns_change),
            decimal(p.tokens_change),
            count(p.regressions),
            count(p.attempts),
            format!("{:.1}", p.effective_n),
        ]
    };
    let header = [
        "harness",
        "solves what the base failed",
        "solves any task",
        "its rules act",
        "what it changes most",
        "turns",
        "tokens",
        "breaks solved tasks",
        "attempts",
        "discounted by age",
    ];
    Table::of(header, rows.iter().map(row))
}

/// Attempts that solved their task out of all, by family and sibling.
pub(in crate::report) fn routed(
    routes: &BTreeMap<String, BTreeMap<String, Routed>>,
) -> Option<Table> {
    let siblings: BTreeSet<&String> = routes.values().flat_map(BTreeMap::keys).collect();
    let rows = routes.iter().map(|(family, row)| {
        let cell = |name: &&String| row.get(*name).map_or_else(|| DASH.into(), solved_of);
        std::iter::once(family.clone())
            .chain(siblings.iter().map(cell))
            .collect()
    });
    let header = std::iter::once("family").chain(siblings.iter().map(|name| name.as_str()));
    Table::of(header, rows)
}

/// `12 of 30`.
pub(in crate::report) fn solved_of(routed: &Routed) -> String {
    format!("{} of {}", count(routed.solved), count(routed.attempts))
}

/// Every candidate of evolution and what became of it.
pub(in crate::report) fn candidates(pool: &PoolReport) -> Option<Table> {
    let row = |c: &Candidate| {
        let direction = pool.directions.get(c.direction);
        vec![
            direction
                .cloned()
                .unwrap_or_else(|| c.direction.to_string()),
            c.round.to_string(),
            c.id.clone().unwrap_or_else(|| DASH.into()),
            c.parent.clone(),
            c.edits.join("; "),
            fate(c.fate).to_owned(),
            c.reason.clone(),
            c.search_gain.map_or_else(|| DASH.into(), signed),
            share(c.confirm_success),
            share(c.retry_success),
            probability(c.p_value),
            probability(c.threshold),
        ]
    };
    let header = [
        "direction",
        "round",
        "id",
        "parent",
        "what it adds",
        "fate",
        "why",
        "search gain",
        "confirmed at",
        "base retries",
        "p",
        "must be below",
    ];
    Table::of(header, pool.tree.iter().map(row))
}

/// A fate in plain words.
pub(in crate::report) const fn fate(fate: Fate) -> &'static str {
    match fate {
        Fate::Refused => "refused",
        Fate::Outranked => "outranked",
        Fate::NotConfirmed => "not confirmed",
        Fate::Admitted => "admitted",
    }
}

pub(in crate::report) fn nonstationarity(report: &Report) -> Option<Table> {
    let n = report.nonstationarity.as_ref()?;
    let per_seed = |name: &str| {
        let values = n.per_seed.get(name).map_or(&[][..], Vec::as_slice);
        let values: Vec<_> = values.iter().map(|v| format!("{v:.2}")).collect();
        values.join(", ")
    };
    let rows = [
        (
            "rank correlation of utilities",
            n.rank_corr,
            "rank_corr",
            n.rank_corr_repeat,
        ),
        (
            "share of utilities that change sign",
            n.sign_flips,
            "sign_flips",
            n.sign_flips_repeat,
        ),
    ];
    let rows = rows.map(|(name, between, key, repeat)| {
        let key_repeat = format!("{key}_repeat");
        let cells = [
            decimal(between),
            per_seed(key),
            decimal(repeat),
            per_seed(&key_repeat),
        ];
        std::iter::once(name.to_owned()).chain(cells).collect()
    });
    let header = [
        "measure",
        "between checkpoints",
        "per seed",
        "repeat at one checkpoint",
        "per seed",
    ];
    Table::of(header, rows)
}

pub(in crate::report) fn transfer(report: &Report) -> Option<Table> {
    let transfer = report.transfer.as_ref()?;
    let rows = transfer.behaviours.iter().flat_map(|(behaviour, arms)| {
        arms.iter().map(move |(arm, rate)| {
            vec![
                behaviour.clone(),
                arm.clone(),
                share(rate.before),
                share(rate.after),
            ]
        })
    });
    Table::of(["behaviour under the base", "arm", "before", "after"], rows)
}

pub(in crate::report) fn rank1(report: &Report) -> Option<Table> {
    let rows = rank1_rows(report).into_iter().map(|(policy, row)| {
        let cells = rank1_columns(row).map(|(_, value)| estimate(value));
        std::iter::once(policy.to_owned()).chain(cells).collect()
    });
    let names = rank1_columns(&Rank1Row::default()).map(|(name, _)| name);
    Table::of(std::iter::once("policy").chain(names), rows)
}

/// The rows of Rank-1 that were measured, by the policy.
pub(in crate::report) fn rank1_rows(report: &Report) -> Vec<(&'static str, &Rank1Row)> {
    let Some(rank1) = &report.rank1 else {
        return Vec::new();
    };
    let rows = [
        ("initial policy", &rank1.initial),
        ("trained policy", &rank1.trained),
    ];
    let measured = rows
        .into_iter()
        .filter_map(|(policy, row)| Some((policy, row.as_ref()?)));
    measured.collect()
}

/// The ways to choose a harness by name.
pub(in crate::report) fn rank1_columns(row: &Rank1Row) -> [(&'static str, Option<&Estimate>); 5] {
    [
        ("base", row.base.as_ref()),
        ("router", row.router.as_ref()),
        ("random sibling", row.random.as_ref()),
        ("best fixed", row.best_fixed.as_ref()),
        ("oracle", row.oracle.as_ref()),
    ]
}
