//! Finds task texts, task ids and answers in proposed edits (bug report E3).

use std::collections::HashSet;
use std::sync::Arc;

use harness_core::Task;
use serde::{Deserialize, Serialize};

use crate::text::{contains_whole, words};

/// Shorter instructions than this many words are not searched for as a whole.
const MIN_WHOLE_WORDS: usize = 3;
/// Shorter ids are not searched for: they would be found in any text.
const MIN_ID_CHARS: usize = 3;
/// Shorter answers are not searched for.
const MIN_SECRET_CHARS: usize = 4;

/// What of a task was found in an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Leak {
    /// The id of a task or scenario.
    Id,
    /// A run of words of an instruction.
    Words,
    /// A run of characters of an instruction.
    Chars,
    /// A whole instruction that is shorter than either run.
    Instruction,
    /// An answer.
    Secret,
}

/// An index of what must not stand in an edit.
///
/// Texts are compared as lower-case words joined by single blanks, so punctuation, case and line breaks hide
/// nothing. Membership alone is asked of the hash sets, so their order reaches no result.
#[derive(Debug, Clone)]
pub struct LeakIndex {
    n_words: usize,
    n_chars: usize,
    word_runs: HashSet<String>,
    char_runs: HashSet<String>,
    whole: Vec<String>,
    ids: Vec<String>,
    secrets: Vec<String>,
}

impl LeakIndex {
    /// Indexes tasks and answers. `n_words` is the length of a forbidden run of words, `n_chars` of a
    /// forbidden run of characters.
    ///
    /// Ids count from 3 characters on, if made of digits alone from 5 on. Answers (`secrets`) count from 4
    /// characters on: shorter ones would be found in any text. Of a task only instruction, id and scenario
    /// are read.
    pub fn new<'a>(
        tasks: impl IntoIterator<Item = &'a Arc<Task>>,
        secrets: &[String],
        n_words: usize,
        n_chars: usize,
    ) -> Self {
        let mut index = Self {
            n_words,
            n_chars,
            word_runs: HashSet::new(),
            char_runs: HashSet::new(),
            whole: Vec::new(),
            ids: Vec::new(),
            secrets: Vec::new(),
        };
        for task in tasks {
            index.add_instruction(&task.instruction);
            index.add_id(task.id.as_str());
            index.add_id(task.scenario.as_str());
        }
        let long = secrets
            .iter()
            .filter(|s| s.trim().chars().count() >= MIN_SECRET_CHARS);
        index.secrets = long.map(|s| s.trim().to_lowercase()).collect();
        index
    }

    /// The first leak found in a text, if there is one.
    pub fn find(&self, text: &str) -> Option<Leak> {
        let lower = text.to_lowercase();
        if self.ids.iter().any(|id| contains_whole(&lower, id)) {
            return Some(Leak::Id);
        }
        if self.secrets.iter().any(|s| contains_whole(&lower, s)) {
            return Some(Leak::Secret);
        }
        let words: Vec<String> = words(text).collect();
        if words
            .windows(self.n_words)
            .any(|w| self.word_runs.contains(&w.join(" ")))
        {
            return Some(Leak::Words);
        }
        let joined = words.join(" ");
        if char_runs(&joined, self.n_chars).any(|run| self.char_runs.contains(run)) {
            return Some(Leak::Chars);
        }
        let is_whole = self.whole.iter().any(|w| contains_whole(&joined, w));
        is_whole.then_some(Leak::Instruction)
    }

    fn add_instruction(&mut self, instruction: &str) {
        let words: Vec<String> = words(instruction).collect();
        let joined = words.join(" ");
        self.word_runs
            .extend(words.windows(self.n_words).map(|w| w.join(" ")));
        self.char_runs
            .extend(char_runs(&joined, self.n_chars).map(str::to_owned));
        let is_short = words.len() < self.n_words && joined.chars().count() < self.n_chars;
        if is_short && words.len() >= MIN_WHOLE_WORDS {
            self.whole.push(joined);
        }
    }

    fn add_id(&mut self, id: &str) {
        let is_number = id.bytes().all(|b| b.is_ascii_digit());
        if id.len()
            >= if is_number {
                MIN_ID_CHARS + 2
            } else {
                MIN_ID_CHARS
            }
        {
            self.ids.push(id.to_lowercase());
        }
    }
}

/// Every run of `n` characters.
fn char_runs(text: &str, n: usize) -> impl Iterator<Item = &str> {
    let starts = text.char_indices().map(|(at, _)| at);
    let ends = text
        .char_indices()
        .map(|(at, _)| at)
        .chain([text.len()])
        .skip(n);
    starts.zip(ends).map(|(start, end)| &text[start..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn index() -> LeakIndex {
        let long = "How many songs by Ellie Foo are in the playlist that I made on the 3rd of May?";
        let tasks = [
            Arc::new(fixture::task("task_17", long)),
            Arc::new(fixture::task("7", "Pay my rent")),
            Arc::new(fixture::task(
                "8",
                "Unsubscribe notifications concerning international business",
            )),
        ];
        LeakIndex::new(&tasks, &["Bob Smith".into(), "12".into()], 8, 40)
    }

    #[track_caller]
    fn check(text: &str, expect: Option<Leak>) {
        assert_eq!(index().find(text), expect);
    }

    #[test]
    fn e3_task_texts_are_found() {
        check(
            "Remember: how many SONGS, by Ellie\nFoo are in the list",
            Some(Leak::Words),
        );
        check("by Ellie Foo are in the playlist that I", Some(Leak::Words));
        check(
            "subscribe notifications concerning international b",
            Some(Leak::Chars),
        );
        check("first pay my rent then", Some(Leak::Instruction));
    }

    #[test]
    fn e3_ids_and_answers_are_found() {
        check("as in Task_17", Some(Leak::Id));
        check("as in scenario-task_17.", Some(Leak::Id));
        check("the friend is bob smith", Some(Leak::Secret));
    }

    #[test]
    fn common_words_pass() {
        check("read all 12 pages of the 7 lists before you answer", None);
        check("are in the playlist", None);
        check("as in task_170", None);
        check("", None);
    }
}
