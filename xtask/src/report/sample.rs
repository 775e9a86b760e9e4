//! A report with something in every section, for tests of both forms. Its numbers are made up.

use std::collections::BTreeMap;

use super::summarise::{agreement, tests::sample};
use super::{
    AblationReport, AdherenceRow, ArmReport, BeforeAfter, Candidate, Charged, Complementarity,
    ControlReport, CurvePoint, Delta, Fate, HarnessMatrix, Nonstationarity, PoolReport, ProfileRow,
    Provenance, Rank1, Rank1Row, Report, Routed, SweepLevel, Transfer,
};
use crate::stats::{Estimate, t_interval};

const ARMS: [(&str, f64); 5] = [
    ("policy_only", 0.31),
    ("policy_only_matched", 0.424),
    ("harness_s", 0.617),
    ("harness_s_sibling", 0.447),
    ("harness_s_base_is", 0.58),
];
const FAMILIES: [&str; 5] = [
    "lookup",
    "auth_expiry",
    "pagination",
    "undo_partial",
    "<hard>",
];
const SIBLINGS: [&str; 3] = [
    "log in <first>",
    "read every page",
    "check before finishing",
];

/// A report with something in every section.
pub(super) fn rich() -> Report {
    let mut report = Report {
        scale: "full".into(),
        seeds: vec![11, 12, 13, 14, 15],
        warm_starts: vec!["3f9ad21c".into(), "77b0e5d2".into(), "a1c4409e".into()],
        started: Some("2026-01-02T03:04:05Z".into()),
        wall_s: 8123.4,
        n_test_tasks: 96,
        n_test_scenarios: 84,
        provenance: Provenance {
            commit: Some("466f794d0c2b7f1e9a3355aa01cd4e7786fe2210".into()),
            config_commit: Some("c6f465d1a2b3c4d5e6f708192a3b4c5d6e7f8091".into()),
            is_config_committed: true,
            config_hash: Some("5c0ffee5d1c3b2a190".into()),
        },
        demo_rates: BTreeMap::from([("eps".into(), 0.02), ("rel".into(), 0.9)]),
        arms: ARMS
            .map(|(name, success)| (name.to_owned(), arm(name, success)))
            .into(),
        delta: delta(),
        sweep: [
            (0.01, 0.006, 0.14),
            (0.03, 0.021, 0.19),
            (0.1, 0.083, 0.09),
            (0.3, 0.284, 0.006),
        ]
        .map(|(eps, chance, gap)| level(eps, chance, gap))
        .into(),
        ablations: ablations(),
        controls: controls(),
        pool: Some(pool()),
        profiles: profiles(),
        harness_by_family: Some(vec![
            matrix("start", 0.0),
            matrix("middle", 6211.0),
            matrix("end", 12004.0),
        ]),
        measuring_rollouts: 48_120,
        warnings: vec!["two of five seeds share a warm start".into()],
        ..sample()
    };
    report.initial.base_success = Some(estimate(0.183));
    report.initial.per_family = per_family(0.18);
    measured_at_the_end(&mut report);
    report
}

fn measured_at_the_end(report: &mut Report) {
    report.nonstationarity = Some(Nonstationarity {
        rank_corr: Some(0.42),
        rank_corr_repeat: Some(0.81),
        sign_flips: Some(0.31),
        sign_flips_repeat: Some(0.12),
        per_seed: BTreeMap::from([("rank_corr".into(), vec![0.4, 0.44])]),
        n_utilities: 15.0,
    });
    let behaviours = [("logs in before acting", 0.12), ("reads every page", 0.3)];
    let behaviours = behaviours.map(|(name, before)| {
        let rates = ARMS.iter().map(|(arm, success)| {
            let rate = BeforeAfter {
                before: Some(before),
                after: Some(before + success - 0.25),
            };
            ((*arm).to_owned(), rate)
        });
        (name.to_owned(), rates.collect())
    });
    report.transfer = Some(Transfer {
        behaviours: behaviours.into(),
        support_gap: vec![0.342, 0.201, 0.084],
    });
    let row = |lift: f64| Rank1Row {
        base: Some(estimate(0.2 + lift)),
        router: Some(estimate(0.37 + lift * 0.8)),
        random: Some(estimate(0.24 + lift)),
        best_fixed: Some(estimate(0.31 + lift)),
        oracle: Some(estimate(0.45 + lift * 0.8)),
    };
    report.rank1 = Some(Rank1 {
        initial: Some(row(0.0)),
        trained: Some(row(0.37)),
    });
}

fn estimate(mean: f64) -> Estimate {
    Estimate {
        mean,
        ci95: [mean - 0.046, mean + 0.051],
        n: 420,
    }
}

fn per_family(mean: f64) -> BTreeMap<String, Estimate> {
    let families = (0..).zip(FAMILIES);
    families
        .map(|(i, name)| (name.to_owned(), estimate(mean + 0.03 * f64::from(2 - i))))
        .collect()
}

