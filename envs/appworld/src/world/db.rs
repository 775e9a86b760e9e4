//! The records of a world. Everything an agent can change is here, so a copy taken at the start is the
//! snapshot that the end is compared with.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A song.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Song {
    pub(crate) title: String,
    pub(crate) artist: String,
    pub(crate) like_count: i64,
    pub(crate) play_count: i64,
    pub(crate) rating: i64,
    pub(crate) liked: bool,
}

impl Song {
    pub(crate) fn shown(&self, id: i64) -> Value {
        json!({
            "song_id": id,
            "title": self.title,
            "artist": self.artist,
            "like_count": self.like_count,
            "play_count": self.play_count,
        })
    }
}

/// A note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) title: String,
    pub(crate) content: String,
}

impl Note {
    pub(crate) fn shown(&self, id: i64) -> Value {
        json!({"note_id": id, "title": self.title, "content": self.content})
    }
}

/// How the agent marked the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Success,
    Fail,
}

/// All records, by id.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Database {
    pub(crate) songs: BTreeMap<i64, Song>,
    pub(crate) notes: BTreeMap<i64, Note>,
    /// The status and answer that the agent gave; never a changed model.
    pub(crate) done: Option<(Status, Value)>,
}

/// What became of the records of one model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Diff {
    pub(crate) added: Vec<i64>,
    pub(crate) removed: Vec<i64>,
    pub(crate) updated: Vec<i64>,
}

impl Diff {
    fn between<T: PartialEq>(before: &BTreeMap<i64, T>, after: &BTreeMap<i64, T>) -> Self {
        let missing = |from: &BTreeMap<i64, T>, other: &BTreeMap<i64, T>| {
            from.keys()
                .filter(|k| !other.contains_key(k))
                .copied()
                .collect()
        };
        Self {
            added: missing(after, before),
            removed: missing(before, after),
            updated: before
                .iter()
                .filter(|(k, v)| after.get(k).is_some_and(|w| w != *v))
                .map(|(k, _)| *k)
                .collect(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.updated.is_empty()
    }
}

impl Database {
    pub(crate) fn notes_since(&self, start: &Self) -> Diff {
        Diff::between(&start.notes, &self.notes)
    }

    /// Names of the models that differ from the start.
    pub(crate) fn changed_models(&self, start: &Self) -> Vec<&'static str> {
        let mut names = Vec::new();
        if !self.notes_since(start).is_empty() {
            names.push("simple_note.Note");
        }
        if !Diff::between(&start.songs, &self.songs).is_empty() {
            names.push("spotify.Song");
        }
        names
    }
}
