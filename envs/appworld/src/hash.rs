//! The identity of the world's surface, which a shipped checkpoint is bound to.

use harness_core::{Seed, Split};

use crate::env::AppWorldEnv;
use crate::expert::{expert_actions, run_agent};
use crate::interpreter::PRELUDE;
use crate::tasks::tasks;
use crate::world::spec::App;
use crate::world::table::{fixed_apis, rating_api};

/// Raised when the world changes in a way that transcripts of the expert do not show.
const WORLD_VERSION: u32 = 1;

/// Tasks of each family whose transcripts go into the hash.
const SAMPLED: usize = 3;

/// A hash over everything that an agent can read: instructions, observations, documentation, prelude.
///
/// # Determinism
/// A constant of this version of the crate, on every machine.
///
/// # Panics
/// Never: the environment cannot fail on its own tasks.
pub fn world_hash() -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&WORLD_VERSION.to_le_bytes());
    for block in PRELUDE {
        add(&mut hasher, block);
    }
    for app in App::ALL {
        add(&mut hasher, app.name());
        add(&mut hasher, app.description());
    }
    for api in fixed_apis() {
        add(&mut hasher, &format!("{api:?}"));
    }
    add(&mut hasher, &format!("{:?}", rating_api(String::new(), "")));
    let mut env = AppWorldEnv::default();
    for task in tasks(Split::WarmStart, SAMPLED, Seed::new(0)) {
        add(&mut hasher, &task.instruction);
        let (_, turns) = run_agent(&mut env, &task, &mut expert_actions(&task))
            .expect("the environment can run its own tasks");
        for (code, observation) in turns {
            add(&mut hasher, &code);
            add(&mut hasher, &observation);
        }
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

/// Adds a text with its length, so that texts cannot run into each other.
fn add(hasher: &mut blake3::Hasher, text: &str) {
    hasher.update(&(text.len() as u64).to_le_bytes());
    hasher.update(text.as_bytes());
}
