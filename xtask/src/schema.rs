//! `cargo xtask schema`: the JSON Schemas of what this workspace reads and writes, checked in under
//! `schemas/`.
//!
//! A file `<name>.json` says what serde reads and writes. A file `<name>.strict.json` is what a model is given
//! that answers in a strict structured-output mode: see [`strict`]. That the files are those of the code is
//! checked by a test and by `cargo xtask schema --check`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context;
use harness_core::schema::strict;
use harness_core::trajectory_file::line_schema;
use harness_core::{HarnessEdit, HarnessSpec, Overlay};
use harness_evolve::Proposal;
use harness_pool::{BehaviorProfile, SiblingPool};
use schemars::{Schema, schema_for};

use crate::files::write_atomic;
use crate::report::Report;

/// Where the schemas lie, relative to the workspace.
pub const FOLDER: &str = "schemas";

/// The text of every schema file, by name.
///
/// # Errors
/// What a model may be asked for has no strict form.
pub fn texts() -> anyhow::Result<BTreeMap<String, String>> {
    let asked = [
        ("edit", schema_for!(HarnessEdit)),
        ("harness", schema_for!(HarnessSpec)),
        ("overlay", schema_for!(Overlay)),
        ("proposal", schema_for!(Proposal)),
    ];
    let kept = [
        ("pool", SiblingPool::file_schema()),
        ("profile", BehaviorProfile::file_schema()),
        ("report", schema_for!(Report)),
        ("trajectory", line_schema()),
    ];
    let mut texts = BTreeMap::new();
    for (name, schema) in &asked {
        let schema = strict(schema).with_context(|| format!("the strict schema of `{name}`"))?;
        texts.insert(format!("{name}.strict.json"), text(&schema)?);
    }
    for (name, schema) in asked.iter().chain(&kept) {
        texts.insert(format!("{name}.json"), text(schema)?);
    }
    Ok(texts)
}

fn text(schema: &Schema) -> anyhow::Result<String> {
    let text = serde_json::to_string_pretty(schema).context("a schema as JSON")?;
    Ok(text + "\n")
}

/// Writes the schema files of the workspace that lies in `root`, and removes `.json` files that are none.
///
/// # Errors
/// An error of the file system, with the path.
pub fn write(root: &Path) -> anyhow::Result<()> {
    let folder = root.join(FOLDER);
    fs::create_dir_all(&folder).with_context(|| format!("creating `{}`", folder.display()))?;
    let texts = texts()?;
    for (name, text) in &texts {
        write_atomic(&folder.join(name), text.as_bytes())?;
    }
    for name in present(&folder)?
        .iter()
        .filter(|name| !texts.contains_key(*name))
    {
        let path = folder.join(name);
        fs::remove_file(&path).with_context(|| format!("removing `{}`", path.display()))?;
    }
    Ok(())
}

/// Names of the schema files that are not those of the code: changed, missing, or of no type; ascending.
///
/// # Errors
/// An error of the file system, with the path.
pub fn differing(root: &Path) -> anyhow::Result<BTreeSet<String>> {
    let folder = root.join(FOLDER);
    let texts = texts()?;
    let mut names = if folder.is_dir() {
        present(&folder)?
    } else {
        BTreeSet::new()
    };
    names.extend(texts.keys().cloned());
    names.retain(|name| {
        let found = fs::read_to_string(folder.join(name)).ok();
        found.is_none() || found.as_ref() != texts.get(name)
    });
    Ok(names)
}

/// Names of the `.json` files in a folder.
fn present(folder: &Path) -> anyhow::Result<BTreeSet<String>> {
    let reading = || format!("reading `{}`", folder.display());
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).with_context(reading)? {
        let path = entry.with_context(reading)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            names.extend(
                path.file_name()
                    .map(|name| name.to_string_lossy().into_owned()),
            );
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use harness_core::Seed;
    use harness_core::testing::json_schema::{mutations, problem, sample};

    use super::*;
    use crate::tidy::workspace_root;

    #[test]
    fn checked_in_schemas_are_those_of_the_code() {
        let names = differing(&workspace_root()).unwrap();
        assert!(names.is_empty(), "run `cargo xtask schema`: {names:?}");
    }

    #[test]
    fn changed_missing_and_stray_files_are_named() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(
            differing(root.path()).unwrap().len(),
            texts().unwrap().len()
        );
        write(root.path()).unwrap();
        assert!(differing(root.path()).unwrap().is_empty());
        let folder = root.path().join(FOLDER);
        fs::write(folder.join("edit.json"), "{}").unwrap();
        fs::write(folder.join("old.json"), "{}").unwrap();
        fs::remove_file(folder.join("pool.json")).unwrap();
        let names = differing(root.path()).unwrap();
        assert!(
            names.iter().eq(["edit.json", "old.json", "pool.json"]),
            "{names:?}"
        );
        write(root.path()).unwrap();
        assert!(differing(root.path()).unwrap().is_empty());
    }

    #[test]
    fn schema_and_serde_agree_on_reports() {
        let schema = schema_for!(Report);
        let schema = schema.as_value();
        for n in 0..3 {
            let value = sample(schema, Seed::new(n), 6);
            for value in mutations(&value).into_iter().chain([value]) {
                let read = serde_json::from_value::<Report>(value.clone());
                let found = problem(schema, &value);
                assert_eq!(read.is_ok(), found.is_none(), "{found:?}, {:?}", read.err());
                if let Ok(report) = read {
                    let written = serde_json::to_value(&report).unwrap();
                    assert_eq!(problem(schema, &written), None, "what serde writes");
                }
            }
        }
    }
}
