//! Messages between harness and policy, each with its origin, so that a trajectory under a sibling can
//! later be seen without what only the sibling said.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// The harness's standing text.
    System,
    /// The task.
    User,
    /// The policy.
    Assistant,
    /// The environment's answer to an action.
    Observation,
    /// A message of a rule: a hint, or the reason why an action was blocked.
    Hint,
}

impl Role {
    /// Every role: what a codec needs a mark for.
    pub const ALL: [Self; 5] = [
        Self::System,
        Self::User,
        Self::Assistant,
        Self::Observation,
        Self::Hint,
    ];
}

/// Which contexts a message belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The context in which the attempt ran and the base harness's context.
    Both,
    /// Only the context in which the attempt ran.
    SiblingOnly,
    /// Only the base harness's context, for instance the action that a rule's rewrite put in place.
    BaseOnly,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said; control tokens in it are text.
    pub text: String,
}

impl Message {
    /// A message of `role` saying `text`.
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            text: text.into(),
        }
    }
}
