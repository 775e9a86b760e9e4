//! Decisions with the embedded voters, beside a slow router that counts every row anew.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use harness_core::{HarnessId, PolicyVersion, RolloutId, TaskId};
use harness_pool::{
    BehaviorProfile, Cluster, EvidenceRow, ProfileConfig, RouteContext, SelectSiblings as _,
    SiblingPool,
};
use harness_router::testing::{contexts, pool_of, rows};
use harness_router::{NearestFailures, Router, RouterConfig, embedded_voters};
use proptest::prelude::*;

const HALF_LIFE: f64 = 20.0;

/// What was told, each rollout once.
#[derive(Default)]
struct Slow {
    rows: BTreeMap<RolloutId, EvidenceRow>,
    version: u64,
}

/// Attempts, and discounted attempts and successes.
type Sums = (u64, f64, f64);

impl Slow {
    /// Sums over the rows that hold, in the order of clusters, versions and origins.
    fn sums(&self, holds: impl Fn(&EvidenceRow) -> bool) -> Sums {
        let mut counts: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for row in self.rows.values().filter(|row| holds(row)) {
            let origin = (row.base_failed_all, row.is_selected);
            let cell = counts.entry((&row.cluster, row.policy_version, origin));
            let (n, solved) = cell.or_default();
            *n += 1;
            *solved += u64::from(row.solved);
        }
        let mut sums = (0, 0.0, 0.0);
        for ((_, version, _), (n, solved)) in counts {
            let age = self.version.saturating_sub(version.0) as f64;
            let weight = 0.5_f64.powf(age / HALF_LIFE);
            sums.0 += n;
            sums.1 += weight * n as f64;
            sums.2 += weight * solved as f64;
        }
        sums
    }

    fn clusters(&self, id: &HarnessId) -> BTreeSet<&Cluster> {
        let rows = self.rows.values().filter(|row| row.harness == *id);
        rows.map(|row| &row.cluster).collect()
    }

    fn by_cluster(&self, context: &RouteContext, id: &HarnessId) -> f64 {
        let here = context.cluster();
        let fits = |row: &EvidenceRow| row.harness == *id && speaks(context, row);
        match self.sums(|row| fits(row) && row.cluster == here) {
            (0, ..) => mean(self.sums(fits)),
            sums => mean(sums),
        }
    }

    fn by_error_kind(&self, context: &RouteContext, pool: &[HarnessId]) -> Vec<HarnessId> {
        let here = context.cluster();
        let fits = |id: &HarnessId, row: &EvidenceRow| row.harness == *id && speaks(context, row);
        let is_kind = |row: &EvidenceRow| row.cluster.error_kind() == here.error_kind();
        let of = |id: &HarnessId| self.sums(|row| fits(id, row) && is_kind(row));
        let tried: Vec<HarnessId> = pool.iter().filter(|id| of(id).0 > 0).cloned().collect();
        if tried.is_empty() {
            return ranked(pool, |id| mean(self.sums(|row| fits(id, row))));
        }
        ranked(&tried, |id| mean(of(id)))
    }

    /// `None` without evidence.
    fn by_nearest(&self, context: &RouteContext, pool: &[HarnessId]) -> Option<Vec<HarnessId>> {
        let here = context.cluster();
        let far = |c: &Cluster| {
            u32::from(c.verb() != here.verb()) + u32::from(c.error_kind() != here.error_kind())
        };
        let mut tasks: BTreeMap<&TaskId, u32> = BTreeMap::new();
        for row in self.rows.values() {
            if pool.contains(&row.harness) && speaks(context, row) {
                let distance = tasks.entry(&row.task).or_insert(2);
                *distance = far(&row.cluster).min(*distance);
            }
        }
        let mut distances: Vec<u32> = tasks.into_values().collect();
        distances.sort_unstable();
        distances.truncate(NearestFailures::default().k);
        let reach = *distances.last()?;
        let score = |id: &HarnessId| {
            let (mut solved, mut failed) = (0.0, 0.0);
            let clusters = self.clusters(id).into_iter();
            for cluster in clusters.filter(|cluster| far(cluster) <= reach) {
                let (_, of, won) = self.sums(|row| {
                    row.harness == *id && speaks(context, row) && row.cluster == *cluster
                });
                let weight = 1.0 / f64::from(1 + far(cluster));
                solved += weight * won;
                failed += weight * (of - won).max(0.0);
            }
            beta_mean(solved, failed)
        };
        Some(ranked(pool, score))
    }

    fn is_unroutable(&self, context: &RouteContext, id: &HarnessId, base: &HarnessId) -> bool {
        let here = context.cluster();
        let of = |id: &HarnessId| {
            let (_, n, solved) = self.sums(|row| {
                row.harness == *id && row.cluster == here && row.base_failed_all && !row.is_selected
            });
            let (a, b) = (1.0 + solved, 1.0 + n - solved);
            (a / (a + b), a * b / ((a + b) * (a + b) * (a + b + 1.0)))
        };
        let ((own, own_variance), (other, other_variance)) = (of(id), of(base));
        own - other + 1.959_964 * (own_variance + other_variance).sqrt() < 0.0
    }

