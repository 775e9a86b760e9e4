//! The contract of an environment: a world with a task in it that answers actions and judges the end.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::TaskId;
use crate::outcome::Verdict;
use crate::policy::Deadline;
use crate::task::Task;

/// What the policy does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Action {
    /// Text that the environment reads by itself: a code block, a command, an SQL statement.
    Text(String),
    /// A structured call. The executor sends text alone so far ([`ActionFormat`](crate::ActionFormat)); it is
    /// for harnesses that drive themselves.
    ToolCall {
        /// The tool's name.
        name: String,
        /// Its arguments, parsed once.
        arguments: serde_json::Value,
    },
}

/// One part of an observation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Part {
    /// Output of an action.
    Text(String),
    /// A failure that the action caused, told to the policy.
    Error(String),
}

impl Part {
    /// The part's text.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Error(text) => text,
        }
    }
}

/// What an action led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepResult {
    /// What the policy may see.
    pub observation: Vec<Part>,
    /// Whether the episode is over.
    pub done: bool,
    /// The action met a gap of an embedded interpreter; counted, never an outcome.
    pub unsupported: bool,
}

impl StepResult {
    /// What an action that the world understood led to: the observation, and whether the episode is over.
    pub fn new(observation: Vec<Part>, done: bool) -> Self {
        Self {
            observation,
            done,
            unsupported: false,
        }
    }
}

/// A value that an environment publishes under a name for conditions of rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Fact {
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A short text.
    Text(String),
}

/// The facts of a moment, by name.
pub type Facts = BTreeMap<String, Fact>;

/// Why an environment could not go on. None of these says anything about the policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvError {
    /// The world or its transport broke.
    #[error("environment failure: {0}")]
    Infra(String),
    /// The world ran, but its verdict could not be had.
    #[error("no verdict: {0}")]
    Verifier(String),
    /// The deadline passed.
    #[error("the deadline passed")]
    Deadline,
    /// A call panicked. The executor says so; no environment needs to.
    #[error("the environment panicked: {0}")]
    Panicked(String),
    /// The task does not belong to this environment or its data cannot be read.
    #[error("unusable task {task}: {reason}")]
    BadTask {
        /// The task.
        task: TaskId,
        /// What is wrong with it.
        reason: String,
    },
}

/// A world with one task in it. One value serves one episode at a time; `reset` starts the next.
///
/// Call order: `reset`, then `step` until it says `done` or a limit is reached, then `evaluate` once.
/// `predicates` may be called at any time after `reset`. A failure that the agent caused is an observation
/// with [`Part::Error`], never an `Err`; so is an action of a kind that this world does not read.
///
/// After an `Err` or a panic the environment is thrown away: no method is called again.
///
/// A call must come back soon after its deadline: nothing can interrupt it, and what else its thread runs
/// waits. An answer that comes later counts as [`EnvError::Deadline`].
///
/// Names of facts that other crates read where they are published: `last_result_error`, `completed` and
/// `gave_up` (yes or no), `error_kind` (a text, `none` without an error), `turns_left` (a whole number).
/// Failures can be told apart by them; without them, evolution reads the observations' text.
pub trait Environment: Send {
    /// Builds the task's world and returns the variables that harness templates may use beside `task`.
    ///
    /// # Errors
    /// [`EnvError`] if the world cannot be built.
    fn reset(&mut self, task: &Task, deadline: Deadline) -> Result<Facts, EnvError>;

    /// Carries out an action.
    ///
    /// # Errors
    /// [`EnvError`] if the world broke; the attempt ends as an infrastructure error.
    fn step(&mut self, action: &Action, deadline: Deadline) -> Result<StepResult, EnvError>;

    /// Judges the world as it stands now.
    ///
    /// # Errors
    /// [`EnvError::Verifier`] if there is no verdict; a panic counts as that.
    fn evaluate(&mut self, deadline: Deadline) -> Result<Verdict, EnvError>;

    /// The facts of this moment. Names never change during an episode.
    fn predicates(&self) -> Facts;
}

/// Makes environments, one for each episode in flight.
pub trait MakeEnvironment: Sync {
    /// A fresh environment. There is no deadline here: what takes long belongs into
    /// [`Environment::reset`].
    ///
    /// # Errors
    /// [`EnvError::Infra`] if none can be had.
    fn make(&self) -> Result<Box<dyn Environment>, EnvError>;
}

impl<F> MakeEnvironment for F
where
    F: Fn() -> Result<Box<dyn Environment>, EnvError> + Sync,
{
    fn make(&self) -> Result<Box<dyn Environment>, EnvError> {
        self()
    }
}
