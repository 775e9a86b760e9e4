//! The embedded world as an [`Environment`].
//!
//! # Predicates
//!
//! | name | kind | meaning |
//! | --- | --- | --- |
//! | `last_result_error` | bool | the last block failed |
//! | `error_kind` | text | how the last block failed: `none`, `401`, `409`, `422`, `no_api`, `no_app`, `guard`, `syntax`, `python`, `unsupported` |
//! | `api_doc_read` | bool | `api_docs.show_api_doc` answered |
//! | `docs_searched` | bool | `api_docs.search_api_docs` answered |
//! | `passwords_shown` | bool | `supervisor.show_account_passwords` answered |
//! | `logged_in` | bool | a login succeeded |
//! | `n_blocks` | int | blocks given, refused ones included |
//! | `n_calls` | int | API calls, failed ones included |
//! | `n_writes` | int | calls that answered a write of songs or notes |
//! | `write_unchecked` | bool | an app was written to and not read since |
//! | `pages_read` | int | distinct pages read of the listing of which most were read |
//! | `last_page_full` | bool | the last page read held as many items as asked for |
//! | `last_result_empty` | bool | the last answered call gave an empty list |
//! | `task_completed` | bool | the task is marked complete |
//! | `gave_up` | bool | the task is marked complete with status `fail` |
//! | `last_call` | text | the last call, for instance `spotify.search_songs`; empty before the first |
//!
//! Template variables of `reset`: `email`, `first_name`, `last_name`, `app_names` (comma-separated), `today`
//! (`2023-05-18`).

use std::fmt;

use harness_core::{
    Action, Deadline, EnvError, Environment, Fact, Facts, MakeEnvironment, Part, StepResult, Task,
    Verdict,
};

use crate::evaluate::evaluate;
use crate::interpreter::{
    BlockError, BlockLimits, ErrorKind, Host as _, Interpreter, MontyInterpreter,
};
use crate::tasks::{ENV, TaskData};
use crate::world::World;
use crate::world::db::Status;
use crate::world::spec::{App, Endpoint};

/// What a failed block's observation starts with.
const FAILED: &str = "Execution failed. Traceback:\n";

/// Bounds of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorldLimits {
    /// Bounds of one block.
    pub block: BlockLimits,
    /// Most blocks that run; ours: 100. Refused blocks do not count.
    pub max_blocks: usize,
}

impl Default for WorldLimits {
    fn default() -> Self {
        Self {
            block: BlockLimits::default(),
            max_blocks: 100,
        }
    }
}

/// Makes [`AppWorldEnv`]s.
#[derive(Debug, Clone, Copy, Default)]
pub struct AppWorldMaker {
    /// Bounds of every episode.
    pub limits: WorldLimits,
}

impl MakeEnvironment for AppWorldMaker {
    fn make(&self) -> Result<Box<dyn Environment>, EnvError> {
        Ok(Box::new(AppWorldEnv::new(self.limits)))
    }
}

/// The embedded world with one task in it. An action is a block of Python.
#[derive(Default)]
pub struct AppWorldEnv {
    limits: WorldLimits,
    episode: Option<Episode>,
}

impl fmt::Debug for AppWorldEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppWorldEnv")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// What one episode holds.
struct Episode {
    data: TaskData,
    world: World,
    interpreter: Box<dyn Interpreter>,
    n_blocks: usize,
    n_run: usize,
    error_kind: Option<ErrorKind>,
}

impl AppWorldEnv {
    /// An environment without a task yet.
    pub fn new(limits: WorldLimits) -> Self {
        Self {
            limits,
            episode: None,
        }
    }

    fn episode(&mut self) -> Result<&mut Episode, EnvError> {
        self.episode
            .as_mut()
            .ok_or_else(|| EnvError::Infra("no task: reset was not called".into()))
    }
}

impl Environment for AppWorldEnv {
    fn reset(&mut self, task: &Task, _deadline: Deadline) -> Result<Facts, EnvError> {
        self.episode = None;
        let (data, world) = world_of(task)?;
        let facts = variables(&world);
        self.episode = Some(Episode {
            data,
            world,
            interpreter: Box::new(MontyInterpreter::new(&App::NAMES)),
            n_blocks: 0,
            n_run: 0,
            error_kind: None,
        });
        Ok(facts)
    }

    fn step(&mut self, action: &Action, deadline: Deadline) -> Result<StepResult, EnvError> {
        let limits = self.limits;
        let episode = self.episode()?;
        let mut block = limits.block;
        if let Some(left) = deadline.remaining() {
            block.time = block.time.min(left);
        }
        let result = episode.block(action, &block, limits.max_blocks);
        if deadline.has_passed() {
            return Err(EnvError::Deadline);
        }
        Ok(episode.step_result(result))
    }

