//! Frozen sibling harness pools, behaviour profiles, and the contract by which siblings are selected.
//!
//! - [`sibling`], [`pool`]: what a sibling is, and the pool that is frozen while a policy trains;
//! - [`cluster`], [`digest`]: a task's failures as a router may see them, without its family;
//! - [`evidence`], [`profile`], [`stats`], [`summary`], [`beta`]: rows of evidence, and what they say of each
//!   harness;
//! - [`select`]: the trait [`SelectSiblings`] and what passes through it;
//! - [`anchor`]: a ready [`Probe`] over a function that makes attempts;
//! - [`coverage`]: which tasks a set of harnesses solves together;
//! - [`record`]: files that are whole or absent, versioned and hashed.
//!
//! It runs no harness by itself, trains nothing and asks no model.
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod anchor;
pub mod beta;
pub mod cluster;
pub mod coverage;
pub mod digest;
pub mod evidence;
pub mod pool;
pub mod profile;
pub mod record;
pub mod select;
pub mod sibling;
pub mod stats;
pub mod summary;
mod track;
mod tried;

pub use anchor::AnchorProbe;
pub use cluster::{Cluster, ClusterError};
pub use coverage::{
    Complementarity, Coverage, RateMatrix, TaskCoverage, complementarity, union_coverage,
};
pub use digest::Digest;
pub use evidence::EvidenceRow;
pub use pool::{PoolBuilder, PoolError, SiblingPool};
pub use profile::{BehaviorProfile, Examples, ProfileConfig, ProfileError};
pub use record::RecordError;
pub use select::{
    BallotRecord, Decision, Probe, RescueEvidence, RouteContext, SelectError, SelectSiblings,
};
pub use sibling::{AcceptanceEvidence, Sibling};
pub use stats::{ClusterScope, Given, Stats, Utility};
pub use summary::{Adherence, AgainstBase, ProfileSummary, Rate, Share, Stamp};
