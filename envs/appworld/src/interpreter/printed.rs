//! What a block prints, and a watch over how much it prints and allocates.

use std::borrow::Cow;
#[cfg(unix)]
use std::{fs::File, os::unix::fs::FileExt as _, sync::LazyLock};

use monty_types::{ExcType, MontyException, PrintWriterCallback};

/// Growth of the whole process during one block after which the block is stopped, in pages of 4 kB: 256 MiB.
/// It is the process that is measured, so what other threads take in that time counts too, and what an allocator
/// kept of earlier blocks does not.
const MAX_GROWTH_PAGES: usize = 65_536;
/// Collects what a block prints and stops a block that prints or allocates too much.
pub(super) struct Printed {
    pub(super) text: String,
    max: usize,
    start_pages: Option<usize>,
    is_too_large: bool,
}

impl Printed {
    pub(super) fn new(max: usize) -> Self {
        Self {
            text: String::new(),
            max,
            start_pages: data_pages(),
            is_too_large: false,
        }
    }

    /// Pages by which the process grew since the block began; 0 where the system does not tell.
    pub(super) fn grown_pages(&self) -> usize {
        let (start, now) = (self.start_pages, data_pages());
        start
            .zip(now)
            .map_or(0, |(start, now)| now.saturating_sub(start))
    }

    /// Whether the block was stopped for what it allocated.
    pub(super) fn is_too_large(&self) -> bool {
        self.is_too_large
    }

    fn room(&self, more: usize) -> Result<(), MontyException> {
        if self.text.len() + more > self.max {
            let message = format!("more than {} bytes printed in one block", self.max);
            return Err(MontyException::new(ExcType::MemoryError, Some(message)));
        }
        Ok(())
    }
}

impl PrintWriterCallback for Printed {
    fn stdout_write(&mut self, output: Cow<'_, str>) -> Result<(), MontyException> {
        self.room(output.len())?;
        self.text.push_str(&output);
        Ok(())
    }

    fn stdout_push(&mut self, end: char) -> Result<(), MontyException> {
        self.room(end.len_utf8())?;
        self.text.push(end);
        Ok(())
    }

    /// Comes every 256 instructions, each of which makes at most 1 MiB: so much the limit can be overrun.
    fn poll_flush(&mut self) -> Result<(), MontyException> {
        if self.grown_pages() > MAX_GROWTH_PAGES {
            self.is_too_large = true;
            // Such a cut depends on the machine, as one by the time limit does.
            tracing::warn!("a block of code was cut by its memory limit");
            let message = Some("the block uses too much memory".to_owned());
            return Err(MontyException::new(ExcType::MemoryError, message));
        }
        Ok(())
    }
}

/// Pages that this process has for data, touched or not, since `bytes(10**6)` touches none; `None` where the
/// system does not tell. Two looks belong to every block, so the file is opened once: a fifth of the time.
#[cfg(unix)]
fn data_pages() -> Option<usize> {
    static STATM: LazyLock<Option<File>> = LazyLock::new(|| File::open("/proc/self/statm").ok());
    let mut text = [0; 256];
    let n = STATM.as_ref()?.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..n]).ok()?;
    text.split_whitespace().nth(5)?.parse().ok()
}

#[cfg(not(unix))]
const fn data_pages() -> Option<usize> {
    None
}
