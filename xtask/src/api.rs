//! `cargo xtask api`: the public items of each library crate, one a line, checked in under `api/`.
//!
//! The items are those that rustdoc finds in one build of the whole workspace, fakes and strategies of the
//! features `testing` among them. Auto traits and blanket implementations are left out. Reading them takes the
//! feature `api`; a build without it hands the command on to one that has it.

#[cfg(feature = "api")]
pub use listing::{main, stand_in_for_rustdoc};

/// Runs `cargo xtask api`, or `cargo xtask api --check`, in a build of this crate that has the feature `api`.
///
/// # Errors
/// Cargo cannot be run.
#[cfg(not(feature = "api"))]
pub fn main(check: bool) -> anyhow::Result<std::process::ExitCode> {
    let build = ["--no-default-features", "--features", "api"];
    let status = cargo()
        .args(["run", "--quiet", "--package", "xtask"])
        .args(build)
        .args(["--", "api"])
        .args(check.then_some("--check"))
        .current_dir(crate::tidy::workspace_root())
        .status()?;
    Ok(u8::from(!status.success()).into())
}

/// The Cargo that this program was started by, else the one on the path.
fn cargo() -> std::process::Command {
    std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

#[cfg(feature = "api")]
mod listing {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;
    use std::process::{Command, ExitCode};
    use std::{env, fs};

    use anyhow::Context;
    use cargo_metadata::{MetadataCommand, Package};

    use super::cargo;
    use crate::generated::Generated;
    use crate::{say, tidy};

    /// Where the listings lie, relative to the workspace.
    const FOLDER: &str = "api";
    /// Set for the rustdoc that [`stand_in_for_rustdoc`] runs.
    const STAND_IN: &str = "XTASK_RUSTDOC";

    /// Writes the listings, or compares those that are there and tells every line that differs.
    ///
    /// # Errors
    /// The documentation does not build, or an error of the file system, with the path.
    pub fn main(check: bool) -> anyhow::Result<ExitCode> {
        let files = files(&tidy::workspace_root())?;
        if !check {
            files.write()?;
            say::out(format_args!("api: {FOLDER}/"));
            return Ok(ExitCode::SUCCESS);
        }
        let names = files.differing()?;
        for name in &names {
            say::out(format_args!("{FOLDER}/{name}"));
            let found = fs::read_to_string(files.folder.join(name)).unwrap_or_default();
            let made = files.texts.get(name).map_or("", String::as_str);
            for line in difference(&found, made) {
                say::out(line);
            }
        }
        if names.is_empty() {
            say::out("api: all is that of the code");
            return Ok(ExitCode::SUCCESS);
        }
        say::note("api: write it with `cargo xtask api`, and look at what changed");
        Ok(ExitCode::FAILURE)
    }

    /// Runs rustdoc if this process was started in its place, and is `None` otherwise.
    ///
    /// Only a compiler that is told to forget that it is stable writes JSON. Cargo hands what it is told to
    /// every compiler and build script, which would then build all dependencies anew; so this program takes
    /// rustdoc's place and tells rustdoc alone.
    pub fn stand_in_for_rustdoc() -> Option<ExitCode> {
        let rustdoc = env::var_os(STAND_IN)?;
        let status = Command::new(rustdoc)
            .args(env::args_os().skip(1))
            .env_remove(STAND_IN)
            .env("RUSTC_BOOTSTRAP", "1")
            .status();
        Some(match status {
            Ok(status) => u8::from(!status.success()).into(),
            Err(error) => {
                say::note(format_args!("error: running rustdoc: {error}"));
                ExitCode::FAILURE
            }
        })
    }

    /// The listings of the workspace that lies in `root`.
    fn files(root: &Path) -> anyhow::Result<Generated> {
        let metadata = MetadataCommand::new()
            .manifest_path(root.join("Cargo.toml"))
            .no_deps()
            .exec()
            .context("running cargo metadata")?;
        document(root)?;
        let mut texts = BTreeMap::new();
        for package in metadata.packages.iter().filter(|p| is_library(p)) {
            let stem = package.name.replace('-', "_");
            let json = metadata.target_directory.join(format!("doc/{stem}.json"));
            let text = text(json.as_std_path()).with_context(|| format!("reading `{json}`"))?;
            texts.insert(format!("{}.txt", package.name), text);
        }
        Ok(Generated {
            folder: root.join(FOLDER),
            extension: "txt",
            texts,
        })
    }

    /// Whether others may depend on it; nothing depends on `xtask`.
    fn is_library(package: &Package) -> bool {
        package.publish.as_ref().is_none_or(|to| !to.is_empty())
    }

    /// Has rustdoc write JSON, from the same build as the documentation that people read.
    fn document(root: &Path) -> anyhow::Result<()> {
        let status = cargo()
            .args(["doc", "--quiet", "--workspace", "--no-deps"])
            .args(["--features", "harness-router/testing"])
            .current_dir(root)
            .env("RUSTDOC", env::current_exe()?)
            .env(STAND_IN, env::var_os("RUSTDOC").unwrap_or("rustdoc".into()))
            .env("RUSTDOCFLAGS", "-Z unstable-options --output-format json")
            .status()
            .context("running cargo doc")?;
        anyhow::ensure!(status.success(), "cargo doc: {status}");
        Ok(())
    }

    fn text(json: &Path) -> public_api::Result<String> {
        let api = public_api::Builder::from_rustdoc_json(json)
            .omit_auto_trait_impls(true)
            .omit_blanket_impls(true)
            .build()?;
        Ok(without_what_traits_say(&api.to_string()))
    }

    /// The listing without what the line `impl Trait for Type` says by itself: methods of the trait, and the
    /// marker that comes with a derived `PartialEq`.
    fn without_what_traits_say(items: &str) -> String {
        let mut kept = String::new();
        let mut implementor = None;
        for line in items.lines() {
            if line.starts_with("impl") {
                implementor = line.split_once(" for ").map(|(_, rest)| path(rest));
            }
            let is_method = line.strip_prefix("pub fn ").is_some_and(|name| {
                let rest = implementor.and_then(|of| name.strip_prefix(of));
                rest.is_some_and(|rest| rest.starts_with("::") || rest.starts_with('<'))
            });
            if !is_method && !line.starts_with("impl core::marker::StructuralPartialEq ") {
                kept.push_str(line);
                kept.push('\n');
            }
        }
        kept
    }

    /// The path at the start of a type, without arguments and bounds.
    fn path(of: &str) -> &str {
        let end = of.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
        &of[..end.unwrap_or(of.len())]
    }

    /// Lines of one text that the other lacks, marked `-` for gone and `+` for new, in order of the line.
    fn difference(found: &str, made: &str) -> Vec<String> {
        let [old, new] = [found, made].map(|text| text.lines().collect::<BTreeSet<_>>());
        old.symmetric_difference(&new)
            .map(|line| format!("{} {line}", if new.contains(line) { '+' } else { '-' }))
            .collect()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn only_own_methods_are_listed() {
            let items = "\
                pub struct a::X<T>\n\
                impl<T> a::X<T>\n\
                pub fn a::X<T>::own(&self)\n\
                impl<T: Clone> core::clone::Clone for a::X<T>\n\
                pub fn a::X<T>::clone(&self) -> a::X<T>\n\
                impl core::cmp::PartialEq for a::Y\n\
                pub fn a::Y::eq(&self, &a::Y) -> bool\n\
                impl core::marker::StructuralPartialEq for a::Y\n\
                pub fn a::Yes(u8)\n";
            let expect = "\
                pub struct a::X<T>\n\
                impl<T> a::X<T>\n\
                pub fn a::X<T>::own(&self)\n\
                impl<T: Clone> core::clone::Clone for a::X<T>\n\
                impl core::cmp::PartialEq for a::Y\n\
                pub fn a::Yes(u8)\n";
            assert_eq!(without_what_traits_say(items), expect);
        }

        #[test]
        fn a_difference_names_what_is_gone_and_what_is_new() {
            let lines = difference("fn a\nfn b\n", "fn b\nfn c\n");
            assert_eq!(lines, ["- fn a", "+ fn c"]);
            assert!(difference("fn a\n", "fn a\n").is_empty());
        }
    }
}
