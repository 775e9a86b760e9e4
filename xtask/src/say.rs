//! The one place that writes to the terminal: results on standard output, everything else on standard
//! error, so that a pipe receives results alone.

use std::io::Write;

/// Writes a line of a result to standard output. A reader that has gone (`| head`) is no error.
pub fn out(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Writes a line about what is going on to standard error.
#[expect(
    clippy::print_stderr,
    reason = "the one function that writes to standard error"
)]
pub fn note(text: impl std::fmt::Display) {
    eprintln!("{text}");
}

/// Writes a warning to standard error.
pub fn warn(text: impl std::fmt::Display) {
    note(format_args!("warning: {text}"));
}
