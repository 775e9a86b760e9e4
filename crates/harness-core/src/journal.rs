//! Attempts on disk while they run, so that what a long or dear one has done survives the end of the process
//! (bug report F6).
//!
//! The executor tells a [`Journal`] of each attempt's start, of every closed turn and of the end.
//! [`FileJournal`] appends a line for each; [`read_journal`] makes trajectories of them again. A line is in
//! the hands of the operating system once the turn is closed: it outlives the process, not a power cut.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::ids::RolloutId;
use crate::lines::{FileError, Lines, MAX_LINE_BYTES, io_error, seal};
use crate::outcome::Outcome;
use crate::trajectory::{TRAJECTORY_SCHEMA_VERSION, Trajectory, Turn};
use crate::trajectory_file::check_record;

/// What happened to an attempt. Each holds its trajectory as it stands at that moment.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum JournalEntry<'a> {
    /// It begins; the prompt is there if the world could be built. What was told before under the same
    /// rollout id belongs to a try that is made again.
    Start(&'a Trajectory),
    /// The last of its turns was closed just now.
    Turn(&'a Trajectory),
    /// It is over, with its outcome; after a fault it may begin again.
    End(&'a Trajectory),
}

/// Is told what attempts do while they do it, from every thread that runs some; the entries of one attempt
/// come in order. It must not block for long: what its thread runs waits.
pub trait Journal: fmt::Debug + Send + Sync {
    /// Takes an entry. A journal that cannot keep it says so by itself: an attempt goes on without.
    fn record(&self, entry: JournalEntry<'_>);
}

/// A journal in a file of JSON lines, each written at once and sealed with its hash.
///
/// After a write that failed nothing more is written; [`FileJournal::check`] tells.
#[derive(Debug)]
pub struct FileJournal {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    failure: Option<(io::ErrorKind, String)>,
}

/// A line as it is written and read.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line<T, U> {
    Start(T),
    Turn {
        rollout_id: RolloutId,
        index: usize,
        turn: U,
        unprojectable: Option<String>,
    },
    End {
        rollout_id: RolloutId,
        n_turns: usize,
        outcome: Outcome,
        reward: Option<f32>,
        error: Option<String>,
        rule_errors: u32,
        unprojectable: Option<String>,
    },
}

impl FileJournal {
    /// Opens a journal and goes on at its end; it is made if there is none. A torn last line, which
    /// [`read_journal`] reports, is cut off. One process at a time may hold it.
    ///
    /// # Errors
    /// [`FileError::Io`].
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, FileError> {
        let path = path.into();
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&path);
        let file = file.map_err(io_error("open", &path))?;
        let cut = end_of_lines(&file).and_then(|end| file.set_len(end));
        cut.map_err(io_error("cut the torn last line of", &path))?;
        let state = Mutex::new(State {
            file,
            failure: None,
        });
        Ok(Self { path, state })
    }

    /// Whether every entry so far was written.
    ///
    /// # Errors
    /// [`FileError::Io`] of the first write that failed.
    pub fn check(&self) -> Result<(), FileError> {
        match &self.lock().failure {
            None => Ok(()),
            Some((kind, text)) => Err(io_error("append to", &self.path)(io::Error::new(
                *kind,
                text.clone(),
            ))),
        }
    }

    /// A thread that panicked while it held the lock left a failure or whole lines, never part of a state.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal for FileJournal {
    fn record(&self, entry: JournalEntry<'_>) {
        let line = match entry {
            JournalEntry::Start(t) => Line::Start(t),
            JournalEntry::Turn(t) => match t.turns.last() {
                Some(turn) => Line::Turn {
                    rollout_id: t.rollout_id.clone(),
                    index: t.turns.len() - 1,
                    turn,
                    unprojectable: t.unprojectable.clone(),
                },
                None => return,
            },
            JournalEntry::End(t) => Line::End {
                rollout_id: t.rollout_id.clone(),
                n_turns: t.turns.len(),
                outcome: t.outcome,
                reward: t.reward,
                error: t.error.clone(),
                rule_errors: t.rule_errors,
                unprojectable: t.unprojectable.clone(),
            },
        };
        let bytes = seal(&line);
        let mut state = self.lock();
        if state.failure.is_some() {
            return;
        }
        let written = if bytes.len() > MAX_LINE_BYTES {
            let text = format!("a line of {} bytes is too long", bytes.len());
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        } else {
            state.file.write_all(&bytes)
        };
        if let Err(error) = written {
            state.failure = Some((error.kind(), error.to_string()));
        }
    }
}

/// The position after the last line break.
fn end_of_lines(file: &File) -> io::Result<u64> {
    let mut reader = BufReader::new(file);
    let (mut at, mut end) = (0, 0);
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(end);
        }
        if let Some(last) = bytes.iter().rposition(|b| *b == b'\n') {
            end = at + last as u64 + 1;
        }
        let n_bytes = bytes.len();
        at += n_bytes as u64;
        reader.consume(n_bytes);
    }
}

