//! A token codec and a policy. The policy stands for a language model: it reads token ids alone, draws with
//! the seed that it is given, and tells the log-probability of what it drew.

use std::collections::BTreeMap;
use std::time::Duration;

use harness_core::{
    Codec, Finish, Generation, Message, Policy, PolicyError, PolicyVersion, Request, Role,
    RolloutId, Seed,
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

    /// The messages of a context, the one that is only opened included.
    fn messages(self, ids: &[u32]) -> Vec<(Role, String)> {
        let mut messages = Vec::new();
        for (at, &id) in ids.iter().enumerate() {
            if let Some(role) = Role::ALL.into_iter().find(|role| Self::mark(*role) == id) {
                let rest = &ids[at + 1..];
                let end = rest.iter().position(|&id| id >= Self::FIRST_CONTROL);
                messages.push((role, self.decode(&rest[..end.unwrap_or(rest.len())])));
            }
        }
        messages
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
        let is_greedy = request.sampling.temperature <= 0.0;
        let (reply, p) = say(&CharCodec.messages(context), request.seed, is_greedy);
        let mut ids = CharCodec.encode_reply(&reply);
        // The first character settles the command, so the others are certain.
        let mut logprobs = vec![0.0; ids.len()];
        logprobs[0] = p.ln() as f32;
        let mut finish = Finish::Stop;
        if ids.len() > request.sampling.max_new_tokens {
            ids.truncate(request.sampling.max_new_tokens);
            logprobs.truncate(ids.len());
            finish = Finish::Length;
        }
        context.extend(&ids);
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
        let queue = std::mem::take(&mut self.queue);
        let answer = |request: Request| (request.rollout.clone(), self.answer(&request));
        queue.into_iter().map(answer).collect()
    }

    fn release(&mut self, rollout: &RolloutId) {
        self.contexts.remove(rollout);
        self.queue.retain(|request| request.rollout != *rollout);
    }

    fn version(&self) -> PolicyVersion {
        PolicyVersion(0)
    }
}

/// The next command, and its probability at temperature 1.
fn say(messages: &[(Role, String)], seed: Seed, is_greedy: bool) -> (String, f64) {
    let observed = messages
        .iter()
        .rev()
        .find(|(role, _)| *role == Role::Observation);
    let observed = observed.map_or("", |(_, text)| text.as_str());
    if let Some(word) = observed.strip_prefix("it reads ") {
        return (format!("say {word}"), 1.0);
    }
    if observed == "the box is open" {
        return ("read".into(), 1.0);
    }
    if messages
        .iter()
        .any(|(_, text)| text.contains("try to open it"))
    {
        return ("open".into(), 1.0);
    }
    let draw = seed.value() as f64 / u64::MAX as f64;
    if draw < P_OPEN && !is_greedy {
        ("open".into(), P_OPEN)
    } else {
        ("read".into(), 1.0 - P_OPEN)
    }
}
