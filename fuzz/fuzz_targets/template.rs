//! Templates of a stranger's base harness, rendered in the opening of an episode.
//!
//! The input is text in parts that NUL separates: system template, task template, instruction, a fact, a tool.
#![no_main]

use harness_core::rules::{RuleRun, Scene, opening};
use harness_core::{BaseHarness, Fact, Facts, HarnessSpec};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

/// Three texts at most come of two templates: the system text as base and sibling see it, and the task.
const MAX_RENDERED: usize = 3 << 20;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.split('\0');
    let mut part = || parts.next().unwrap_or_default().to_owned();
    let (system, task) = (part(), part());
    let (instruction, fact, tool) = (part(), part(), part());
    let spec = HarnessSpec::base(BaseHarness {
        system,
        task,
        tools: vec![tool, "run".into()],
        ..BaseHarness::default()
    });
    if spec.validate().is_err() {
        return;
    }
    let facts = Facts::from([
        ("email".to_owned(), Fact::Text(fact)),
        ("n".to_owned(), Fact::Int(i64::MAX)),
        ("yes".to_owned(), Fact::Bool(true)),
    ]);
    let scene = Scene {
        facts: &facts,
        turn: 0,
        turns_left: 16,
        action: None,
        observation: None,
        instruction: &instruction,
    };
    let open = || opening(&spec, &mut RuleRun::new(&spec.overlay), scene);
    let opened = open();
    if let Ok((messages, _)) = &opened {
        let n_bytes: usize = messages.iter().map(|(message, _)| message.text.len()).sum();
        assert!(
            n_bytes <= MAX_RENDERED,
            "a template rendered {n_bytes} bytes"
        );
    }
    assert_eq!(opened, open(), "equal templates give equal openings");
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    harness_s_fuzz::repeat(data, size, max_size, seed)
});
