//! The voter of nearest failures, against a slow and obvious reference.

use std::collections::BTreeMap;

use harness_core::{HarnessId, PolicyVersion, TaskId};
use harness_pool::{
    BehaviorProfile, Cluster, EvidenceRow, ProfileConfig, RouteContext, SiblingPool,
};
use harness_router::testing::{check_voter, contexts, pool_of, rows};
use harness_router::{BetaByCluster, NearestFailures, NoBallot, Voter, embedded_voters};
use proptest::prelude::*;

use crate::support::{self, context, pool};

fn profile(rows: Vec<EvidenceRow>) -> BehaviorProfile {
    BehaviorProfile::from_rows(rows, PolicyVersion(40), ProfileConfig::default()).unwrap()
}

fn distance(a: &Cluster, b: &Cluster) -> usize {
    let same = [a.verb() == b.verb(), a.error_kind() == b.error_kind()];
    2 - same.iter().filter(|same| **same).count()
}

/// The score of every sibling, row by row; `None` without evidence.
fn scores(
    rows: &[EvidenceRow],
    pool: &[HarnessId],
    context: &RouteContext,
    k: usize,
) -> Option<BTreeMap<HarnessId, f64>> {
    let here = context.cluster();
    let speaks = |row: &&EvidenceRow| {
        pool.contains(&row.harness) && (row.base_failed_all || context.digest.is_none())
    };
    let rows: Vec<&EvidenceRow> = rows.iter().filter(speaks).collect();
    let mut tasks: Vec<&TaskId> = rows.iter().map(|row| &row.task).collect();
    tasks.sort();
    tasks.dedup();
    let of_task = |task: &&TaskId| {
        let own = rows.iter().filter(|row| row.task == **task);
        own.map(|row| distance(&row.cluster, &here)).min().unwrap()
    };
    let mut distances: Vec<usize> = tasks.iter().map(of_task).collect();
    distances.sort_unstable();
    let reach = *distances.get(k - 1).or(distances.last())?;
    let score = |id: &HarnessId| {
        let (mut s, mut n) = (0.0, 0.0);
        for row in rows.iter().filter(|row| row.harness == *id) {
            let far = distance(&row.cluster, &here);
            if far <= reach {
                let age = 40_u64.saturating_sub(row.policy_version.0) as f64;
                let weight = 0.5_f64.powf(age / 20.0) / (1.0 + far as f64);
                n += weight;
                s += if row.solved { weight } else { 0.0 };
            }
        }
        (1.0 + s) / (2.0 + n)
    };
    Some(pool.iter().map(|id| (id.clone(), score(id))).collect())
}

fn known() -> impl Strategy<Value = (SiblingPool, Vec<EvidenceRow>)> {
    (1..5_usize).prop_map(pool_of).prop_flat_map(|pool| {
        let harnesses: Vec<_> = pool.ids().iter().chain([pool.base_id()]).cloned().collect();
        (Just(pool), rows(&harnesses))
    })
}

proptest! {
    #[test]
    fn it_agrees_with_the_reference(
        (pool, rows) in known(),
        context in contexts(),
        k in 1..9_usize,
    ) {
        let voter = NearestFailures { k };
        let ballot = voter.vote(&context, pool.ids(), &profile(rows.clone()));
        match scores(&rows, pool.ids(), &context, k) {
            None => prop_assert_eq!(ballot, Err(NoBallot::Empty)),
            Some(scores) => {
                let ranking = ballot.unwrap().ranking;
                prop_assert_eq!(ranking.len(), pool.len());
                for pair in ranking.windows(2) {
                    prop_assert!(scores[&pair[0]] >= scores[&pair[1]] - 1e-9, "{:?}", scores);
                }
            }
        }
    }

    #[test]
    fn renaming_siblings_renames_its_ballot_without_ties(
        ((pool, rows), renamed) in known().prop_flat_map(|known| {
            let renamed = Just(known.0.ids().to_vec()).prop_shuffle();
            (Just(known), renamed)
        }),
        context in contexts(),
    ) {
        let voter = NearestFailures::default();
        let scores = scores(&rows, pool.ids(), &context, voter.k);
        prop_assume!(scores.is_some());
        let mut sorted: Vec<f64> = scores.unwrap().into_values().collect();
        sorted.sort_by(f64::total_cmp);
        prop_assume!(sorted.windows(2).all(|pair| pair[1] - pair[0] > 1e-9));
        let rename = |id: &HarnessId| {
            let at = pool.ids().iter().position(|other| other == id);
            at.map_or_else(|| id.clone(), |at| renamed[at].clone())
        };
        let other: Vec<EvidenceRow> = rows
            .iter()
            .map(|row| EvidenceRow { harness: rename(&row.harness), ..row.clone() })
            .collect();
        let vote = |rows| voter.vote(&context, pool.ids(), &profile(rows)).unwrap().ranking;
        let expect: Vec<HarnessId> = vote(rows).iter().map(rename).collect();
        prop_assert_eq!(vote(other), expect);
    }

    #[test]
    fn every_embedded_voter_keeps_the_contract((pool, rows) in known(), context in contexts()) {
        let profile = profile(rows);
        for voter in embedded_voters() {
            check_voter(voter.as_ref(), &context, pool.ids(), &profile)?;
        }
    }
}

