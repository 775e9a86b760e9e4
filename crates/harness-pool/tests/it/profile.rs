//! Profiles: pure functions of evidence and version.

use std::collections::{BTreeMap, BTreeSet};

use harness_core::{HarnessId, PolicyVersion, TaskId};
use harness_pool::{
    BehaviorProfile, Cluster, ClusterScope, EvidenceRow, Given, ProfileConfig, ProfileError, Stats,
};
use proptest::prelude::*;

use crate::support::{id, profile, row, rows_strategy};

fn at(rows: Vec<EvidenceRow>, version: u64) -> BehaviorProfile {
    BehaviorProfile::from_rows(rows, PolicyVersion(version), ProfileConfig::default()).unwrap()
}

proptest! {
    #[test]
    fn order_and_repetition_do_not_matter(
        (rows, shuffled) in rows_strategy().prop_flat_map(|r| (Just(r.clone()), Just(r).prop_shuffle())),
    ) {
        let whole = at(rows.clone(), 30);
        let twice: Vec<_> = shuffled.iter().chain(&rows).cloned().collect();
        prop_assert_eq!(&whole, &at(twice, 30));
        // Row by row, and moved to the version afterwards.
        let mut grown = at(vec![], 0);
        for row in shuffled {
            grown.insert([row]).unwrap();
        }
        grown.set_policy_version(PolicyVersion(30));
        prop_assert_eq!(&whole, &grown);
        for harness in ["base", "a", "b"] {
            let of = |p: &BehaviorProfile| p.stats(&id(harness), ClusterScope::All, Given::Anything);
            prop_assert_eq!(of(&whole).weight.to_bits(), of(&grown).weight.to_bits());
        }
    }

    #[test]
    fn clusters_add_up_to_the_whole(rows in rows_strategy()) {
        let profile = at(rows, 10);
        for harness in ["base", "a", "b"].map(id) {
            let all = profile.stats(&harness, ClusterScope::All, Given::Anything);
            let of = |c| profile.stats(&harness, ClusterScope::Cluster(c), Given::Anything).attempts;
            prop_assert_eq!(all.attempts, profile.clusters(&harness).map(of).sum::<u64>());
            let (low, high) = all.interval95();
            prop_assert!(0.0 <= low && low < all.mean() && all.mean() < high && high <= 1.0);
        }
    }
}

/// What `stats` says, counted anew from the rows.
fn slow_stats(
    profile: &BehaviorProfile,
    harness: &HarnessId,
    in_scope: impl Fn(&Cluster) -> bool,
    holds: impl Fn(&EvidenceRow) -> bool,
) -> Stats {
    let mut cells: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    let mut stats = Stats::default();
    let own = profile.rows().filter(|row| row.harness == *harness);
    for row in own.filter(|row| in_scope(&row.cluster) && holds(row)) {
        let origin = (row.base_failed_all, row.is_selected);
        let cell = cells.entry((&row.cluster, row.policy_version, origin));
        let (attempts, successes) = cell.or_default();
        *attempts += 1;
        *successes += u64::from(row.solved);
        stats.attempts += 1;
        stats.successes += u64::from(row.solved);
        stats.selected += u64::from(row.is_selected);
        stats.fired += u64::from(row.fired);
        stats.turns += u64::from(row.turns);
        stats.tokens += row.tokens;
    }
    for ((_, version, _), (attempts, successes)) in cells {
        let age = profile.policy_version().0.saturating_sub(version.0) as f64;
        let weight = 0.5_f64.powf(age / profile.config().half_life.unwrap());
        stats.weight += weight * attempts as f64;
        stats.weighted_successes += weight * successes as f64;
    }
    stats
}

