//! Evolves a harness from saved trajectories: `cargo run -p harness-evolve --example own_rerun`.
//!
//! The world is the shipped toy: say a secret that `peek` tells. The policy guesses, and looks only if it is
//! told to or, now and then, by chance. Its attempts under the base lie in files, one JSON object a line; evolution
//! finds in them that it sends one wrong guess again and again, and searches a catalogue of two edits for one that
//! helps.

use std::fs::{read_to_string, write};
use std::path::Path;
use std::sync::Arc;

use harness_core::testing::{ByteCodec, ScriptedPolicy, ToyMaker, toy_task};
use harness_core::{
    BaseHarness, Condition, Effect, ExecOptions, HarnessEdit, HarnessSpec, Job, Limits, Moment,
    RolloutRole, Rule, RunId, Seed, Split, Task, Trajectory, run_jobs,
};
use harness_evolve::{CatalogueEntry, CatalogueProposer, EvolveConfig, EvolveInput, Slice, evolve};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Runs a harness with the executor. Yours may as well ask a server or a cluster.
fn rerun(
    harness: &HarnessSpec,
    tasks: &[Arc<Task>],
    attempts: u32,
    seed: Seed,
    purpose: &str,
) -> Result<Vec<Trajectory>> {
    // A purpose occurs once in an evolution, so it may name the jobs.
    let jobs = Job::groups(purpose, tasks, harness, attempts, RolloutRole::Probe, seed)?;
    let policy = Box::new(ScriptedPolicy::new(say));
    let options = ExecOptions::new(RunId::new("example")?);
    let envs = ToyMaker::default();
    Ok(run_jobs(vec![policy], &ByteCodec, &envs, jobs, &options))
}

/// The policy: says the secret once it knows it, looks if a hint says so, else guesses.
fn say(context: &str, seed: Seed) -> String {
    let told = context.split_once("the secret is ");
    let is_curious = context.contains("look before you guess") || seed.value().is_multiple_of(20);
    match told.and_then(|(_, rest)| rest.split_once('<')) {
        Some((secret, _)) => secret.to_owned(),
        None if is_curious => "peek".into(),
        None => "swordfish".into(),
    }
}

fn tasks(split: Split, first: u64) -> Vec<Arc<Task>> {
    let task = |n: u64| Task {
        split,
        ..toy_task(n, &format!("word-{n}"))
    };
    (first..first + 24).map(|n| Arc::new(task(n))).collect()
}

/// What an earlier run left: four base attempts at each task.
fn save(path: &Path, base: &HarnessSpec, tasks: &[Arc<Task>]) -> Result<()> {
    let attempts = rerun(base, tasks, 4, Seed::new(3), "saved")?;
    let lines: serde_json::Result<Vec<String>> =
        attempts.iter().map(serde_json::to_string).collect();
    Ok(write(path, lines?.join("\n"))?)
}

/// The tasks with the attempts of a file.
fn slice(path: &Path, tasks: Vec<Arc<Task>>) -> Result<Slice> {
    let text = read_to_string(path)?;
    let attempts: serde_json::Result<_> = text.lines().map(serde_json::from_str).collect();
    Ok(Slice {
        tasks,
        attempts: attempts?,
    })
}

/// A hint after the first error.
fn hint(name: &str, text: &str) -> CatalogueEntry {
    let when = Condition::Predicate("last_result_error".into());
    let rule = Rule::new(name, Moment::AfterStep, when, Effect::Say(text.into()));
    CatalogueEntry {
        name: name.into(),
        edits: vec![HarnessEdit::AddRule(rule)],
        keywords: vec![],
    }
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<()> {
    let base = HarnessSpec::base(BaseHarness {
        limits: Limits {
            max_turns: 4,
            max_reply_tokens: 32,
        },
        ..BaseHarness::default()
    });
    let folder = tempfile::tempdir()?;
    let paths = ["search.jsonl", "confirm.jsonl"].map(|name| folder.path().join(name));
    let search = tasks(Split::EvolutionSearch, 0);
    let confirm = tasks(Split::EvolutionConfirm, 100);
    save(&paths[0], &base, &search)?;
    save(&paths[1], &base, &confirm)?;

    let input = EvolveInput {
        base,
        search: slice(&paths[0], search)?,
        confirm: slice(&paths[1], confirm)?,
        secrets: vec![],
        policy_hash: "my-checkpoint".into(),
        manifest_hash: "my-tasks".into(),
    };
    let catalogue = [("calm", "stay calm"), ("look", "look before you guess")];
    let catalogue = catalogue.map(|(name, text)| hint(name, text));
    let mut proposer = CatalogueProposer::new(catalogue.into(), 0.5)?;
    let config = EvolveConfig {
        min_directions: 1,
        ..EvolveConfig::default()
    };
    let got = evolve(input, &mut proposer, &mut rerun, &config, Seed::new(5))?;

    for direction in &got.report.directions {
        let n = direction.search_tasks.len();
        println!("direction {}: {n} tasks to search on", direction.label);
    }
    for node in got.report.tree() {
        let edits = node.edits.join(", ");
        println!("  round {}: {edits}: {}", node.round, node.reason);
    }
    for sibling in got.pool.siblings() {
        let found = &sibling.evidence;
        println!(
            "in the pool: {}, solved {} of {} where base retries solved {} (p {:.1e})",
            sibling.name, found.sibling_solved, found.n_attempts, found.retry_solved, found.p_value
        );
    }
    println!("{} rollouts", got.report.rollouts.total());
    assert_eq!(got.pool.len(), 1, "the hint to look helps");
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
