//! Directional harness evolution: failures of a base harness become repair directions, directions become
//! confirmed siblings, siblings become a frozen pool.
//!
//! Read in this order:
//! - [`packet`], [`label`], [`direction`]: what failed, how it is labelled, which groups are worth a repair;
//! - [`proposal`], [`catalogue`]: who proposes edits, and the embedded proposer that needs no LLM;
//! - [`check`], [`leak`]: what is refused before a rerun is spent on it;
//! - [`rerun`]: the one door through which harnesses are run;
//! - [`confirm`], [`stats`]: the one test of a direction's best candidate;
//! - [`evolve()`], [`report`], [`tree`]: the whole, and what it tells.
//!
//! *Invariant:* a proposer never sees the confirmation slice, and its claims accept nothing.
//! *Invariant:* nothing here reads a task's family.
//! It knows no policy, no environment and no gradient.
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod catalogue;
pub mod check;
pub mod config;
pub mod confirm;
pub mod direction;
mod edit_text;
pub mod error;
mod evolve;
#[cfg(test)]
mod fixture;
pub mod label;
pub mod leak;
mod observed;
pub mod packet;
pub mod proposal;
pub mod report;
pub mod rerun;
mod search;
pub mod stats;
mod text;
pub mod tree;

pub use catalogue::{CatalogueEntry, CatalogueError, CatalogueProposer};
pub use check::{CheckConfig, Checker, Rejection, content_key};
pub use config::EvolveConfig;
pub use direction::{Failure, LabelGroup, RepairDirection, find_directions};
pub use error::{ConfigError, EvolveError, TraceError};
pub use evolve::{Evolution, EvolveInput, evolve};
pub use label::{Behaviour, Label, TerminalCause};
pub use leak::{Leak, LeakIndex};
pub use observed::Slice;
pub use packet::{FailurePacket, PacketBounds, Signals};
pub use proposal::{DirectionBrief, Proposal, ProposeError, Proposer};
pub use report::{EvolutionReport, UndirectedBudget};
pub use rerun::{Rerun, RerunError, Tally};
pub use tree::{Fate, TreeNode};