proptest! {
    /// Every number, to the last bit, after every batch of rows: what was asked before leaves no trace.
    #[test]
    fn kept_sums_are_those_of_the_rows(
        rows in rows_strategy(),
        at in prop::collection::vec((any::<prop::sample::Index>(), 0..60_u64), 1..5),
    ) {
        type Holds = fn(&EvidenceRow) -> bool;
        let givens: [(Given, Holds); 4] = [
            (Given::Anything, |_| true),
            (Given::Probed, |row| !row.is_selected),
            (Given::BaseFailedAll, |row| row.base_failed_all),
            (Given::BaseFailedAllProbed, |row| row.base_failed_all && !row.is_selected),
        ];
        let unseen = Cluster::of("dance", "401");
        let mut profile = self::at(vec![], 0);
        for (n, version) in at {
            profile.insert(rows[..n.index(rows.len() + 1)].iter().cloned()).unwrap();
            profile.set_policy_version(PolicyVersion(version));
            let all: BTreeSet<Cluster> = profile.rows().map(|row| row.cluster.clone()).collect();
            prop_assert!(profile.all_clusters().eq(&all));
            for (given, holds) in givens {
                for harness in ["base", "a", "b"].map(id) {
                    let of = |in_scope: &dyn Fn(&Cluster) -> bool| {
                        slow_stats(&profile, &harness, in_scope, holds)
                    };
                    let fast = |scope| profile.stats(&harness, scope, given);
                    prop_assert_eq!(fast(ClusterScope::All), of(&|_| true));
                    for c in all.iter().chain([&unseen]) {
                        prop_assert_eq!(fast(ClusterScope::Cluster(c)), of(&|own| own == c));
                        let verb = of(&|own| own.verb() == c.verb());
                        prop_assert_eq!(fast(ClusterScope::Verb(c.verb())), verb);
                        let kind = of(&|own| own.error_kind() == c.error_kind());
                        prop_assert_eq!(fast(ClusterScope::ErrorKind(c.error_kind())), kind);
                        let fits = |row: &&EvidenceRow| {
                            row.harness == harness && row.cluster == *c && holds(row)
                        };
                        let tasks = profile.rows().filter(fits).map(|row| &row.task);
                        let tasks: BTreeSet<&TaskId> = tasks.collect();
                        prop_assert!(profile.tasks(c, given, |id| *id == harness).eq(tasks));
                    }
                    for (c, stats) in profile.stats_by_cluster(&harness, given) {
                        prop_assert_eq!(stats, &fast(ClusterScope::Cluster(c)));
                    }
                    let named = profile.stats_by_cluster(&harness, given).iter().map(|(c, _)| c);
                    prop_assert!(named.eq(profile.clusters(&harness)));
                }
            }
        }
    }
}

#[test]
fn a_conflict_is_refused_and_changes_nothing() {
    let mut profile = profile(vec![row("a", "t", 0, true)]);
    let before = profile.clone();
    let fresh = row("a", "t", 1, true);
    let error = profile
        .insert([fresh, row("a", "t", 0, false)])
        .unwrap_err();
    assert_eq!(
        error,
        ProfileError::Conflict(row("a", "t", 0, true).rollout)
    );
    assert_eq!(profile, before);
}

#[test]
fn half_lives() {
    let config = |half_life| ProfileConfig { half_life };
    let weight = |version, half_life| {
        let made = BehaviorProfile::from_rows(
            [row("a", "t", 0, true)],
            PolicyVersion(version),
            config(half_life),
        );
        made.unwrap()
            .stats(&id("a"), ClusterScope::All, Given::Anything)
            .weight
    };
    assert!((weight(20, Some(20.0)) - 0.5).abs() < 1e-12);
    assert!((weight(20, None) - 1.0).abs() < 1e-12);
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let made = BehaviorProfile::from_rows([], PolicyVersion(0), config(Some(bad)));
        assert!(matches!(made, Err(ProfileError::HalfLife(_))));
    }
}

#[test]
fn no_evidence_is_one_half_and_wide() {
    let stats = profile(vec![]).stats(&id("a"), ClusterScope::All, Given::Anything);
    assert!((stats.mean() - 0.5).abs() < 1e-12);
    assert_eq!((stats.attempts, stats.mean_turns()), (0, None));
}

#[test]
fn the_base_is_a_row_and_utility_compares_with_it() {
    let mut rows = Vec::new();
    for n in 0..40 {
        rows.push(row("good", "t", n, true));
        rows.push(row("bad", "t", n, false));
        rows.push(row("base", "t", n, n % 2 == 0));
    }
    // A routed rescue says nothing of what probes would find.
    rows.push(EvidenceRow {
        is_selected: true,
        ..row("bad", "u", 0, true)
    });
    let profile = profile(rows);
    let of = |s| profile.utility(&id(s), &id("base"), ClusterScope::All);
    assert!(of("good").low > 0.0 && of("bad").high < 0.0);
    assert_eq!(
        (of("bad").sibling_attempts, of("bad").base_attempts),
        (40, 40)
    );
    assert!(of("unknown").low < 0.0 && of("unknown").high > 0.0);
    assert_eq!(
        profile
            .stats(&id("bad"), ClusterScope::All, Given::BaseFailedAll)
            .selected,
        1
    );
}

#[test]
fn regressions_and_examples() {
    let harm = |n| EvidenceRow {
        base_failed_all: false,
        ..row("a", "kept", n, false)
    };
    let rows = vec![
        harm(0),
        harm(1),
        row("a", "t1", 0, true),
        row("a", "t1", 1, true),
        row("a", "t2", 0, true),
        row("a", "t3", 0, true),
    ];
    let profile = profile(rows);
    assert_eq!(profile.regressions(&id("a")), 2);
    let examples = profile.examples(&id("a"));
    let names = |list: &[harness_core::TaskId]| {
        list.iter()
            .map(|t| t.as_str().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&examples.rescued), ["t1", "t2"]);
    assert_eq!(names(&examples.harmed), ["kept"]);
}
