//! Reads a pool file, checks it, and prints what it holds:
//! `cargo run -p harness-pool --example inspect_pool -- pool.json`.
//!
//! Without a path it writes a small pool to a temporary folder and reads that. Reading checks everything: the hash
//! of the content, the bounds of every harness, and that no content stands there twice.

use std::path::Path;

use harness_core::{
    BaseHarness, Condition, Effect, HarnessEdit, HarnessSpec, Limits, Moment, Rule,
};
use harness_pool::{PoolBuilder, Sibling, SiblingPool};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Two siblings written by hand: one says a hint after an error, the other has more turns.
fn small_pool() -> Result<SiblingPool> {
    let base = HarnessSpec::base(BaseHarness::default());
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
    let mut builder = PoolBuilder::new(base.clone(), "my-checkpoint".into(), "my-tasks".into());
    builder.add(Sibling::by_hand("read-errors", &base, vec![hint])?)?;
    builder.add(Sibling::by_hand("patience", &base, vec![patience])?)?;
    Ok(builder.freeze())
}

/// Reads and prints; a file that was changed since it was written is refused, and the error says so.
#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn inspect(path: &Path) -> Result<()> {
    let pool = SiblingPool::load(path).map_err(|error| error.to_string())?;
    println!("pool {}", pool.hash());
    println!(
        "policy {}, tasks {}",
        pool.policy_hash(),
        pool.manifest_hash()
    );
    println!("base {}, {} siblings", pool.base_id(), pool.len());
    for sibling in pool.siblings() {
        let (overlay, evidence) = (&sibling.harness.overlay, &sibling.evidence);
        println!("\n{}: {}", sibling.name, sibling.id());
        println!("  direction: {}", sibling.direction);
        match evidence.n_tasks {
            0 => println!("  never confirmed"),
            n => println!(
                "  confirmed on {n} tasks: solved {} of {} attempts, base retries {} (p {:.1e})",
                evidence.sibling_solved,
                evidence.n_attempts,
                evidence.retry_solved,
                evidence.p_value
            ),
        }
        for rule in &overlay.rules {
            println!(
                "  rule `{}`, {:?}: {:?}",
                rule.name, rule.moment, rule.effect
            );
        }
        println!(
            "  overrides: {}",
            serde_json::to_string(&overlay.overrides)?
        );
        let is_whole = sibling.replay(pool.base())? == sibling.harness;
        println!(
            "  made again by its {} edits: {is_whole}",
            sibling.lineage.len()
        );
    }
    Ok(())
}

fn main() -> Result<()> {
    if let Some(path) = std::env::args_os().nth(1) {
        return inspect(Path::new(&path));
    }
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("pool.json");
    small_pool()?.save(&path)?;
    inspect(&path)
}

#[test]
fn it_runs() {
    main().unwrap();
    inspect(Path::new("tests/data/pool-v1.json")).unwrap();
}
