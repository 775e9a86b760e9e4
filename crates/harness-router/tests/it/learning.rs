//! What a router learns by observing and re-anchoring, and Rank-1.

use std::collections::BTreeMap;

use harness_core::{HarnessId, PolicyVersion, Seed};
use harness_pool::{
    ClusterScope, EvidenceRow, Given, Probe, RescueEvidence, SelectError, SelectSiblings,
};
use harness_router::{Router, RouterConfig, embedded_voters};

use crate::support::{context, pool, router, rows};

/// Rows to return for each harness; `None` is the base.
#[derive(Default)]
struct Rows(BTreeMap<Option<HarnessId>, Vec<EvidenceRow>>);

impl Probe for Rows {
    fn probe(&mut self, harness: Option<&HarnessId>) -> Result<Vec<EvidenceRow>, SelectError> {
        Ok(self.0.get(&harness.cloned()).cloned().unwrap_or_default())
    }
}

fn embedded(pool: &harness_pool::SiblingPool) -> Router {
    router(pool, embedded_voters(), 2)
}

fn evidence(id: &HarnessId, kind: &str, solved: u32, attempts: u32) -> RescueEvidence {
    RescueEvidence::from_rows(
        context(Some(kind)),
        id.clone(),
        rows(id, kind, solved, attempts),
    )
}

#[test]
fn observed_rescues_count_as_selected_and_once() {
    let pool = pool(3);
    let id = &pool.ids()[2];
    let mut router = embedded(&pool);
    let seen = evidence(id, "login", 4, 4);
    router.observe(&seen).unwrap();
    router.observe(&seen).unwrap();
    let stats = router
        .profile()
        .stats(id, ClusterScope::All, Given::BaseFailedAll);
    assert_eq!((stats.attempts, stats.selected), (4, 4));
    assert_eq!(
        router.select(&context(Some("login")), 1).unwrap().chosen,
        std::slice::from_ref(id)
    );
}

#[test]
fn what_helps_depends_on_the_cluster() {
    let pool = pool(2);
    let [a, b] = [0, 1].map(|i| &pool.ids()[i]);
    let mut router = embedded(&pool);
    for (id, kind, solved) in [
        (a, "page", 8),
        (a, "login", 0),
        (b, "page", 0),
        (b, "login", 8),
    ] {
        router.observe(&evidence(id, kind, solved, 8)).unwrap();
    }
    assert_eq!(
        router.select(&context(Some("login")), 1).unwrap().chosen,
        std::slice::from_ref(b)
    );
    assert_eq!(
        router.select(&context(Some("page")), 1).unwrap().chosen,
        std::slice::from_ref(a)
    );
}

#[test]
fn strangers_and_contradictions_are_refused_and_change_nothing() {
    let pool = pool(1);
    let mut router = embedded(&pool);
    let stranger = HarnessId::new("stranger").unwrap();
    let error = router
        .observe(&evidence(&stranger, "login", 1, 2))
        .unwrap_err();
    assert!(matches!(error, SelectError::UnknownHarness(_)));
    let mut wrong = evidence(&pool.ids()[0], "login", 1, 2);
    wrong.solved = 2;
    assert!(router.observe(&wrong).is_err());
    assert_eq!(router.profile().rows().len(), 0);
}

#[test]
fn reanchoring_demotes_what_is_worse_than_a_retry() {
    let pool = pool(3);
    let mut probe = Rows::default();
    probe.0.insert(None, rows(pool.base_id(), "login", 15, 20));
    let worst = &pool.ids()[0];
    for id in pool.ids() {
        let solved = if id == worst { 1 } else { 12 };
        probe
            .0
            .insert(Some(id.clone()), rows(id, "login", solved, 20));
    }
    for row in probe.0.values_mut().flatten() {
        row.policy_version = PolicyVersion(20);
    }
    // Voters that all love the worst.
    let voters = vec![crate::support::says("fan", &[worst])];
    let mut router = router(&pool, voters, 1);
    assert_eq!(
        router.select(&context(Some("login")), 1).unwrap().chosen,
        std::slice::from_ref(worst)
    );
    router.reanchor(&mut probe).unwrap();
    assert_eq!(router.anchored_at(), PolicyVersion(20));
    assert_eq!(router.profile().policy_version(), PolicyVersion(20));
    let context = context(Some("login"));
    assert!(
        router.is_unroutable(worst, &context) && !router.is_unroutable(&pool.ids()[1], &context)
    );
    assert!(!router.select(&context, 2).unwrap().chosen.contains(worst));
    // All three are asked for, so it stands in, last, and a note says so.
    let all = router.select(&context, 3).unwrap();
    assert_eq!(all.chosen.last(), Some(worst));
    assert!(
        all.notes
            .iter()
            .any(|note| note.contains("for want of others")),
        "{:?}",
        all.notes
    );
}

