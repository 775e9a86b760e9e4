//! Ctrl-C: the run ends at once and says how to go on.
//!
//! Nothing has to be saved first: what a run goes on from is whole on disk between any two instructions
//! (`pipeline::saved`), so the program ends in the handler.

use std::path::Path;

#[cfg(unix)]
use anyhow::Context as _;

use crate::{go_on, say};

/// The exit code of a program that an interrupt ended.
pub const INTERRUPTED: i32 = 130;

/// Makes Ctrl-C (and a polite request to end, SIGTERM) end the program with [`INTERRUPTED`], after it has told
/// the command that goes on with the run in `out`. On systems without these signals it does nothing, and
/// Ctrl-C ends the program without a word.
///
/// # Errors
/// If the system refuses to tell of signals.
pub fn tell_how_to_go_on(out: &Path) -> anyhow::Result<()> {
    let command = go_on::command(out);
    listen(move || {
        say::note(format_args!("\nstopped; go on with: {command}"));
        std::process::exit(INTERRUPTED);
    })
}

#[cfg(unix)]
fn listen(handler: impl Fn() + Send + 'static) -> anyhow::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]);
    let mut signals = signals.context("listening to Ctrl-C")?;
    std::thread::spawn(move || signals.forever().for_each(|_| handler()));
    Ok(())
}

#[cfg(not(unix))]
fn listen(_: impl Fn() + Send + 'static) -> anyhow::Result<()> {
    Ok(())
}