/// Rows of one attempt each at `n` tasks of this instruction and kind.
fn tasks(id: &HarnessId, instruction: &str, kind: &str, n: u32, solved: u32) -> Vec<EvidenceRow> {
    let mut rows = support::rows(id, kind, solved, n);
    for (i, row) in rows.iter_mut().enumerate() {
        let name = format!("{instruction}:{kind}:{i}").replace(' ', "_");
        row.rollout = harness_core::RolloutId::new(format!("{name}:{id}")).unwrap();
        row.task = TaskId::new(name).unwrap();
        row.cluster = Cluster::of(instruction, kind);
    }
    rows
}

#[test]
fn near_tasks_outweigh_far_ones_and_far_ones_stand_in() {
    let pool = pool(2);
    let [a, b] = [0, 1].map(|i| &pool.ids()[i]);
    let vote = |rows: Vec<Vec<EvidenceRow>>, k| {
        let context = context(Some("login"));
        let rows = rows.into_iter().flatten().collect();
        let voter = NearestFailures { k };
        voter
            .vote(&context, pool.ids(), &profile(rows))
            .unwrap()
            .ranking[0]
            .clone()
    };
    // `b` solves the one task here, `a` all of those with the same error under another verb.
    let here = || {
        vec![
            tasks(a, "Play it", "login", 1, 0),
            tasks(b, "Play it", "login", 1, 1),
        ]
    };
    let there = || {
        vec![
            tasks(a, "Send it", "login", 9, 9),
            tasks(b, "Send it", "login", 9, 0),
        ]
    };
    let both = || [here(), there()].concat();
    assert_eq!(vote(both(), 1), *b, "one task is enough, and it is here");
    assert_eq!(vote(both(), 2), *a, "one is too few, so the kind is asked");
    assert_eq!(vote(here(), 9), *b);
    // What is neither of the verb nor of the kind is asked last.
    let far = vec![tasks(b, "Send it", "page", 9, 9)];
    assert_eq!(vote([there(), far.clone()].concat(), 9), *a);
    assert_eq!(vote(far, 9), *b);
    // A cluster alone would not have seen the tasks with the same error.
    let rows: Vec<EvidenceRow> = both().into_iter().flatten().collect();
    let by_cluster = BetaByCluster.vote(&context(Some("login")), pool.ids(), &profile(rows));
    assert_eq!(by_cluster.unwrap().ranking[0], *b);
}

#[test]
fn a_sibling_known_to_fail_stands_behind_an_untried_one() {
    let pool = pool(2);
    let first = &pool.ids()[0];
    let rows = tasks(first, "Play it", "login", 8, 0);
    let ballot =
        NearestFailures::default().vote(&context(Some("login")), pool.ids(), &profile(rows));
    assert_eq!(ballot.unwrap().ranking.last(), Some(first));
}

#[test]
fn attempts_under_the_base_are_no_evidence_on_siblings() {
    let pool = pool(2);
    let rows = tasks(pool.base_id(), "Play it", "login", 8, 4);
    let ballot =
        NearestFailures::default().vote(&context(Some("login")), pool.ids(), &profile(rows));
    assert_eq!(ballot, Err(NoBallot::Empty));
}