fn arm(name: &str, success: f64) -> ArmReport {
    let curve = (0..9).map(|i| {
        let progress = f64::from(i) / 8.0;
        let base_success = 0.183 + (success - 0.183) * progress * (2.0 - progress);
        CurvePoint {
            step: f64::from(i) * 10.0,
            rollouts: progress * 12_040.0,
            base_success,
            ci95: Some([base_success - 0.04, base_success + 0.04]),
        }
    });
    let rescues = name != "policy_only";
    let rate = if name == "policy_only_matched" {
        0.11
    } else {
        0.63
    };
    let is_routed = rescues && name != "policy_only_matched";
    ArmReport {
        base_success: Some(estimate(success)),
        base_success_greedy: Some(estimate(success + 0.02)),
        per_seed: [-0.05, -0.02, 0.01, 0.02, 0.04].map(|d| success + d).into(),
        per_family: per_family(success),
        rollouts: 60_204,
        tokens: 18_204_112,
        rescue_rate: rescues.then_some(rate),
        rescue_rate_curve: [0.1, 0.05, 0.02, 0.0]
            .map(|d| rescues.then_some(rate - d))
            .into(),
        all_failed_share: [0.61, 0.48, 0.33, 0.61 - success * 0.7].into(),
        curve: curve.collect(),
        outcomes: BTreeMap::from([("solved".into(), 31_004), ("failed".into(), 29_200)]),
        probe_rollouts: 2160,
        updates: 405,
        unprojectable: 12,
        routed: if is_routed { routed() } else { BTreeMap::new() },
        negative_share: vec![Some(0.4), None, Some(0.37), Some(0.33)],
    }
}

fn routed() -> BTreeMap<String, BTreeMap<String, Routed>> {
    let families = (1..).zip(FAMILIES);
    let row = |i: u64| {
        let cell = |(j, name): (u64, &str)| {
            let routed = Routed {
                attempts: 40 + 31 * i * j,
                solved: 7 * i + 3 * j,
            };
            (name.to_owned(), routed)
        };
        (1..).zip(SIBLINGS).map(cell).collect()
    };
    families
        .map(|(i, family)| (family.to_owned(), row(i)))
        .collect()
}

fn delta() -> Delta {
    let seeds = |mean: f64| [-0.06, -0.01, 0.0, 0.02, 0.05].map(|d| mean + d).to_vec();
    let all = [
        ("harness_s_minus_policy_only", 0.307),
        ("harness_s_minus_policy_only_matched", 0.193),
        ("harness_s_sibling_minus_policy_only_matched", 0.023),
    ];
    let charged = seeds(0.118);
    Delta {
        harness_s_minus_policy_only: Some(estimate(0.307)),
        harness_s_minus_policy_only_matched: Some(estimate(0.193)),
        harness_s_sibling_minus_policy_only_matched: Some(estimate(0.023)),
        per_seed: all
            .map(|(name, mean)| (name.to_owned(), seeds(mean)))
            .into(),
        t_interval: all
            .map(|(name, mean)| (name.to_owned(), t_interval(&seeds(mean)).unwrap()))
            .into(),
        agreement: all
            .map(|(name, mean)| (name.to_owned(), agreement(&seeds(mean)).unwrap()))
            .into(),
        charged: Charged {
            harness_s_minus_policy_only_matched: Some(estimate(0.118)),
            t_interval: t_interval(&charged),
            agreement: agreement(&charged),
            per_seed: charged,
            at_rollouts: Some(9_612.4),
        },
    }
}

fn level(eps: f64, chance: f64, gap: f64) -> SweepLevel {
    let success = [
        ("policy_only", chance + 0.05),
        ("policy_only_matched", chance + 0.2),
        ("harness_s", chance + 0.2 + gap),
    ];
    SweepLevel {
        eps,
        base_chance: Some(Estimate {
            mean: chance,
            ci95: [chance * 0.8, chance * 1.2],
            n: 84,
        }),
        n_seeds: 3,
        arms: success
            .map(|(name, mean)| (name.to_owned(), estimate(mean)))
            .into(),
        minus_policy_only: Some(estimate(gap + 0.15)),
        minus_matched: Some(estimate(gap)),
    }
}

fn ablations() -> BTreeMap<String, AblationReport> {
    let all = [
        ("no_reanchor", "profiles are never refreshed", 0.55),
        (
            "random_sibling",
            "siblings are drawn at random instead of being voted for",
            0.52,
        ),
        (
            "undirected_pool",
            "the pool is evolved without directions",
            0.47,
        ),
    ];
    let report = |changes: &str, success: f64| AblationReport {
        changes: changes.into(),
        arm: arm("harness_s", success),
        minus_harness_s: Some(estimate(success - 0.617)),
        minus_matched: Some(estimate(success - 0.424)),
    };
    all.map(|(name, changes, success)| (name.to_owned(), report(changes, success)))
        .into()
}

