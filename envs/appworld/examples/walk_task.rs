//! Walks through one task of the embedded world: `cargo run -p env-appworld --example walk_task`.
//!
//! Without an argument every block is the scripted expert's; with one, the blocks of that file are run instead,
//! parted by blank lines: write your own and see what the world answers and whether it counts as solved.

use env_appworld::expert::ScriptedAgent as _;
use env_appworld::{AppWorldMaker, Family, expert_actions, tasks};
use harness_core::{Action, Deadline, Environment, MakeEnvironment as _, Part, Seed, Split, Task};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A note that can be read after a login alone.
fn task() -> Result<Task> {
    let mut tasks = tasks(Split::Train, 1, Seed::new(1)).into_iter();
    let is_auth = |task: &Task| task.family == Family::Auth.name();
    Ok(tasks.find(is_auth).ok_or("every family has a task")?)
}

/// Runs a block, prints what it led to, and returns the observation's text.
#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn step(env: &mut dyn Environment, code: &str) -> Result<String> {
    let result = env.step(&Action::Text(code.to_owned()), Deadline::NEVER)?;
    let seen: Vec<&str> = result.observation.iter().map(Part::text).collect();
    let seen = seen.join("\n");
    println!(
        "\n>>> {}\n{}",
        code.replace('\n', "\n... "),
        seen.trim_end()
    );
    println!("    error_kind: {:?}", env.predicates()["error_kind"]);
    Ok(seen)
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<()> {
    let task = task()?;
    let mut env = AppWorldMaker::default().make()?;
    env.reset(&task, Deadline::NEVER)?;
    println!("task {}: {}", task.id, task.instruction);
    if let Some(path) = std::env::args_os().nth(1) {
        for code in std::fs::read_to_string(path)?.split("\n\n") {
            step(env.as_mut(), code)?;
        }
    } else {
        let (mut expert, mut seen) = (expert_actions(&task), None);
        while let Some(code) = expert.next_block(seen.as_deref()) {
            seen = Some(step(env.as_mut(), &code)?);
            if env.predicates()["task_completed"] == harness_core::Fact::Bool(true) {
                break;
            }
        }
    }
    let verdict = env.evaluate(Deadline::NEVER)?;
    println!("\nsolved: {} {:?}", verdict.solved, verdict.failures);
    Ok(())
}

#[test]
fn it_runs_and_the_world_keeps_the_contract() {
    main().unwrap();
    let (task, envs) = (task().unwrap(), AppWorldMaker::default());
    let (mut env, mut expert) = (envs.make().unwrap(), expert_actions(&task));
    let (_, turns) = env_appworld::expert::run_agent(env.as_mut(), &task, &mut expert).unwrap();
    let solution: Vec<Action> = turns
        .into_iter()
        .map(|(code, _)| Action::Text(code))
        .collect();
    harness_core::testing::conformance::check_environment(&envs, &task, &solution);
}
