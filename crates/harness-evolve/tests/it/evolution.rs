//! One evolution at a time: what enters, what is refused, what stops it.

use std::fmt::Write as _;
use std::sync::Arc;

use harness_core::{BaseHarness, HarnessSpec, Seed, Split, Trajectory};
use harness_evolve::report::{Admission, Verdict};
use harness_evolve::{
    DirectionBrief, EvolutionReport, EvolveConfig, EvolveError, Proposal, ProposeError, Proposer,
    Rejection, evolve,
};

use crate::toy::{Tampered, World, base, config, input, proposer, said, say};

/// Proposes the same list whenever it is asked, and remembers what it was shown.
#[derive(Default)]
struct Fixed {
    proposals: Vec<Proposal>,
    shown: String,
}

impl Fixed {
    fn texts(texts: &[&str]) -> Self {
        let proposal = |(i, text): (usize, &&str)| Proposal {
            edits: vec![say(&format!("rule {i}"), text)],
            why: "because".into(),
        };
        Self {
            proposals: texts.iter().enumerate().map(proposal).collect(),
            shown: String::new(),
        }
    }
}

impl Proposer for Fixed {
    fn propose(
        &mut self,
        brief: &DirectionBrief<'_>,
        _n: usize,
        _seed: Seed,
    ) -> Result<Vec<Proposal>, ProposeError> {
        write!(self.shown, "{brief:?}").expect("a string takes any text");
        Ok(self.proposals.clone())
    }
}

#[test]
fn repairs_of_each_direction_enter_the_pool() {
    let mut world = World::new(0.6);
    let got = evolve(
        input(3, 30),
        &mut proposer(3),
        &mut world,
        &config(30),
        Seed::new(3),
    )
    .unwrap();
    assert_eq!(got.report.directions.len(), 3);
    assert_eq!(got.pool.len(), 3, "{:#?}", got.report.confirmations);
    for sibling in got.pool.siblings() {
        let kind = sibling.direction.chars().last().unwrap();
        assert_eq!(
            said(&sibling.harness),
            [format!("fix {kind} now")],
            "{}",
            sibling.direction
        );
        assert_eq!(sibling.replay(got.pool.base()).unwrap(), sibling.harness);
        assert!(sibling.evidence.p_value <= sibling.evidence.threshold);
        assert!(sibling.evidence.union_gain > sibling.evidence.retry_gain);
    }
    let spent: u64 = world
        .calls
        .iter()
        .map(|(_, n, a)| *n as u64 * u64::from(*a))
        .sum();
    assert_eq!(got.report.rollouts.total(), spent);
}

#[test]
fn confirmation_is_one_test_with_equal_arms() {
    let mut world = World::new(0.6);
    evolve(
        input(2, 30),
        &mut proposer(2),
        &mut world,
        &config(30),
        Seed::new(3),
    )
    .unwrap();
    // The base as reference, and every round full.
    let most = 1 + config(30).rounds as usize * config(30).candidates_per_round;
    for d in 0..2 {
        let arms: Vec<_> = world
            .calls
            .iter()
            .filter(|(p, ..)| p.starts_with(&format!("d{d}/confirm")))
            .collect();
        assert_eq!(arms.len(), 2);
        assert_eq!((arms[0].1, arms[0].2), (arms[1].1, arms[1].2));
        let search: Vec<_> = world
            .calls
            .iter()
            .filter(|(p, ..)| p.starts_with(&format!("d{d}/search")))
            .collect();
        assert!(
            search
                .iter()
                .all(|(_, n, a)| (*n, *a) == (search[0].1, search[0].2))
        );
        assert!((2..=most).contains(&search.len()));
    }
    let mut purposes: Vec<_> = world.calls.iter().map(|(p, ..)| p).collect();
    purposes.sort();
    let n = purposes.len();
    purposes.dedup();
    assert_eq!(purposes.len(), n);
}

