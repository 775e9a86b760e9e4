//! The one place that writes to the terminal: results on standard output, everything else on standard
//! error, so that a pipe receives results alone. A line never tears the progress bar.

use std::io::Write;
use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, WeakProgressBar};

/// The bar that is on the terminal, if one is.
static BAR: Mutex<Option<WeakProgressBar>> = Mutex::new(None);

/// Writes a line of a result to standard output. A reader that has gone (`| head`) is no error.
pub fn out(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Writes a line about what is going on to standard error, above the bar if there is one.
pub fn note(text: impl std::fmt::Display) {
    let bar = BAR.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match bar.and_then(|bar| bar.upgrade()) {
        Some(bar) => bar.suspend(|| line(text)),
        None => line(text),
    }
}

/// Writes a warning to standard error.
pub fn warn(text: impl std::fmt::Display) {
    note(format_args!("warning: {text}"));
}

/// From now on lines go above this bar, until it is dropped.
pub(crate) fn above(bar: &ProgressBar) {
    *BAR.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.downgrade());
}

#[expect(
    clippy::print_stderr,
    reason = "the one function that writes to standard error"
)]
fn line(text: impl std::fmt::Display) {
    eprintln!("{text}");
}
