//! Hashes the sources that trained results depend on, so that results in the cache outlive a change of a
//! report or of a document, and nothing else.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Sources of this crate that only read results: what they say changes none.
const READERS: [&str; 6] = [
    "forecast.rs",
    "measures.rs",
    "outcome.rs",
    "provenance.rs",
    "study.rs",
    "timed.rs",
];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?);
    let root = here.join("..");
    let mut files = BTreeMap::new();
    for member in ["crates", "envs"] {
        for entry in fs::read_dir(root.join(member))? {
            collect(&entry?.path().join("src"), &mut files)?;
        }
    }
    collect(&here.join("src/pipeline"), &mut files)?;
    for file in ["Cargo.lock", "Cargo.toml", "xtask/src/arm.rs"] {
        add(&root.join(file), &mut files)?;
    }
    let mut hasher = DefaultHasher::new();
    for (path, text) in &files {
        let relative = path.strip_prefix(&root).unwrap_or(path);
        (relative, text).hash(&mut hasher);
    }
    for name in ["OPT_LEVEL", "TARGET", "RUSTC", "CARGO_CFG_TARGET_FEATURE"] {
        env::var(name).unwrap_or_default().hash(&mut hasher);
    }
    println!("cargo::rustc-env=RESULT_SOURCES={:016x}", hasher.finish());
    Ok(())
}

fn collect(folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if !is_reader(&path) {
            add(&path, files)?;
        }
    }
    Ok(())
}

fn is_reader(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let is_pipeline = path
        .parent()
        .is_some_and(|folder| folder.ends_with("xtask/src/pipeline"));
    is_pipeline && name.is_some_and(|name| READERS.contains(&name))
}

fn add(path: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", path.display());
    files.insert(path.to_owned(), fs::read(path)?);
    Ok(())
}
