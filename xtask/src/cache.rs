//! Results of a stage, kept by the hash of what they were made from.
//!
//! An entry lies in `<root>/<stage>-<hash>.json` and carries the hash of its own value. One that cannot be
//! read, or whose hash is not its value's, is thrown away with a warning and made again: never trusted.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::files::{canonical_json, make_folder, write_atomic};

/// The format that this code writes and reads.
const FORMAT_VERSION: u32 = 1;

/// A folder of stage results.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
    fingerprint: String,
    is_enabled: bool,
}

/// What a file of the cache holds.
#[derive(Serialize, Deserialize)]
struct Entry {
    format_version: u32,
    stage: String,
    key: String,
    value_hash: String,
    value: Value,
}

impl Cache {
    /// A cache in `root`. `fingerprint` goes into every key beside the inputs: with
    /// [`build_fingerprint`] no entry outlives a change of the code that made it.
    pub fn new(root: impl Into<PathBuf>, fingerprint: impl Into<String>) -> Self {
        Self {
            root: root.into(),
            fingerprint: fingerprint.into(),
            is_enabled: true,
        }
    }

    /// A cache that neither reads nor writes: every stage is made.
    pub fn disabled() -> Self {
        Self {
            root: PathBuf::new(),
            fingerprint: String::new(),
            is_enabled: false,
        }
    }

    /// The value that `make` makes from `inputs`, from the cache if it is there. `inputs` must name
    /// everything that the value depends on: settings, seeds, hashes of earlier stages.
    ///
    /// # Errors
    /// An error of `make`, inputs or value without a JSON form, or a folder that cannot be written.
    ///
    /// # Determinism
    /// A value from the cache equals the one that was made, except that a number that JSON cannot hold
    /// (NaN, infinity) makes the entry unreadable, so that it is made again.
    ///
    /// # Example
    /// ```
    /// # let folder = std::env::temp_dir().join("harness-s-doctest-cache");
    /// let cache = xtask::cache::Cache::new(&folder, "v1");
    /// let n: u32 = cache.get_or_make("count", &["a", "b"], || Ok(2)).unwrap();
    /// assert_eq!(n, 2);
    /// # std::fs::remove_dir_all(folder).unwrap();
    /// ```
    pub fn get_or_make<T: Serialize + DeserializeOwned>(
        &self,
        stage: &str,
        inputs: &impl Serialize,
        make: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        if !self.is_enabled {
            return make();
        }
        let key = self.key(stage, inputs)?;
        let path = self.path(stage, &key);
        if let Some(value) = read(&path, stage, &key) {
            return Ok(value);
        }
        let value = make()?;
        self.write(stage, key, &path, &value)?;
        Ok(value)
    }

    /// The key of a stage's inputs: 64 hexadecimal digits.
    ///
    /// # Errors
    /// The inputs have no JSON form.
    pub fn key(&self, stage: &str, inputs: &impl Serialize) -> anyhow::Result<String> {
        let inputs = serde_json::to_value(inputs)
            .with_context(|| format!("inputs of stage {stage} as JSON"))?;
        content_hash(&(FORMAT_VERSION, &self.fingerprint, stage, inputs))
    }

    /// A folder for files that a stage keeps by itself, made if it is not there; `None` if the cache is
    /// disabled. Unlike values, its name does not depend on the running program: the files must say and
    /// check by themselves what they are.
    ///
    /// # Errors
    /// The inputs have no JSON form, or the folder cannot be made.
    pub fn folder(&self, stage: &str, inputs: &impl Serialize) -> anyhow::Result<Option<PathBuf>> {
        if !self.is_enabled {
            return Ok(None);
        }
        let key = content_hash(&(FORMAT_VERSION, stage, serde_json::to_value(inputs)?))?;
        let folder = self.root.join(format!("{stage}-{}", &key[..32]));
        make_folder(&self.root)?;
        make_folder(&folder)?;
        Ok(Some(folder))
    }

    fn path(&self, stage: &str, key: &str) -> PathBuf {
        self.root.join(format!("{stage}-{}.json", &key[..32]))
    }

    fn write(
        &self,
        stage: &str,
        key: String,
        path: &Path,
        value: &impl Serialize,
    ) -> anyhow::Result<()> {
        let value = serde_json::to_value(value)
            .with_context(|| format!("result of stage {stage} as JSON"))?;
        let entry = Entry {
            format_version: FORMAT_VERSION,
            stage: stage.into(),
            key,
            value_hash: content_hash(&value)?,
            value,
        };
        make_folder(&self.root)?;
        write_atomic(path, &serde_json::to_vec(&entry)?)
    }
}

/// The blake3 hash of a value's canonical JSON, in hexadecimal.
///
/// # Errors
/// The value has no JSON form.
pub fn content_hash(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(blake3::hash(canonical_json(value)?.as_bytes())
        .to_hex()
        .to_string())
}

/// The fingerprint of the code that results depend on: all library crates, the training pipeline, the locked
/// dependencies and the compiler's settings, hashed when this program was built. A change of reports,
/// statistics, documents or the command line leaves it as it is.
pub const fn build_fingerprint() -> &'static str {
    env!("RESULT_SOURCES")
}

