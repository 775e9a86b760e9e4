//! What to do about a run that stopped: the command that goes on with it, and what to put right first.

use std::io::{self, ErrorKind};
use std::path::Path;

/// The command line that goes on with the run in `out`: this process's own, with `--resume` and the folder.
pub fn command(out: &Path) -> String {
    command_of(std::env::args().skip(1), out)
}

/// What to put right after an error of the file system; `None` if nothing is known.
pub fn remedy(error: &anyhow::Error) -> Option<&'static str> {
    // The innermost error knows best: one that wraps another has no kind of its own.
    let causes = error.chain().filter_map(|cause| cause.downcast_ref());
    match causes.last().map(io::Error::kind)? {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            Some("make room there, or raise the limit on the size of files")
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            Some("make it writable for this user, or give another --out")
        }
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists | ErrorKind::IsADirectory => {
            Some("give another --out: something else has that name")
        }
        ErrorKind::NotFound => Some("was the folder moved or removed while the run went on?"),
        _ => None,
    }
}

fn command_of(args: impl Iterator<Item = String>, out: &Path) -> String {
    let mut kept = Vec::new();
    let mut args = args.peekable();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--resume" => {}
            "--out" => drop(args.next()),
            _ if arg.starts_with("--out=") => {}
            _ => kept.push(quoted(&arg)),
        }
    }
    let out = quoted(&out.display().to_string());
    format!("cargo xtask {} --resume --out {out}", kept.join(" "))
}

/// The text as one word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(args: &[&str], expect: &str) {
        let args = args.iter().map(|arg| (*arg).to_owned());
        assert_eq!(command_of(args, Path::new("runs/a")), expect);
    }

    #[test]
    fn the_command_goes_on_with_the_same_settings() {
        check(
            &["reproduce", "appworld", "--out", "x", "--seeds", "3"],
            "cargo xtask reproduce appworld --seeds 3 --resume --out runs/a",
        );
        check(
            &[
                "reproduce",
                "appworld",
                "--resume",
                "--out=x",
                "--set",
                "run.seeds=[1, 2]",
            ],
            "cargo xtask reproduce appworld --set 'run.seeds=[1, 2]' --resume --out runs/a",
        );
    }

    #[test]
    fn quotes_survive_a_shell() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_full_disk_is_known_under_any_context() {
        let error = anyhow::Error::from(io::Error::from(ErrorKind::StorageFull)).context("a");
        let error = anyhow::Error::from(io::Error::other(error)).context("b");
        assert!(remedy(&error).unwrap().contains("make room"));
        assert!(remedy(&anyhow::anyhow!("else")).is_none());
    }
}
