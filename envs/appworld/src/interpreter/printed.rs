//! What a block prints, and a watch over how much it prints and allocates.

use std::borrow::Cow;

use monty_types::{ExcType, MontyException, PrintWriterCallback};

/// Growth of the whole process during one block after which the block is stopped, in pages of 4 kB.
const MAX_GROWTH_PAGES: usize = 400_000;
/// Polls of the VM between two looks at the process's size; a poll comes every 256 instructions.
const POLLS_PER_LOOK: u32 = 8;

/// Collects what a block prints and stops a block that prints or allocates too much.
pub(super) struct Printed {
    pub(super) text: String,
    max: usize,
    polls: u32,
    start_pages: Option<usize>,
}

impl Printed {
    pub(super) fn new(max: usize) -> Self {
        Self {
            text: String::new(),
            max,
            polls: 0,
            start_pages: None,
        }
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

    fn poll_flush(&mut self) -> Result<(), MontyException> {
        self.polls = self.polls.wrapping_add(1);
        if !self.polls.is_multiple_of(POLLS_PER_LOOK) {
            return Ok(());
        }
        let Some(pages) = resident_pages() else {
            return Ok(());
        };
        let start = *self.start_pages.get_or_insert(pages);
        if pages > start + MAX_GROWTH_PAGES {
            // Such a cut depends on the machine, as one by the time limit does.
            tracing::warn!(pages, "a block of code was cut by its memory limit");
            let message = Some("the block uses too much memory".to_owned());
            return Err(MontyException::new(ExcType::MemoryError, message));
        }
        Ok(())
    }
}

/// Resident pages of this process; `None` where the system does not tell.
fn resident_pages() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}
