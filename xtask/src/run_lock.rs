//! One process at a time in a run's folder.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::Path;

use anyhow::{Context as _, bail};

use crate::say;

/// The file in the run's folder that a process at work holds locked. It is empty, and it stays.
pub const FILE: &str = ".lock";

/// The right to write into a run's folder, until it is dropped. The system takes it back from a process that
/// is gone, however it went.
#[derive(Debug)]
#[must_use = "the folder is free again once the lock is dropped"]
pub struct RunLock {
    _file: Option<File>,
}

impl RunLock {
    /// Takes the folder, which is made if it is not there.
    ///
    /// On a file system without locks it warns and holds nothing.
    ///
    /// # Errors
    /// If another process is at work there, or the folder cannot be made or written.
    pub fn take(root: &Path) -> anyhow::Result<Self> {
        let shown = root.display();
        fs::create_dir_all(root).with_context(|| format!("creating `{shown}`"))?;
        let path = root.join(FILE);
        let mut options = OpenOptions::new();
        let file = options.create(true).write(true).truncate(false).open(&path);
        let file = file.with_context(|| format!("creating `{}`", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: Some(file) }),
            Err(TryLockError::WouldBlock) => bail!(
                "another process is at work in `{shown}`: wait until it has ended, or give another --out"
            ),
            Err(TryLockError::Error(error)) => {
                say::warn(format_args!(
                    "`{shown}` cannot be locked, take care that no other process works there: {error}"
                ));
                Ok(Self { _file: None })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_taken_once_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("a/b");
        let lock = RunLock::take(&root).unwrap();
        let error = RunLock::take(&root).unwrap_err().to_string();
        assert!(error.contains("another process is at work"), "{error}");
        drop(lock);
        let _lock = RunLock::take(&root).unwrap();
    }
}
