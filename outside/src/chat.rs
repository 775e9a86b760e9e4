//! A chat model, and a proposer of edits that asks it. Text in, text out: a server's client would look the same.

use std::sync::Mutex;
use std::time::Duration;

use harness_core::schema::schemars::schema_for;
use harness_core::schema::{ANSWER, strict};
use harness_core::{ChatError, ChatModel, ChatReply, ChatRequest, Deadline, Message, Role, Seed};
use harness_evolve::{DirectionBrief, FailurePacket, Proposal, ProposeError, Proposer};
use serde_json::Value;

/// Always gives the same reply, and keeps what it was asked.
#[derive(Debug, Default)]
pub struct Canned {
    /// The reply.
    pub text: String,
    /// The requests, in order.
    pub asked: Mutex<Vec<ChatRequest>>,
}

impl ChatModel for Canned {
    fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ChatError> {
        if request.deadline.has_passed() {
            return Err(ChatError::Deadline);
        }
        let log = self.asked.lock();
        log.map_err(|e| ChatError::Backend(e.to_string()))?
            .push(request.clone());
        // One token a character, as the codec counts.
        let text: String = self.text.chars().take(request.max_tokens).collect();
        Ok(ChatReply {
            is_cut: text.len() < self.text.len(),
            tokens: (0, text.chars().count() as u64),
            text,
        })
    }
}

/// Asks a chat model for edits: a list of proposals, in the form that strict modes take.
#[derive(Debug)]
pub struct AskForEdits<M> {
    /// The model.
    pub model: M,
    /// Most tokens of a reply.
    pub max_tokens: usize,
}

impl<M: ChatModel> Proposer for AskForEdits<M> {
    fn propose(
        &mut self,
        brief: &DirectionBrief<'_>,
        n: usize,
        _seed: Seed,
    ) -> Result<Vec<Proposal>, ProposeError> {
        let packets: Vec<String> = brief.packets.iter().map(FailurePacket::text).collect();
        let text = format!(
            "An agent fails like this ({}, a repair would act at {:?}):\n{}\nPropose at most {n} repairs. \
             Tried before: {:?}",
            brief.label,
            brief.moment,
            packets.join("\n---\n"),
            brief.tried
        );
        let schema = strict(&schema_for!(Vec<Proposal>));
        let request = ChatRequest {
            messages: vec![Message::new(Role::User, text)],
            temperature: 0.0,
            max_tokens: self.max_tokens,
            schema: Some(
                schema
                    .map_err(|error| ProposeError::Failed(error.into()))?
                    .into(),
            ),
            deadline: Deadline::after(Duration::from_mins(1)),
        };
        let reply = self.model.complete(&request);
        let reply = reply.map_err(|error| ProposeError::Failed(error.into()))?;
        let unusable = |reason: String| ProposeError::Unusable { reason };
        if reply.is_cut {
            return Err(unusable("the reply is cut".into()));
        }
        let answer = serde_json::from_str(&reply.text).map(|mut v: Value| v[ANSWER].take());
        answer
            .and_then(serde_json::from_value)
            .map_err(|error| unusable(error.to_string()))
    }
}
