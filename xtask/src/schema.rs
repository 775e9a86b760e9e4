//! `cargo xtask schema`: the JSON Schemas of what this workspace reads and writes, checked in under
//! `schemas/`.
//!
//! A file `<name>.json` says what serde reads and writes. A file `<name>.strict.json` is what a model is given
//! that answers in a strict structured-output mode: see [`strict`]. That the files are those of the code is
//! checked by a test and by `cargo xtask schema --check`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use harness_core::schema::strict;
use harness_core::trajectory_file::line_schema;
use harness_core::{HarnessEdit, HarnessSpec, Overlay};
use harness_evolve::Proposal;
use harness_pool::{BehaviorProfile, SiblingPool};
use schemars::{Schema, schema_for};

use crate::generated::Generated;
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

/// The schema files of the workspace that lies in `root`.
///
/// # Errors
/// As [`texts`].
pub fn files(root: &Path) -> anyhow::Result<Generated> {
    Ok(Generated {
        folder: root.join(FOLDER),
        extension: "json",
        texts: texts()?,
    })
}

#[cfg(test)]
mod tests {
    use harness_core::Seed;
    use harness_core::testing::json_schema::{mutations, problem, sample};

    use super::*;
    use crate::tidy::workspace_root;

    #[test]
    fn checked_in_schemas_are_those_of_the_code() {
        let names = files(&workspace_root()).unwrap().differing().unwrap();
        assert!(names.is_empty(), "run `cargo xtask schema`: {names:?}");
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
