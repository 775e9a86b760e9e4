//! Your own environment, a base harness, and a policy that the executor runs in it:
//! `cargo run -p harness-core --example own_environment`.
//!
//! The world hides a number and answers guesses by `higher` or `lower`. The policy is scripted and halves the
//! range; a language model would stand behind the same trait. Five turns are too few for one of the numbers.

use std::error::Error;
use std::sync::Arc;

use harness_core::testing::{ByteCodec, ScriptedPolicy, toy_task};
use harness_core::{
    Action, BaseHarness, Deadline, EnvError, Environment, ExecOptions, Fact, Facts, HarnessSpec,
    Job, Limits, Part, RolloutRole, RunId, Seed, StepResult, Task, Verdict, run_jobs,
};

#[derive(Default)]
struct Guessing {
    hidden: u64,
    is_found: bool,
}

impl Environment for Guessing {
    /// What is returned are variables for the templates of the harness.
    fn reset(&mut self, task: &Task, _deadline: Deadline) -> Result<Facts, EnvError> {
        let broken = || EnvError::Infra("`data.number` is missing".into());
        self.hidden = task.data["number"].as_u64().ok_or_else(broken)?;
        self.is_found = false;
        Ok([("largest".to_owned(), Fact::Int(100))].into())
    }

    /// A mistake of the agent is an observation; `Err` is for a world that broke.
    fn step(&mut self, action: &Action, _deadline: Deadline) -> Result<StepResult, EnvError> {
        let guess: Option<u64> = match action {
            Action::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        self.is_found = guess == Some(self.hidden);
        let part = match guess {
            None => Part::Error("Error: not a whole number".into()),
            Some(guess) if guess < self.hidden => Part::Text("higher".into()),
            Some(guess) if guess > self.hidden => Part::Text("lower".into()),
            Some(_) => Part::Text("found".into()),
        };
        Ok(StepResult::new(vec![part], self.is_found))
    }

    fn evaluate(&mut self, _deadline: Deadline) -> Result<Verdict, EnvError> {
        Ok(Verdict::from_solved(self.is_found))
    }

    /// What rules of a harness can ask for.
    fn predicates(&self) -> Facts {
        [("completed".to_owned(), Fact::Bool(self.is_found))].into()
    }
}

fn boxed() -> Result<Box<dyn Environment>, EnvError> {
    Ok(Box::<Guessing>::default())
}

fn task(number: u64) -> Arc<Task> {
    let mut task = toy_task(number, "");
    task.instruction = "Find the hidden number.".into();
    task.data = serde_json::json!({ "number": number });
    Arc::new(task)
}

/// What the policy says: the middle of what the answers so far leave.
fn halve(context: &str, _seed: Seed) -> String {
    let (mut low, mut high) = (1, 100);
    for turn in context.split("<assistant>").skip(1) {
        if let Some((guess, answer)) = turn.split_once("<end><observation>") {
            let guess: i64 = guess.parse().unwrap_or(0);
            match answer {
                "higher" => low = guess + 1,
                _ => high = guess - 1,
            }
        }
    }
    i64::midpoint(low, high).to_string()
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<(), Box<dyn Error>> {
    let harness = HarnessSpec::base(BaseHarness {
        system: "Answer with a number from 1 to {{ largest }}.".into(),
        limits: Limits {
            max_turns: 5,
            max_reply_tokens: 8,
        },
        ..BaseHarness::default()
    });
    let tasks = [37, 88, 100].map(task);
    let jobs = Job::groups("show", &tasks, &harness, 1, RolloutRole::Eval, Seed::new(1))?;
    let policy = Box::new(ScriptedPolicy::new(halve));
    let options = ExecOptions::new(RunId::new("example")?);
    for attempt in run_jobs(vec![policy], &ByteCodec, &boxed, jobs, &options) {
        let turns = attempt.turns.iter();
        let talk: Vec<String> = turns
            .map(|t| format!("{} {}", t.action, t.observation))
            .collect();
        println!(
            "{} {}: {}",
            attempt.task_id,
            attempt.outcome.as_str(),
            talk.join(", ")
        );
    }
    Ok(())
}

#[test]
fn it_runs_and_its_environment_keeps_the_contract() {
    main().unwrap();
    let found = [Action::Text("50".into()), Action::Text("37".into())];
    harness_core::testing::conformance::check_environment(&boxed, &task(37), &found);
}
