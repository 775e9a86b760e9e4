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

/// The first eight bytes as a number, zeros where there are fewer: ordered as the texts are, as far as it
/// tells them apart.
fn head(text: &str) -> u64 {
    let mut head = [0; 8];
    for (at, byte) in head.iter_mut().zip(text.bytes()) {
        *at = byte;
    }
    u64::from_be_bytes(head)
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schemars(with = "String")]
        pub struct $name {
            // Before the text, so that order and equality mostly end here.
            head: u64,
            text: Arc<str>,
        }

        impl $name {
            /// Takes a text as an id.
            ///
            /// # Errors
            /// [`IdError`] if the text is empty, longer than 200 bytes, or not printable ASCII without blanks.
            pub fn new(text: impl AsRef<str>) -> Result<Self, IdError> {
                let text = text.as_ref();
                check(text).map(|()| Self { head: head(text), text: text.into() })
            }

            /// The text of the id.
            pub fn as_str(&self) -> &str {
                &self.text
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
                id.text.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.text)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.text)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::TaskId;

    proptest! {
        /// Few letters, so that texts agree in their heads or are the beginning of one another.
        #[test]
        fn order_and_equality_are_those_of_the_texts(a in "[!ab~]{1,12}", b in "[!ab~]{1,12}") {
            let id = |text: &str| TaskId::new(text).unwrap();
            prop_assert_eq!(id(&a).cmp(&id(&b)), a.cmp(&b));
            prop_assert_eq!(id(&a) == id(&b), a == b);
        }
    }
}
