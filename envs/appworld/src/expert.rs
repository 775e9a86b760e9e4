//! Scripted agents: one that solves every task from what it sees, and two that cannot.
//!
//! The expert reads the instruction's words and the observations, nothing else. It shows that every task is
//! solvable, and its transcripts are what [`world_hash`](crate::world_hash) is made of.

use harness_core::{Action, Deadline, EnvError, Environment, Part, Task, Verdict};
use serde_json::Value;

/// An agent that writes one code block at a time.
pub trait ScriptedAgent {
    /// The next block, after the last observation; `None` if the agent stops.
    fn next_block(&mut self, observation: Option<&str>) -> Option<String>;
}

/// A transcript's turn: the block and what it led to.
pub type Turn = (String, String);

/// Most turns of a scripted agent.
const MAX_TURNS: usize = 30;

/// Lets an agent work on a task and judges the end.
///
/// # Errors
/// [`EnvError`] from the environment.
pub fn run_agent(
    env: &mut dyn Environment,
    task: &Task,
    agent: &mut dyn ScriptedAgent,
) -> Result<(Verdict, Vec<Turn>), EnvError> {
    env.reset(task, Deadline::NEVER)?;
    let mut turns: Vec<Turn> = Vec::new();
    while turns.len() < MAX_TURNS {
        let last = turns.last().map(|(_, observation)| observation.as_str());
        let Some(code) = agent.next_block(last) else {
            break;
        };
        let result = env.step(&Action::Text(code.clone()), Deadline::NEVER)?;
        let texts: Vec<&str> = result.observation.iter().map(Part::text).collect();
        turns.push((code, texts.join("\n")));
        if result.done {
            break;
        }
    }
    Ok((env.evaluate(Deadline::NEVER)?, turns))
}

/// What an instruction asks, read from its words.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    Song(String),
    Note(String),
    Artist(String),
    Rating(String),
    Create(String, String),
    Nothing,
}

impl Asked {
    fn read(instruction: &str) -> Self {
        let words: Vec<&str> = instruction.split(' ').collect();
        let after = |mark: &str| {
            let at = words.iter().position(|w| *w == mark)?;
            Some(words.get(at + 1..at + 3)?.join(" "))
        };
        let last = words.last().copied().unwrap_or_default().to_owned();
        let has = |word: &str| words.contains(&word);
        match (after("song"), after("note"), after("artist")) {
            (Some(title), ..) if has("rating") => Self::Rating(title),
            (Some(title), ..) => Self::Song(title),
            (_, Some(title), _) if has("create") || has("add") => Self::Create(title, last),
            (_, Some(title), _) => Self::Note(title),
            (.., Some(name)) => Self::Artist(name),
            _ => Self::Nothing,
        }
    }
}

/// Solves every task step by step. See [`expert_actions`].
#[derive(Debug, Clone)]
pub struct Expert {
    asked: Asked,
    step: usize,
    /// Set once a note call was refused for want of a login.
    locked: bool,
}

/// The agent that solves a task from its instruction and what it observes.
pub fn expert_actions(task: &Task) -> Expert {
    Expert {
        asked: Asked::read(&task.instruction),
        step: 0,
        locked: false,
    }
}

impl ScriptedAgent for Expert {
    fn next_block(&mut self, observation: Option<&str>) -> Option<String> {
        let seen = observation.unwrap_or_default();
        let step = self.step;
        self.step += 1;
        match self.asked.clone() {
            Asked::Song(title) => song(step, &title, seen),
            Asked::Note(title) => self.note(step, &title, seen),
            Asked::Artist(name) => Some(artist(step, &name, seen)),
            Asked::Rating(title) => rating(step, &title, seen),
            Asked::Create(title, code) => Some(create(step, &title, &code, seen)),
            Asked::Nothing => None,
        }
    }
}