fn controls() -> BTreeMap<String, ControlReport> {
    let all = [
        ("identity_siblings", 0.004, true),
        ("distractor_pool", -0.031, true),
        ("obedient_base", 0.09, false),
    ];
    let report = |name: &str, mean: f64, holds: bool| ControlReport {
        what: format!("harness_s with a pool in which {name} stands for every sibling"),
        expected: "harness_s minus policy_only_matched is nothing".into(),
        success: BTreeMap::from([("harness_s".into(), estimate(0.42))]),
        difference: Some(estimate(mean)),
        t_interval: Some(Estimate {
            mean,
            ci95: [mean - 0.08, mean + 0.08],
            n: 3,
        }),
        holds: Some(holds),
    };
    all.map(|(name, mean, holds)| (name.to_owned(), report(name, mean, holds)))
        .into()
}

fn matrix(at: &str, rollouts: f64) -> HarnessMatrix {
    let lift = rollouts / 40_000.0;
    let cell = |own: bool, i: usize| Some(if own { 0.52 } else { 0.1 + 0.04 * i as f64 } + lift);
    let row = |sibling: Option<usize>| {
        let cells = FAMILIES.iter().enumerate();
        cells
            .map(|(i, name)| ((*name).to_owned(), cell(sibling == Some(i), i)))
            .collect()
    };
    let siblings = SIBLINGS.iter().enumerate();
    let siblings = siblings.map(|(i, name)| ((*name).to_owned(), row(Some(i + 1))));
    let success = std::iter::once(("base".to_owned(), row(None))).chain(siblings);
    HarnessMatrix {
        at: at.into(),
        rollouts,
        success: success.collect(),
    }
}

fn pool() -> PoolReport {
    let directions = [
        "auth: session expired, acts again without logging in",
        "pages: stops after the first page",
        "finish: claims without checking",
    ];
    let locality = SIBLINGS.iter().enumerate().map(|(i, sibling)| {
        let row = directions.iter().enumerate();
        let row = row.map(|(j, direction)| {
            (
                (*direction).to_owned(),
                Some(if i == j { 0.61 } else { 0.08 }),
            )
        });
        ((*sibling).to_owned(), row.collect())
    });
    PoolReport {
        size: 3,
        directions: directions.map(str::to_owned).into(),
        confirmed: SIBLINGS.map(str::to_owned).into(),
        rejected: 15,
        rollouts: 9408,
        locality: locality.collect(),
        complementarity: Some(Complementarity {
            union_gain: Some(estimate(0.24)),
            retry_gain: Some(estimate(0.07)),
        }),
        tree: (0..3).flat_map(tree).collect(),
    }
}

fn tree(direction: usize) -> Vec<Candidate> {
    let id = |round: u32, i: u32| format!("{direction}{round}{i}fa7c");
    let mut out = Vec::new();
    for (round, i) in (0..3).flat_map(|round| (0..3).map(move |i| (round, i))) {
        let fate = match (round, i) {
            (2, 0) if direction < 2 => Fate::Admitted,
            (2, 0) => Fate::NotConfirmed,
            (_, 2) => Fate::Refused,
            _ => Fate::Outranked,
        };
        let tested = matches!(fate, Fate::Admitted | Fate::NotConfirmed);
        out.push(Candidate {
            direction,
            round,
            id: (fate != Fate::Refused).then(|| id(round, i)),
            parent: if round == 0 {
                "base".into()
            } else {
                id(round - 1, 0)
            },
            edits: vec![
                "on_start: “log in again when a call says 401”".into(),
                "before_action: block <send> once".into(),
            ],
            fate,
            reason: match fate {
                Fate::Refused => "it leaks words of an answer",
                Fate::Outranked => "another candidate gained more on the search slice",
                Fate::NotConfirmed => "no better than as many base retries on fresh tasks",
                Fate::Admitted => "better than as many base retries on fresh tasks",
            }
            .into(),
            search_gain: (fate != Fate::Refused)
                .then(|| 0.11 + 0.05 * f64::from(round) - 0.04 * f64::from(i)),
            confirm_success: tested.then_some(0.54),
            retry_success: tested.then_some(0.17),
            p_value: tested.then_some(0.0031),
            threshold: tested.then_some(0.0167),
        });
    }
    out
}

fn profiles() -> Vec<ProfileRow> {
    let row = |at: &str, harness: &str, lift: f64| ProfileRow {
        at: at.into(),
        harness: harness.into(),
        attempts: 240,
        effective_n: 181.5,
        rescue: Some(estimate(0.3 + lift)),
        unconditional: Some(estimate(0.4 + lift)),
        fire_rate: (harness != "base").then_some(0.71),
        adherence: (harness != "base").then(|| AdherenceRow {
            behaviour: "logs in before acting".into(),
            sibling: 0.88,
            base: 0.12,
        }),
        turns_change: (harness != "base").then_some(0.8),
        tokens_change: (harness != "base").then_some(-41.25),
        regressions: 6,
    };
    let at = |at: &'static str, lift: f64| {
        let names = std::iter::once("base").chain(SIBLINGS);
        names.map(move |name| row(at, name, lift))
    };
    at("start", 0.0).chain(at("end", 0.2)).collect()
}
