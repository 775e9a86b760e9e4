//! Fakes that are shipped: a byte codec, a scripted policy and a toy environment, all deterministic.
//!
//! They are for tests of code that takes a [`Policy`], a [`Codec`] or an [`Environment`]; none learns anything.
//! Whether a policy, codec, environment or chat model of yours keeps its contract is said by [`conformance`].

pub mod conformance;
pub mod json_schema;
pub mod json_tree;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::environment::{
    Action, EnvError, Environment, Fact, Facts, MakeEnvironment, Part, StepResult,
};
use crate::ids::{PolicyVersion, RolloutId, ScenarioId, TaskId};
use crate::message::{Message, Role};
use crate::outcome::Verdict;
use crate::policy::{Codec, Deadline, Finish, Generation, Policy, PolicyError, Request};
use crate::seed::Seed;
use crate::task::{Split, Task};

/// One id per byte, and one control id per role; 262 ids in all.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByteCodec;

impl ByteCodec {
    /// The id that ends a reply.
    pub const END: u32 = 261;

    const fn role(role: Role) -> u32 {
        match role {
            Role::System => 256,
            Role::User => 257,
            Role::Assistant => 258,
            Role::Observation => 259,
            Role::Hint => 260,
        }
    }

    /// A readable view of ids: control ids as `<role>`.
    pub fn view(ids: &[u32]) -> String {
        let names = [
            "<system>",
            "<user>",
            "<assistant>",
            "<observation>",
            "<hint>",
            "<end>",
        ];
        let mut bytes = Vec::new();
        for &id in ids {
            match u8::try_from(id) {
                Ok(byte) => bytes.push(byte),
                Err(_) => bytes.extend(names[(id as usize - 256).min(5)].as_bytes()),
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Codec for ByteCodec {
    fn encode_message(&self, message: &Message) -> Vec<u32> {
        let mut ids = vec![Self::role(message.role)];
        ids.extend(message.text.bytes().map(u32::from));
        if message.role == Role::Assistant {
            ids.push(Self::END);
        }
        ids
    }

    fn open_assistant(&self) -> Vec<u32> {
        vec![Self::role(Role::Assistant)]
    }

    fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().filter_map(|&id| u8::try_from(id).ok()).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn stop_ids(&self) -> &[u32] {
        &[Self::END]
    }

    fn vocab_size(&self) -> usize {
        262
    }
}

/// What a scripted policy says: from the whole context so far (as [`ByteCodec::view`] shows it) and the
/// generation's seed to a reply.
pub type Script = Arc<dyn Fn(&str, Seed) -> String + Send + Sync>;

/// A policy that follows a script. Every token's log-prob is -1.
#[derive(Clone)]
pub struct ScriptedPolicy {
    script: Script,
    contexts: BTreeMap<RolloutId, Vec<u32>>,
    queue: VecDeque<Request>,
    /// Contexts longer than this end with [`Finish::Window`].
    pub window: usize,
    /// The version it says it has.
    pub version: PolicyVersion,
}

impl ScriptedPolicy {
    /// A policy that says what `script` says.
    pub fn new(script: impl Fn(&str, Seed) -> String + Send + Sync + 'static) -> Self {
        Self {
            script: Arc::new(script),
            contexts: BTreeMap::new(),
            queue: VecDeque::new(),
            window: usize::MAX,
            version: PolicyVersion::default(),
        }
    }

    fn answer(&mut self, request: &Request) -> Result<Generation, PolicyError> {
        if request.deadline.has_passed() {
            return Err(PolicyError::Deadline);
        }
        let context = self.contexts.entry(request.rollout.clone()).or_default();
        context.extend(&request.new_ids);
        let reply = (self.script)(&ByteCodec::view(context), request.seed);
        let mut ids = ByteCodec.encode_reply(&reply);
        let mut finish = Finish::Stop;
        if ids.len() > request.sampling.max_new_tokens {
            ids.truncate(request.sampling.max_new_tokens);
            finish = Finish::Length;
        }
        let room = self.window.saturating_sub(context.len());
        if ids.len() > room {
            ids.truncate(room);
            finish = Finish::Window;
        }
        context.extend(&ids);
        let logprobs = vec![-1.0; ids.len()];
        Ok(Generation {
            ids,
            logprobs,
            finish,
        })
    }
}

impl Policy for ScriptedPolicy {
    fn submit(&mut self, request: Request) -> Result<(), PolicyError> {
        let is_unknown = |id: &u32| *id as usize >= ByteCodec.vocab_size();
        if request.new_ids.is_empty() || request.new_ids.iter().any(is_unknown) {
            return Err(PolicyError::BadRequest("no ids, or unknown ones".into()));
        }
        self.queue.push_back(request);
        Ok(())
    }

    fn poll(&mut self, _wait: Duration) -> Vec<(RolloutId, Result<Generation, PolicyError>)> {
        let queue = std::mem::take(&mut self.queue);
        queue
            .into_iter()
            .map(|request| {
                let answer = self.answer(&request);
                (request.rollout, answer)
            })
            .collect()
    }

    fn release(&mut self, rollout: &RolloutId) {
        self.contexts.remove(rollout);
        self.queue.retain(|r| r.rollout != *rollout);
    }

    fn version(&self) -> PolicyVersion {
        self.version
    }
}

/// A toy world: say the secret that the task's data names. `peek` tells it; anything else is an error.
#[derive(Debug, Default)]
pub struct ToyEnv {
    secret: String,
    is_solved: bool,
    error: bool,
    fault: Option<EnvError>,
}

/// Makes toy worlds, the first `n_faulty` of which break at their first step.
#[derive(Debug, Default)]
pub struct ToyMaker {
    n_faulty: usize,
    n_made: AtomicUsize,
    fault: Option<EnvError>,
}

impl ToyMaker {
    /// Worlds of which the first `n_faulty` break with `fault`.
    pub fn faulty(n_faulty: usize, fault: EnvError) -> Self {
        Self {
            n_faulty,
            n_made: AtomicUsize::new(0),
            fault: Some(fault),
        }
    }

    /// How many worlds were made.
    pub fn n_made(&self) -> usize {
        self.n_made.load(Ordering::SeqCst)
    }
}

impl MakeEnvironment for ToyMaker {
    fn make(&self) -> Result<Box<dyn Environment>, EnvError> {
        let n = self.n_made.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(ToyEnv {
            fault: self.fault.clone().filter(|_| n < self.n_faulty),
            ..ToyEnv::default()
        }))
    }
}

impl Environment for ToyEnv {
    fn reset(&mut self, task: &Task, _deadline: Deadline) -> Result<Facts, EnvError> {
        let secret = task.data["secret"].as_str().unwrap_or_default();
        *self = Self {
            secret: secret.to_owned(),
            fault: self.fault.take(),
            ..Self::default()
        };
        Ok([("world".to_owned(), Fact::Text("toy".into()))].into())
    }

    fn step(&mut self, action: &Action, deadline: Deadline) -> Result<StepResult, EnvError> {
        if deadline.has_passed() {
            return Err(EnvError::Deadline);
        }
        match &self.fault {
            Some(EnvError::Verifier(_)) | None => {}
            Some(fault) => return Err(fault.clone()),
        }
        let text = match action {
            Action::Text(text) => text.as_str(),
            Action::ToolCall { .. } => "",
        };
        self.is_solved = text == self.secret;
        self.error = !self.is_solved && text != "peek";
        let part = match text {
            "peek" => Part::Text(format!("the secret is {}", self.secret)),
            _ if self.is_solved => Part::Text("right".into()),
            _ => Part::Error("Error: wrong".into()),
        };
        Ok(StepResult::new(vec![part], self.is_solved))
    }

    fn evaluate(&mut self, _deadline: Deadline) -> Result<Verdict, EnvError> {
        if let Some(EnvError::Verifier(_)) = self.fault {
            return Err(self.fault.clone().expect("it was just seen"));
        }
        Ok(Verdict::from_solved(self.is_solved))
    }

    fn predicates(&self) -> Facts {
        let kind = if self.error { "wrong" } else { "none" };
        [
            ("last_result_error".to_owned(), Fact::Bool(self.error)),
            ("error_kind".to_owned(), Fact::Text(kind.into())),
        ]
        .into()
    }
}

/// A toy task whose secret is `secret`.
///
/// # Panics
/// Never: the ids are made from numbers.
pub fn toy_task(number: u64, secret: &str) -> Task {
    Task {
        id: TaskId::new(format!("toy_{number}_1")).expect("digits are an id"),
        scenario: ScenarioId::new(format!("toy_{number}")).expect("digits are an id"),
        env: "toy".into(),
        family: "toy".into(),
        split: Split::Train,
        instruction: format!("say secret {number}"),
        seed: Seed::new(number),
        data: json!({ "secret": secret }),
    }
}
