//! Contracts of Harness-S, and the executor that runs harnesses on tasks.
//!
//! - [`ids`], [`seed`]: names, and randomness keyed by purpose;
//! - [`task`], [`message`], [`outcome`], [`trajectory`], [`group`]: what flows through the method;
//! - [`harness`], [`rules`]: a harness as data, and the interpreter of its rules;
//! - [`schema`]: JSON Schemas for models that answer in a strict mode;
//! - [`policy`], [`environment`], [`chat`]: the traits that users implement;
//! - [`executor`]: attempts, many in flight;
//! - [`trajectory_file`], [`journal`]: trajectories on disk, whole or as they happen;
//! - `testing` (feature): scripted policies, a byte codec, a toy environment, and checks of your own.
//!
//! It knows neither pools nor GRPO nor any benchmark.
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod chat;
pub mod environment;
mod episode;
pub mod executor;
pub mod group;
pub mod harness;
pub mod ids;
pub mod journal;
mod lines;
pub mod message;
pub mod outcome;
pub mod policy;
pub mod rules;
pub mod schema;
pub mod seed;
pub mod task;
mod template;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod trajectory;
pub mod trajectory_file;
mod world;

pub use chat::{ChatError, ChatModel, ChatReply, ChatRequest};
pub use environment::{
    Action, EnvError, Environment, Fact, Facts, MakeEnvironment, Part, StepResult, make_default,
};
pub use executor::{ExecOptions, Job, run_jobs};
pub use group::{FailedGroup, GroupCheck, GroupError, RescuedGroup, RolloutGroup};
pub use harness::{
    ActionFormat, BaseHarness, Comparison, Condition, CounterUpdate, Effect, ErrorView,
    HarnessEdit, HarnessError, HarnessKind, HarnessSpec, Limits, Moment, ObservationPolicy,
    Operand, Overlay, Overrides, Rule,
};
pub use ids::{GroupId, HarnessId, IdError, PolicyVersion, RolloutId, RunId, ScenarioId, TaskId};
pub use journal::{FileJournal, Journal, JournalEntry, Recovered, read_journal};
pub use lines::{FileError, MAX_LINE_BYTES};
pub use message::{Message, Role, Scope};
pub use outcome::{Outcome, Verdict};
pub use policy::{
    ChatPolicy, Codec, Deadline, Finish, Generation, Policy, PolicyError, Request, Sampling,
};
pub use seed::Seed;
pub use task::{Split, Task};
pub use trajectory::{
    InvalidTrajectory, RolloutRole, Segment, SegmentKind, Sequence, TRAJECTORY_SCHEMA_VERSION,
    Trajectory, Turn, Unprojectable,
};
pub use trajectory_file::{TrajectoryReader, TrajectoryWriter};
