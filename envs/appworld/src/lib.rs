//! `AppWorld` for Harness-S: an embedded world with `AppWorld`'s surface and our own content.
//!
//! - [`tasks()`], [`Family`]: tasks by split, made from seeds;
//! - [`AppWorldEnv`], [`AppWorldMaker`]: the environment; its predicates are listed in [`env`](mod@env);
//! - [`interpreter`]: running agents' Python blocks without any reach beyond the world;
//! - [`expert`]: scripted agents, among them one that solves every task;
//! - [`base_harness`](mod@base_harness), [`catalogue`](mod@catalogue): where a policy starts, and edits that may help it;
//! - [`demos`], [`grammar`]: demonstrations of a scripted, imperfect agent, and how its rules are worded;
//! - [`behaviours`]: what an attempt shows of a skill, whatever came of it;
//! - [`server`]: what the real server's answers mean;
//! - [`world_hash`]: the identity of what agents can read.
//!
//! The people, songs, notes, tasks and texts are ours; `AppWorld`'s data is not needed and not here.
#![forbid(unsafe_code)]

pub mod base_harness;
pub mod behaviours;
pub mod catalogue;
mod demo_agent;
pub mod demos;
pub mod env;
mod evaluate;
pub mod expert;
pub mod grammar;
mod hash;
pub mod interpreter;
pub mod names;
pub mod server;
pub mod tasks;
#[cfg(test)]
mod tests;
mod world;

pub use base_harness::base_harness;
pub use behaviours::{BEHAVIOURS, Behaviour};
pub use catalogue::{CatalogueEdit, catalogue, distractors};
pub use env::{AppWorldEnv, AppWorldMaker, WorldLimits};
pub use expert::expert_actions;
pub use hash::world_hash;
pub use tasks::{Family, Goal, TaskData, tasks};
