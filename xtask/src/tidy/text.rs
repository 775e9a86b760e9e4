//! What may not stand in a file.

use std::path::Path;

use super::Problem;

/// Words that mark something unfinished. Put together here so that this file does not hold them.
const NOTES: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("X", "XX"),
];
/// A macro that marks something unfinished.
const UNFINISHED: &str = concat!("to", "do!(");
/// Attributes that silence a lint for good.
const SILENCERS: [&str; 2] = [concat!("#[", "allow("), concat!("#![", "allow(")];
/// Ends of names of files whose text is checked.
const CHECKED: [&str; 4] = ["rs", "toml", "md", "yml"];

/// Whether a file's text is checked at all.
pub(super) fn is_checked(path: &Path) -> bool {
    let extension = path
        .extension()
        .and_then(|e| e.to_str())
        .unwrap_or_default();
    CHECKED.contains(&extension) || path.ends_with(".ci/run")
}

/// Checks one file; `file` is its path relative to the root, by which its kind is known.
pub fn check_text(file: &Path, text: &str) -> Vec<Problem> {
    let is_rust = file.extension().is_some_and(|e| e == "rs");
    let mut problems = Vec::new();
    if is_rust && !text.starts_with("//!") {
        let message = "no module docs: start the file with `//!` and say what it is for";
        problems.push(Problem::new(file, 1, message));
    }
    for (line, number) in text.lines().zip(1..) {
        let messages = common(line)
            .into_iter()
            .chain(is_rust.then(|| rust(line)).flatten());
        problems.extend(messages.map(|message| Problem::new(file, number, message)));
    }
    problems
}

fn common(line: &str) -> Option<String> {
    (line.trim_end() != line).then(|| "blanks at the end of the line: remove them".into())
}

fn rust(line: &str) -> Option<String> {
    if let Some(word) = NOTES.into_iter().find(|word| has_word(line, word)) {
        return Some(format!(
            "stray {word}: do it, or open an issue and say here what is so today"
        ));
    }
    if line.contains(UNFINISHED) {
        return Some("unfinished code: finish it or take it out".into());
    }
    let silences = SILENCERS.iter().any(|attribute| line.contains(attribute));
    silences.then(|| {
        "a lint is silenced for good: mend it, or use `#[expect(.., reason = \"..\")]`".into()
    })
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !is_part(before) && !is_part(after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(file: &str, text: &str, expect: &[(usize, &str)]) {
        let problems = check_text(Path::new(file), text);
        assert_eq!(problems.len(), expect.len(), "{problems:?}");
        for (problem, (line, part)) in problems.iter().zip(expect) {
            assert_eq!(problem.line, *line);
            assert!(problem.message.contains(part), "{problem}");
        }
    }

    #[test]
    fn a_module_without_docs() {
        check("src/a.rs", "fn a() {}\n", &[(1, "no module docs")]);
    }

    #[test]
    fn blanks_at_the_end() {
        check("a.md", "one \ntwo\n", &[(1, "blanks")]);
    }

    #[test]
    fn notes_to_oneself() {
        let text = format!("//! A.\n// {}: later\n", NOTES[0]);
        check("src/a.rs", &text, &[(2, "stray")]);
        check("src/a.rs", &format!("//! {}S are fine.\n", NOTES[0]), &[]);
        check("a.md", &text, &[]);
    }

    #[test]
    fn unfinished_code() {
        let text = format!("//! A.\nfn a() {{ {UNFINISHED}) }}\n");
        check("src/a.rs", &text, &[(2, "unfinished")]);
    }

    #[test]
    fn silenced_lints() {
        let text = format!("//! A.\n{}dead_code)]\n", SILENCERS[0]);
        check("src/a.rs", &text, &[(2, "#[expect(")]);
    }

    #[test]
    fn files_by_kind() {
        assert!(is_checked(Path::new(".ci/run")) && is_checked(Path::new("src/a.rs")));
        assert!(!is_checked(Path::new("tests/data/a.json")));
    }
}
