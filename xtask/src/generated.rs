//! Files that are made of the code and checked in, so that what changes in them shows in review.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use anyhow::Context;

use crate::files::write_atomic;

/// A folder of generated files, with the text that each should have.
#[derive(Debug)]
pub struct Generated {
    /// Where they lie.
    pub folder: PathBuf,
    /// What their names end in; a file of another ending is none of them.
    pub extension: &'static str,
    /// Their texts, by name.
    pub texts: BTreeMap<String, String>,
}

impl Generated {
    /// Writes them, and removes files of their ending that are none of them.
    ///
    /// # Errors
    /// An error of the file system, with the path.
    pub fn write(&self) -> anyhow::Result<()> {
        let folder = &self.folder;
        fs::create_dir_all(folder).with_context(|| format!("creating `{}`", folder.display()))?;
        for (name, text) in &self.texts {
            write_atomic(&folder.join(name), text.as_bytes())?;
        }
        for name in self.present()? {
            if !self.texts.contains_key(&name) {
                let path = folder.join(name);
                let removing = || format!("removing `{}`", path.display());
                fs::remove_file(&path).with_context(removing)?;
            }
        }
        Ok(())
    }

    /// Names of the files that are not as they should be: changed, missing, or none of them; ascending.
    ///
    /// # Errors
    /// An error of the file system, with the path.
    pub fn differing(&self) -> anyhow::Result<BTreeSet<String>> {
        let mut names = self.present()?;
        names.extend(self.texts.keys().cloned());
        names.retain(|name| {
            let found = fs::read_to_string(self.folder.join(name)).ok();
            found.is_none() || found.as_ref() != self.texts.get(name)
        });
        Ok(names)
    }

    /// Names of the files of this ending that are there; none if the folder is not.
    fn present(&self) -> anyhow::Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        if !self.folder.is_dir() {
            return Ok(names);
        }
        let reading = || format!("reading `{}`", self.folder.display());
        for entry in fs::read_dir(&self.folder).with_context(reading)? {
            let path = entry.with_context(reading)?.path();
            if path.extension() == Some(OsStr::new(self.extension)) {
                let name = path.file_name().unwrap_or_default();
                names.insert(name.to_string_lossy().into_owned());
            }
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_missing_and_stray_files_are_named_then_mended() {
        let root = tempfile::tempdir().unwrap();
        let texts = ["a.txt", "b.txt", "c.txt"].map(|name| (name.to_owned(), name.to_owned()));
        let files = Generated {
            folder: root.path().join("made"),
            extension: "txt",
            texts: texts.into(),
        };
        assert_eq!(files.differing().unwrap().len(), 3);
        files.write().unwrap();
        assert!(files.differing().unwrap().is_empty());

        fs::write(files.folder.join("a.txt"), "other").unwrap();
        fs::remove_file(files.folder.join("b.txt")).unwrap();
        fs::write(files.folder.join("old.txt"), "").unwrap();
        fs::write(files.folder.join("README.md"), "").unwrap();
        let names = files.differing().unwrap();
        assert!(names.iter().eq(["a.txt", "b.txt", "old.txt"]), "{names:?}");
        files.write().unwrap();
        assert!(files.differing().unwrap().is_empty());
        assert!(files.folder.join("README.md").is_file());
    }
}
