//! Files of trajectories: one JSON object a line, written and read one at a time.
//!
//! What a reader can tell depends on the line. One with a `hash`, as [`TrajectoryWriter`] writes it, is what
//! was written or an error. One without, as other tools write it, is held to [`Trajectory::validate`]: a
//! digit that changed in it goes unseen. A file as a whole has no hash, so lines that were lost at its end,
//! left out, repeated or put in another order are not noticed here; ids tell what a line is about, and
//! [`RolloutGroup::new`](crate::RolloutGroup::new) refuses an attempt that occurs twice. Count the lines if
//! that matters. After an edit of a line its `hash` must go.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use schemars::{Schema, schema_for};
use serde_json::{Value, json};

use crate::lines::{FileError, Lines, MAX_LINE_BYTES, io_error, seal};
use crate::trajectory::{TRAJECTORY_SCHEMA_VERSION, Trajectory};

/// Reads trajectories one at a time; memory is that of one line of at most [`MAX_LINE_BYTES`].
///
/// Blank lines are passed over. After an error in a line reading goes on with the next; after an error of the
/// system or a line that is too long there is none.
///
/// # Example
/// ```
/// # use harness_core::{BaseHarness, GroupId, HarnessSpec, Outcome, RolloutId, RunId, Trajectory};
/// use harness_core::{TrajectoryReader, TrajectoryWriter};
/// # let (task, harness) = (harness_core::testing::toy_task(1, "7"), HarnessSpec::base(BaseHarness::default()));
/// # let attempt = Trajectory::new(RunId::new("run")?, RolloutId::new("r0")?, GroupId::new("g0")?, &task,
/// #     harness.id(), Outcome::Failed);
/// let mut text = Vec::new();
/// TrajectoryWriter::new(&mut text, "memory").write(&attempt)?;
/// let mut reader = TrajectoryReader::new(text.as_slice(), "memory");
/// assert_eq!(reader.next().transpose()?, Some(attempt));
/// assert!(reader.next().is_none());
/// assert_eq!(reader.n_unverified(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TrajectoryReader<R> {
    lines: Lines<R>,
    n_unverified: u64,
    is_over: bool,
}

impl TrajectoryReader<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    /// [`FileError::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FileError> {
        Lines::open(path.as_ref()).map(Self::over)
    }
}

impl<R: BufRead> TrajectoryReader<R> {
    /// Reads from anything; `name` stands for the file in errors.
    pub fn new(from: R, name: impl Into<PathBuf>) -> Self {
        Self::over(Lines::new(from, name.into()))
    }

    fn over(lines: Lines<R>) -> Self {
        Self {
            lines,
            n_unverified: 0,
            is_over: false,
        }
    }

    /// Trajectories read so far that had no hash.
    pub fn n_unverified(&self) -> u64 {
        self.n_unverified
    }

    fn parse(&mut self) -> Result<Trajectory, FileError> {
        let (record, is_verified) = self.lines.record(TRAJECTORY_SCHEMA_VERSION)?;
        check_record(&record, &self.lines.file, self.lines.number)?;
        self.n_unverified += u64::from(!is_verified);
        Ok(record)
    }
}

impl<R: BufRead> Iterator for TrajectoryReader<R> {
    type Item = Result<Trajectory, FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        match self.lines.advance() {
            Ok(true) => Some(self.parse()),
            Ok(false) => {
                self.is_over = true;
                None
            }
            Err(error) => {
                self.is_over = true;
                Some(Err(error))
            }
        }
    }
}

/// The JSON Schema of a line: that of [`Trajectory`], and the hash that it may have.
pub fn line_schema() -> Schema {
    let mut schema = schema_for!(Trajectory);
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    if let Some(properties) = properties {
        let hash = json!({
            "description": "Hash (blake3, 64 hex digits) of the line before this key, which is the last.",
            "type": "string",
            "minLength": 64,
            "maxLength": 64,
        });
        properties.insert("hash".into(), hash);
    }
    schema
}

pub(crate) fn check_record(record: &Trajectory, file: &Path, line: u64) -> Result<(), FileError> {
    if record.schema_version > TRAJECTORY_SCHEMA_VERSION {
        return Err(FileError::NewerVersion {
            file: file.to_owned(),
            line,
            found: record.schema_version.into(),
            supported: TRAJECTORY_SCHEMA_VERSION,
        });
    }
    record.validate().map_err(|source| FileError::Invalid {
        file: file.to_owned(),
        line,
        source,
    })
}

/// Writes trajectories, each a line with its hash.
#[derive(Debug)]
pub struct TrajectoryWriter<W> {
    into: W,
    file: PathBuf,
    n_lines: u64,
}

impl TrajectoryWriter<BufWriter<File>> {
    /// Starts a file; one that is there already is not overwritten.
    ///
    /// # Errors
    /// [`FileError::Io`].
    pub fn create(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let file = file.map_err(io_error("create", path))?;
        Ok(Self::new(BufWriter::new(file), path))
    }

    /// Writes what is buffered and makes it last. Without this call the last lines may be lost unnoticed.
    ///
    /// # Errors
    /// [`FileError::Io`].
    pub fn finish(mut self) -> Result<(), FileError> {
        let flushed = self.into.flush();
        flushed
            .and_then(|()| self.into.get_ref().sync_all())
            .map_err(io_error("write", &self.file))
    }
}

impl<W: Write> TrajectoryWriter<W> {
    /// Writes into anything; `name` stands for the file in errors.
    pub fn new(into: W, name: impl Into<PathBuf>) -> Self {
        Self {
            into,
            file: name.into(),
            n_lines: 0,
        }
    }

    /// Writes a line. A buffered `W` has to be flushed by its owner.
    ///
    /// # Errors
    /// [`FileError`] if a reader would refuse the line, and nothing is written then; or if the system refused.
    pub fn write(&mut self, trajectory: &Trajectory) -> Result<(), FileError> {
        let line = self.n_lines + 1;
        check_record(trajectory, &self.file, line)?;
        let bytes = seal(trajectory);
        if bytes.len() > MAX_LINE_BYTES {
            let file = self.file.clone();
            return Err(FileError::TooLong { file, line });
        }
        let written = self.into.write_all(&bytes);
        written.map_err(io_error("write", &self.file))?;
        self.n_lines = line;
        Ok(())
    }
}