impl Expert {
    fn note(&mut self, step: usize, title: &str, seen: &str) -> Option<String> {
        self.locked |= seen.contains("Response status code is 401");
        match (step, self.locked) {
            (0, _) => Some(format!(
                "print(apis.simple_note.search_notes(query=\"{title}\"))"
            )),
            (1, true) => Some("print(apis.supervisor.show_account_passwords())".into()),
            (2, true) => log_in(seen),
            (3, true) => Some(format!(
                "print(apis.simple_note.search_notes(query=\"{title}\", access_token=token))"
            )),
            _ => Some(answer(&find(seen, title)?["content"])),
        }
    }
}

fn song(step: usize, title: &str, seen: &str) -> Option<String> {
    match step {
        0 => Some(format!(
            "print(apis.spotify.search_songs(query=\"{title}\"))"
        )),
        _ => Some(answer(&find(seen, title)?["like_count"])),
    }
}

fn log_in(seen: &str) -> Option<String> {
    let accounts: Value = serde_json::from_str(seen).ok()?;
    let password = accounts
        .as_array()?
        .iter()
        .find(|a| a["account_name"] == "simple_note")?["password"]
        .as_str()?
        .to_owned();
    Some(format!(
        "email = apis.supervisor.show_profile()[\"email\"]\n\
         token = apis.simple_note.login(username=email, password=\"{password}\")[\"access_token\"]"
    ))
}

/// Adds up all pages in one block.
fn artist(step: usize, name: &str, seen: &str) -> String {
    if step > 0 {
        return answer(&Value::from(seen.trim()));
    }
    format!(
        "total = 0\n\
         page = 0\n\
         while True:\n\
         \x20   songs = apis.spotify.search_songs(artist=\"{name}\", page_index=page)\n\
         \x20   if not songs:\n\
         \x20       break\n\
         \x20   total += sum(song[\"play_count\"] for song in songs)\n\
         \x20   page += 1\n\
         print(total)"
    )
}

fn rating(step: usize, title: &str, seen: &str) -> Option<String> {
    let json = || serde_json::from_str::<Value>(seen).ok();
    match step {
        0 => Some("docs = apis.api_docs.search_api_docs(query=\"rating\")\nprint(docs)".into()),
        1 => {
            let docs = json()?;
            let name = docs[0]["api_name"].as_str()?;
            Some(format!(
                "doc = apis.api_docs.show_api_doc(app_name=\"spotify\", api_name=\"{name}\")\n\
                 print({{\"api\": \"{name}\", \"parameter\": doc[\"parameters\"][0][\"name\"]}})"
            ))
        }
        2 => {
            let doc = json()?;
            let (api, parameter) = (doc["api"].as_str()?, doc["parameter"].as_str()?);
            Some(format!(
                "print(apis.spotify.{api}({parameter}=\"{title}\"))"
            ))
        }
        _ => Some(answer(&json()?["rating"])),
    }
}

/// Writes, reads back, and writes again as long as nothing is there.
fn create(step: usize, title: &str, code: &str, seen: &str) -> String {
    if !step.is_multiple_of(2) {
        format!("print(apis.simple_note.search_notes(query=\"{title}\"))")
    } else if step > 0 && seen.contains(code) {
        "apis.supervisor.complete_task()".into()
    } else {
        format!("apis.simple_note.create_note(title=\"{title}\", content=\"{code}\")")
    }
}

/// The item of a printed list that has exactly this title.
fn find(seen: &str, title: &str) -> Option<Value> {
    let items: Value = serde_json::from_str(seen).ok()?;
    items
        .as_array()?
        .iter()
        .find(|item| item["title"] == title)
        .cloned()
}

fn answer(value: &Value) -> String {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    format!("apis.supervisor.complete_task(answer={text})")
}

/// An agent that stops at once.
#[derive(Debug, Clone, Copy, Default)]
pub struct DoNothing;

impl ScriptedAgent for DoNothing {
    fn next_block(&mut self, _: Option<&str>) -> Option<String> {
        None
    }
}

/// An agent that gives a fixed answer without looking.
#[derive(Debug, Clone)]
pub struct GuessAnswer(pub String);

impl ScriptedAgent for GuessAnswer {
    fn next_block(&mut self, _: Option<&str>) -> Option<String> {
        Some(format!(
            "apis.supervisor.complete_task(answer=\"{}\")",
            self.0
        ))
    }
}
