//! Which crate may depend on which.

use std::fs;
use std::path::Path;

use cargo_metadata::{DependencyKind, Metadata, Package};

use super::{Problem, relative};

/// Edges that are allowed for what is shipped; tests may use any crate but `xtask`.
const ALLOWED: [(&str, &[&str]); 8] = [
    ("harness-core", &[]),
    ("harness-pool", &["harness-core"]),
    ("harness-evolve", &["harness-core", "harness-pool"]),
    ("harness-router", &["harness-core", "harness-pool"]),
    ("rescue-grpo", &["harness-core", "harness-pool"]),
    ("env-appworld", &["harness-core"]),
    ("env-dbbench", &["harness-core"]),
    ("env-swe-gym", &["harness-core"]),
];
/// The composition root: depends on all, and nothing depends on it.
const ROOT: &str = "xtask";
/// The only crate that may depend on burn.
const TRAINER: &str = "rescue-grpo";

/// Checks the dependencies of every package of the workspace.
pub fn check_edges(metadata: &Metadata, root: &Path) -> Vec<Problem> {
    let names: Vec<&str> = metadata.packages.iter().map(|p| p.name.as_str()).collect();
    let mut problems = Vec::new();
    for package in &metadata.packages {
        for dependency in &package.dependencies {
            let is_test = dependency.kind == DependencyKind::Development;
            let is_ours = names.contains(&dependency.name.as_str());
            if let Some(reason) = objection(&package.name, &dependency.name, is_ours, is_test) {
                problems.push(problem(root, package, &dependency.name, &reason));
            }
        }
    }
    problems
}

/// Why the edge is not allowed, if so.
fn objection(from: &str, to: &str, is_ours: bool, is_test: bool) -> Option<String> {
    let is_burn = to == "burn" || to.starts_with("burn-");
    if is_burn && from != TRAINER {
        return Some(format!(
            "{from} must not reach burn: only {TRAINER} may depend on {to}"
        ));
    }
    if !is_ours || from == ROOT {
        return None;
    }
    if to == ROOT {
        return Some(format!(
            "nothing may depend on {ROOT}: move what is shared down"
        ));
    }
    if is_test {
        return None;
    }
    let allowed = ALLOWED.iter().find(|(name, _)| *name == from);
    let Some((_, allowed)) = allowed else {
        return Some(format!(
            "crate {from} is not in the table of edges in xtask/src/tidy/edges.rs: add it there"
        ));
    };
    (!allowed.contains(&to)).then(|| {
        let allowed = if allowed.is_empty() {
            "none of ours".into()
        } else {
            allowed.join(", ")
        };
        format!("{from} may not depend on {to} (allowed: {allowed}): depend on a trait below both")
    })
}

fn problem(root: &Path, package: &Package, dependency: &str, reason: &str) -> Problem {
    let manifest = package.manifest_path.as_std_path();
    let text = fs::read_to_string(manifest).unwrap_or_default();
    let line = text
        .lines()
        .position(|line| line.trim_start().starts_with(dependency));
    Problem::new(
        relative(root, manifest),
        line.map_or(1, |idx| idx + 1),
        reason,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(from: &str, to: &str, is_test: bool, expect: Option<&str>) {
        let is_ours = !to.starts_with("burn");
        let got = objection(from, to, is_ours, is_test);
        match expect {
            Some(part) => assert!(
                got.as_deref().is_some_and(|got| got.contains(part)),
                "{got:?}"
            ),
            None => assert_eq!(got, None),
        }
    }

    #[test]
    fn the_root_sees_all_and_nobody_sees_the_root() {
        check("xtask", "rescue-grpo", false, None);
        check(
            "harness-pool",
            "xtask",
            true,
            Some("nothing may depend on xtask"),
        );
    }

    #[test]
    fn the_trainer_does_not_know_the_router() {
        check(
            "rescue-grpo",
            "harness-router",
            false,
            Some("may not depend"),
        );
        check("rescue-grpo", "harness-router", true, None);
    }

    #[test]
    fn only_the_trainer_knows_burn() {
        check("harness-router", "burn", false, Some("must not reach burn"));
        check(
            "harness-router",
            "burn-flex",
            true,
            Some("must not reach burn"),
        );
        check("rescue-grpo", "burn", false, None);
    }

    #[test]
    fn environments_know_the_core_alone() {
        check("env-appworld", "harness-core", false, None);
        check(
            "env-appworld",
            "harness-pool",
            false,
            Some("allowed: harness-core"),
        );
    }

    #[test]
    fn a_new_crate_must_be_entered() {
        check("harness-new", "harness-core", false, Some("add it there"));
    }
}