    fn evaluate(&mut self, _deadline: Deadline) -> Result<Verdict, EnvError> {
        let episode = self.episode()?;
        Ok(evaluate(&episode.world, &episode.data))
    }

    fn predicates(&self) -> Facts {
        self.episode
            .as_ref()
            .map(Episode::predicates)
            .unwrap_or_default()
    }
}

/// A task's data and its world at the start.
///
/// # Errors
/// [`EnvError::BadTask`] if the task is another environment's or its data cannot be read.
pub(crate) fn world_of(task: &Task) -> Result<(TaskData, World), EnvError> {
    let bad = |reason: String| EnvError::BadTask {
        task: task.id.clone(),
        reason,
    };
    if task.env != ENV {
        return Err(bad(format!("it belongs to {}", task.env)));
    }
    let data: TaskData =
        serde_json::from_value(task.data.clone()).map_err(|error| bad(error.to_string()))?;
    let world = World::build(&data, &task.instruction, task.seed, task.split);
    Ok((data, world))
}

fn variables(world: &World) -> Facts {
    let now = world.now();
    let today = format!("{:04}-{:02}-{:02}", now.year, now.month, now.day);
    let person = &world.person;
    [
        ("email", person.email.clone()),
        ("first_name", person.first_name.to_owned()),
        ("last_name", person.last_name.to_owned()),
        ("app_names", App::NAMES.join(", ")),
        ("today", today),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), Fact::Text(value)))
    .collect()
}

impl Episode {
    /// Runs a block; `Err` is the text of a failure and its kind.
    fn block(
        &mut self,
        action: &Action,
        limits: &BlockLimits,
        max_blocks: usize,
    ) -> Result<String, BlockError> {
        let Action::Text(code) = action else {
            return Err(BlockError {
                kind: ErrorKind::Guard,
                text: "Only code blocks are understood.".into(),
            });
        };
        self.n_blocks += 1;
        if code.trim().is_empty() {
            return Ok("No code available to execute.".into());
        }
        if self.n_run >= max_blocks {
            return Err(BlockError {
                kind: ErrorKind::Python,
                text: format!("Exception: Maximum number of executions ({max_blocks}) reached."),
            });
        }
        let result = self.interpreter.feed(code, &mut self.world, limits);
        let refused = matches!(&result, Err(error) if error.kind == ErrorKind::Guard);
        self.n_run += usize::from(!refused);
        let printed = result?;
        Ok(if printed.trim().is_empty() {
            "Execution successful.".into()
        } else {
            printed
        })
    }

    fn step_result(&mut self, result: Result<String, BlockError>) -> StepResult {
        self.error_kind = result.as_ref().err().map(|error| error.kind);
        let part = match result {
            Ok(text) => Part::Text(text),
            Err(error) => Part::Error(format!("{FAILED}{}", error.text)),
        };
        StepResult {
            observation: vec![part],
            done: self.world.db.done.is_some(),
            unsupported: self.error_kind == Some(ErrorKind::Unsupported),
        }
    }

    fn predicates(&self) -> Facts {
        let track = &self.world.track;
        let done = self.world.db.done.as_ref().map(|(status, _)| *status);
        let kind = self.error_kind.map_or("none", ErrorKind::as_str);
        let bools = [
            ("last_result_error", self.error_kind.is_some()),
            ("api_doc_read", track.has_answered(Endpoint::ShowApiDoc)),
            ("docs_searched", track.has_answered(Endpoint::SearchApiDocs)),
            (
                "passwords_shown",
                track.has_answered(Endpoint::ShowAccountPasswords),
            ),
            ("logged_in", track.has_answered(Endpoint::Login)),
            ("write_unchecked", track.write_unchecked()),
            (
                "write_checked",
                track.n_writes > 0 && !track.write_unchecked(),
            ),
            ("pages_followed", track.pages_read() > 1),
            ("last_page_full", track.last_page_full),
            ("last_result_empty", track.last_result_empty),
            ("task_completed", done.is_some()),
            ("gave_up", done == Some(Status::Fail)),
        ];
        let ints = [
            ("n_blocks", self.n_blocks as i64),
            ("n_calls", track.n_calls),
            ("n_writes", track.n_writes),
            ("pages_read", track.pages_read()),
        ];
        let texts = [("error_kind", kind), ("last_call", &track.last_call)];
        let bools = bools.map(|(name, value)| (name, Fact::Bool(value)));
        let ints = ints.map(|(name, value)| (name, Fact::Int(value)));
        let texts = texts.map(|(name, value)| (name, Fact::Text(value.to_owned())));
        bools
            .into_iter()
            .chain(ints)
            .chain(texts)
            .map(|(name, fact)| (name.to_owned(), fact))
            .collect()
    }
}
