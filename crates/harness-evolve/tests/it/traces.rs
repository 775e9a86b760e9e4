//! Trajectories that do not prove that they ran what was asked stop an evolution (bug report E7).

use harness_core::{HarnessSpec, PolicyVersion, Seed, Trajectory};
use harness_evolve::{EvolveError, Rerun, TraceError, evolve};

use crate::toy::{Tampered, World, base, config, input, proposer, say};

#[track_caller]
fn tampered(change: impl FnMut(&str, &mut Vec<Trajectory>)) -> TraceError {
    let mut rerun = Tampered(World::new(0.5), change);
    match evolve(
        input(1, 20),
        &mut proposer(2),
        &mut rerun,
        &config(20),
        Seed::new(1),
    ) {
        Err(EvolveError::Trace(error)) => error,
        other => panic!("no trace error: {other:?}"),
    }
}

#[test]
fn e7_a_rerun_of_another_harness_is_an_error() {
    let got = tampered(|purpose, got| {
        if purpose.starts_with("d0/search/r") {
            for attempt in got.iter_mut() {
                attempt.harness_id = base().id();
            }
        }
    });
    assert!(matches!(got, TraceError::WrongHarness { .. }), "{got}");
}

#[test]
fn e7_a_replayed_attempt_is_an_error() {
    let mut old = Vec::new();
    let got = tampered(move |purpose, got| match purpose {
        "d0/search/base" => old.clone_from(got),
        "d0/confirm/base" => {
            let first = got[0].task_id.clone();
            got[0] = old[0].clone();
            got[0].task_id = first;
        }
        _ => {}
    });
    assert!(matches!(got, TraceError::Duplicate(_)), "{got}");
}

#[test]
fn e7_missing_foreign_and_mixed_attempts_are_errors() {
    let got = tampered(|_, got| drop(got.pop()));
    assert!(
        matches!(
            got,
            TraceError::WrongCount {
                expected: 4,
                got: 3,
                ..
            }
        ),
        "{got}"
    );
    let got = tampered(|purpose, got| {
        if purpose == "base/confirm" {
            got[0].task_id = harness_core::TaskId::new("s0").unwrap();
        }
    });
    assert!(matches!(got, TraceError::UnknownTask { .. }), "{got}");
    let got = tampered(|purpose, got| {
        if purpose == "d0/search/base" {
            got[5].policy_version = PolicyVersion(1);
        }
    });
    assert!(matches!(got, TraceError::OtherPolicy { .. }), "{got}");
}

#[test]
fn e7_a_canary_edit_changes_behaviour() {
    let tasks = input(1, 2).search.tasks;
    let canary = base().apply(&say("canary", "answer 7")).unwrap();
    let mut world = World::new(0.0);
    let mut actions = |harness: &HarnessSpec, purpose: &str| -> Vec<String> {
        let got = world
            .rerun(harness, &tasks, 1, Seed::new(1), purpose)
            .unwrap();
        assert!(got.iter().all(|t| t.harness_id == harness.id()));
        got.into_iter().map(|t| t.turns[0].action.clone()).collect()
    };
    let (plain, changed) = (actions(&base(), "a"), actions(&canary, "b"));
    assert!(changed.iter().all(|a| a.contains("answer 7")));
    assert!(plain.iter().all(|a| !a.contains("answer 7")));
}
