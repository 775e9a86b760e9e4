//! Files that are whole or absent: written aside, versioned, hashed, bounded in size.
//!
//! A record is one JSON object with `format_version`, `kind` and `hash` beside its content. The hash
//! (blake3, 64 hex digits) is taken over the object as it stands in the file, without `hash` itself and with
//! keys sorted; so a later code that knows more fields still verifies an old file (bug report J4), and an
//! edited file is never taken for the old one (bug report J5). White space and key order do not matter.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema, schema_for};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::pool::PoolError;
use crate::profile::ProfileError;

/// Deepest nesting of a record, which is the JSON reader's own limit.
pub const MAX_DEPTH: usize = 127;

/// What a file is, and how large it may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Format {
    pub(crate) kind: &'static str,
    pub(crate) version: u64,
    pub(crate) max_bytes: u64,
    /// Whether people read it, so that it is worth its white space.
    pub(crate) is_pretty: bool,
}

/// Why a file cannot be written or read. Every message says what is wrong, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The file is, or would be, larger than any file of its kind may be.
    #[error("{}: larger than {max_bytes} bytes, the most that a {kind} may be: check the path, or keep less", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What was expected.
        kind: &'static str,
        /// The limit.
        max_bytes: u64,
    },
    /// The file is not JSON, or nests deeper than [`MAX_DEPTH`].
    #[error(
        "{}: not JSON at line {line}, column {column} ({source}): restore the file from a copy",
        path.display()
    )]
    NotJson {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in bytes, from 1; 0 before the first byte of a line.
        column: usize,
        /// What the reader said.
        #[source]
        source: serde_json::Error,
    },
    /// The file is JSON, but not of the expected kind.
    #[error("{}: not a {expected} file, {problem}: check the path", path.display())]
    OtherKind {
        /// The file.
        path: PathBuf,
        /// What was expected.
        expected: &'static str,
        /// What is missing or different.
        problem: String,
    },
    /// The file was made by a newer version of this code.
    #[error(
        "{}: made by a newer version (format {found}, this code reads up to {supported}): \
         update harness-pool",
        path.display()
    )]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// The file's format.
        found: u64,
        /// The newest format that this code reads.
        supported: u64,
    },
    /// The content is not what was written.
    #[error(
        "{}: changed since it was written (hash {expected} expected, {found} found): restore the file \
         from a copy, or build and save it anew",
        path.display()
    )]
    HashMismatch {
        /// The file.
        path: PathBuf,
        /// The hash that the file states.
        expected: String,
        /// The hash of its content.
        found: String,
    },
    /// The content is whole, but a field is missing, unknown or of another type.
    #[error("{}: not the shape of a {kind}, at {at}: {source}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// What was expected.
        kind: &'static str,
        /// Where in the content, for instance `siblings[0].harness.overlay.rules[2]`; `.` for the whole.
        at: String,
        /// What the reader said.
        #[source]
        source: serde_json::Error,
    },
    /// The content is whole, but is no pool that could have been frozen.
    #[error("{}: not a valid pool: {source}", path.display())]
    Pool {
        /// The file.
        path: PathBuf,
        /// Which harness, and why.
        #[source]
        source: PoolError,
    },
    /// The content is whole, but its rows contradict each other.
    #[error("{}: not a valid profile: {source}", path.display())]
    Profile {
        /// The file.
        path: PathBuf,
        /// Which row, and why.
        #[source]
        source: ProfileError,
    },
}

/// The object that is hashed: content, version and kind, without the hash.
fn envelope(format: Format, body: &impl Serialize) -> Map<String, Value> {
    let body = serde_json::to_value(body).expect("a record is plain data with text keys");
    let mut object = Map::new();
    object.insert("format_version".into(), format.version.into());
    object.insert("kind".into(), format.kind.into());
    if let Value::Object(fields) = body {
        object.extend(fields);
    }
    object
}

