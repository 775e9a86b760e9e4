//! Lines of JSON in files: each with a hash of itself as its last key, bounded in length, and with errors
//! that say where.
//!
//! The hash (`hash`, blake3, 64 hex digits) covers the bytes of the line before `,"hash":`. A line without
//! one is read as well, unverified, so that a file by another tool is as good.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ids::RolloutId;
use crate::trajectory::InvalidTrajectory;

/// Longest line that is read or written, in bytes: some two million sampled tokens.
pub const MAX_LINE_BYTES: usize = 64 << 20;

const HASH_KEY: &[u8] = b",\"hash\":\"";
const HASH_DIGITS: usize = 64;

/// Why a file of trajectories cannot be written or read. Every message says what is wrong, where, and what to
/// do. Lines and columns count from 1, columns in bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", file.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        file: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A line is longer than [`MAX_LINE_BYTES`].
    #[error("{}, line {line}: longer than {MAX_LINE_BYTES} bytes: one line holds one JSON object", file.display())]
    TooLong {
        /// The file.
        file: PathBuf,
        /// The line.
        line: u64,
    },
    /// A line is not JSON, was cut, or nests deeper than the JSON reader allows (127).
    #[error(
        "{}, line {line}, column {column}: not JSON ({}): restore the line, or remove it",
        file.display(), bare(source)
    )]
    NotJson {
        /// The file.
        file: PathBuf,
        /// The line.
        line: u64,
        /// The column.
        column: usize,
        /// What the reader said; its own line is always 1.
        #[source]
        source: serde_json::Error,
    },
    /// A field is missing, unknown, or of another type.
    #[error("{}, line {line}, column {column}, at {}: {}", file.display(), place(field), bare(source))]
    Shape {
        /// The file.
        file: PathBuf,
        /// The line.
        line: u64,
        /// The column.
        column: usize,
        /// Where the reader stood, for instance `turns[2].segments[0].ids`; empty for the object itself.
        field: String,
        /// What the reader said; its own line is always 1.
        #[source]
        source: serde_json::Error,
    },
    /// A line was made by a newer version of this code (bug report J4).
    #[error(
        "{}, line {line}: made by a newer version (schema_version {found}, this code reads up to \
         {supported}): update harness-core",
        file.display()
    )]
    NewerVersion {
        /// The file.
        file: PathBuf,
        /// The line.
        line: u64,
        /// The line's version.
        found: u64,
        /// The newest version that this code reads.
        supported: u32,
    },
    /// A line is not what was written.
    #[error(
        "{}, line {line}: changed since it was written (hash {expected} expected, {found} found): restore \
         it; after an edit that was meant, take the key `hash` out",
        file.display()
    )]
    HashMismatch {
        /// The file.
        file: PathBuf,
        /// The line.
        line: u64,
        /// The hash that the line states.
        expected: String,
        /// The hash of its content.
        found: String,
    },
    /// A line is whole, but its fields contradict each other.
    #[error("{}, line {line}: {source}", file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// The line.
        line: u64,
        /// Which field, and why.
        #[source]
        source: InvalidTrajectory,
    },
    /// A line of a journal does not follow from those before it: lines are missing or were moved.
    #[error("{}, line {line}: {problem} of attempt {rollout}: lines are missing or were moved", file.display())]
    OutOfOrder {
        /// The file.
        file: PathBuf,
        /// The line.
        line: u64,
        /// The attempt.
        rollout: RolloutId,
        /// What stands there.
        problem: &'static str,
    },
}

fn place(field: &str) -> String {
    match field {
        "" => "the object".into(),
        field => format!("field `{field}`"),
    }
}

/// What the reader said, without its own count of lines.
fn bare(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

pub(crate) fn io_error(action: &'static str, file: &Path) -> impl FnOnce(io::Error) -> FileError {
    let file = file.to_owned();
    move |source| FileError::Io {
        action,
        file,
        source,
    }
}

/// A JSON object as a line with its hash, line break included.
///
/// Panics never: records are plain data with text keys.
pub(crate) fn seal(record: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(record).expect("a record is plain data with text keys");
    let closing = line.pop();
    debug_assert_eq!(closing, Some(b'}'), "a record is an object");
    let hash = blake3::hash(&line).to_hex();
    line.extend_from_slice(HASH_KEY);
    line.extend_from_slice(hash.as_bytes());
    line.extend_from_slice(b"\"}\n");
    line
}

/// Reads lines one at a time; memory is that of one line.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    from: R,
    pub(crate) file: PathBuf,
    /// Number of the last line read.
    pub(crate) number: u64,
    line: Vec<u8>,
}

/// What a line says of its version, that of a journal within its `start`; all other fields may be unknown.
#[derive(serde::Deserialize)]
struct Versioned {
    schema_version: Option<u64>,
    start: Option<Box<Versioned>>,
}

impl Versioned {
    fn version(&self) -> u64 {
        let within = self.start.as_ref().map_or(0, |start| start.version());
        self.schema_version.unwrap_or(within)
    }
}

