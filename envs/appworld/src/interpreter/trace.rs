//! Exceptions as an agent reads them: frames of its own code only, one file name, `CPython`'s carets.

use std::fmt::Write as _;

use monty_types::{ExcType, MontyException, StackFrame};

use super::{BlockError, ErrorKind};

/// Most frames shown; deep recursion is cut in the middle.
const MAX_FRAMES: usize = 12;

/// The failure of a block, from the exception that ended it.
pub(super) fn block_error(error: &MontyException, prelude_blocks: u64, secs: f64) -> BlockError {
    if is_timeout(error) {
        // Such a cut depends on the machine: a run that is compared byte for byte must have none.
        tracing::warn!(secs, "a block of code was cut by its time limit");
        return BlockError {
            kind: ErrorKind::Python,
            text: format!(
                "{}Exception: Execution timed out after {secs} seconds.",
                frames(error, prelude_blocks)
            ),
        };
    }
    let message = error.message().unwrap_or_default();
    if error.exc_type() == ExcType::SyntaxError {
        let line = error
            .traceback()
            .last()
            .and_then(|f| f.preview_line.as_deref())
            .unwrap_or_default();
        return BlockError {
            kind: ErrorKind::Syntax,
            text: format!("Syntax error in line:\n{line}\nMessage: {message}"),
        };
    }
    BlockError {
        kind: kind(error, message),
        text: format!("{}{}", frames(error, prelude_blocks), summary(error)),
    }
}

fn is_timeout(error: &MontyException) -> bool {
    error.exc_type() == ExcType::TimeoutError
        && error
            .message()
            .is_some_and(|m| m.starts_with("time limit exceeded: "))
}

fn kind(error: &MontyException, message: &str) -> ErrorKind {
    let gap = match error.exc_type() {
        ExcType::NotImplementedError => !is_raised_by_hand(error),
        ExcType::ModuleNotFoundError => true,
        _ => false,
    };
    if gap {
        ErrorKind::Unsupported
    } else if error.exc_type() == ExcType::Exception {
        ErrorKind::of_message(message)
    } else {
        ErrorKind::Python
    }
}

/// Whether the agent's own `raise` made the exception.
fn is_raised_by_hand(error: &MontyException) -> bool {
    error
        .traceback()
        .last()
        .and_then(|f| f.preview_line.as_deref())
        .is_some_and(|line| line.trim_start().starts_with("raise"))
}

/// `ExcType: message`, with `KeyError`'s quotes that monty leaves out.
fn summary(error: &MontyException) -> String {
    match (error.exc_type(), error.message()) {
        (ExcType::KeyError, Some(key))
            if key.parse::<f64>().is_err() && !key.starts_with(['\'', '"', '(']) =>
        {
            format!("KeyError: '{key}'")
        }
        _ => error.summary(),
    }
}

fn frames(error: &MontyException, prelude_blocks: u64) -> String {
    let own: Vec<&StackFrame> = error
        .traceback()
        .iter()
        .filter(|f| !is_prelude(&f.filename, prelude_blocks))
        .collect();
    let mut text = String::new();
    for (i, frame) in own.iter().enumerate() {
        if own.len() <= MAX_FRAMES || i < MAX_FRAMES / 2 || i >= own.len() - MAX_FRAMES / 2 {
            push_frame(&mut text, frame);
        } else if i == MAX_FRAMES / 2 {
            let _ = writeln!(text, "  [{} more frames]", own.len() - MAX_FRAMES);
        }
    }
    text
}

fn is_prelude(filename: &str, prelude_blocks: u64) -> bool {
    filename
        .strip_prefix("<python-input-")
        .and_then(|rest| rest.strip_suffix('>'))
        .and_then(|n| n.parse::<u64>().ok())
        .is_some_and(|n| n < prelude_blocks)
}

fn push_frame(text: &mut String, frame: &StackFrame) {
    let name = frame.frame_name.as_deref().unwrap_or("<module>");
    let _ = writeln!(
        text,
        "  File \"<python-input>\", line {}, in {name}",
        frame.start.line
    );
    let Some(line) = frame.preview_line.as_deref() else {
        return;
    };
    if frame.start.line != frame.end.line {
        for part in line.lines() {
            let _ = writeln!(text, "    {part}");
        }
        return;
    }
    let shown = line.trim();
    let _ = writeln!(text, "    {shown}");
    if !frame.hide_caret {
        push_carets(text, line, shown, frame);
    }
}

/// Carets under the failing expression. As in `CPython` there are none under a whole line, except that a
/// subscript's are split into `~~~^^^`.
fn push_carets(text: &mut String, line: &str, shown: &str, frame: &StackFrame) {
    let indent = line.chars().take_while(|c| c.is_whitespace()).count();
    let start = (frame.start.column as usize)
        .saturating_sub(1)
        .saturating_sub(indent);
    let width = (frame.end.column.saturating_sub(frame.start.column) as usize).max(1);
    let width = width.min(shown.chars().count().saturating_sub(start).max(1));
    let marked: String = shown.chars().skip(start).take(width).collect();
    let marks = match subscript(&marked) {
        Some(at) => format!("{}{}", "~".repeat(at), "^".repeat(width - at)),
        None if width == shown.chars().count() => return,
        None => "^".repeat(width),
    };
    let _ = writeln!(text, "    {}{marks}", " ".repeat(start));
}

/// Where the last subscript of an expression like `a[0]["k"]` opens, in characters.
fn subscript(marked: &str) -> Option<usize> {
    let chars: Vec<char> = marked.chars().collect();
    if chars.last() != Some(&']') {
        return None;
    }
    let mut depth = 0_usize;
    for (i, c) in chars.iter().enumerate().rev() {
        match c {
            ']' => depth += 1,
            '[' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return (i > 0).then_some(i);
                }
            }
            _ => {}
        }
    }
    None
}
