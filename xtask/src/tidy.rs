//! `cargo xtask tidy`: rules of the workspace that no compiler checks.
//!
//! Crate edges, module docs, shared lints, licence files, stray notes to oneself, trailing blanks. Every
//! problem says where it is and how to mend it. The same checks run as a test.

mod edges;
mod text;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use cargo_metadata::{Metadata, MetadataCommand};

pub use edges::check_edges;
pub use text::check_text;

/// Folders of a crate whose Rust files are modules.
const RUST_FOLDERS: [&str; 4] = ["src", "tests", "examples", "benches"];
/// Licences that must lie in the root.
const LICENCES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];
/// Files and folders outside the crates whose text is checked.
const OTHER_TEXT: [&str; 4] = ["docs", ".ci", ".cargo", "xtask/configs"];

/// One thing that is not tidy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file, relative to the root.
    pub file: PathBuf,
    /// Its line, from 1.
    pub line: usize,
    /// What is wrong, and how to mend it.
    pub message: String,
}

impl Problem {
    /// A problem at a line.
    pub fn new(file: impl Into<PathBuf>, line: usize, message: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.message)
    }
}

/// Checks the workspace that lies in `root`; the problems are in order of file and line.
///
/// # Errors
/// `cargo metadata` fails, or a file cannot be read.
pub fn check(root: &Path) -> anyhow::Result<Vec<Problem>> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .exec()
        .context("running cargo metadata")?;
    let mut problems = check_edges(&metadata, root);
    problems.extend(check_licences(root));
    for package_root in package_roots(&metadata) {
        problems.extend(check_package(root, &package_root)?);
    }
    for place in OTHER_TEXT {
        check_files(root, &root.join(place), &mut problems)?;
    }
    for entry in fs::read_dir(root).with_context(|| format!("reading `{}`", root.display()))? {
        let path = entry?.path();
        if path.is_file() {
            check_file(root, &path, &mut problems)?;
        }
    }
    problems.sort();
    problems.dedup();
    Ok(problems)
}

/// The root of the workspace that this program was built from.
pub fn workspace_root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

fn package_roots(metadata: &Metadata) -> Vec<PathBuf> {
    let manifests = metadata.packages.iter().map(|p| &p.manifest_path);
    manifests
        .filter_map(|manifest| manifest.parent())
        .map(|folder| folder.as_std_path().to_owned())
        .collect()
}

fn check_licences(root: &Path) -> Vec<Problem> {
    LICENCES
        .into_iter()
        .filter(|name| !root.join(name).is_file())
        .map(|name| {
            Problem::new(
                name,
                1,
                "the licence file is missing: add its standard text",
            )
        })
        .collect()
}

fn check_package(root: &Path, package_root: &Path) -> anyhow::Result<Vec<Problem>> {
    let mut problems = Vec::new();
    let manifest = package_root.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)
        .with_context(|| format!("reading `{}`", manifest.display()))?;
    problems.extend(check_lints(relative(root, &manifest), &text));
    for entry in fs::read_dir(package_root)? {
        let path = entry?.path();
        if path.is_file() {
            check_file(root, &path, &mut problems)?;
        }
    }
    for folder in RUST_FOLDERS {
        check_files(root, &package_root.join(folder), &mut problems)?;
    }
    Ok(problems)
}

fn check_lints(file: PathBuf, manifest: &str) -> Option<Problem> {
    let inherits = toml::from_str::<toml::Table>(manifest)
        .ok()
        .and_then(|table| table.get("lints")?.get("workspace")?.as_bool());
    (inherits != Some(true)).then(|| {
        let message =
            "the crate does not share the workspace's lints: add `[lints]` with `workspace = true`";
        Problem::new(file, 1, message)
    })
}

/// Checks every file below a folder; a folder that does not exist has none.
fn check_files(root: &Path, folder: &Path, problems: &mut Vec<Problem>) -> anyhow::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    let entries =
        fs::read_dir(folder).with_context(|| format!("reading `{}`", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            check_files(root, &path, problems)?;
        } else {
            check_file(root, &path, problems)?;
        }
    }
    Ok(())
}

fn check_file(root: &Path, path: &Path, problems: &mut Vec<Problem>) -> anyhow::Result<()> {
    if text::is_checked(path) {
        let content =
            fs::read_to_string(path).with_context(|| format!("reading `{}`", path.display()))?;
        problems.extend(check_text(&relative(root, path), &content));
    }
    Ok(())
}

fn relative(root: &Path, path: &Path) -> PathBuf {
    path.strip_prefix(root).unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_workspace_is_tidy() {
        let problems = check(&workspace_root()).unwrap();
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}", lines.join("\n"));
    }

    #[test]
    fn lints_must_be_shared() {
        let shared = "[package]\nname = \"a\"\n[lints]\nworkspace = true\n";
        assert_eq!(check_lints("Cargo.toml".into(), shared), None);
        assert!(check_lints("Cargo.toml".into(), "[package]\nname = \"a\"\n").is_some());
    }

    #[test]
    fn missing_licences_are_told() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(check_licences(folder.path()).len(), 2);
    }
}