impl Lines<io::BufReader<File>> {
    pub(crate) fn open(path: &Path) -> Result<Self, FileError> {
        let file = File::open(path).map_err(io_error("open", path))?;
        Ok(Self::new(io::BufReader::new(file), path.to_owned()))
    }
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(from: R, file: PathBuf) -> Self {
        Self {
            from,
            file,
            number: 0,
            line: Vec::new(),
        }
    }

    /// Reads the next line that is not blank; `false` at the end of the file.
    pub(crate) fn advance(&mut self) -> Result<bool, FileError> {
        loop {
            self.line.clear();
            let mut bounded = self.from.by_ref().take(MAX_LINE_BYTES as u64 + 1);
            let read = bounded.read_until(b'\n', &mut self.line);
            let n_read = read.map_err(io_error("read", &self.file))?;
            if n_read == 0 {
                return Ok(false);
            }
            self.number += 1;
            if n_read > MAX_LINE_BYTES {
                return Err(FileError::TooLong {
                    file: self.file.clone(),
                    line: self.number,
                });
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }

    /// Length of the line in bytes, if it lacks its line break.
    pub(crate) fn torn(&self) -> Option<usize> {
        (!self.line.ends_with(b"\n")).then_some(self.line.len())
    }

    /// The line's record, and whether a hash proves that it is what was written.
    pub(crate) fn record<T: DeserializeOwned>(
        &mut self,
        supported: u32,
    ) -> Result<(T, bool), FileError> {
        let is_verified = self.check_hash()?;
        let source = match serde_json::from_slice(&self.line) {
            Ok(record) => return Ok((record, is_verified)),
            Err(source) => source,
        };
        let (file, line, column) = (self.file.clone(), self.number, source.column());
        if !source.is_data() {
            return Err(FileError::NotJson {
                file,
                line,
                column,
                source,
            });
        }
        let versioned = serde_json::from_slice::<Versioned>(&self.line);
        let found = versioned.map_or(0, |v| v.version());
        if found > u64::from(supported) {
            return Err(FileError::NewerVersion {
                file,
                line,
                found,
                supported,
            });
        }
        let field = field_at(&self.line[..column.min(self.line.len())]);
        Err(FileError::Shape {
            file,
            line,
            column,
            field,
            source,
        })
    }

    /// Takes the hash out of the line, if it has one.
    fn check_hash(&mut self) -> Result<bool, FileError> {
        let n_bytes = self.line.trim_ascii_end().len();
        self.line.truncate(n_bytes);
        let digits = n_bytes.checked_sub(HASH_DIGITS + 2);
        let Some(digits) = digits.filter(|at| self.line[..*at].ends_with(HASH_KEY)) else {
            return Ok(false);
        };
        let stated = String::from_utf8_lossy(&self.line[digits..digits + HASH_DIGITS]).into_owned();
        self.line.drain(digits - HASH_KEY.len()..n_bytes - 1);
        let content = &self.line[..self.line.len() - 1];
        let found = blake3::hash(content).to_hex();
        if stated == found.as_str() {
            return Ok(true);
        }
        Err(FileError::HashMismatch {
            file: self.file.clone(),
            line: self.number,
            expected: stated,
            found: found.to_string(),
        })
    }
}

/// The path of the value at which a JSON text that starts well breaks off, for instance `turns[2].action`.
fn field_at(text: &[u8]) -> String {
    enum Level {
        Object(String),
        Array(usize),
    }
    let mut levels = Vec::new();
    let mut at = 0;
    let mut expects_key = false;
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'{' => levels.push(Level::Object(String::new())),
            b'[' => levels.push(Level::Array(0)),
            b'}' | b']' => drop(levels.pop()),
            b',' => {
                if let Some(Level::Array(n)) = levels.last_mut() {
                    *n += 1;
                }
            }
            b'"' => {
                let from = at;
                while text.get(at).is_some_and(|b| *b != b'"') {
                    at += if text[at] == b'\\' { 2 } else { 1 };
                }
                let content = &text[from..at.min(text.len())];
                at += 1;
                if let (true, Some(Level::Object(key))) = (expects_key, levels.last_mut()) {
                    *key = String::from_utf8_lossy(content).into_owned();
                }
            }
            _ => {}
        }
        expects_key = match byte {
            b'{' | b',' => matches!(levels.last(), Some(Level::Object(_))),
            b' ' | b'\t' => expects_key,
            _ => false,
        };
    }
    let mut path = String::new();
    for level in levels {
        match level {
            Level::Object(key) if path.is_empty() => path = key,
            Level::Object(key) if key.is_empty() => {}
            Level::Object(key) => path = format!("{path}.{key}"),
            Level::Array(n) => path = format!("{path}[{n}]"),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        #[track_caller]
        fn check(text: &str, expect: &str) {
            assert_eq!(field_at(text.as_bytes()), expect);
        }
        check("", "");
        check(r#"{"a": 1, "b": 2"#, "b");
        check(
            r#"{"turns": [{"action": "x,\"{"}, {"ids": [1, 2, "#,
            "turns[1].ids[2]",
        );
        check(r#"{"a": {"b": [1]}"#, "a");
        check(r#"{"a": "b", "c\"d": {"#, "c\\\"d");
        check(r#"{"a": "b\"#, "a");
    }
}
