//! What a re-anchoring reports, and that a router's profile is nothing but its rows.

use std::collections::BTreeMap;

use harness_core::{HarnessId, PolicyVersion, RolloutId, TaskId};
use harness_pool::{
    BehaviorProfile, Cluster, ClusterScope, EvidenceRow, Probe, RescueEvidence, SelectError,
    SelectSiblings, Share, SiblingPool,
};
use harness_router::{ReanchorReport, Router, embedded_voters, unroutable};
use proptest::prelude::*;

use crate::support::{context, pool, router};

const ANCHORS: [&str; 2] = ["t0", "t1"];

/// Solved attempts, of 10 at each anchor task, for the base and for each sibling.
struct Anchors {
    version: u64,
    tasks: Vec<&'static str>,
    base: HarnessId,
    solved: BTreeMap<HarnessId, u32>,
}

impl Probe for Anchors {
    fn probe(&mut self, harness: Option<&HarnessId>) -> Result<Vec<EvidenceRow>, SelectError> {
        let id = harness.unwrap_or(&self.base);
        let solved = self.solved.get(id).copied().unwrap_or_default();
        let row = |task: &str, n| EvidenceRow {
            rollout: RolloutId::new(format!("{}:{id}:{task}:{n}", self.version)).unwrap(),
            harness: id.clone(),
            task: TaskId::new(task).unwrap(),
            cluster: Cluster::of("Play it", if task == "t0" { "login" } else { "page" }),
            solved: n < solved,
            base_failed_all: true,
            is_selected: false,
            turns: 2,
            tokens: 20,
            policy_version: PolicyVersion(self.version),
            fired: false,
            flags: vec![],
        };
        let tasks = self.tasks.iter();
        Ok(tasks
            .flat_map(|task| (0..10).map(move |n| row(task, n)))
            .collect())
    }
}

fn anchors(pool: &SiblingPool, version: u64, base: u32, siblings: &[u32]) -> Anchors {
    let of_siblings = pool.ids().iter().cloned().zip(siblings.iter().copied());
    Anchors {
        version,
        tasks: ANCHORS.to_vec(),
        base: pool.base_id().clone(),
        solved: of_siblings
            .chain([(pool.base_id().clone(), base)])
            .collect(),
    }
}

fn report(router: &mut Router, mut probe: Anchors) -> ReanchorReport {
    router.reanchor(&mut probe).unwrap();
    router.last_reanchor().unwrap().clone()
}

#[track_caller]
fn check_change(report: &ReanchorReport, id: &HarnessId, expect: Option<f64>) {
    match (report.of(id).unwrap().change(), expect) {
        (Some(got), Some(expect)) => assert!((got - expect).abs() < 1e-12, "{got}, not {expect}"),
        (got, expect) => assert_eq!(got, expect),
    }
}

#[test]
fn the_change_of_sibling_and_base_is_told_apart() {
    let pool = pool(2);
    let [a, b] = [0, 1].map(|i| &pool.ids()[i]);
    let mut router = router(&pool, embedded_voters(), 2);
    assert_eq!(router.last_reanchor(), None);

    let first = report(&mut router, anchors(&pool, 0, 1, &[8, 8]));
    assert_eq!((first.from, first.to), (PolicyVersion(0), PolicyVersion(0)));
    check_change(&first, a, None);
    assert_eq!(first.of(a).unwrap().now, Share { n: 16, of: 20 });
    assert!(first.unroutable.is_empty());

    // The base caught up with `a`; `b` got worse.
    let second = report(&mut router, anchors(&pool, 20, 9, &[8, 1]));
    assert_eq!(
        (second.from, second.to),
        (PolicyVersion(0), PolicyVersion(20))
    );
    check_change(&second, pool.base_id(), Some(0.8));
    check_change(&second, a, Some(0.0));
    check_change(&second, b, Some(-0.7));
    assert_eq!(second.of(b).unwrap().before_version, Some(PolicyVersion(0)));
    assert_eq!(second.of(&HarnessId::new("stranger").unwrap()), None);

    // Each is compared with the newest probes before, not with the first.
    let third = report(&mut router, anchors(&pool, 40, 9, &[8, 0]));
    check_change(&third, b, Some(-0.1));
    let found: Vec<(&HarnessId, &str)> = third
        .unroutable
        .iter()
        .map(|found| (&found.harness, found.cluster.as_str()))
        .collect();
    assert_eq!(found, [(b, "play/login"), (b, "play/page")]);
    assert!(
        third
            .unroutable
            .iter()
            .all(|found| found.utility.high < 0.0)
    );
    assert_eq!(unroutable(router.profile(), &pool), third.unroutable);
    assert!(router.is_unroutable(b, &context(Some("login"))));
    let text = serde_json::to_string(&third).unwrap();
    assert_eq!(
        serde_json::from_str::<ReanchorReport>(&text).unwrap(),
        third
    );
}

