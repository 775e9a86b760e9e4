//! Failure clusters: a short key by which experience with one task is lent to another.
//!
//! A cluster is made of what a router may see, never of a task's family, which is for reports alone.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The error kind of a task whose attempts ended without one.
pub const NO_ERROR: &str = "none";
/// The error kind of a task that nobody has attempted yet (Rank-1 routing).
pub const UNSEEN: &str = "unseen";
/// Words that alone say nothing, so the next word is taken along.
const QUESTION_WORDS: [&str; 12] = [
    "how", "what", "which", "who", "when", "where", "is", "are", "do", "does", "did", "the",
];
const MAX_PART_BYTES: usize = 40;

/// A text is not `verb/error_kind`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a cluster is `verb/error_kind`, each 1 to {MAX_PART_BYTES} of `A-Za-z0-9_.-`, got: {got:?}"
)]
pub struct ClusterError {
    /// The refused text, cut at 100 characters.
    pub got: String,
}

/// A failure cluster: what the task asks for, and the kind of error on which it fails; as text
/// `verb/error_kind`, for instance `play/missing_login`.
///
/// # Example
/// ```
/// use harness_pool::Cluster;
/// let cluster = Cluster::of("Play the first song.", "Missing login");
/// assert_eq!(cluster.as_str(), "play/Missing_login");
/// assert_eq!(Cluster::of("How many songs are there?", "none").verb(), "how_many");
/// ```
/// # Source
/// Ours: the abstract of arXiv 2611.04277 does not say what its profiles are keyed by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Cluster {
    text: Arc<str>,
    /// Where the slash stands.
    slash: usize,
}

impl Cluster {
    /// The cluster of an instruction and an error kind; an empty error kind is [`NO_ERROR`]. Characters
    /// that a key cannot hold become `_`, and long parts are cut.
    pub fn of(instruction: &str, error_kind: &str) -> Self {
        let kind = match clean(error_kind) {
            kind if kind.is_empty() => NO_ERROR.to_owned(),
            kind => kind,
        };
        let verb = verb(instruction);
        Self {
            text: format!("{verb}/{kind}").into(),
            slash: verb.len(),
        }
    }

    /// The cluster of a task that nobody has attempted yet.
    pub fn unseen(instruction: &str) -> Self {
        Self::of(instruction, UNSEEN)
    }

    /// The whole key.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What the task asks for: the first word of its instruction, lower case.
    pub fn verb(&self) -> &str {
        &self.text[..self.slash]
    }

    /// The kind of error, [`NO_ERROR`] or [`UNSEEN`].
    pub fn error_kind(&self) -> &str {
        &self.text[self.slash + 1..]
    }
}

/// The first word of an instruction, two if the first alone says nothing; `any` if there is none.
pub(crate) fn verb(instruction: &str) -> String {
    let mut words = instruction
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .filter(|word| word != "please");
    let Some(first) = words.next() else {
        return "any".into();
    };
    let text = match words.next() {
        Some(second) if QUESTION_WORDS.contains(&first.as_str()) => format!("{first}_{second}"),
        _ => first,
    };
    clean(&text)
}

fn clean(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    text.trim()
        .chars()
        .map(|c| if fits(c) { c } else { '_' })
        .take(MAX_PART_BYTES)
        .collect()
}

impl TryFrom<String> for Cluster {
    type Error = ClusterError;

    fn try_from(text: String) -> Result<Self, ClusterError> {
        let is_part = |part: &str| !part.is_empty() && clean(part) == part;
        match text.split_once('/') {
            Some((verb, kind)) if is_part(verb) && is_part(kind) => Ok(Self {
                slash: verb.len(),
                text: text.into(),
            }),
            _ => Err(ClusterError {
                got: text.chars().take(100).collect(),
            }),
        }
    }
}

impl From<Cluster> for String {
    fn from(cluster: Cluster) -> Self {
        cluster.text.as_ref().to_owned()
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cluster({})", self.text)
    }
}
