//! Building a task's world from its seed.

use std::collections::BTreeMap;

use harness_core::{Seed, Split};
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rand::{Rng, RngExt as _};

use super::db::{Database, Note, Song};
use super::people::Person;
use super::spec::App;
use super::table::rating_api;
use super::{Track, World};
use crate::interpreter::Clock;
use crate::names::API_WORDS;
use crate::tasks::{Goal, TaskData, entities};

/// Songs on a page when the caller does not say otherwise.
const PAGE: usize = 5;

impl World {
    /// The world of a task at its start.
    pub(crate) fn build(data: &TaskData, instruction: &str, seed: Seed, split: Split) -> Self {
        let mut draw = Draw::new(data, seed.derive("world", &[]).rng(), split);
        let songs = draw.songs(data);
        let notes = draw.notes(data);
        let next_note = notes.last_key_value().map_or(1, |(id, _)| id + 1);
        let start = Database {
            songs,
            notes,
            done: None,
        };
        let mut open = vec![App::Spotify];
        if !data.note_locked {
            open.push(App::SimpleNote);
        }
        Self {
            seed,
            instruction: instruction.to_owned(),
            person: Person::draw(seed),
            clock: draw.clock(),
            rating: draw.rating_api(),
            open,
            tokens: Vec::new(),
            n_logins: 0,
            lost_writes: data.lost_writes,
            next_note,
            db: start.clone(),
            start,
            track: Track::default(),
        }
    }
}

/// Draws a world's content.
struct Draw<R> {
    rng: R,
    /// Entities not used yet, shuffled.
    names: Vec<&'static String>,
}

impl<R: Rng> Draw<R> {
    fn new(data: &TaskData, mut rng: R, split: Split) -> Self {
        let mut names: Vec<_> = entities(split)
            .iter()
            .filter(|name| **name != data.entity)
            .collect();
        names.shuffle(&mut rng);
        Self { rng, names }
    }

    fn name(&mut self) -> String {
        self.names
            .pop()
            .expect("a split has more entities than a world; a test checks it")
            .clone()
    }

    fn song(&mut self, title: String, artist: &str) -> Song {
        Song {
            title,
            artist: artist.to_owned(),
            like_count: self.rng.random_range(1_000..=9_999),
            play_count: self.rng.random_range(10..=9_999),
            rating: self.rng.random_range(1_000..=9_999),
            liked: false,
        }
    }

    fn songs(&mut self, data: &TaskData) -> BTreeMap<i64, Song> {
        let artists: Vec<String> = (0..4).map(|_| self.name()).collect();
        let mut songs = Vec::new();
        for _ in 0..self.rng.random_range(10..=20) {
            let title = self.name();
            let artist = artists
                .choose(&mut self.rng)
                .expect("there are four")
                .clone();
            songs.push(self.song(title, &artist));
        }
        match data.goal {
            Goal::Likes | Goal::Rating => {
                let artist = artists[0].clone();
                songs.push(self.song(data.entity.clone(), &artist));
            }
            Goal::Plays => {
                for _ in 0..self.n_songs() {
                    let title = self.name();
                    songs.push(self.song(title, &data.entity));
                }
            }
            Goal::Code | Goal::Create { .. } => {}
        }
        self.numbered(songs)
    }

    /// Two to six pages, the last one exactly full in about four of ten worlds.
    fn n_songs(&mut self) -> usize {
        let pages = self.rng.random_range(2..=6);
        let last = if self.rng.random_bool(0.3) {
            PAGE
        } else {
            self.rng.random_range(1..=PAGE)
        };
        (pages - 1) * PAGE + last
    }

    fn notes(&mut self, data: &TaskData) -> BTreeMap<i64, Note> {
        let mut notes = Vec::new();
        for _ in 0..self.rng.random_range(10..=20) {
            let title = self.name();
            notes.push(self.note(title));
        }
        if data.goal == Goal::Code {
            notes.push(self.note(data.entity.clone()));
        }
        self.numbered(notes)
    }

    fn note(&mut self, title: String) -> Note {
        Note {
            title,
            content: self.rng.random_range(1_000..=9_999).to_string(),
        }
    }

    /// Shuffles records and numbers them from a random start.
    fn numbered<T>(&mut self, mut records: Vec<T>) -> BTreeMap<i64, T> {
        records.shuffle(&mut self.rng);
        let first = self.rng.random_range(10..=900);
        (first..).zip(records).collect()
    }

    fn clock(&mut self) -> Clock {
        Clock {
            year: 2_023,
            month: self.rng.random_range(1..=12),
            day: self.rng.random_range(1..=28),
            hour: 12,
            minute: 0,
        }
    }

    fn rating_api(&mut self) -> super::spec::Api {
        let words: Vec<_> = API_WORDS.sample(&mut self.rng, 3).collect();
        let name = format!("rate_{}_{}", words[0], words[1]);
        rating_api(name, &format!("song_{}", words[2]))
    }
}
