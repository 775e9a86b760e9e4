//! Running an agent's code blocks: a trait for interpreters and what they need from the world.
//!
//! The trait keeps the world free of any interpreter's types; [`MontyInterpreter`] is the one that is shipped.
//! Agents' code never touches the host: every effect goes through [`Host`].

mod convert;
mod guard;
mod monty;
mod prelude;
mod printed;
mod trace;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use guard::{Refusal, check as check_code};
pub use monty::MontyInterpreter;
pub use prelude::PRELUDE;

/// Bounds of one code block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockLimits {
    /// Longest time that the block may compute; time spent in the world's APIs is not counted.
    pub time: Duration,
    /// Most API calls of one block.
    pub max_calls: usize,
    /// Most bytes that one block may print.
    pub max_printed: usize,
    /// Longest code, in bytes.
    pub max_code: usize,
}

impl Default for BlockLimits {
    /// Ours: 1 s, 1,000 calls (as `AppWorld`), 1 MB of print, 20,000 bytes of code.
    fn default() -> Self {
        Self {
            time: Duration::from_secs(1),
            max_calls: 1_000,
            max_printed: 1_000_000,
            max_code: 20_000,
        }
    }
}

/// What kind of failure a block ended in; the value of the predicate `error_kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// An API answered 401: no valid access token or wrong credentials.
    #[serde(rename = "401")]
    Unauthorized,
    /// An API answered 409: the object is missing or in the wrong state.
    #[serde(rename = "409")]
    Conflict,
    /// An API answered 422: an argument is missing or invalid.
    #[serde(rename = "422")]
    Invalid,
    /// No API has that name.
    NoApi,
    /// No app has that name.
    NoApp,
    /// The guard refused the code.
    Guard,
    /// The code does not parse.
    Syntax,
    /// Any other exception.
    Python,
    /// The embedded interpreter lacks a feature of Python.
    Unsupported,
}

impl ErrorKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Unauthorized,
        Self::Conflict,
        Self::Invalid,
        Self::NoApi,
        Self::NoApp,
        Self::Guard,
        Self::Syntax,
        Self::Python,
        Self::Unsupported,
    ];

    /// The name used in predicates; `none` stands for no error.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unauthorized => "401",
            Self::Conflict => "409",
            Self::Invalid => "422",
            Self::NoApi => "no_api",
            Self::NoApp => "no_app",
            Self::Guard => "guard",
            Self::Syntax => "syntax",
            Self::Python => "python",
            Self::Unsupported => "unsupported",
        }
    }

    /// The kind of an uncaught plain `Exception`, read from its message.
    fn of_message(message: &str) -> Self {
        let starts = |prefix: &str| message.starts_with(prefix);
        if starts("Response status code is 401") {
            Self::Unauthorized
        } else if starts("Response status code is 409") {
            Self::Conflict
        } else if starts("Response status code is 422") {
            Self::Invalid
        } else if starts("No API named ") {
            Self::NoApi
        } else if starts("No app named ") {
            Self::NoApp
        } else {
            Self::Python
        }
    }
}

/// Why a block failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockError {
    /// What kind of failure it is.
    pub kind: ErrorKind,
    /// The text that follows `Execution failed. Traceback:`.
    pub text: String,
}

/// An exception that the host raises inside the agent's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Raise {
    /// A plain `Exception`.
    Exception(String),
    /// A `TypeError`.
    TypeError(String),
}

/// The frozen moment of a world, as `datetime.now()` gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// Year.
    pub year: i32,
    /// Month, from 1.
    pub month: u8,
    /// Day, from 1.
    pub day: u8,
    /// Hour.
    pub hour: u8,
    /// Minute.
    pub minute: u8,
}

/// What code blocks can reach: apps with APIs, and a clock.
pub trait Host {
    /// The names of the apps, in a fixed order.
    fn apps(&self) -> &[&'static str];

    /// Whether the app has an API of that name.
    fn has_api(&self, app: &str, api: &str) -> bool;

    /// Calls an API with keyword arguments.
    ///
    /// # Errors
    /// [`Raise`] with the exception that the agent's code sees.
    fn call(&mut self, app: &str, api: &str, arguments: Map<String, Value>)
    -> Result<Value, Raise>;

    /// The world's moment.
    fn now(&self) -> Clock;
}

/// A persistent Python-like session.
///
/// Contract: variables survive from block to block, also after an exception, unless they take too much memory:
/// then all are lost and the block says so. Nothing an agent can write panics, and no block runs much longer than
/// its limits allow; where an interpreter cannot promise that, its documentation says for what.
pub trait Interpreter: Send {
    /// Runs one block and returns what it printed.
    ///
    /// # Errors
    /// [`BlockError`] if the block failed; what it printed before is lost (bug report A7).
    fn feed(
        &mut self,
        code: &str,
        host: &mut dyn Host,
        limits: &BlockLimits,
    ) -> Result<String, BlockError>;
}

pub(crate) fn no_app(app: &str) -> String {
    format!("No app named '{app}' found.")
}

pub(crate) fn no_api(app: &str, api: &str) -> String {
    format!("No API named '{api}' found in the {app} app.")
}
