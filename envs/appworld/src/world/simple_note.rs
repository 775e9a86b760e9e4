//! The `simple_note` app. In some worlds the first new notes are lost in silence.

use serde_json::{Value, json};

use super::args::Args;
use super::db::Note;
use super::{Answer, ApiError, World, matches, page, words};

/// Most notes of an account.
const MAX_NOTES: usize = 1_000;

impl World {
    pub(super) fn search_notes(&self, args: &Args) -> Value {
        let query = words(args.text("query"));
        let found: Vec<_> = self
            .db
            .notes
            .iter()
            .filter(|(_, note)| matches(&query, &note.title))
            .collect();
        page(found, args)
            .into_iter()
            .map(|(id, note)| note.shown(*id))
            .collect()
    }

    pub(super) fn show_note(&self, args: &Args) -> Answer {
        let id = args.int("note_id");
        self.db
            .notes
            .get(&id)
            .map(|note| note.shown(id))
            .ok_or_else(|| no_note(id))
    }

    /// Answers the same whether the note is kept or lost; only reading it back tells.
    pub(super) fn create_note(&mut self, args: &Args) -> Answer {
        if self.db.notes.len() >= MAX_NOTES {
            return Err(ApiError::conflict("There is no room for more notes."));
        }
        let id = self.next_note;
        self.next_note += 1;
        if self.lost_writes > 0 {
            self.lost_writes -= 1;
        } else {
            let note = Note {
                title: args.text("title").to_owned(),
                content: args.text("content").to_owned(),
            };
            self.db.notes.insert(id, note);
        }
        Ok(json!({"message": "Note saved.", "note_id": id}))
    }

    pub(super) fn update_note(&mut self, args: &Args) -> Answer {
        let id = args.int("note_id");
        let note = self.db.notes.get_mut(&id).ok_or_else(|| no_note(id))?;
        if let Some(title) = args.optional_text("title") {
            title.clone_into(&mut note.title);
        }
        if let Some(content) = args.optional_text("content") {
            content.clone_into(&mut note.content);
        }
        Ok(json!({"message": "Note changed."}))
    }

    pub(super) fn delete_note(&mut self, args: &Args) -> Answer {
        let id = args.int("note_id");
        self.db
            .notes
            .remove(&id)
            .map(|_| json!({"message": "Note deleted."}))
            .ok_or_else(|| no_note(id))
    }
}

fn no_note(id: i64) -> ApiError {
    ApiError::conflict(format!("The note with id {id} does not exist."))
}

/// The result shape shown in the documentation.
pub(super) fn note_shape() -> Value {
    json!({"note_id": 1, "title": "string", "content": "string"})
}