/// The entry's value if it is there and whole. A bad entry is removed.
fn read<T: DeserializeOwned>(path: &Path, stage: &str, key: &str) -> Option<T> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!("cannot read `{}`: {error}", path.display());
            return None;
        }
    };
    match verify(&bytes, stage, key) {
        Ok(value) => Some(value),
        Err(reason) => {
            tracing::warn!("cache entry `{}` is made anew: {reason:#}", path.display());
            // If it stays, the entry that is made now replaces it.
            let _ = fs::remove_file(path);
            None
        }
    }
}

fn verify<T: DeserializeOwned>(bytes: &[u8], stage: &str, key: &str) -> anyhow::Result<T> {
    let entry: Entry = serde_json::from_slice(bytes).context("not a cache entry")?;
    anyhow::ensure!(
        entry.format_version == FORMAT_VERSION,
        "format version is {}, expected: {FORMAT_VERSION}",
        entry.format_version
    );
    anyhow::ensure!(
        entry.stage == stage && entry.key == key,
        "it belongs to other inputs"
    );
    anyhow::ensure!(
        content_hash(&entry.value)? == entry.value_hash,
        "its hash is not that of its value"
    );
    serde_json::from_value(entry.value).context("its value has another shape")
}

/// Bytes as a cache value: hexadecimal text in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Blob(pub Vec<u8>);

impl From<Blob> for String {
    fn from(blob: Blob) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
        blob.0
            .iter()
            .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
            .collect()
    }
}

impl TryFrom<String> for Blob {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let digit = |c: u8| {
            char::from(c)
                .to_digit(16)
                .ok_or_else(|| "not hexadecimal".to_owned())
        };
        if !text.len().is_multiple_of(2) {
            return Err("odd number of hexadecimal digits".into());
        }
        text.as_bytes()
            .chunks_exact(2)
            .map(|pair| Ok((digit(pair[0])? * 16 + digit(pair[1])?) as u8))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage::damaged;

    fn only_entry(folder: &Path) -> PathBuf {
        let mut entries = fs::read_dir(folder).unwrap();
        let path = entries.next().unwrap().unwrap().path();
        assert!(entries.next().is_none());
        path
    }

    fn made(cache: &Cache, inputs: u32, value: f64) -> (f64, bool) {
        let mut is_made = false;
        let got = cache
            .get_or_make("stage", &inputs, || {
                is_made = true;
                Ok(value)
            })
            .unwrap();
        (got, is_made)
    }

    #[test]
    fn the_second_time_nothing_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path(), "f");
        assert_eq!(made(&cache, 1, 0.1), (0.1, true));
        assert_eq!(made(&cache, 1, 9.0), (0.1, false));
        assert_eq!(made(&cache, 2, 9.0), (9.0, true));
    }

    #[test]
    fn another_build_makes_it_again() {
        let folder = tempfile::tempdir().unwrap();
        made(&Cache::new(folder.path(), "f"), 1, 0.1);
        assert!(made(&Cache::new(folder.path(), "g"), 1, 0.1).1);
    }

    #[test]
    fn a_changed_value_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path(), "f");
        made(&cache, 1, 0.25);
        let path = only_entry(folder.path());
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\"value\":0.25", "\"value\":0.75")).unwrap();
        assert_eq!(made(&cache, 1, 0.25), (0.25, true));
        assert_eq!(made(&cache, 1, 0.25), (0.25, false));
    }

    #[test]
    fn half_an_entry_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path(), "f");
        made(&cache, 1, 0.25);
        let path = only_entry(folder.path());
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert!(made(&cache, 1, 0.25).1);
    }

    /// Damage of any kind costs the time to make the value again.
    #[test]
    fn c1_a_damaged_entry_never_changes_a_value() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path(), "f");
        let value = |n: u32| serde_json::json!({"n": n, "rates": [0.25, 1e-9], "name": "a"});
        let get = |n: u32| cache.get_or_make("stage", &n, || Ok(value(n))).unwrap();
        get(1);
        let path = only_entry(folder.path());
        let good = fs::read(&path).unwrap();
        let aside = tempfile::tempdir().unwrap();
        let other = Cache::new(aside.path(), "f");
        other.get_or_make("stage", &2, || Ok(value(2))).unwrap();
        let other = fs::read(only_entry(aside.path())).unwrap();
        for (round, bad) in damaged(&good, &other).enumerate() {
            fs::write(&path, bad).unwrap();
            assert_eq!(get(1), value(1), "round {round}");
            assert_eq!(fs::read(&path).unwrap().len(), good.len(), "round {round}");
        }
    }

    #[test]
    fn disabled_writes_nothing() {
        assert!(made(&Cache::disabled(), 1, 0.5).1);
        assert!(made(&Cache::disabled(), 1, 0.5).1);
    }

    #[test]
    fn bytes_survive() {
        let blob = Blob(vec![0, 15, 16, 255]);
        let text = serde_json::to_string(&blob).unwrap();
        assert_eq!(text, "\"000f10ff\"");
        assert_eq!(serde_json::from_str::<Blob>(&text).unwrap(), blob);
        assert!(serde_json::from_str::<Blob>("\"0g\"").is_err());
        assert!(serde_json::from_str::<Blob>("\"0\"").is_err());
    }
}
