//! How far a long stage has come: a bar on a terminal, a plain line every few seconds elsewhere.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::say;

/// Least time between two plain lines of one stage.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// The progress of one stage. Shared by reference between threads.
#[derive(Debug)]
pub struct Progress {
    label: String,
    total: u64,
    bar: Option<ProgressBar>,
    lines: Mutex<Lines>,
}

#[derive(Debug)]
struct Lines {
    done: u64,
    started: Instant,
    last: Instant,
}

impl Progress {
    /// Starts a stage of `total` units, 0 if nobody knows, named `label`.
    pub fn start(label: impl Into<String>, total: u64) -> Self {
        let label = label.into();
        let bar = std::io::stderr()
            .is_terminal()
            .then(|| terminal_bar(&label, total));
        bar.iter().for_each(say::above);
        if bar.is_none() {
            say::note(format_args!("{label} ..."));
        }
        let now = Instant::now();
        Self {
            label,
            total,
            bar,
            lines: Mutex::new(Lines {
                done: 0,
                started: now,
                last: now,
            }),
        }
    }

    /// Counts `n` more units as done.
    pub fn advance(&self, n: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(n);
            return;
        }
        let mut lines = self.lines();
        lines.done += n;
        if lines.last.elapsed() >= LINE_EVERY {
            lines.last = Instant::now();
            say::note(plain_line(&self.label, lines.done, self.total, &lines));
        }
    }

    /// Ends the stage and says how long it took.
    pub fn finish(self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let elapsed = self.lines().started.elapsed().as_secs_f64();
        say::note(format_args!("{}: done in {elapsed:.1} s", self.label));
    }

    /// A panic in another thread does not make counts wrong, so a poisoned lock is used all the same.
    fn lines(&self) -> std::sync::MutexGuard<'_, Lines> {
        self.lines
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn plain_line(label: &str, done: u64, total: u64, lines: &Lines) -> String {
    let elapsed = lines.started.elapsed().as_secs();
    if total == 0 {
        return format!("{label}: {done}, {elapsed} s");
    }
    format!("{label}: {done} of {total}, {elapsed} s")
}

fn terminal_bar(label: &str, total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len} {elapsed} (left {eta})")
        .expect("the template is a constant and valid")
        .progress_chars("=> ");
    ProgressBar::new(total)
        .with_style(style)
        .with_message(label.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_from_several_threads_add_up() {
        let progress = Progress::start("test", 8);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    progress.advance(1);
                    progress.advance(1);
                });
            }
        });
        if progress.bar.is_none() {
            assert_eq!(progress.lines().done, 8);
        }
        progress.finish();
    }

    #[test]
    fn the_template_is_valid() {
        terminal_bar("label", 3).finish_and_clear();
    }
}
