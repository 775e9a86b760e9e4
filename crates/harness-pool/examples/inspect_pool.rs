//! Reads a pool file, checks it, and prints what it holds:
//! `cargo run -p harness-pool --example inspect_pool -- pool.json`.
//!
//! Without a path it builds a small pool, saves it to a temporary folder and reads it back. Reading checks
//! everything: the hash of the content, the bounds of every harness, and that no content stands there twice.

use std::path::Path;
use std::process::ExitCode;

use harness_core::{
    BaseHarness, Condition, Effect, HarnessEdit, HarnessSpec, Limits, Moment, Rule,
};
use harness_pool::{AcceptanceEvidence, PoolBuilder, Sibling, SiblingPool};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Two siblings written by hand: one says a hint after an error, the other has more turns.
fn small_pool() -> Result<SiblingPool> {
    let base = HarnessSpec::base(BaseHarness {
        system: "You act in a small world.".into(),
        ..BaseHarness::default()
    });
    let hint = HarnessEdit::AddRule(Rule {
        name: "after an error".into(),
        moment: Moment::AfterStep,
        when: Condition::Predicate("last_result_error".into()),
        effect: Effect::Say("Read the error before you go on.".into()),
        max_fires: 2,
        count: vec![],
    });
    let patience = HarnessEdit::SetLimits(Limits {
        max_turns: 24,
        ..base.limits()
    });
    let siblings = [
        ("read-errors", "errors ignored", hint),
        ("patience", "turn limit", patience),
    ];
    let mut builder = PoolBuilder::new(base.clone(), "my-checkpoint".into(), "my-tasks".into());
    for (name, direction, edit) in siblings {
        builder.add(Sibling {
            name: name.into(),
            harness: base.apply(&edit)?,
            direction: direction.into(),
            lineage: vec![edit],
            evidence: AcceptanceEvidence::default(),
        })?;
    }
    Ok(builder.freeze())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn print(pool: &SiblingPool) -> Result<()> {
    println!("pool {}", pool.hash());
    println!(
        "  made with policy {}, on tasks {}",
        pool.policy_hash(),
        pool.manifest_hash()
    );
    println!("  base {}, {} siblings", pool.base_id(), pool.len());
    for sibling in pool.siblings() {
        println!("\n{} ({})", sibling.name, sibling.id());
        println!("  repairs: {}", sibling.direction);
        let evidence = &sibling.evidence;
        if evidence.n_tasks == 0 {
            println!("  never confirmed");
        } else {
            println!(
                "  confirmed on {} tasks: solved {} of {} attempts, base retries {}; p {:.1e}",
                evidence.n_tasks,
                evidence.sibling_solved,
                evidence.n_attempts,
                evidence.retry_solved,
                evidence.p_value
            );
        }
        for rule in &sibling.harness.overlay.rules {
            println!(
                "  rule `{}` at {:?}: {:?}",
                rule.name, rule.moment, rule.effect
            );
        }
        println!("  overrides: {:?}", sibling.harness.overlay.overrides);
        let is_replayed = sibling.replay(pool.base())? == sibling.harness;
        println!(
            "  its {} edits make it again: {is_replayed}",
            sibling.lineage.len()
        );
    }
    Ok(())
}

/// Reads and prints; a file that was changed since it was written is refused, and the error says so.
fn inspect(path: &Path) -> Result<()> {
    print(&SiblingPool::load(path)?)
}

fn inspect_small_pool() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("pool.json");
    small_pool()?.save(&path)?;
    inspect(&path)
}

#[expect(clippy::print_stderr, reason = "an example shows what it does")]
fn main() -> ExitCode {
    let done = match std::env::args_os().nth(1) {
        Some(path) => inspect(Path::new(&path)),
        None => inspect_small_pool(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[test]
fn it_runs() {
    inspect_small_pool().unwrap();
    inspect(Path::new("tests/data/pool-v1.json")).unwrap();
}