#[test]
fn same_seed_same_bytes() {
    let run = |seed| {
        let mut world = World {
            broken: 0.1,
            ..World::new(0.4)
        };
        let got = evolve(
            input(2, 20),
            &mut proposer(3),
            &mut world,
            &config(20),
            Seed::new(seed),
        )
        .unwrap();
        (
            serde_json::to_string(&got.report).unwrap(),
            got.pool.hash().to_owned(),
        )
    };
    assert_eq!(run(5), run(5));
    let report: EvolutionReport = serde_json::from_str(&run(5).0).unwrap();
    assert_eq!(serde_json::to_string(&report).unwrap(), run(5).0);
}

#[test]
fn e3_leaking_proposals_cost_no_rollout_and_are_recorded() {
    let mut world = World::new(0.5);
    let leak = "please do the errand number s3 and then report about it";
    let mut fixed = Fixed::texts(&[leak, "as in c7: errand number c7 and then report about it"]);
    let got = evolve(
        input(1, 20),
        &mut fixed,
        &mut world,
        &config(20),
        Seed::new(1),
    )
    .unwrap();
    assert!(got.pool.is_empty() && got.report.confirmations.is_empty());
    let all_refused = got.report.candidates.iter().all(|c| {
        matches!(
            c.verdict,
            Verdict::Rejected(Rejection::Leak(_) | Rejection::RejectedBefore)
        )
    });
    assert!(all_refused && !got.report.candidates.is_empty());
    assert_eq!(
        world
            .calls
            .iter()
            .filter(|(p, ..)| p.starts_with("d0"))
            .count(),
        1
    );
}

#[test]
fn proposers_see_neither_confirmation_nor_family_nor_ids() {
    let mut fixed = Fixed::texts(&["fix 0", "calm"]);
    evolve(
        input(1, 20),
        &mut fixed,
        &mut World::new(0.5),
        &config(20),
        Seed::new(1),
    )
    .unwrap();
    assert!(fixed.shown.contains("errand number s"));
    assert!(!fixed.shown.contains("errand number c"));
    assert!(!fixed.shown.contains("must not be read") && !fixed.shown.contains("TaskId"));
}

#[test]
fn e10_the_same_content_under_two_names_is_tried_once() {
    let mut fixed = Fixed::texts(&["calm", "calm", "calm"]);
    let mut world = World::new(0.5);
    let got = evolve(
        input(1, 20),
        &mut fixed,
        &mut world,
        &config(20),
        Seed::new(1),
    )
    .unwrap();
    let ran = got
        .report
        .candidates
        .iter()
        .filter(|c| c.harness.is_some())
        .count();
    assert_eq!(ran, 1);
    assert!(got.pool.is_empty());
}

#[test]
fn e11_an_idle_edit_is_not_stacked_for_nothing() {
    let mut world = World::new(0.7);
    let mut fixed = Fixed::texts(&["fix 0", "calm", "quiet"]);
    let got = evolve(
        input(1, 40),
        &mut fixed,
        &mut world,
        &config(40),
        Seed::new(2),
    )
    .unwrap();
    assert_eq!(got.pool.len(), 1);
    assert_eq!(said(&got.pool.siblings()[0].harness), ["fix 0"]);
    let stacked = got
        .report
        .candidates
        .iter()
        .filter(|c| c.parent != got.report.base);
    assert!(stacked.count() > 0);
}

#[test]
fn two_directions_do_not_confirm_one_content_twice() {
    let mut world = World::new(0.7);
    let mut fixed = Fixed::texts(&["fix 0 and fix 1"]);
    let got = evolve(
        input(2, 30),
        &mut fixed,
        &mut world,
        &config(30),
        Seed::new(2),
    )
    .unwrap();
    assert_eq!(got.report.directions.len(), 2);
    assert_eq!((got.report.confirmations.len(), got.pool.len()), (1, 1));
}

