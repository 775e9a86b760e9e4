//! The two traits behind which a language model sits: [`Codec`] turns messages into token ids,
//! [`Policy`] continues them. Neither is async: a remote policy polls its connection.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{PolicyVersion, RolloutId};
use crate::message::{Message, Role};
use crate::seed::Seed;

/// A point in time after which work is given up; `Deadline::NEVER` has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// No deadline.
    pub const NEVER: Self = Self(None);

    /// A deadline `span` from now.
    pub fn after(span: Duration) -> Self {
        Self(Instant::now().checked_add(span))
    }

    /// Whether it has passed.
    pub fn has_passed(self) -> bool {
        self.0.is_some_and(|at| Instant::now() >= at)
    }

    /// The time left; `None` without a deadline, zero once it has passed.
    pub fn remaining(self) -> Option<Duration> {
        self.0
            .map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// The deadline put off by `span`.
    pub(crate) fn put_off(self, span: Duration) -> Self {
        Self(self.0.and_then(|at| at.checked_add(span)))
    }

    /// The earlier of two deadlines.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(a), Some(b)) => Self(Some(a.min(b))),
            (a, b) => Self(a.or(b)),
        }
    }
}

/// How tokens are drawn. There is no top-k or top-p: they bias every importance ratio by the kept mass
/// (bug report G23). A record that names one is refused.
///
/// ```
/// # use harness_core::Sampling;
/// let g23 = r#"{"temperature": 1.0, "max_new_tokens": 8, "top_p": 0.9}"#;
/// assert!(serde_json::from_str::<Sampling>(g23).is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// Temperature, `>= 0`; 0 is greedy (the lowest id wins a tie). Log-probs are always those of the
    /// distribution at temperature 1.
    pub temperature: f32,
    /// At most this many new tokens in one generation, the stop token included; `>= 1`.
    pub max_new_tokens: usize,
}

/// Asks for one generation. The ids are appended to what the rollout already holds.
#[derive(Debug, Clone)]
pub struct Request {
    /// Whose context is continued; an unknown id opens a new one.
    pub rollout: RolloutId,
    /// Token ids to read before generating; not empty.
    pub new_ids: Vec<u32>,
    /// How to draw.
    pub sampling: Sampling,
    /// Seed of this generation's draws.
    pub seed: Seed,
    /// When to give up.
    pub deadline: Deadline,
}

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Finish {
    /// A stop token was drawn; it is the last id.
    Stop,
    /// `max_new_tokens` were drawn.
    Length,
    /// The context window is full (bug report G29).
    Window,
}

/// What the policy wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct Generation {
    /// Sampled ids, the stop token included if one was drawn; may be empty with [`Finish::Window`].
    pub ids: Vec<u32>,
    /// Log-probability in nats of each id at temperature 1; as long as `ids`. NaN is one that the engine did
    /// not give, as some do for near-certain tokens: a trainer takes its ratio as 1 (bug report G24).
    pub logprobs: Vec<f32>,
    /// Why it ended.
    pub finish: Finish,
}

/// Why a policy could not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The request's deadline passed.
    #[error("the deadline passed before the generation ended")]
    Deadline,
    /// The request itself is unusable, for instance without ids or with an id outside the vocabulary.
    #[error("unusable request: {0}")]
    BadRequest(String),
    /// The model or its server failed.
    #[error("the policy failed: {0}")]
    Backend(String),
}

/// A language model that continues token ids, many rollouts at a time.
///
/// Call order for one rollout: `submit`, `poll` until its answer comes, then `submit` again with the ids
/// that followed, or `release`. At most one request per rollout is in flight. What a rollout gets must not
/// depend on which others are in flight.
pub trait Policy: Send {
    /// Queues a request.
    ///
    /// # Errors
    /// [`PolicyError::BadRequest`] if it can never be served; nothing is queued then.
    fn submit(&mut self, request: Request) -> Result<(), PolicyError>;

    /// Works or waits until at least one request is answered, at most about `wait` long, and returns all
    /// answers there are. An empty answer with requests in flight means that `wait` was too short.
    fn poll(&mut self, wait: Duration) -> Vec<(RolloutId, Result<Generation, PolicyError>)>;

    /// Forgets a rollout's context. Unknown ids are ignored.
    fn release(&mut self, rollout: &RolloutId);

    /// The version of the weights that answer.
    fn version(&self) -> PolicyVersion;

    /// Serves a list of requests and returns the answers in the order of the requests; every rollout is
    /// released. For simple callers.
    fn generate_all(&mut self, requests: Vec<Request>) -> Vec<Result<Generation, PolicyError>> {
        let ids: Vec<RolloutId> = requests.iter().map(|r| r.rollout.clone()).collect();
        let mut answers: Vec<Option<Result<Generation, PolicyError>>> = vec![None; ids.len()];
        let mut open = 0;
        for (slot, request) in requests.into_iter().enumerate() {
            match self.submit(request) {
                Ok(()) => open += 1,
                Err(error) => answers[slot] = Some(Err(error)),
            }
        }
        while open > 0 {
            for (id, answer) in self.poll(Duration::from_millis(100)) {
                let slot = ids
                    .iter()
                    .zip(&answers)
                    .position(|(i, a)| *i == id && a.is_none());
                if let Some(slot) = slot {
                    answers[slot] = Some(answer);
                    open -= 1;
                }
            }
        }
        for id in &ids {
            self.release(id);
        }
        answers
            .into_iter()
            .map(|a| a.unwrap_or_else(|| Err(PolicyError::Backend("no answer came".into()))))
            .collect()
    }
}

/// Turns messages into token ids and back. Ids are the truth, text is a view: nothing is ever decoded and
/// encoded again on its way to the policy or the trainer (bug report T1).
///
/// Control tokens that occur in a message's text must come out as plain text tokens (bug report T5).
pub trait Codec: Send + Sync {
    /// The ids of one whole message, its role marks included. For [`Role::Assistant`] that is what the
    /// policy would have been shown and have written: opening, text, stop token.
    fn encode_message(&self, message: &Message) -> Vec<u32>;

    /// The ids after which the policy speaks.
    fn open_assistant(&self) -> Vec<u32>;

    /// The text of ids that the policy sampled, control tokens left out.
    fn decode(&self, ids: &[u32]) -> String;

    /// Ids that end a generation.
    fn stop_ids(&self) -> &[u32];

    /// Number of ids; every id is below it.
    fn vocab_size(&self) -> usize;

    /// Ids of a whole prompt, ready for the policy to speak.
    fn encode(&self, messages: &[Message]) -> Vec<u32> {
        let mut ids: Vec<u32> = messages
            .iter()
            .flat_map(|m| self.encode_message(m))
            .collect();
        ids.extend(self.open_assistant());
        ids
    }

    /// Ids of the messages that follow a generation; the same as [`Codec::encode`] of those messages,
    /// because ids are concatenated and never encoded across messages.
    fn encode_next(&self, messages: &[Message]) -> Vec<u32> {
        self.encode(messages)
    }

    /// Ids of an assistant text without opening, stop token included: the part a policy samples.
    fn encode_reply(&self, text: &str) -> Vec<u32> {
        let whole = self.encode_message(&Message::new(Role::Assistant, text));
        whole[self.open_assistant().len().min(whole.len())..].to_vec()
    }
}

/// A model that gives text only, for evaluation and never for training: there are no ids to train on.
pub trait ChatPolicy: Send {
    /// The next assistant text.
    ///
    /// # Errors
    /// [`PolicyError`] if the model or its server failed.
    fn reply(&mut self, messages: &[Message], sampling: Sampling) -> Result<String, PolicyError>;
}
