//! Judging a finished world by named requirements over its start and end.
//!
//! All requirements must hold; there is no partial credit. Nothing here can fail: an agent that never marks
//! its task complete has simply not met the first requirement (bug report A1).

use std::fmt::Write as _;

use harness_core::Verdict;
use serde_json::Value;

use crate::tasks::{Goal, TaskData};
use crate::world::World;
use crate::world::db::Status;

/// Judges a world against its task.
pub(crate) fn evaluate(world: &World, data: &TaskData) -> Verdict {
    let mut failures = Vec::new();
    let mut require = |holds: bool, requirement: &str| {
        if !holds {
            failures.push(requirement.to_owned());
        }
    };
    let status = world.db.done.as_ref().map(|(status, _)| *status);
    require(status.is_some(), "the task is marked complete");
    require(
        status == Some(Status::Success),
        "the task's status is success",
    );
    let changed = world.db.changed_models(&world.start);
    if let Goal::Create { code } = data.goal {
        require(
            changed == ["simple_note.Note"],
            "only notes changed, nothing else",
        );
        let diff = world.db.notes_since(&world.start);
        require(
            diff.removed.is_empty() && diff.updated.is_empty(),
            "no note that existed was changed or deleted",
        );
        require(diff.added.len() == 1, "exactly one note was added");
        let right =
            diff.added.iter().any(|id| {
                world.db.notes.get(id).is_some_and(|note| {
                    note.title == data.entity && note.content == code.to_string()
                })
            });
        require(right, "an added note has the given title and content");
    } else {
        require(changed.is_empty(), "nothing was changed");
        let given = world.db.done.as_ref().map(|(_, answer)| normalise(answer));
        require(
            given.is_some() && given == expected_answer(world, data),
            "the answer is right",
        );
    }
    Verdict {
        solved: failures.is_empty(),
        reward: None,
        failures,
    }
}

/// The right answer, normalised; `None` for tasks that ask no question.
pub(crate) fn expected_answer(world: &World, data: &TaskData) -> Option<String> {
    let songs = || world.start.songs.values();
    let titled = || songs().find(|song| song.title == data.entity);
    match data.goal {
        Goal::Likes => titled().map(|song| song.like_count.to_string()),
        Goal::Rating => titled().map(|song| song.rating.to_string()),
        Goal::Plays => {
            let of_artist = songs().filter(|song| song.artist == data.entity);
            Some(of_artist.map(|s| s.play_count).sum::<i64>().to_string())
        }
        Goal::Code => {
            let mut notes = world.start.notes.values();
            notes
                .find(|note| note.title == data.entity)
                .map(|note| note.content.clone())
        }
        Goal::Create { .. } => None,
    }
}

/// An answer in the form in which answers are compared (bug report A4): nothing is `null`; texts lose outer
/// blanks, quotes and case; numbers, also as text, are whole or have two decimals; lists are sorted.
pub(crate) fn normalise(answer: &Value) -> String {
    match answer {
        Value::Null => "null".into(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => number(n.as_f64().unwrap_or(f64::NAN), &n.to_string()),
        Value::String(text) => normalise_text(text),
        Value::Array(items) => {
            let mut parts: Vec<String> = items.iter().map(normalise).collect();
            parts.sort();
            parts.join(", ")
        }
        Value::Object(_) => answer.to_string(),
    }
}

fn normalise_text(text: &str) -> String {
    let mut text = text.trim();
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|t| t.strip_suffix(quote)) {
            text = inner.trim();
        }
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let numeric = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    match text.parse::<f64>() {
        Ok(value) if numeric => number(value, text),
        _ => text.to_lowercase(),
    }
}

/// A number without needless decimals; numbers too long for exact arithmetic stay as they were written.
fn number(value: f64, written: &str) -> String {
    if !value.is_finite() || value.abs() >= 9e15 {
        return written.to_owned();
    }
    let mut text = String::new();
    let written = if value.fract() == 0.0 {
        write!(text, "{}", value as i64)
    } else {
        write!(text, "{value:.2}")
    };
    written.expect("writing to a string cannot fail");
    text
}