#[test]
fn regressions_are_counted_and_gate_only_if_asked() {
    let mut input = input(1, 60);
    for (i, task) in input
        .confirm
        .tasks
        .iter_mut()
        .chain(&mut input.search.tasks)
        .enumerate()
    {
        if i % 3 == 0 {
            Arc::make_mut(task).data = 9.into();
        }
    }
    let world = World {
        base_rates: vec![1.0, 0.1, 0.1],
        ..World::new(0.7)
    };
    let harmful = |purpose: &str, got: &mut Vec<Trajectory>| {
        if purpose == "regress/d0" {
            for attempt in got.iter_mut() {
                attempt.outcome = harness_core::Outcome::Failed;
            }
        }
    };
    let run = |gate| {
        let config = EvolveConfig {
            seesaw_gate: gate,
            ..config(60)
        };
        let mut rerun = Tampered(world.clone(), harmful);
        evolve(
            input.clone(),
            &mut proposer(1),
            &mut rerun,
            &config,
            Seed::new(1),
        )
        .unwrap()
    };
    let free = run(false);
    assert_eq!(free.pool.siblings()[0].evidence.regressions, Some(12));
    let gated = run(true);
    assert!(gated.pool.is_empty());
    assert_eq!(
        gated.report.confirmations[0].admission,
        Admission::Regresses
    );
}

#[test]
fn e6_slices_must_be_given_and_apart() {
    let run = |change: fn(&mut harness_evolve::EvolveInput)| {
        let mut input = input(1, 12);
        change(&mut input);
        evolve(
            input,
            &mut proposer(1),
            &mut World::new(0.0),
            &config(12),
            Seed::new(1),
        )
        .unwrap_err()
    };
    let got = run(|i| i.confirm.tasks.clear());
    assert!(
        matches!(got, EvolveError::NoTasks(Split::EvolutionConfirm)),
        "{got}"
    );
    let got = run(|i| i.confirm = i.search.clone());
    assert!(matches!(got, EvolveError::WrongSplit { .. }), "{got}");
    let got = run(|i| Arc::make_mut(&mut i.search.tasks[0]).split = Split::Test);
    assert!(
        matches!(
            got,
            EvolveError::WrongSplit {
                got: Split::Test,
                ..
            }
        ),
        "{got}"
    );
    let got = run(|i| {
        let scenario = i.search.tasks[0].scenario.clone();
        Arc::make_mut(&mut i.confirm.tasks[0]).scenario = scenario;
    });
    assert!(matches!(got, EvolveError::Overlap(_)), "{got}");
    let got = run(|i| i.base = base().apply(&say("a", "b")).unwrap());
    assert!(matches!(got, EvolveError::NotABase(_)), "{got}");
    let got = run(|i| {
        let limits = harness_core::Limits {
            max_turns: 0,
            max_reply_tokens: 1,
        };
        i.base = HarnessSpec::base(BaseHarness {
            limits,
            ..BaseHarness::default()
        });
    });
    assert!(matches!(got, EvolveError::InvalidBase(_)), "{got}");
}

#[test]
fn unusable_replies_are_recorded_and_failures_stop() {
    struct Broken(bool);
    impl Proposer for Broken {
        fn propose(
            &mut self,
            _: &DirectionBrief<'_>,
            _: usize,
            _: Seed,
        ) -> Result<Vec<Proposal>, ProposeError> {
            Err(if self.0 {
                ProposeError::Failed("no connection".into())
            } else {
                ProposeError::Unusable {
                    reason: "cut".into(),
                }
            })
        }
    }
    let run = |fatal| {
        let mut world = World::new(0.5);
        evolve(
            input(1, 20),
            &mut Broken(fatal),
            &mut world,
            &config(20),
            Seed::new(1),
        )
    };
    let got = run(false).unwrap();
    assert!(got.pool.is_empty() && got.report.unusable.len() == 4);
    assert!(matches!(run(true), Err(EvolveError::Propose(_))));
}

#[test]
fn without_failures_the_pool_is_empty() {
    let mut world = World {
        base_rates: vec![1.0],
        ..World::new(0.0)
    };
    let got = evolve(
        input(1, 12),
        &mut proposer(1),
        &mut world,
        &config(12),
        Seed::new(1),
    )
    .unwrap();
    assert!(got.pool.is_empty() && got.report.directions.is_empty());
    assert_eq!(got.report.rollouts.search, 0);
}
