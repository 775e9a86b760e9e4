//! Tests of the world as a whole, through the environment.

mod apis;
mod cases;
mod families;
mod properties;
mod python;

use harness_core::{
    Action, Deadline, Environment as _, Fact, Part, Seed, Split, StepResult, Task, Verdict,
};

use crate::{AppWorldEnv, Family, tasks};

/// An environment in the middle of one task.
struct Session {
    env: AppWorldEnv,
    task: Task,
}

impl Session {
    /// The first task of a family in the train split.
    fn new(family: Family) -> Self {
        Self::of(first(family))
    }

    fn of(task: Task) -> Self {
        let mut env = AppWorldEnv::default();
        env.reset(&task, Deadline::NEVER).unwrap();
        Self { env, task }
    }

    fn step(&mut self, code: &str) -> StepResult {
        self.env
            .step(&Action::Text(code.into()), Deadline::NEVER)
            .unwrap()
    }

    /// Runs a block and returns what the agent sees.
    fn run(&mut self, code: &str) -> String {
        let result = self.step(code);
        result.observation.iter().map(Part::text).collect()
    }

    fn verdict(&mut self) -> Verdict {
        self.env.evaluate(Deadline::NEVER).unwrap()
    }

    fn fact(&self, name: &str) -> Fact {
        self.env.predicates()[name].clone()
    }

    fn is(&self, name: &str) -> bool {
        self.fact(name) == Fact::Bool(true)
    }

    fn int(&self, name: &str) -> i64 {
        match self.fact(name) {
            Fact::Int(n) => n,
            other => panic!("{name} is {other:?}"),
        }
    }

    fn text(&self, name: &str) -> String {
        match self.fact(name) {
            Fact::Text(text) => text,
            other => panic!("{name} is {other:?}"),
        }
    }

    fn entity(&self) -> String {
        self.task.data["entity"].as_str().unwrap().to_owned()
    }
}

fn first(family: Family) -> Task {
    tasks(Split::Train, 1, Seed::new(7))
        .into_iter()
        .find(|task| task.family == family.name())
        .unwrap()
}
