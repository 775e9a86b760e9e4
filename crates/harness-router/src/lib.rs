//! The adaptive harness router: voters, rank aggregation, Top-k, Rank-1, re-anchoring.
//!
//! - [`ballot`], [`reply`]: what a voter says, and what makes it no ballot at all;
//! - [`voter`], [`nearest`], [`llm`]: the trait, three embedded voters that need no model, and one that asks a
//!   model;
//! - [`aggregate`]: from ballots to one ranking;
//! - [`router`], [`config`]: the selector that a trainer calls;
//! - [`reanchor`]: what a re-anchoring found, for the log;
//! - [`simple`]: selectors to compare it with;
//! - [`mod@rank1`]: one harness per task at inference;
//! - `testing` (feature): the router's invariants as strategies and checks for voters and selectors of
//!   your own.
//!
//! It runs no harness and trains nothing; it sees no task's family.
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod aggregate;
pub mod ballot;
pub mod config;
pub mod llm;
pub mod nearest;
pub mod rank1;
pub mod reanchor;
pub mod reply;
pub mod router;
pub mod simple;
#[cfg(feature = "testing")]
pub mod testing;
pub mod voter;

pub use aggregate::{Aggregation, Tally};
pub use ballot::{Ballot, NoBallot};
pub use config::{OnStale, RouterConfig};
pub use llm::LlmVoter;
pub use nearest::NearestFailures;
pub use rank1::{Rank1, rank1};
pub use reanchor::{AnchorChange, ReanchorReport, Unroutable, unroutable};
pub use reply::parse_reply;
pub use router::Router;
pub use simple::{FixedSelector, OracleSelector, RandomSelector};
pub use voter::{BetaByCluster, ErrorKindRate, Voter, embedded_voters};
