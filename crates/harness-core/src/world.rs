//! An environment behind a wall: whatever goes wrong in it is an error of one attempt.
//!
//! A panic is caught and becomes [`EnvError::Panicked`] (bug report F2). After any error the environment is
//! thrown away and cannot be called again (bug report F5).

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::environment::{Action, EnvError, Environment, Facts, MakeEnvironment, StepResult};
use crate::outcome::Verdict;
use crate::policy::Deadline;
use crate::task::Task;

/// One task's world; empty once a call failed.
pub(crate) struct World(Option<Box<dyn Environment>>);

/// What a fresh world says of itself.
pub(crate) struct Opening {
    /// Variables for templates.
    pub(crate) variables: Facts,
    /// The facts before the first turn.
    pub(crate) facts: Facts,
}

impl World {
    /// Makes an environment and builds the task's world in it.
    pub(crate) fn build(
        envs: &dyn MakeEnvironment,
        task: &Task,
        deadline: Deadline,
    ) -> Result<(Self, Opening), EnvError> {
        let mut world = Self(Some(caught(|| envs.make())?));
        let opening = world.call(deadline, |env| {
            let variables = env.reset(task, deadline)?;
            let facts = env.predicates();
            Ok(Opening { variables, facts })
        })?;
        Ok((world, opening))
    }

    /// Carries out an action; returns what it led to and the facts after it.
    pub(crate) fn step(
        &mut self,
        action: &Action,
        deadline: Deadline,
    ) -> Result<(StepResult, Facts), EnvError> {
        self.call(deadline, |env| {
            let result = env.step(action, deadline)?;
            Ok((result, env.predicates()))
        })
    }

    /// Asks for the verdict.
    pub(crate) fn evaluate(&mut self, deadline: Deadline) -> Result<Verdict, EnvError> {
        self.call(deadline, |env| env.evaluate(deadline))
    }

    /// An answer that comes after the deadline counts as none.
    fn call<T>(
        &mut self,
        deadline: Deadline,
        call: impl FnOnce(&mut dyn Environment) -> Result<T, EnvError>,
    ) -> Result<T, EnvError> {
        let gone = || EnvError::Infra("the environment was given up after an error".into());
        let env = self.0.as_mut().ok_or_else(gone)?;
        let answer = caught(|| call(env.as_mut())).and_then(|answer| {
            if deadline.has_passed() {
                return Err(EnvError::Deadline);
            }
            Ok(answer)
        });
        if answer.is_err() {
            self.discard();
        }
        answer
    }

    /// What an environment does in its `drop` can break as well, and changes nothing any more.
    fn discard(&mut self) {
        let env = self.0.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(env)));
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.discard();
    }
}

/// Nothing that a panic left half done is looked at again, so unwinding is safe.
fn caught<T>(call: impl FnOnce() -> Result<T, EnvError>) -> Result<T, EnvError> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|payload| Err(EnvError::Panicked(message_of(payload.as_ref()))))
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
        .to_owned()
}
