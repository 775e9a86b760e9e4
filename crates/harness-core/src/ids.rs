//! Names of things. Each is its own type, so that a task can never be passed where a group is meant.
//!
//! Ids are opaque text of 1 to 200 printable ASCII characters without blanks; nothing parses them.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An id was empty, too long, or held a character outside printable ASCII.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an id must be 1 to 200 printable ASCII characters without blanks, got: {got:?}")]
pub struct IdError {
    /// The refused text, cut at 80 characters.
    pub got: String,
}

fn check(text: &str) -> Result<(), IdError> {
    let fits = !text.is_empty() && text.len() <= 200 && text.bytes().all(|b| b.is_ascii_graphic());
    if fits {
        Ok(())
    } else {
        Err(IdError {
            got: text.chars().take(80).collect(),
        })
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schemars(with = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes a text as an id.
            ///
            /// # Errors
            /// [`IdError`] if the text is empty, longer than 200 bytes, or not printable ASCII without blanks.
            pub fn new(text: impl AsRef<str>) -> Result<Self, IdError> {
                check(text.as_ref()).map(|()| Self(text.as_ref().into()))
            }

            /// The text of the id.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }
    };
}

id!(/// Content hash of a harness: equal content has an equal id under any name.
    HarnessId);
id!(/// One task of an environment.
    TaskId);
id!(/// Tasks that differ in values only share a scenario; splits never cut through one.
    ScenarioId);
id!(/// One run of the program.
    RunId);
id!(/// One attempt at one task.
    RolloutId);
id!(/// The attempts whose rewards are compared with each other. Given before any harness touches the
    /// prompt, so siblings whose prompts differ still share it (bug report G18).
    GroupId);

/// How many optimizer updates a policy has had since its warm start.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct PolicyVersion(pub u64);

impl fmt::Display for PolicyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}
