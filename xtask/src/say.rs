//! The one place that writes to the terminal: results on standard output, everything else on standard
//! error, so that a pipe receives results alone.

/// Writes a line of a result to standard output.
#[expect(
    clippy::print_stdout,
    reason = "the one function that writes to standard output"
)]
pub fn out(text: impl std::fmt::Display) {
    println!("{text}");
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
