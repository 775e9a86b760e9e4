//! Ctrl-C: the run ends at once and says how to go on.
//!
//! Nothing has to be saved first: what a run goes on from is whole on disk between any two instructions
//! (`pipeline::saved`), so the program ends in the handler.

use std::path::Path;

#[cfg(unix)]
use anyhow::Context as _;

use crate::say;

/// The exit code of a program that an interrupt ended.
pub const INTERRUPTED: i32 = 130;

/// Makes Ctrl-C (and a polite request to end, SIGTERM) end the program with [`INTERRUPTED`], after it has told
/// the command that goes on with the run in `out`. On systems without these signals it does nothing, and
/// Ctrl-C ends the program without a word.
///
/// # Errors
/// If the system refuses to tell of signals.
pub fn tell_how_to_go_on(out: &Path) -> anyhow::Result<()> {
    let command = command(std::env::args().skip(1), out);
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

/// The command line that goes on with a run: that of the run, with `--resume` and its folder.
fn command(args: impl Iterator<Item = String>, out: &Path) -> String {
    let mut kept = Vec::new();
    let mut args = args.peekable();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--resume" => {}
            "--out" => drop(args.next()),
            _ if arg.starts_with("--out=") => {}
            _ => kept.push(quoted(&arg)),
        }
    }
    let out = quoted(&out.display().to_string());
    format!("cargo xtask {} --resume --out {out}", kept.join(" "))
}

/// The text as one word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(args: &[&str], expect: &str) {
        let args = args.iter().map(|arg| (*arg).to_owned());
        assert_eq!(command(args, Path::new("runs/a")), expect);
    }

    #[test]
    fn the_command_goes_on_with_the_same_settings() {
        check(
            &["reproduce", "appworld", "--out", "x", "--seeds", "3"],
            "cargo xtask reproduce appworld --seeds 3 --resume --out runs/a",
        );
        check(
            &[
                "reproduce",
                "appworld",
                "--resume",
                "--out=x",
                "--set",
                "run.seeds=[1, 2]",
            ],
            "cargo xtask reproduce appworld --set 'run.seeds=[1, 2]' --resume --out runs/a",
        );
    }

    #[test]
    fn quotes_survive_a_shell() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
