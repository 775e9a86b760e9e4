//! A project outside the Harness-S workspace, which depends on four of its crates and brings everything else
//! itself. Read it as a tutorial, in this order:
//!
//! - [`world`]: an environment (`Environment`, `MakeEnvironment`);
//! - [`model`]: a token codec and a policy (`Codec`, `Policy`);
//! - [`attempts`]: the executor, behind evolution (`Rerun`) and re-anchoring (`AnchorProbe`);
//! - [`chat`]: a chat model, and a proposer of edits that asks it (`ChatModel`, `Proposer`);
//! - [`choose`]: a voter and a selector (`Voter`, `SelectSiblings`).
//!
//! `tests/it.rs` holds each against its contract by a ready check, and puts them together: attempts, a failed group,
//! an evolved pool, its file, routing.

use std::sync::Arc;

use harness_core::{
    ExecOptions, HarnessSpec, IdError, Job, RolloutRole, RunId, Seed, Task, Trajectory, run_jobs,
};

pub mod chat;
pub mod choose;
pub mod model;
pub mod world;

/// Makes `n` attempts at each task. `purpose` names them, so it must not occur twice in a run.
///
/// # Errors
/// [`IdError`] if `purpose` does not fit into an id.
pub fn attempts(
    harness: &HarnessSpec,
    tasks: &[Arc<Task>],
    n: u32,
    seed: Seed,
    purpose: &str,
) -> Result<Vec<Trajectory>, IdError> {
    let jobs = Job::groups(purpose, tasks, harness, n, RolloutRole::Probe, seed)?;
    let policy = Box::<model::Reader>::default();
    let options = ExecOptions::new(RunId::new("outside")?);
    Ok(run_jobs(
        vec![policy],
        &model::CharCodec,
        &world::boxes,
        jobs,
        &options,
    ))
}
