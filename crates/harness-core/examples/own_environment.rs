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

type Result<T> = std::result::Result<T, EnvError>;

#[derive(Default)]
struct Guessing {
    hidden: u64,
    is_found: bool,
}

impl Environment for Guessing {
    /// What is returned are variables for the templates of the harness.
    fn reset(&mut self, task: &Task, _deadline: Deadline) -> Result<Facts> {
        let broken = || EnvError::Infra("`data.number` is missing".into());
        self.hidden = task.data["number"].as_u64().ok_or_else(broken)?;
        Ok([("largest".to_owned(), Fact::Int(100))].into())
    }

    fn step(&mut self, action: &Action, _deadline: Deadline) -> Result<StepResult> {
        let guess: Option<u64> = match action {
            Action::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        self.is_found = guess == Some(self.hidden);
        // A mistake of the agent is an observation; `Err` is for a world that broke.
        let part = match guess {
            None => Part::Error("Error: not a whole number".into()),
            Some(guess) if guess < self.hidden => Part::Text("higher".into()),
            Some(guess) if guess > self.hidden => Part::Text("lower".into()),
            Some(_) => Part::Text("found".into()),
        };
        Ok(StepResult::new(vec![part], self.is_found))
    }

    fn evaluate(&mut self, _deadline: Deadline) -> Result<Verdict> {
        Ok(Verdict::from_solved(self.is_found))
    }

    fn predicates(&self) -> Facts {
        [("is_found".to_owned(), Fact::Bool(self.is_found))].into()
    }
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
fn main() -> std::result::Result<(), Box<dyn Error>> {
    let harness = Arc::new(HarnessSpec::base(BaseHarness {
        system: "Answer with a number from 1 to {{ largest }}.".into(),
        limits: Limits {
            max_turns: 5,
            max_reply_tokens: 8,
        },
        ..BaseHarness::default()
    }));
    let mut jobs = Vec::new();
    for number in [37, 88, 100] {
        let mut task = toy_task(number, "");
        task.instruction = "Find the hidden number.".into();
        task.data = serde_json::json!({ "number": number });
        let (task, seed) = (Arc::new(task), Seed::new(1));
        jobs.extend(Job::group(
            "example",
            &task,
            &harness,
            1,
            RolloutRole::Eval,
            seed,
        )?);
    }
    let policy = Box::new(ScriptedPolicy::new(halve));
    let envs = || -> Result<Box<dyn Environment>> { Ok(Box::<Guessing>::default()) };
    let options = ExecOptions::new(RunId::new("example")?);
    for attempt in run_jobs(vec![policy], &ByteCodec, &envs, jobs, &options) {
        println!("{}: {}", attempt.task_id, attempt.outcome.as_str());
        for turn in &attempt.turns {
            println!("  > {}\n    {}", turn.action, turn.observation);
        }
    }
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