/// The hash of an object, whose keys are sorted in place: neither it nor its text is copied, since a file from
/// elsewhere may be as large as the limit allows.
fn hash_of(object: &mut Map<String, Value>) -> String {
    object.sort_keys();
    object.values_mut().for_each(Value::sort_all_objects);
    let mut writer = BufWriter::new(blake3::Hasher::new());
    serde_json::to_writer(&mut writer, object).expect("a JSON value has a text");
    let hasher = writer.into_inner().expect("a hasher takes all bytes");
    hasher.finalize().to_hex().to_string()
}

/// The hash that a record of this content has.
pub(crate) fn content_hash(format: Format, body: &impl Serialize) -> String {
    hash_of(&mut envelope(format, body))
}

/// The JSON Schema of a file: the envelope's three keys, then those of the content `T`.
pub(crate) fn file_schema<T: JsonSchema>(format: Format) -> Schema {
    let envelope = json!({
        "format_version": {
            "description": "The format of the file; a newer one than this is refused by name.",
            "type": "integer",
            "minimum": 1,
            "maximum": format.version,
        },
        "kind": {"description": "What the file is.", "const": format.kind},
        "hash": {
            "description": "Hash (blake3, 64 hex digits) of the rest of the file, keys sorted.",
            "type": "string",
            "minLength": 64,
            "maxLength": 64,
        },
    });
    let mut schema = schema_for!(T);
    for (keyword, at_front) in [
        ("properties", envelope.clone()),
        ("required", keys(&envelope)),
    ] {
        let content = schema.remove(keyword).unwrap_or_default();
        schema.insert(keyword.to_owned(), joined(at_front, content));
    }
    schema
}

fn keys(object: &Value) -> Value {
    let keys = object.as_object().into_iter().flat_map(Map::keys);
    keys.map(String::as_str).collect()
}

/// Two objects or two lists after each other.
fn joined(first: Value, second: Value) -> Value {
    match (first, second) {
        (Value::Object(first), Value::Object(second)) => {
            Value::Object(first.into_iter().chain(second).collect())
        }
        (Value::Array(first), Value::Array(second)) => first.into_iter().chain(second).collect(),
        (first, _) => first,
    }
}

/// Writes a record so that the path holds the old file or the new one, whole, at every moment
/// (bug report C1).
pub(crate) fn save(path: &Path, format: Format, body: &impl Serialize) -> Result<(), RecordError> {
    let text = to_vec(format, body);
    check_size(path, format, &text)?;
    replace_file(path, &text)
}

/// The text of a record's file.
pub(crate) fn to_vec(format: Format, body: &impl Serialize) -> Vec<u8> {
    let object = envelope(format, body);
    let mut file = Map::new();
    let (version, kind) = (object["format_version"].clone(), object["kind"].clone());
    file.insert("format_version".into(), version);
    file.insert("kind".into(), kind);
    file.insert("hash".into(), hash_of(&mut object.clone()).into());
    file.extend(object);
    let text = if format.is_pretty {
        serde_json::to_vec_pretty(&file)
    } else {
        serde_json::to_vec(&file)
    };
    let mut text = text.expect("a JSON value has a text");
    text.push(b'\n');
    text
}

/// Reads a record and gives back its content and its hash, verified.
pub(crate) fn load<T: DeserializeOwned>(
    path: &Path,
    format: Format,
) -> Result<(T, String), RecordError> {
    from_slice(&read_bounded(path, format)?, path, format)
}

/// Reads the text of a record's file; `path` names it in errors.
pub(crate) fn from_slice<T: DeserializeOwned>(
    text: &[u8],
    path: &Path,
    format: Format,
) -> Result<(T, String), RecordError> {
    check_size(path, format, text)?;
    let value: Value = serde_json::from_slice(text).map_err(|source| RecordError::NotJson {
        path: path.to_owned(),
        line: source.line(),
        column: source.column(),
        source,
    })?;
    let mut object = check_kind(path, format, value)?;
    let hash = check_hash(path, format, &mut object)?;
    object.remove("format_version");
    object.remove("kind");
    match serde_path_to_error::deserialize(Value::Object(object)) {
        Ok(content) => Ok((content, hash)),
        Err(error) => Err(RecordError::Shape {
            path: path.to_owned(),
            kind: format.kind,
            at: error.path().to_string(),
            source: error.into_inner(),
        }),
    }
}

