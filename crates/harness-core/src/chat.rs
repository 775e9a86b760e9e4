//! The contract of a language model that proposes edits or votes; text in, text out.

use serde::{Deserialize, Serialize};

use crate::message::Message;
use crate::policy::Deadline;

/// Asks for one completion.
#[derive(Debug, Clone)]
pub struct ChatRequest {
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// Temperature, `>= 0`.
    pub temperature: f32,
    /// At most this many tokens in the reply.
    pub max_tokens: usize,
    /// A JSON Schema that the reply must follow, if any.
    pub schema: Option<serde_json::Value>,
    /// When to give up.
    pub deadline: Deadline,
}

/// One completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatReply {
    /// The reply's text, thinking left out.
    pub text: String,
    /// Tokens read and written.
    pub tokens: (u64, u64),
    /// Whether the reply was cut at `max_tokens`; a cut reply is never adopted (bug report E1).
    pub is_cut: bool,
}

/// Why there is no completion.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The deadline passed.
    #[error("the deadline passed")]
    Deadline,
    /// The model or its server failed.
    #[error("the chat model failed: {0}")]
    Backend(String),
}

/// A chat model.
///
/// A reply is a whole text or an error: what is cut says so in [`ChatReply::is_cut`]. `schema` is passed on to
/// a server that can enforce it and may be ignored otherwise, since callers check every reply themselves.
pub trait ChatModel: Send + Sync {
    /// Answers a request.
    ///
    /// # Errors
    /// [`ChatError`] if no reply came.
    fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ChatError>;
}
