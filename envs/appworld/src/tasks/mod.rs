//! Five families of tasks over the embedded world, made from seeds.
//!
//! A task's text names an entity, for instance `amber river`. Splits are disjoint by scenario and by entity:
//! a hash of the entity's words decides the split that may use it, also as a bystander.

mod entities;
mod text;

use harness_core::{ScenarioId, Seed, Split, Task, TaskId};
use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use serde::{Deserialize, Serialize};

pub(crate) use entities::entities;
use entities::split_index;

/// The name of this environment in tasks.
pub const ENV: &str = "appworld";

/// Tasks that differ in entity and values only.
const TASKS_PER_SCENARIO: usize = 3;

/// What an agent has to find out to solve a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Family {
    /// Search for a song or note and read a value.
    Lookup,
    /// The same for a note that needs a login first.
    Auth,
    /// Sum over all pages of a listing.
    Pages,
    /// Call an API whose name and parameter only the documentation tells.
    Docs,
    /// Write a note although the first writes are lost in silence.
    Write,
}

impl Family {
    /// Every family, in the order in which tasks are interleaved.
    pub const ALL: [Self; 5] = [
        Self::Lookup,
        Self::Auth,
        Self::Pages,
        Self::Docs,
        Self::Write,
    ];

    /// The name in reports and in [`Task::family`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::Auth => "auth",
            Self::Pages => "pages",
            Self::Docs => "docs",
            Self::Write => "write",
        }
    }
}

/// What the task asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Goal {
    /// The likes of a song.
    Likes,
    /// The content of a note.
    Code,
    /// The sum of the plays of an artist's songs.
    Plays,
    /// The rating of a song.
    Rating,
    /// A new note with this content.
    Create {
        /// The content.
        code: u32,
    },
}

/// [`Task::data`] of this environment: with [`Task::seed`] and [`Task::split`] it determines the world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskData {
    /// What the task asks for.
    pub goal: Goal,
    /// The entity that it names: two lower-case words.
    pub entity: String,
    /// Whether `simple_note` needs a login.
    pub note_locked: bool,
    /// How many new notes are lost before one is kept.
    pub lost_writes: u32,
}

/// The first `n_per_family` tasks of every family in a split, families interleaved.
///
/// # Determinism
/// Depends on the arguments only; a longer list starts with the shorter one.
pub fn tasks(split: Split, n_per_family: usize, root: Seed) -> Vec<Task> {
    (0..n_per_family)
        .flat_map(|i| Family::ALL.map(|family| task(split, family, i, root)))
        .collect()
}

fn task(split: Split, family: Family, index: usize, root: Seed) -> Task {
    let scenario = index / TASKS_PER_SCENARIO;
    let place = [split_index(split) as u64, family as u64];
    let scenario_seed = root.derive("appworld-scenario", &[place[0], place[1], scenario as u64]);
    let seed = root.derive("appworld-task", &[place[0], place[1], index as u64]);

    let mut shared = scenario_seed.rng();
    let kind = kind(family, &mut shared);
    let wording = shared.random_range(0..text::WORDINGS);

    let mut own = seed.derive("goal", &[]).rng();
    let entity = entities(split)
        .choose(&mut own)
        .expect("every split has entities; a test checks it");
    let goal = match kind {
        Goal::Create { .. } => Goal::Create {
            code: own.random_range(1_000..=9_999),
        },
        other => other,
    };
    let lost_writes = match family {
        Family::Write => own.random_range(1..=3),
        _ => 0,
    };
    let data = TaskData {
        goal,
        entity: entity.clone(),
        note_locked: family == Family::Auth,
        lost_writes,
    };
    let name = format!("{split}-{}-{scenario}", family.name());
    let number = index % TASKS_PER_SCENARIO + 1;
    Task {
        id: TaskId::new(format!("{ENV}-{name}_{number}")).expect("made of plain ASCII"),
        scenario: ScenarioId::new(format!("{ENV}-{name}")).expect("made of plain ASCII"),
        env: ENV.to_owned(),
        family: family.name().to_owned(),
        split,
        instruction: text::instruction(&data, wording),
        seed,
        data: serde_json::to_value(&data).expect("plain data"),
    }
}

/// The goal of a scenario; a [`Goal::Create`] gets its code per task.
fn kind(family: Family, rng: &mut impl rand::Rng) -> Goal {
    match family {
        Family::Lookup if rng.random_bool(0.5) => Goal::Likes,
        Family::Lookup | Family::Auth => Goal::Code,
        Family::Pages => Goal::Plays,
        Family::Docs => Goal::Rating,
        Family::Write => Goal::Create { code: 0 },
    }
}
