//! The spotify app: songs.

use std::cmp::Ordering;

use serde_json::{Value, json};

use super::args::Args;
use super::db::Song;
use super::{Answer, ApiError, World, matches, page, words};

/// Fields that listings can be sorted by.
#[derive(Clone, Copy)]
enum Field {
    Id,
    Title,
    Artist,
    Likes,
    Plays,
}

/// A listing's order, from `+field` or `-field`.
struct Sort {
    field: Field,
    descending: bool,
}

impl Sort {
    fn parse(text: &str) -> Result<Self, ApiError> {
        let descending = text.starts_with('-');
        let Some(name) = text.strip_prefix(['+', '-']) else {
            return Err(ApiError::invalid(
                "The sort_by parameter must start with + or -.",
            ));
        };
        let field = match name {
            "song_id" => Field::Id,
            "title" => Field::Title,
            "artist" => Field::Artist,
            "like_count" => Field::Likes,
            "play_count" => Field::Plays,
            _ => {
                return Err(ApiError::invalid(
                    "The sort_by parameter must name one of song_id, title, artist, like_count, play_count.",
                ));
            }
        };
        Ok(Self { field, descending })
    }

    fn compare(&self, a: (i64, &Song), b: (i64, &Song)) -> Ordering {
        let order = match self.field {
            Field::Id => a.0.cmp(&b.0),
            Field::Title => a.1.title.cmp(&b.1.title),
            Field::Artist => a.1.artist.cmp(&b.1.artist),
            Field::Likes => a.1.like_count.cmp(&b.1.like_count),
            Field::Plays => a.1.play_count.cmp(&b.1.play_count),
        };
        if self.descending {
            order.reverse()
        } else {
            order
        }
    }
}

impl World {
    /// With a query the page is cut first and only then sorted, as `AppWorld` does.
    pub(super) fn search_songs(&self, args: &Args) -> Answer {
        let sort = args.optional_text("sort_by").map(Sort::parse).transpose()?;
        let query = words(args.text("query"));
        let artist = args.text("artist");
        let mut found: Vec<(i64, &Song)> = self
            .db
            .songs
            .iter()
            .filter(|(_, song)| artist.is_empty() || song.artist == artist)
            .filter(|(_, song)| matches(&query, &song.title))
            .map(|(id, song)| (*id, song))
            .collect();
        if let Some(sort) = sort.as_ref().filter(|_| query.is_empty()) {
            found.sort_by(|a, b| sort.compare(*a, *b));
        }
        let mut found = page(found, args);
        if let Some(sort) = sort.filter(|_| !query.is_empty()) {
            found.sort_by(|a, b| sort.compare(*a, *b));
        }
        Ok(found.into_iter().map(|(id, song)| song.shown(id)).collect())
    }

    pub(super) fn show_song(&self, args: &Args) -> Answer {
        let id = args.int("song_id");
        self.db
            .songs
            .get(&id)
            .map(|song| song.shown(id))
            .ok_or_else(|| no_song(id))
    }

    pub(super) fn set_liked(&mut self, args: &Args, liked: bool) -> Answer {
        let id = args.int("song_id");
        let song = self.db.songs.get_mut(&id).ok_or_else(|| no_song(id))?;
        if song.liked == liked {
            let state = if liked { "already" } else { "not" };
            return Err(ApiError::conflict(format!("The song is {state} liked.")));
        }
        song.liked = liked;
        song.like_count += if liked { 1 } else { -1 };
        let message = if liked {
            "Song liked."
        } else {
            "Like taken back."
        };
        Ok(json!({"message": message}))
    }

    pub(super) fn rate_song(&self, args: &Args) -> Answer {
        let title = args.text(self.rating_param()).trim().to_lowercase();
        self.db
            .songs
            .values()
            .find(|song| song.title == title)
            .map(|song| json!({"rating": song.rating}))
            .ok_or_else(|| ApiError::conflict(format!("No song has the title {title}.")))
    }
}

fn no_song(id: i64) -> ApiError {
    ApiError::conflict(format!("The song with id {id} does not exist."))
}

/// The result shape shown in the documentation.
pub(super) fn song_shape() -> Value {
    json!({"song_id": 1, "title": "string", "artist": "string", "like_count": 1, "play_count": 1})
}
