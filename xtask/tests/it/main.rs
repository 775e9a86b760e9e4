//! The program as a user calls it: wrong usage is told with the right name, and nothing is written.
//!
//! All but those of `reproduce` stop before anything trains and run without the feature `train` too.

mod bad_input;
mod reports;
#[cfg(feature = "train")]
mod reproduce;
#[cfg(feature = "train")]
mod resume;
#[cfg(all(unix, feature = "train"))]
mod survival;

use std::path::Path;
use std::process::{Command, Output};

/// Runs the program in a folder.
fn xtask(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(args)
        .current_dir(folder)
        .output()
        .expect("the program starts")
}

/// What it wrote to standard output.
fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What it wrote to standard error.
fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// How many things lie in a folder.
fn n_entries(folder: &Path) -> usize {
    std::fs::read_dir(folder)
        .expect("the folder is there")
        .count()
}
