//! The composition root of Harness-S: the one crate that names all others, runs experiments and writes
//! their reports.
//!
//! - [`cli`]: the command line;
//! - [`config`], [`arm`]: what an experiment is;
//! - [`run_dir`], [`files`], [`cache`]: what it leaves on disk;
//! - [`stats`], [`report`]: what it found;
//! - `pipeline` (feature `train`): warm start, evolution, training, evaluation;
//! - `bench` (feature `train`): speed, side by side with a twin in JAX;
//! - [`schema`]: JSON Schemas of files and of what a model is asked for;
//! - [`tidy`]: rules of the workspace that no compiler checks;
//! - `interrupt` (feature `train`): what Ctrl-C does;
//! - [`progress`], [`say`], [`clock`], [`usage`]: terminal and clock.
//!
//! With `--no-default-features` nothing of the policy model is built: `tidy`, `schema`, `report` and `--dry-run`
//! work,
//! everything that trains says that it cannot.
// `bench` alone opts out, where it measures the product library.
#![deny(unsafe_code)]

pub mod arm;
#[cfg(feature = "train")]
pub mod bench;
pub mod cache;
pub mod cli;
pub mod clock;
pub mod config;
pub mod files;
#[cfg(feature = "train")]
pub mod interrupt;
#[cfg(feature = "train")]
pub mod pipeline;
pub mod progress;
pub mod report;
pub mod run_dir;
pub mod say;
pub mod schema;
pub mod stats;
pub mod tidy;
pub mod usage;
