//! A project outside the Harness-S workspace, which depends on four of its crates and brings everything else
//! itself. Read it as a tutorial, in this order:
//!
//! - [`world`]: an environment (`Environment`, `MakeEnvironment`);
//! - [`model`]: a token codec and a policy (`Codec`, `Policy`);
//! - [`runs`]: the executor behind evolution and re-anchoring (`Rerun`, `Probe`);
//! - [`chat`]: a chat model, and a proposer of edits that asks it (`ChatModel`, `Proposer`);
//! - [`choose`]: a voter and a selector (`Voter`, `SelectSiblings`).
//!
//! `tests/it.rs` puts them together: attempts, a failed group, an evolved pool, its file, routing.

pub mod chat;
pub mod choose;
pub mod model;
pub mod runs;
pub mod world;
