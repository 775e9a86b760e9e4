//! Harnesses and edits as JSON: reading, validation, applying edits, and rules over any facts.
#![no_main]

use harness_core::harness::MAX_RULES;
use harness_core::rules::{RuleRun, Scene, observe, opening};
use harness_core::{Facts, HarnessEdit, HarnessSpec, Moment, Part};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use serde::Deserialize;

/// A harness, edits, and what its rules are shown.
#[derive(Deserialize)]
struct Case {
    harness: HarnessSpec,
    edits: Vec<HarnessEdit>,
    facts: Facts,
    turn: usize,
    turns_left: usize,
    action: Option<String>,
    observation: Option<String>,
    instruction: String,
}

fuzz_target!(|data: &[u8]| {
    let Ok(case) = serde_json::from_slice::<Case>(data) else {
        return;
    };
    round_trips(&case.harness);
    if case.harness.validate().is_err() {
        return;
    }
    run(&case.harness, &case);
    let mut harness = case.harness.clone();
    for edit in &case.edits {
        let before = harness.clone();
        if let Ok(next) = harness.apply(edit) {
            assert_eq!(next.validate(), Ok(()), "an edit breaks no bound");
            assert_eq!(next.without_overlay(), before.without_overlay());
            round_trips(&next);
            harness = next;
        }
    }
    run(&harness, &case);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    harness_s_fuzz::mutate(data, size, max_size, seed, harness_s_fuzz::unsealed)
});

fn round_trips(harness: &HarnessSpec) {
    let text = serde_json::to_vec(harness).expect("a harness is plain data");
    let read: HarnessSpec = serde_json::from_slice(&text).expect("its own output");
    assert_eq!(read, *harness);
    assert_eq!(read.id(), harness.id());
}

/// Runs every rule of a valid harness at every moment.
fn run(harness: &HarnessSpec, case: &Case) {
    let scene = Scene {
        facts: &case.facts,
        turn: case.turn,
        turns_left: case.turns_left,
        action: case.action.as_deref(),
        observation: case.observation.as_deref(),
        instruction: &case.instruction,
    };
    let rules = &harness.overlay.rules;
    let mut run = RuleRun::new(&harness.overlay);
    if let Ok((messages, fired)) = opening(harness, &mut run, scene) {
        assert!(fired.len() <= MAX_RULES);
        assert!(messages.iter().all(|(message, _)| !message.text.is_empty()));
    }
    let mut counts = vec![0_u32; rules.len()];
    for moment in [Moment::BeforeTurn, Moment::BeforeAction, Moment::AfterStep] {
        for _ in 0..4 {
            let Some(fired) = run.fire(moment, scene) else {
                continue;
            };
            let at = rules.iter().position(|rule| rule.name == fired.rule);
            let at = at.expect("only rules of the overlay act");
            assert_eq!(rules[at].moment, moment);
            assert_eq!(rules[at].effect, fired.effect);
            counts[at] += 1;
            assert!(counts[at] <= rules[at].max_fires);
        }
    }
    let text = case.observation.clone().unwrap_or_default();
    let policy = harness.observation();
    let shown = observe(policy, &[Part::Error(text.clone()), Part::Text(text)]);
    assert!(shown.chars().count() <= policy.max_chars.saturating_add(3));
}