#[test]
fn only_common_tasks_are_compared() {
    let pool = pool(1);
    let id = &pool.ids()[0];
    let mut router = router(&pool, embedded_voters(), 2);
    let mut probe = anchors(&pool, 0, 0, &[5]);
    probe.tasks = vec!["t0"];
    report(&mut router, probe);
    let both = report(&mut router, anchors(&pool, 20, 0, &[6]));
    let change = both.of(id).unwrap();
    assert_eq!((change.common_tasks, change.now.of), (1, 20));
    assert_eq!(change.before, Share { n: 5, of: 10 });
    assert_eq!(change.after, Share { n: 6, of: 10 });
    let mut probe = anchors(&pool, 40, 0, &[6]);
    probe.tasks = vec!["t2"];
    let other = report(&mut router, probe);
    assert_eq!(other.of(id).unwrap().common_tasks, 0);
    check_change(&other, id, None);
}

#[test]
fn routed_rescues_are_no_part_of_the_comparison() {
    let pool = pool(1);
    let id = &pool.ids()[0];
    let mut router = router(&pool, embedded_voters(), 2);
    report(&mut router, anchors(&pool, 0, 0, &[5]));
    let mut context = context(Some("login"));
    context.task_id = TaskId::new("t0").unwrap();
    context.policy_version = PolicyVersion(10);
    let mut rescues = anchors(&pool, 10, 0, &[10]).probe(Some(id)).unwrap();
    rescues.truncate(10);
    let evidence = RescueEvidence::from_rows(context, id.clone(), rescues);
    router.observe(&evidence).unwrap();
    let second = report(&mut router, anchors(&pool, 20, 0, &[5]));
    check_change(&second, id, Some(0.0));
    assert_eq!(
        second.of(id).unwrap().before_version,
        Some(PolicyVersion(0))
    );
}

#[test]
fn a_failed_reanchoring_leaves_the_last_report() {
    let pool = pool(1);
    let mut router = router(&pool, embedded_voters(), 2);
    let first = report(&mut router, anchors(&pool, 0, 1, &[8]));
    let mut nothing = anchors(&pool, 20, 1, &[8]);
    nothing.tasks.clear();
    assert!(router.reanchor(&mut nothing).is_err());
    assert_eq!(router.last_reanchor(), Some(&first));
}

/// One thing that happens to a router.
#[derive(Debug, Clone)]
enum Event {
    /// Sibling, version, solved of 4.
    Observe(usize, u64, u32),
    /// The same as the event before, told again.
    Again,
    /// Version, solved of 10 by the base and each sibling.
    Reanchor(u64, [u32; 3]),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (0..2_usize, 0..60_u64, 0..5_u32).prop_map(|(s, v, n)| Event::Observe(s, v, n)),
        1 => Just(Event::Again),
        1 => (0..60_u64, [0..11_u32, 0..11, 0..11]).prop_map(|(v, n)| Event::Reanchor(v, n)),
    ];
    prop::collection::vec(event, 0..12)
}

fn observed(
    pool: &SiblingPool,
    n: usize,
    (at, version, solved): (usize, u64, u32),
) -> RescueEvidence {
    let mut context = context(Some(["login", "page"][n % 2]));
    context.policy_version = PolicyVersion(version);
    let id = &pool.ids()[at];
    let mut rows = crate::support::rows(id, ["login", "page"][n % 2], solved, 4);
    for (i, row) in rows.iter_mut().enumerate() {
        row.rollout = RolloutId::new(format!("event-{n}-{i}")).unwrap();
        row.policy_version = PolicyVersion(version);
    }
    RescueEvidence::from_rows(context, id.clone(), rows)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Nothing that a router knows is anywhere but in its rows and the version.
    #[test]
    fn a_routers_profile_is_a_function_of_its_rows(events in events()) {
        let pool = pool(2);
        let mut router = router(&pool, embedded_voters(), 2);
        let mut last = None;
        for (n, event) in events.into_iter().enumerate() {
            match event {
                Event::Observe(at, version, solved) => {
                    let evidence = observed(&pool, n, (at, version, solved));
                    router.observe(&evidence).unwrap();
                    last = Some(evidence);
                }
                Event::Again => {
                    if let Some(evidence) = &last {
                        router.observe(evidence).unwrap();
                    }
                }
                Event::Reanchor(version, [base, a, b]) => {
                    // Probes of one version that say something else are refused, and change nothing.
                    let _ = router.reanchor(&mut anchors(&pool, version, base, &[a, b]));
                }
            }
            let own = router.profile();
            let rows = own.rows().cloned();
            let again = BehaviorProfile::from_rows(rows, own.policy_version(), own.config()).unwrap();
            prop_assert_eq!(&again, own);
            let text = |profile: &BehaviorProfile| {
                serde_json::to_string(&profile.summaries(pool.base_id(), ClusterScope::All)).unwrap()
            };
            prop_assert_eq!(text(&again), text(own));
        }
    }
}
