//! Files that are whole or absent: written aside, synced, then renamed; and JSON in a canonical form.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;
use serde_json::Value;

/// Writes a file so that a reader sees the old content or the new one, never a part (bug report C1).
///
/// # Errors
/// An error of the file system, with the path; the old content is then still there.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let aside = aside(path);
    let written = write_synced(&aside, bytes).and_then(|()| fs::rename(&aside, path));
    if written.is_err() {
        // The first error is the one to tell; what is left aside is ignored by every reader.
        let _ = fs::remove_file(&aside);
    }
    written.with_context(|| format!("writing `{}`", path.display()))?;
    sync_parent(path);
    Ok(())
}

/// Writes a value as indented JSON with [`write_atomic`].
///
/// # Errors
/// As [`write_atomic`], or if the value has no JSON form.
pub fn write_json(path: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(value)
        .with_context(|| format!("writing `{}` as JSON", path.display()))?;
    text.push('\n');
    write_atomic(path, text.as_bytes())
}

/// Makes a folder if it is not there, and none above it: a run's folder that was removed must not come back in
/// part.
///
/// # Errors
/// An error of the file system, with the path.
pub fn make_folder(folder: &Path) -> anyhow::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(error).with_context(|| format!("creating `{}`", folder.display()))
        }
        _ => Ok(()),
    }
}

fn aside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
}

/// Whether a path is one that [`write_atomic`] writes to before it renames: what is left of a killed process.
pub fn is_aside(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let stem = name.and_then(|name| name.strip_suffix(".tmp"));
    let id = stem.and_then(|stem| stem.rsplit_once('.'));
    id.is_some_and(|(_, id)| id.parse::<u32>().is_ok())
}

fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes the rename itself last. Not every platform can open a folder, so a failure is not an error.
fn sync_parent(path: &Path) {
    if let Some(parent) = path.parent() {
        sync_folder(parent);
    }
}

/// Makes renames in a folder last, where the platform can.
pub fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

/// The same JSON text for equal values: object keys sorted at every depth, no blanks.
///
/// # Errors
/// The value has no JSON form.
///
/// # Example
/// ```
/// let value = serde_json::json!({"b": [2, {"d": 1, "c": 0}], "a": 1});
/// let text = xtask::files::canonical_json(&value).unwrap();
/// assert_eq!(text, r#"{"a":1,"b":[2,{"c":0,"d":1}]}"#);
/// ```
pub fn canonical_json(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string(&sorted(serde_json::to_value(value)?))
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.into_iter().map(|(k, v)| (k, sorted(v))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// A file of one JSON object a line, each line whole once [`JsonLines::push`] returns.
#[derive(Debug)]
pub struct JsonLines {
    path: PathBuf,
    file: BufWriter<File>,
    n_bytes: u64,
}

impl JsonLines {
    /// Starts the file anew.
    ///
    /// # Errors
    /// An error of the file system, with the path.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("creating `{}`", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            file: BufWriter::new(file),
            n_bytes: 0,
        })
    }

    /// Goes on with a file, cut back to its first `n_bytes` bytes.
    ///
    /// # Errors
    /// An error of the file system, with the path; the file is shorter than that (then it is left as it is).
    pub fn resume(path: &Path, n_bytes: u64) -> anyhow::Result<Self> {
        let shown = path.display();
        let file = OpenOptions::new().append(true).open(path);
        let file = file.with_context(|| format!("opening `{shown}`"))?;
        let len = file
            .metadata()
            .with_context(|| format!("reading `{shown}`"))?
            .len();
        anyhow::ensure!(
            len >= n_bytes,
            "`{shown}` has {len} bytes, at least {n_bytes} were expected"
        );
        file.set_len(n_bytes)
            .with_context(|| format!("cutting `{shown}` back"))?;
        Ok(Self {
            path: path.to_owned(),
            file: BufWriter::new(file),
            n_bytes,
        })
    }

    /// How long the file is, all lines pushed so far included.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// Makes all lines pushed so far last.
    ///
    /// # Errors
    /// An error of the file system, with the path.
    pub fn sync(&self) -> anyhow::Result<()> {
        let synced = self.file.get_ref().sync_data();
        synced.with_context(|| format!("syncing `{}`", self.path.display()))
    }

    /// Appends a line.
    ///
    /// # Errors
    /// An error of the file system, with the path, or the value has no JSON form.
    pub fn push(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(value)
            .with_context(|| format!("a line of `{}` as JSON", self.path.display()))?;
        line.push(b'\n');
        self.file
            .write_all(&line)
            .and_then(|()| self.file.flush())
            .with_context(|| format!("appending to `{}`", self.path.display()))?;
        self.n_bytes += line.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        write_atomic(&path, b"old").unwrap();
        write_atomic(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_missing_folder_is_told_with_the_path() {
        let error = write_atomic(Path::new("/nowhere/at/all.txt"), b"").unwrap_err();
        assert!(format!("{error:#}").contains("/nowhere/at/all.txt"));
    }

    #[test]
    fn a_file_of_lines_is_cut_back_and_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.jsonl");
        let mut lines = JsonLines::create(&path).unwrap();
        lines.push(&1).unwrap();
        let kept = lines.n_bytes();
        lines.push(&2).unwrap();
        lines.sync().unwrap();
        drop(lines);
        assert!(JsonLines::resume(&path, 100).is_err());
        let mut lines = JsonLines::resume(&path, kept).unwrap();
        lines.push(&3).unwrap();
        assert_eq!(lines.n_bytes(), 4);
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n3\n");
    }

    #[test]
    fn lines_are_whole_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.jsonl");
        let mut lines = JsonLines::create(&path).unwrap();
        lines.push(&serde_json::json!({"step": 1})).unwrap();
        lines.push(&serde_json::json!({"step": 2})).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "{\"step\":1}\n{\"step\":2}\n");
    }
}
