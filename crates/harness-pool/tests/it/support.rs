//! Values that several tests need.

use harness_core::{
    BaseHarness, Comparison, Condition, CounterUpdate, Effect, Fact, HarnessEdit, HarnessId,
    HarnessSpec, Limits, Moment, ObservationPolicy, Operand, PolicyVersion, RolloutId, Rule,
    TaskId,
};
use harness_pool::{
    AcceptanceEvidence, BehaviorProfile, Cluster, EvidenceRow, PoolBuilder, ProfileConfig, Sibling,
    SiblingPool,
};
use proptest::prelude::*;

pub(crate) fn base() -> HarnessSpec {
    HarnessSpec::base(BaseHarness {
        system: "You act in a small world.".into(),
        tools: vec!["run".into()],
        ..BaseHarness::default()
    })
}

pub(crate) fn sibling(name: &str, note: &str) -> Sibling {
    sibling_of(name, vec![HarnessEdit::AddNote(note.into())])
}

pub(crate) fn sibling_of(name: &str, lineage: Vec<HarnessEdit>) -> Sibling {
    let apply = |harness: HarnessSpec, edit: &HarnessEdit| harness.apply(edit).unwrap();
    Sibling {
        name: name.into(),
        harness: lineage.iter().fold(base(), apply),
        direction: "missing login".into(),
        lineage,
        evidence: AcceptanceEvidence {
            n_tasks: 12,
            n_attempts: 48,
            sibling_solved: 20,
            retry_solved: 0,
            p_value: 0.001_25,
            threshold: 0.0125,
            union_gain: 0.1,
            retry_gain: 0.0,
            regressions: Some(0),
        },
    }
}

fn rule(name: &str, moment: Moment, when: Condition, effect: Effect) -> Rule {
    Rule {
        name: name.into(),
        moment,
        when,
        effect,
        max_fires: 2,
        count: vec![CounterUpdate {
            counter: "seen".into(),
            add: 1,
        }],
    }
}

/// A pool that uses every part of the format.
pub(crate) fn rich_pool() -> SiblingPool {
    let few_turns = Condition::Compare {
        left: Operand::TurnsLeft,
        op: Comparison::Le,
        right: Operand::Literal(Fact::Int(2)),
    };
    let has_error = Condition::All(vec![
        Condition::Predicate("last_result_error".into()),
        Condition::Not(Box::new(Condition::Contains {
            value: Operand::Action,
            text: "login".into(),
        })),
    ]);
    let login = vec![
        HarnessEdit::AddRule(rule(
            "login",
            Moment::BeforeAction,
            has_error,
            Effect::Block("Log in first.".into()),
        )),
        HarnessEdit::AddRule(rule(
            "hurry",
            Moment::BeforeTurn,
            few_turns,
            Effect::Say("Finish now: \"\u{e9}\".".into()),
        )),
    ];
    let cut = vec![
        HarnessEdit::SetObservation(ObservationPolicy::default()),
        HarnessEdit::SetLimits(Limits {
            max_turns: 20,
            max_reply_tokens: 96,
        }),
        HarnessEdit::AddNote("Pages have five rows.".into()),
    ];
    let mut builder = PoolBuilder::new(base(), "policy-0".into(), "manifest-0".into());
    builder.add(sibling_of("login-first", login)).unwrap();
    let mut paging = sibling_of("paging", cut);
    paging.evidence.regressions = None;
    builder.add(paging).unwrap();
    builder.freeze()
}

pub(crate) fn id(text: &str) -> HarnessId {
    HarnessId::new(text).unwrap()
}

/// A probe row of a failed task: attempt `n` of a harness at a task.
pub(crate) fn row(harness: &str, task: &str, n: u32, solved: bool) -> EvidenceRow {
    EvidenceRow {
        rollout: RolloutId::new(format!("{harness}:{task}:{n}")).unwrap(),
        harness: id(harness),
        task: TaskId::new(task).unwrap(),
        cluster: Cluster::of("play a song", "missing_login"),
        solved,
        base_failed_all: true,
        is_selected: false,
        turns: 3,
        tokens: 100,
        policy_version: PolicyVersion(0),
        fired: true,
        flags: vec![],
    }
}

pub(crate) fn profile(rows: Vec<EvidenceRow>) -> BehaviorProfile {
    BehaviorProfile::from_rows(rows, PolicyVersion(0), ProfileConfig::default()).unwrap()
}

/// Rows of a base and two siblings on three tasks, of few clusters, versions and flags.
pub(crate) fn rows_strategy() -> impl Strategy<Value = Vec<EvidenceRow>> {
    let one = (0..3_usize, 0..4_usize, 0..30_u64, any::<[bool; 5]>());
    prop::collection::vec(one, 0..60).prop_map(|parts| {
        let make =
            |(n, (harness, kind, version, bits)): (usize, (usize, usize, u64, [bool; 5]))| {
                let task = ["t0", "t1", "t2"][n % 3];
                let mut row = row(["base", "a", "b"][harness], task, n as u32, bits[0]);
                row.cluster = Cluster::of(["play it", "send it"][kind % 2], ["x", "y"][kind / 2]);
                // Few versions, so that some probes can be compared.
                row.policy_version = PolicyVersion(version / 10 * 10);
                row.base_failed_all = bits[1];
                row.is_selected = bits[2];
                let flags = ["done", "logged_in"].iter().zip(&bits[3..]);
                let flags = flags.filter(|(_, holds)| **holds);
                row.flags = flags.map(|(flag, _)| (*flag).to_owned()).collect();
                row
            };
        parts.into_iter().enumerate().map(make).collect()
    })
}
