//! Your own environment, a base harness, and a policy that the executor runs in it:
//! `cargo run -p harness-core --example own_environment`.
//!
//! The world hides a number and answers guesses by `higher` or `lower`. The policy is a script that halves the
//! range, where a language model would stand. One number is out of range: that attempt ends at the turn limit.

use std::cmp::Ordering;
use std::sync::Arc;

use harness_core::testing::{ByteCodec, ScriptedPolicy, toy_task};
use harness_core::{
    Action, BaseHarness, Deadline, EnvError, Environment, ExecOptions, Fact, Facts, HarnessSpec,
    Job, Part, RolloutRole, RunId, Seed, StepResult, Task, Verdict, run_jobs,
};

#[derive(Default)]
struct Guessing {
    hidden: u64,
    is_found: bool,
}

impl Environment for Guessing {
    /// What is returned are variables for the templates of the harness.
    fn reset(&mut self, task: &Task, _deadline: Deadline) -> Result<Facts, EnvError> {
        let text = task.data["secret"].as_str().unwrap_or_default();
        let broken = |_| EnvError::Infra("the secret is no number".into());
        self.hidden = text.parse().map_err(broken)?;
        self.is_found = false;
        Ok([("largest".to_owned(), Fact::Int(100))].into())
    }

    /// A mistake of the agent is an observation; `Err` is for a world that broke.
    fn step(&mut self, action: &Action, _deadline: Deadline) -> Result<StepResult, EnvError> {
        let guess = match action {
            Action::Text(text) => text.trim().parse::<u64>().ok(),
            _ => None,
        };
        let part = match guess.map(|guess| guess.cmp(&self.hidden)) {
            None => Part::Error("Error: not a whole number".into()),
            Some(Ordering::Less) => Part::Text("higher".into()),
            Some(Ordering::Greater) => Part::Text("lower".into()),
            Some(Ordering::Equal) => Part::Text("found".into()),
        };
        self.is_found = guess == Some(self.hidden);
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

/// Makes a world for each attempt.
const WORLDS: fn() -> Result<Box<dyn Environment>, EnvError> = || Ok(Box::<Guessing>::default());

/// What the policy says: the middle of what the answers so far leave.
fn halve(context: &str, _seed: Seed) -> String {
    let (mut low, mut high) = (1, 100);
    for turn in context.split("<assistant>").skip(1) {
        match turn.split_once("<end><observation>") {
            Some((guess, "higher")) => low = guess.parse().unwrap_or(0) + 1,
            Some((guess, _)) => high = guess.parse().unwrap_or(0) - 1,
            None => {}
        }
    }
    i64::midpoint(low, high).to_string()
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let harness = HarnessSpec::base(BaseHarness {
        system: "Answer with a number from 1 to {{ largest }}.".into(),
        ..BaseHarness::default()
    });
    let tasks = [37, 88, 101].map(|n| Arc::new(toy_task(n, &n.to_string())));
    let jobs = Job::groups("show", &tasks, &harness, 1, RolloutRole::Eval, Seed::new(1))?;
    let policy = Box::new(ScriptedPolicy::new(halve));
    let options = ExecOptions::new(RunId::new("example")?);
    for attempt in run_jobs(vec![policy], &ByteCodec, &WORLDS, jobs, &options) {
        let said: Vec<&str> = attempt.turns.iter().map(|t| t.action.as_str()).collect();
        let outcome = attempt.outcome.as_str();
        println!("{} {outcome}: {}", attempt.task_id, said.join(" "));
    }
    Ok(())
}

#[test]
fn it_runs_and_its_environment_keeps_the_contract() {
    main().unwrap();
    let found = [Action::Text("50".into()), Action::Text("37".into())];
    harness_core::testing::conformance::check_environment(&WORLDS, &toy_task(37, "37"), &found);
}