    /// The ballots that are valid, and all siblings, best first.
    fn decide(
        &self,
        context: &RouteContext,
        pool: &SiblingPool,
    ) -> (Vec<Vec<HarnessId>>, Vec<HarnessId>) {
        let ids = pool.ids();
        let mut ballots = vec![
            ranked(ids, |id| self.by_cluster(context, id)),
            self.by_error_kind(context, ids),
        ];
        ballots.extend(self.by_nearest(context, ids));
        let points = |id: &HarnessId| {
            let borda = |ballot: &Vec<HarnessId>| match ballot.iter().position(|own| own == id) {
                Some(place) => 2 * (ids.len() - 1 - place),
                None => (ids.len() - ballot.len()).saturating_sub(1),
            };
            ballots.iter().map(borda).sum::<usize>()
        };
        let mut order = ranked(ids, |id| self.by_cluster(context, id));
        // A stable sort: what is equal here stays in the order of means and ids.
        order.sort_by_key(|id| {
            let is_unroutable = self.is_unroutable(context, id, pool.base_id());
            (is_unroutable, Reverse(points(id)))
        });
        (ballots, order)
    }
}

fn speaks(context: &RouteContext, row: &EvidenceRow) -> bool {
    row.base_failed_all || context.digest.is_none()
}

fn mean((_, n, solved): Sums) -> f64 {
    beta_mean(solved, (n - solved).max(0.0))
}

fn beta_mean(solved: f64, failed: f64) -> f64 {
    (1.0 + solved) / (2.0 + solved + failed)
}

fn ranked(ids: &[HarnessId], score: impl Fn(&HarnessId) -> f64) -> Vec<HarnessId> {
    let mut ids = ids.to_vec();
    ids.sort_by(|a, b| score(b).total_cmp(&score(a)).then_with(|| a.cmp(b)));
    ids
}

/// A pool, batches of rows (some told before) with the version after each, and contexts to decide for.
type Story = (SiblingPool, Vec<(Vec<EvidenceRow>, u64)>, Vec<RouteContext>);

fn stories() -> impl Strategy<Value = Story> {
    (1..7_usize).prop_flat_map(|n| {
        let pool = pool_of(n);
        let ids: Vec<HarnessId> = pool.ids().iter().chain([pool.base_id()]).cloned().collect();
        let batches = rows(&ids).prop_flat_map(|rows| {
            let batch = (
                prop::collection::vec(any::<prop::sample::Index>(), 0..30),
                0..80_u64,
            );
            let pick =
                move |at: prop::sample::Index| (!rows.is_empty()).then(|| at.get(&rows).clone());
            let batch = batch.prop_map(move |(picks, version)| {
                (
                    picks.into_iter().filter_map(&pick).collect::<Vec<_>>(),
                    version,
                )
            });
            prop::collection::vec(batch, 1..5)
        });
        (Just(pool), batches, prop::collection::vec(contexts(), 1..3))
    })
}

proptest! {
    #[test]
    fn the_router_decides_as_the_slow_one((pool, batches, contexts) in stories()) {
        let profile = ProfileConfig { half_life: Some(HALF_LIFE) };
        let config = RouterConfig { epsilon: 0.0, profile, ..RouterConfig::default() };
        let mut router = Router::new(&pool, embedded_voters(), config).unwrap();
        let mut known = BehaviorProfile::from_rows([], PolicyVersion(0), profile).unwrap();
        let mut slow = Slow::default();
        for (rows, version) in batches {
            // What was asked before must not show in what is asked now, so one profile lives on.
            known.insert(rows.clone()).unwrap();
            known.set_policy_version(PolicyVersion(version));
            slow.rows.extend(rows.into_iter().map(|row| (row.rollout.clone(), row)));
            slow.version = version;
            if let Some(row) = slow.rows.values().next() {
                let lie = EvidenceRow { solved: !row.solved, ..row.clone() };
                prop_assert!(known.insert([lie]).is_err());
            }
            for context in &contexts {
                // Answered once before the profile is copied into the router, and again there.
                for voter in embedded_voters() {
                    let _ = voter.vote(context, pool.ids(), &known);
                }
                router.restore(known.clone(), PolicyVersion(version)).unwrap();
                let decision = router.select(context, pool.len()).unwrap();
                let (ballots, order) = slow.decide(context, &pool);
                prop_assert_eq!(&decision.chosen, &order);
                let counted = decision.ballots.iter().filter(|ballot| ballot.rejected.is_none());
                let counted: Vec<_> = counted.map(|ballot| ballot.ranking.clone()).collect();
                prop_assert_eq!(&counted, &ballots);
            }
        }
    }
}
