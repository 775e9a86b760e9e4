//! The composition root of Harness-S: the one crate that names all others, runs experiments and writes
//! their reports.
//!
//! - [`cli`]: the command line;
//! - [`config`], [`arm`]: what an experiment is;
//! - [`run_dir`], [`run_lock`], [`files`], [`cache`]: what it leaves on disk;
//! - [`stats`], [`report`]: what it found;
//! - `pipeline` (feature `train`): warm start, evolution, training, evaluation;
//! - [`show`]: what a run is doing, read from its folder;
//! - [`api`]: the public items of each library crate (listed with the feature `api`);
//! - `bench` (feature `train`): speed, side by side with a twin in JAX;
//! - [`instructions`]: instructions of the hot paths, counted;
//! - [`schema`]: JSON Schemas of files and of what a model is asked for;
//! - [`generated`]: files that are made of the code and checked in;
//! - [`tidy`]: rules of the workspace that no compiler checks;
//! - `interrupt` (feature `train`), [`go_on`]: what Ctrl-C does, and how a stopped run goes on;
//! - [`progress`], [`say`], [`log`], [`clock`], [`usage`]: terminal, log and clock.
//!
//! With `--no-default-features` nothing of the policy model is built: `tidy`, `schema`, `report`, `show` and
//! `--dry-run` work,
//! everything that trains says that it cannot.
#![forbid(unsafe_code)]

pub mod api;
pub mod arm;
#[cfg(feature = "train")]
pub mod bench;
pub mod cache;
pub mod cli;
pub mod clock;
pub mod config;
#[cfg(test)]
mod damage;
pub mod files;
pub mod generated;
pub mod go_on;
pub mod instructions;
#[cfg(feature = "train")]
pub mod interrupt;
pub mod log;
#[cfg(feature = "train")]
pub mod pipeline;
pub mod progress;
pub mod report;
pub mod run_dir;
pub mod run_lock;
pub mod say;
pub mod schema;
pub mod show;
pub mod stats;
pub mod tidy;
pub mod usage;
