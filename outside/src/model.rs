//! A token codec and a policy. The policy stands for a language model: it reads token ids alone, draws with
//! the seed that it is given, and tells the log-probability of what it drew.

use std::collections::BTreeMap;
use std::time::Duration;

use harness_core::{
    Codec, Finish, Generation, Message, Policy, PolicyError, PolicyVersion, Request, Role,
    RolloutId,
};

/// How often the policy opens the box although nobody told it to.
const P_OPEN: f64 = 0.1;

/// One id for each character, and control ids above all characters.
#[derive(Debug, Clone, Copy)]
pub struct CharCodec;

impl CharCodec {
    const FIRST_CONTROL: u32 = char::MAX as u32 + 1;
    const STOP: u32 = Self::FIRST_CONTROL + Role::ALL.len() as u32;

    fn mark(role: Role) -> u32 {
        let at = Role::ALL.iter().position(|other| *other == role);
        Self::FIRST_CONTROL + at.unwrap_or(0) as u32
    }
}

impl Codec for CharCodec {
    // A control token's name in a text is spelt in characters, so it cannot become a control id.
    fn encode_message(&self, message: &Message) -> Vec<u32> {
        let mut ids = vec![Self::mark(message.role)];
        ids.extend(message.text.chars().map(u32::from));
        if message.role == Role::Assistant {
            ids.push(Self::STOP);
        }
        ids
    }

    fn open_assistant(&self) -> Vec<u32> {
        vec![Self::mark(Role::Assistant)]
    }

    fn decode(&self, ids: &[u32]) -> String {
        ids.iter().filter_map(|&id| char::from_u32(id)).collect()
    }

    fn stop_ids(&self) -> &[u32] {
        &[Self::STOP]
    }

    fn vocab_size(&self) -> usize {
        Self::STOP as usize + 1
    }
}

/// Reads the box. It opens a locked one if a message tells it to, and else in one of ten turns.
#[derive(Debug, Default)]
pub struct Reader {
    contexts: BTreeMap<RolloutId, Vec<u32>>,
    queue: Vec<Request>,
}

impl Reader {
    fn answer(&mut self, request: &Request) -> Result<Generation, PolicyError> {
        if request.deadline.has_passed() {
            return Err(PolicyError::Deadline);
        }
        let context = self.contexts.entry(request.rollout.clone()).or_default();
        context.extend(&request.new_ids);
        let draw = request.seed.value() as f64 / u64::MAX as f64;
        let is_bold = draw < P_OPEN && request.sampling.temperature > 0.0;
        let (reply, p) = say(&CharCodec.decode(context), is_bold);
        let mut ids = CharCodec.encode_reply(&reply);
        ids.truncate(request.sampling.max_new_tokens);
        let is_whole = ids.ends_with(CharCodec.stop_ids());
        // The first character settles the command, so the others are certain.
        let mut logprobs = vec![0.0; ids.len()];
        logprobs[0] = p.ln() as f32;
        context.extend(&ids);
        let finish = [Finish::Length, Finish::Stop][usize::from(is_whole)];
        Ok(Generation {
            ids,
            logprobs,
            finish,
        })
    }
}

impl Policy for Reader {
    fn submit(&mut self, request: Request) -> Result<(), PolicyError> {
        let is_unknown = |id: &u32| *id as usize >= CharCodec.vocab_size();
        if request.new_ids.is_empty() || request.new_ids.iter().any(is_unknown) {
            return Err(PolicyError::BadRequest("no ids, or unknown ones".into()));
        }
        self.queue.push(request);
        Ok(())
    }

    fn poll(&mut self, _wait: Duration) -> Vec<(RolloutId, Result<Generation, PolicyError>)> {
        let queue = std::mem::take(&mut self.queue).into_iter();
        queue
            .map(|r| (r.rollout.clone(), self.answer(&r)))
            .collect()
    }

    fn release(&mut self, rollout: &RolloutId) {
        self.contexts.remove(rollout);
        self.queue.retain(|request| request.rollout != *rollout);
    }

    fn version(&self) -> PolicyVersion {
        PolicyVersion(0)
    }
}

/// The next command, and its probability at temperature 1. An episode goes one way, so what was last seen is what
/// came furthest.
fn say(context: &str, is_bold: bool) -> (String, f64) {
    let word = context.split_once("it reads ").map(|(_, rest)| rest);
    let word = word.map(|rest| rest.chars().take_while(char::is_ascii_alphanumeric));
    match word {
        Some(word) => (format!("say {}", word.collect::<String>()), 1.0),
        None if context.contains("the box is open") => ("read".into(), 1.0),
        None if context.contains("try to open it") => ("open".into(), 1.0),
        None if is_bold => ("open".into(), P_OPEN),
        None => ("read".into(), 1.0 - P_OPEN),
    }
}
