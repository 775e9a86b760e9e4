//! Files of one JSON object a line, read while somebody may be writing them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Context as _;
use serde::de::DeserializeOwned;

/// Longest line that is read, in bytes; a longer one is left out.
const MAX_LINE: u64 = 16 << 20;

/// Gives each line of a file to `take`, in order, until it breaks. A file that is not there has no lines. Lines
/// that cannot be read are left out and counted in `problems`; so is a last line without an end, which a run is
/// still writing or never finished (bug report F6).
///
/// # Errors
/// An error of the file system, with the path.
pub(super) fn read<T: DeserializeOwned>(
    path: &Path,
    problems: &mut Vec<String>,
    mut take: impl FnMut(T) -> ControlFlow<()>,
) -> anyhow::Result<()> {
    let shown = path.display();
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file.with_context(|| format!("opening `{shown}`"))?,
    };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let mut n_bad = 0_usize;
    let mut first_bad = None;
    for number in 1_usize.. {
        line.clear();
        let is_short =
            next(&mut reader, &mut line).with_context(|| format!("reading `{shown}`"))?;
        if line.is_empty() {
            break;
        }
        let value = if is_short {
            serde_json::from_slice::<T>(&line).map_err(|error| error.to_string())
        } else {
            Err(format!("longer than {MAX_LINE} bytes"))
        };
        match value {
            Ok(value) => {
                if take(value).is_break() {
                    break;
                }
            }
            Err(_) if is_short && line.last() != Some(&b'\n') => {
                problems.push(format!(
                    "`{shown}`: the last line is not whole and is left out"
                ));
            }
            Err(error) => {
                n_bad += 1;
                first_bad.get_or_insert((number, error));
            }
        }
    }
    if let Some((number, error)) = first_bad {
        problems.push(format!(
            "`{shown}`: {n_bad} lines cannot be read and are left out, the first is line {number}: {error}"
        ));
    }
    Ok(())
}

/// Reads a line with its end; `false` if it was too long: then a part is in `line` and the rest is skipped.
fn next(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    reader.by_ref().take(MAX_LINE).read_until(b'\n', line)?;
    let is_short = line.last() == Some(&b'\n') || (line.len() as u64) < MAX_LINE;
    if !is_short {
        reader.skip_until(b'\n')?;
    }
    Ok(is_short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], values: &[u64], problem: &str) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.jsonl");
        std::fs::write(&path, bytes).unwrap();
        let (mut found, mut problems) = (Vec::new(), Vec::new());
        read(&path, &mut problems, |value: u64| {
            found.push(value);
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(found, values);
        let problems = problems.join("\n");
        assert_eq!(problem.is_empty(), problems.is_empty(), "{problems}");
        assert!(problems.contains(problem), "{problems}");
    }

    #[test]
    fn f6_a_torn_last_line_is_left_out() {
        check(b"1\n2\n{\"a", &[1, 2], "the last line is not whole");
        check(b"1\n2", &[1, 2], "");
        check(b"", &[], "");
    }

    #[test]
    fn bad_lines_are_counted_and_the_first_is_named() {
        check(
            b"1\nx\n\xff\n2\n",
            &[1, 2],
            "2 lines cannot be read and are left out, the first is line 2",
        );
    }

    #[test]
    fn a_line_without_end_is_not_held() {
        let long = vec![b'1'; (MAX_LINE + 7) as usize];
        let bytes = [b"1\n", long.as_slice(), b"\n2\n"].concat();
        check(&bytes, &[1, 2], "longer than");
    }
}
