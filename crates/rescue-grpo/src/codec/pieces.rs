//! Cuts a text into pieces that no token crosses.

use std::collections::HashSet;

use harness_core::Role;

/// How a text is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Before every blank and newline: what harness and task say.
    Prose,
    /// At neither blanks nor punctuation: actions and observations.
    Code,
}

impl Style {
    /// The style of a role's messages.
    pub fn of(role: Role) -> Self {
        match role {
            Role::Assistant | Role::Observation => Self::Code,
            _ => Self::Prose,
        }
    }
}

/// Lower-case words that always stand alone.
#[derive(Debug, Clone, Default)]
pub struct Atoms(HashSet<String>);

impl Atoms {
    /// A set of words; each should be made of `a-z` and `_`, others never match.
    pub fn new<A: AsRef<str>>(words: &[A]) -> Self {
        Self(words.iter().map(|w| w.as_ref().to_owned()).collect())
    }

    /// The words, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// Whether a text can be an atom.
pub(super) fn is_atom(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_word)
}

/// Whether a character has an id of its own.
pub(super) fn has_id(c: char) -> bool {
    c == '\n' || (' '..='~').contains(&c)
}

fn is_word(c: char) -> bool {
    c.is_ascii_lowercase() || c == '_'
}

/// Cuts `text`; the pieces in order make up the text again.
///
/// Digits, capitals and characters outside the alphabet are pieces of their own in either style. So are
/// atoms, without a leading blank, so that they have the same ids everywhere: a maximal run of `a-z` and
/// `_` that is one, or a part of such a run between underscores that is one.
///
/// # Example
/// ```
/// use rescue_grpo::codec::{Atoms, Style, pieces};
/// let atoms = Atoms::new(&["lamp"]);
/// let cut = pieces("get_lamp(a b, 42)", Style::Code, &atoms);
/// assert_eq!(cut, ["get_", "lamp", "(a b, ", "4", "2", ")"]);
/// let cut = pieces("the lamp is on", Style::Prose, &atoms);
/// assert_eq!(cut, ["the", " ", "lamp", " is", " on"]);
/// ```
pub fn pieces<'a>(text: &'a str, style: Style, atoms: &Atoms) -> Vec<&'a str> {
    let mut cutter = Cutter {
        text,
        start: 0,
        out: Vec::new(),
    };
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let next = at + c.len_utf8();
        if is_word(c) {
            let run = text[at..]
                .find(|c| !is_word(c))
                .map_or(text.len(), |n| at + n);
            cutter.word(at, run, atoms);
            at = run;
            continue;
        }
        if c.is_ascii_digit() || c.is_ascii_uppercase() || !has_id(c) {
            cutter.alone(at, next);
        } else if style == Style::Prose && (c == ' ' || c == '\n') {
            cutter.cut(at);
        }
        at = next;
    }
    cutter.cut(text.len());
    cutter.out
}

struct Cutter<'a> {
    text: &'a str,
    /// Where the open piece starts.
    start: usize,
    out: Vec<&'a str>,
}

impl Cutter<'_> {
    fn cut(&mut self, at: usize) {
        if self.start < at {
            self.out.push(&self.text[self.start..at]);
            self.start = at;
        }
    }

    fn alone(&mut self, from: usize, to: usize) {
        self.cut(from);
        self.cut(to);
    }

    /// A maximal run of word characters.
    fn word(&mut self, from: usize, to: usize, atoms: &Atoms) {
        if atoms.0.contains(&self.text[from..to]) {
            return self.alone(from, to);
        }
        let mut at = from;
        for part in self.text[from..to].split('_') {
            if atoms.0.contains(part) {
                self.alone(at, at + part.len());
            }
            at += part.len() + 1;
        }
    }
}