fn other_kind(path: &Path, format: Format, problem: impl Into<String>) -> RecordError {
    RecordError::OtherKind {
        path: path.to_owned(),
        expected: format.kind,
        problem: problem.into(),
    }
}

fn check_kind(
    path: &Path,
    format: Format,
    value: Value,
) -> Result<Map<String, Value>, RecordError> {
    let Value::Object(object) = value else {
        return Err(other_kind(path, format, "it is no JSON object"));
    };
    match object.get("kind").and_then(Value::as_str) {
        Some(kind) if kind == format.kind => {}
        Some(kind) => return Err(other_kind(path, format, format!("its kind is {kind:?}"))),
        None => return Err(other_kind(path, format, "it has no `kind`")),
    }
    match object.get("format_version").and_then(Value::as_u64) {
        None | Some(0) => Err(other_kind(path, format, "it has no valid `format_version`")),
        Some(found) if found > format.version => Err(RecordError::NewerVersion {
            path: path.to_owned(),
            found,
            supported: format.version,
        }),
        Some(_) => Ok(object),
    }
}

fn check_hash(
    path: &Path,
    format: Format,
    object: &mut Map<String, Value>,
) -> Result<String, RecordError> {
    let Some(Value::String(expected)) = object.remove("hash") else {
        return Err(other_kind(path, format, "it has no `hash`"));
    };
    let found = hash_of(object);
    if found == expected {
        return Ok(found);
    }
    Err(RecordError::HashMismatch {
        path: path.to_owned(),
        expected,
        found,
    })
}

fn read_bounded(path: &Path, format: Format) -> Result<Vec<u8>, RecordError> {
    let file = File::open(path).map_err(io_error("open", path))?;
    let mut text = Vec::new();
    file.take(format.max_bytes + 1)
        .read_to_end(&mut text)
        .map_err(io_error("read", path))?;
    Ok(text)
}

fn check_size(path: &Path, format: Format, text: &[u8]) -> Result<(), RecordError> {
    if text.len() as u64 <= format.max_bytes {
        return Ok(());
    }
    Err(RecordError::TooLarge {
        path: path.to_owned(),
        kind: format.kind,
        max_bytes: format.max_bytes,
    })
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordError {
    let path = path.to_owned();
    move |source| RecordError::Io {
        action,
        path,
        source,
    }
}

fn replace_file(path: &Path, text: &[u8]) -> Result<(), RecordError> {
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let (aside, mut file) = create_aside(path, folder)?;
    let written = file
        .write_all(text)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&aside, path));
    drop(file);
    if let Err(source) = written {
        // The failure to write is what the caller must hear of; what lies aside is harmless.
        let _ = fs::remove_file(&aside);
        return Err(io_error("write", path)(source));
    }
    if cfg!(unix) {
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(io_error("sync", folder))?;
    }
    Ok(())
}

/// Creates a file that no one else writes, in the folder of the target so that a rename stays within one
/// file system.
fn create_aside(path: &Path, folder: &Path) -> Result<(PathBuf, File), RecordError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let process = std::process::id();
    for n in 0_u32.. {
        let aside = folder.join(format!(".{name}.{process}.{n}.tmp"));
        match OpenOptions::new().write(true).create_new(true).open(&aside) {
            Ok(file) => return Ok((aside, file)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && n < 1000 => {}
            Err(source) => return Err(io_error("create", &aside)(source)),
        }
    }
    unreachable!("the loop ends at the 1001st name")
}