/// What a journal holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Recovered {
    /// One trajectory for each attempt, in the order in which they were first begun, each as its last try left
    /// it. One that has no end is [`Outcome::Cancelled`] and says so in its `error`.
    pub trajectories: Vec<Trajectory>,
    /// How many bytes of a last line were cut off because it lacks its line break; 0 if none.
    pub n_torn_bytes: usize,
}

/// Reads a journal. Memory is that of all its attempts.
///
/// # Errors
/// [`FileError`] if a line other than the last is torn, changed, or does not follow from those before it.
pub fn read_journal(path: impl AsRef<Path>) -> Result<Recovered, FileError> {
    let mut lines = Lines::open(path.as_ref())?;
    let mut attempts = Attempts::default();
    while lines.advance()? {
        if let Some(n_torn_bytes) = lines.torn() {
            return Ok(attempts.recovered(n_torn_bytes));
        }
        let (line, _) = lines.record(TRAJECTORY_SCHEMA_VERSION)?;
        attempts.follow(line, &lines.file, lines.number)?;
    }
    Ok(attempts.recovered(0))
}

/// The attempts of a journal so far.
#[derive(Default)]
struct Attempts {
    at: BTreeMap<RolloutId, usize>,
    all: Vec<Attempt>,
}

struct Attempt {
    record: Trajectory,
    is_over: bool,
}

impl Attempts {
    fn follow(
        &mut self,
        line: Line<Trajectory, Turn>,
        file: &Path,
        number: u64,
    ) -> Result<(), FileError> {
        let out_of_order = |rollout: &RolloutId, problem| FileError::OutOfOrder {
            file: file.to_owned(),
            line: number,
            rollout: rollout.clone(),
            problem,
        };
        let changed = match line {
            Line::Start(record) => self.begin(record),
            Line::Turn {
                rollout_id,
                index,
                turn,
                unprojectable,
            } => {
                let attempt = self.running(&rollout_id, index);
                let attempt =
                    attempt.ok_or_else(|| out_of_order(&rollout_id, "a turn out of order"))?;
                attempt.record.turns.push(turn);
                attempt.record.unprojectable = unprojectable;
                attempt
            }
            Line::End {
                rollout_id,
                n_turns,
                outcome,
                reward,
                error,
                rule_errors,
                unprojectable,
            } => {
                let attempt = self.running(&rollout_id, n_turns);
                let attempt =
                    attempt.ok_or_else(|| out_of_order(&rollout_id, "an end out of order"))?;
                attempt.is_over = true;
                let record = &mut attempt.record;
                (record.outcome, record.reward, record.error) = (outcome, reward, error);
                (record.rule_errors, record.unprojectable) = (rule_errors, unprojectable);
                attempt
            }
        };
        check_record(&changed.record, file, number)
    }

    /// Begins an attempt, anew if it was there.
    fn begin(&mut self, record: Trajectory) -> &mut Attempt {
        let next = self.all.len();
        let at = *self.at.entry(record.rollout_id.clone()).or_insert(next);
        let record = Trajectory {
            outcome: Outcome::Cancelled,
            error: Some("the journal ends before the attempt does".into()),
            ..record
        };
        let attempt = Attempt {
            record,
            is_over: false,
        };
        if at == next {
            self.all.push(attempt);
        } else {
            self.all[at] = attempt;
        }
        &mut self.all[at]
    }

    /// An attempt that runs and has `n_turns` turns so far.
    fn running(&mut self, rollout: &RolloutId, n_turns: usize) -> Option<&mut Attempt> {
        let attempt = &mut self.all[*self.at.get(rollout)?];
        let follows = !attempt.is_over && attempt.record.turns.len() == n_turns;
        follows.then_some(attempt)
    }

    fn recovered(self, n_torn_bytes: usize) -> Recovered {
        Recovered {
            trajectories: self.all.into_iter().map(|a| a.record).collect(),
            n_torn_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{BaseHarness, HarnessSpec};
    use crate::ids::{GroupId, RunId};
    use crate::testing::toy_task;

    #[test]
    fn a_write_that_fails_is_told_and_is_the_last() {
        let path = PathBuf::from("Cargo.toml");
        let file = File::open(&path).unwrap();
        let state = Mutex::new(State {
            file,
            failure: None,
        });
        let journal = FileJournal { path, state };
        assert!(journal.check().is_ok());
        let attempt = Trajectory::new(
            RunId::new("run").unwrap(),
            RolloutId::new("r0").unwrap(),
            GroupId::new("g0").unwrap(),
            &toy_task(1, "7"),
            HarnessSpec::base(BaseHarness::default()).id(),
            Outcome::Failed,
        );
        journal.record(JournalEntry::Start(&attempt));
        let error = journal.check().unwrap_err().to_string();
        assert!(error.starts_with("cannot append to Cargo.toml"), "{error}");
    }
}