#[test]
fn a_failed_reanchoring_changes_nothing() {
    let pool = pool(2);
    let mut router = embedded(&pool);
    let before = router.profile().clone();
    assert!(matches!(
        router.reanchor(&mut Rows::default()),
        Err(SelectError::EmptyProbe)
    ));
    // e7: the probe of the second sibling ran another harness.
    let mut wrong = Rows::default();
    wrong.0.insert(None, rows(pool.base_id(), "login", 1, 2));
    wrong.0.insert(
        Some(pool.ids()[1].clone()),
        rows(pool.base_id(), "page", 1, 2),
    );
    assert!(matches!(
        router.reanchor(&mut wrong),
        Err(SelectError::Inconsistent { .. })
    ));
    assert_eq!(*router.profile(), before);
}

#[test]
fn one_slot_explores_by_chance() {
    let pool = pool(5);
    let config = RouterConfig {
        epsilon: 0.25,
        ..RouterConfig::default()
    };
    let mut explorer = Router::new(&pool, embedded_voters(), config).unwrap();
    let usual = embedded(&pool).select(&context(None), 2).unwrap().chosen;
    let mut n_explored = 0;
    for n in 0..1000 {
        let mut context = context(None);
        context.seed = Seed::new(n);
        let decision = explorer.select(&context, 2).unwrap();
        assert_eq!(decision.chosen[0], usual[0]);
        assert_eq!(decision.explored, decision.chosen[1] != usual[1]);
        n_explored += u32::from(decision.explored);
        assert!(
            !explorer.select(&context, 5).unwrap().explored,
            "nobody is left to explore"
        );
    }
    assert!((200..300).contains(&n_explored), "{n_explored}");
}

#[test]
fn empty_pools_and_no_slots() {
    let empty = pool(0);
    let decision = embedded(&empty).select(&context(None), 2).unwrap();
    assert!(decision.chosen.is_empty());
    assert!(decision.notes.contains(&"the pool is empty".to_owned()));
    assert!(
        embedded(&pool(2))
            .select(&context(None), 0)
            .unwrap()
            .chosen
            .is_empty()
    );
}

#[test]
fn rank1_is_the_base_unless_a_sibling_is_better() {
    let pool = pool(2);
    let [a, b] = [0, 1].map(|i| &pool.ids()[i]);
    let with = |parts: Vec<Vec<EvidenceRow>>| {
        let rows = parts.into_iter().flatten();
        let made = harness_pool::BehaviorProfile::from_rows(
            rows,
            PolicyVersion(0),
            harness_pool::ProfileConfig::default(),
        );
        embedded(&pool)
            .with_profile(made.unwrap())
            .unwrap()
            .rank1(&context(None))
            .harness
    };
    let base = pool.base_id();
    assert_eq!(with(vec![]), *base);
    assert_eq!(
        with(vec![rows(a, "x", 9, 9)]),
        *base,
        "nothing is known of the base"
    );
    assert_eq!(
        with(vec![rows(base, "x", 5, 9), rows(a, "x", 5, 9)]),
        *base,
        "a tie"
    );
    assert_eq!(with(vec![rows(base, "x", 5, 9), rows(b, "x", 7, 9)]), *b);
    // Tasks that the base solved ("unseen") and failed ("x") count alike: 8 of 16 against 9 of 16, though
    // among the solved ones alone the base leads.
    let unconditional = vec![
        rows(base, "unseen", 8, 8),
        rows(base, "x", 0, 8),
        rows(a, "unseen", 4, 8),
        rows(a, "x", 5, 8),
    ];
    assert_eq!(with(unconditional), *a);
    // Routed rescues are no fair sample and are left out.
    let mut routed = rows(b, "x", 9, 9);
    for row in &mut routed {
        row.is_selected = true;
    }
    assert_eq!(with(vec![rows(base, "x", 5, 9), routed]), *base);
}

#[test]
fn without_a_digest_routed_rows_teach_as_well() {
    let pool = pool(3);
    let mut router = embedded(&pool);
    let context = context(None);
    let first = router.select(&context, 1).unwrap().chosen;
    let mut seen = RescueEvidence::from_rows(
        context.clone(),
        first[0].clone(),
        rows(&first[0], "unseen", 0, 4),
    );
    for row in &mut seen.rows {
        row.base_failed_all = false;
    }
    router.observe(&seen).unwrap();
    assert_ne!(router.select(&context, 1).unwrap().chosen, first);
}

#[test]
fn a_resumed_router_decides_alike() {
    let pool = pool(3);
    let mut router = embedded(&pool);
    router
        .observe(&evidence(&pool.ids()[1], "login", 3, 4))
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.json");
    router.profile().save(&path).unwrap();
    let profile = harness_pool::BehaviorProfile::load(&path).unwrap();
    let mut resumed = embedded(&pool)
        .with_profile(profile)
        .unwrap()
        .with_anchor(router.anchored_at());
    let context = context(Some("login"));
    assert_eq!(
        resumed.select(&context, 2).unwrap(),
        router.select(&context, 2).unwrap()
    );
}
