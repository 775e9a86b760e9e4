//! Proposals of a model, checked before they are run; and what is told to it: packets and labels of failed
//! attempts, whose texts come from an environment.
#![no_main]

use std::sync::Arc;

use harness_core::{
    BaseHarness, HarnessSpec, Limits, Outcome, ScenarioId, Seed, Split, Task, TaskId, Trajectory,
};
use harness_evolve::proposal::apply_all;
use harness_evolve::{
    CheckConfig, Checker, EvolveConfig, FailurePacket, Label, LeakIndex, PacketBounds, Proposal,
    Rejection,
};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use serde::Deserialize;

/// Proposals in the order in which they come, a task, its answer, and an attempt at it.
#[derive(Deserialize)]
struct Case {
    proposals: Vec<Proposal>,
    instruction: String,
    secret: String,
    attempt: Option<Trajectory>,
}

fuzz_target!(|data: &[u8]| {
    let Ok(case) = serde_json::from_slice::<Case>(data) else {
        return;
    };
    let leaks = leaks(&case.instruction, &case.secret);
    check(&case.proposals, &leaks);
    if let Some(attempt) = &case.attempt {
        pack(&case.instruction, attempt);
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    harness_s_fuzz::mutate(data, size, max_size, seed, harness_s_fuzz::unsealed)
});

/// Indexes a task, which must then be found in its own words.
fn leaks(instruction: &str, secret: &str) -> LeakIndex {
    let task = Task {
        id: TaskId::new("task_17").expect("an id"),
        scenario: ScenarioId::new("scenario_17").expect("an id"),
        env: "toy".into(),
        family: "hidden".into(),
        split: Split::EvolutionSearch,
        instruction: instruction.into(),
        seed: Seed::new(0),
        data: serde_json::Value::Null,
    };
    let leaks = LeakIndex::new(&[Arc::new(task)], &[secret.to_owned()], 8, 40);
    let words = instruction.split(|c: char| !c.is_alphanumeric());
    if words.filter(|word| !word.is_empty()).count() >= 3 {
        assert!(leaks.find(instruction).is_some(), "a task in its own words");
    }
    if secret.trim().chars().count() >= 4 {
        assert!(leaks.find(secret).is_some(), "an answer in its own words");
    }
    leaks
}

fn check(proposals: &[Proposal], leaks: &LeakIndex) {
    let base = HarnessSpec::base(BaseHarness::default());
    let config = CheckConfig {
        protected: vec!["complete_task".into()],
        ..CheckConfig::default()
    };
    let mut checker = Checker::new(&base, &config, leaks);
    let mut parent = base;
    for proposal in proposals {
        let text = serde_json::to_vec(proposal).expect("a proposal is plain data");
        let read: Proposal = serde_json::from_slice(&text).expect("its own output");
        assert_eq!(read, *proposal);
        match checker.check(&parent, proposal) {
            Ok(harness) => {
                assert_eq!(harness.validate(), Ok(()));
                assert_eq!(apply_all(&parent, &proposal.edits), Ok(harness.clone()));
                assert_eq!(harness.limits(), parent.limits());
                let again = checker.check(&parent, proposal);
                assert!(matches!(again, Err(Rejection::Duplicate { .. })));
                parent = harness;
            }
            Err(rejection) => {
                let text = serde_json::to_vec(&rejection).expect("a rejection is plain data");
                let read: Rejection = serde_json::from_slice(&text).expect("its own output");
                assert_eq!(read, rejection);
                let again = checker.check(&parent, proposal);
                assert!(matches!(
                    again,
                    Err(Rejection::RejectedBefore | Rejection::Duplicate { .. })
                ));
            }
        }
    }
}

fn pack(instruction: &str, attempt: &Trajectory) {
    let bounds = PacketBounds::default();
    let Some(packet) = FailurePacket::new(instruction, attempt, Limits::default(), &bounds) else {
        assert_ne!(attempt.outcome, Outcome::Failed);
        return;
    };
    assert!(packet.instruction.chars().count() <= bounds.instruction_chars);
    assert!(packet.steps.len() <= bounds.max_steps);
    for step in &packet.steps {
        assert!(step.action.chars().count() <= bounds.action_chars);
        assert!(step.observation.chars().count() <= bounds.observation_chars);
    }
    let label = Label::of(&packet.signals, &EvolveConfig::default());
    assert!(label.coarse().holds(&label));
    assert!(
        !packet.text().contains(attempt.task_id.as_str())
            || attempt.task_id.as_str().len() < 4
            || attempt
                .turns
                .iter()
                .any(|t| format!("{t:?}").contains(attempt.task_id.as_str()))
            || instruction.contains(attempt.task_id.as_str())
    );
}
