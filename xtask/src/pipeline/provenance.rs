//! Which commit of code and settings a report was made from.

use std::path::Path;
use std::process::Command;

use crate::cli::Plan;
use crate::report::Provenance;
use crate::tidy::workspace_root;

/// Where a run's code and settings come from; without git or outside a repository the commits are absent.
///
/// # Errors
/// If the settings have no JSON form.
pub(super) fn of(plan: &Plan) -> anyhow::Result<Provenance> {
    let config = &plan.config;
    let root = workspace_root();
    let file = format!(
        "xtask/configs/{}-{}.toml",
        config.env,
        config.scale.as_str()
    );
    let git = |args: &[&str]| git(&root, args);
    let config_commit = git(&["log", "-1", "--format=%H", "--", &file]).filter(|c| !c.is_empty());
    let is_clean = git(&["status", "--porcelain", "--", &file]).is_some_and(|s| s.is_empty());
    Ok(Provenance {
        commit: git(&["rev-parse", "HEAD"]),
        is_config_committed: config_commit.is_some() && is_clean && !plan.is_custom,
        config_commit,
        config_hash: Some(crate::cache::content_hash(&config.essence())?[..16].to_owned()),
    })
}

fn git(root: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").current_dir(root).args(args).output();
    let output = output.ok().filter(|o| o.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned())
}
