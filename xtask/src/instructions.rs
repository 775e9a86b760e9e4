//! `cargo xtask instructions`: how many instructions the hot paths take, beside the figures in the repository.
//!
//! Times say as much about a machine's other users as about the code; counts under callgrind are the same to a
//! fraction of a per cent. Each path is one run of a bench (`--test`, so once) in which only one function and what
//! it calls are counted.
//!
//! Left out on purpose: what an instruction costs. Valgrind knows no AVX-512, so the products of the policy,
//! which choose their vector unit at run time, are counted on their AVX2 path.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context;
use serde_json::Value;

use crate::{files, say, tidy};

/// The figures, relative to the workspace.
const FILE: &str = "bench/instructions.txt";
/// Growth above which `--check` fails.
const MOST_GROWTH: f64 = 0.10;

/// A path: its bench's file, the bench and its argument as a pattern, and the functions that are counted, with
/// blanks between.
struct HotPath {
    file: &'static str,
    bench: &'static str,
    functions: &'static str,
}

const fn path(file: &'static str, bench: &'static str, functions: &'static str) -> HotPath {
    HotPath {
        file,
        bench,
        functions,
    }
}

const PATHS: [HotPath; 14] = [
    path("rules", "rules_at_a_moment::8", "*RuleRun::fire"),
    path("pool", "profile_update::1000", "*BehaviorProfile::insert"),
    path("pool", "profile_update::10000", "*BehaviorProfile::insert"),
    path("pool", "pool_load::8", LOAD),
    path("pool", "pool_load::64", LOAD),
    path("router", "first_decision::8", SELECT),
    path("router", "first_decision::64", SELECT),
    path("router", "decision::8", SELECT),
    path("router", "decision::64", SELECT),
    path("world", "world_step::print.*", "*AppWorldEnv*::step"),
    path("training", "advantages::8", "*advantage::advantages"),
    path("training", "advantages::512", "*advantage::advantages"),
    path("training", "sampling_step_rows::8", "*NanoSampler*::poll"),
    path("training", "update_step_rows::32", "*NanoLearner*::update"),
];
/// One after the other, neither within the other.
const LOAD: &str = "harness_pool::record::load* *SiblingPool::from_content";
const SELECT: &str = "*Router*::select";

/// Counts every path and writes the file, or with `check` compares with it.
///
/// # Errors
/// Valgrind is missing, a bench cannot be built or run, or a function is never called.
pub fn main(check: bool) -> anyhow::Result<ExitCode> {
    let root = tidy::workspace_root();
    let benches = build(&root)?;
    let mut counts = BTreeMap::new();
    for path in &PATHS {
        let name = format!("{}/{}", path.file, path.bench);
        let bench = benches.get(path.file);
        let bench =
            bench.with_context(|| format!("cargo built no bench of this name: {}", path.file))?;
        let n = count(bench, path).with_context(|| format!("counting `{name}`"))?;
        say::out(format_args!("{n:>12} {name}"));
        counts.insert(name, n);
    }
    let file = root.join(FILE);
    if !check {
        files::write_atomic(&file, to_text(&counts).as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = fs::read_to_string(&file).with_context(|| format!("reading `{FILE}`"))?;
    let problems = compare(&from_text(&text)?, &counts);
    for problem in &problems {
        say::warn(problem);
    }
    Ok(u8::from(!problems.is_empty()).into())
}

/// The benches' programs by name, with the features of the whole workspace: they are part of what is counted, and
/// any other choice compiles the tensor library once more.
fn build(root: &Path) -> anyhow::Result<BTreeMap<String, PathBuf>> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "bench",
            "--workspace",
            "--benches",
            "--profile",
            "dev",
            "--no-run",
        ])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("running cargo")?;
    anyhow::ensure!(output.status.success(), "the benches do not build");
    let text = String::from_utf8(output.stdout).context("cargo's messages are no text")?;
    let messages = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let program = |message: Value| {
        let is_bench = message["target"]["kind"][0] == "bench";
        let name = message["target"]["name"].as_str().filter(|_| is_bench)?;
        Some((name.to_owned(), message["executable"].as_str()?.into()))
    };
    Ok(messages.filter_map(program).collect())
}

fn count(program: &Path, path: &HotPath) -> anyhow::Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(
            path.functions
                .split(' ')
                .map(|name| format!("--toggle-collect={name}")),
        )
        .arg(program)
        .arg("--test")
        .arg(format!("^{}::{}$", path.file, path.bench))
        .output()
        .context("running valgrind; it is in the package `valgrind` of most systems")?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "valgrind failed: {said}");
    collected(&said).with_context(|| format!("`{}` was never called", path.functions))
}

/// The number behind "Collected :" in what callgrind says; `None` for 0.
fn collected(said: &str) -> Option<u64> {
    let line = said
        .lines()
        .find_map(|line| line.split_once("Collected :"))?;
    line.1.trim().parse().ok().filter(|n| *n > 0)
}

fn to_text(counts: &BTreeMap<String, u64>) -> String {
    let mut text = String::new();
    for (name, n) in counts {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{n:>12} {name}");
    }
    text
}

fn from_text(text: &str) -> anyhow::Result<BTreeMap<String, u64>> {
    let entry = |line: &str| {
        let (n, name) = line.trim().split_once(' ')?;
        Some((name.to_owned(), n.parse().ok()?))
    };
    let of =
        |line| entry(line).with_context(|| format!("`{FILE}` has a line of another form: {line}"));
    text.lines().map(of).collect()
}

/// Paths that grew by more than they may, and those that only one side knows.
fn compare(known: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, n) in now {
        match known.get(name) {
            Some(before) if *n as f64 > (1.0 + MOST_GROWTH) * *before as f64 => {
                let growth = 100.0 * (*n as f64 / *before as f64 - 1.0);
                problems.push(format!(
                    "{name} grew by {growth:.0} %: {before} to {n} instructions"
                ));
            }
            Some(_) => {}
            None => problems.push(format!("{name} is not in `{FILE}`: run without --check")),
        }
    }
    let gone = known.keys().filter(|name| !now.contains_key(*name));
    problems.extend(gone.map(|name| format!("{name} is in `{FILE}` and was not counted")));
    problems
}

#[cfg(test)]
mod tests {
    use super::{collected, compare, from_text, to_text};

    #[test]
    fn figures_are_read_as_they_were_written() {
        let counts = [("a/b::8".to_owned(), 12), ("c/d".to_owned(), 3)].into();
        assert_eq!(from_text(&to_text(&counts)).unwrap(), counts);
        assert!(from_text("many a/b").is_err());
    }

    #[test]
    fn growth_above_a_tenth_is_a_problem() {
        let of = |n| [("a".to_owned(), n)].into();
        assert!(compare(&of(100), &of(110)).is_empty());
        assert!(compare(&of(100), &of(50)).is_empty());
        assert_eq!(compare(&of(100), &of(111)).len(), 1);
        assert_eq!(compare(&[].into(), &of(1)).len(), 1);
        assert_eq!(compare(&of(1), &[].into()).len(), 1);
    }

    #[test]
    fn nothing_counted_is_no_count() {
        assert_eq!(collected("==1== Collected : 26845\n"), Some(26845));
        assert_eq!(collected("==1== Collected : 0\n"), None);
    }
}
