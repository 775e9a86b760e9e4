//! Checks of the traits that users implement: one call in a test of yours says whether your value keeps the
//! contract.
//!
//! Each check takes a value behind its trait, so it holds for a server's client as for a fake, and panics with
//! what is wrong. What a contract promises only "as far as it can", such as equal replies of a remote chat
//! model, is not checked.
//!
//! ```
//! use harness_core::Action;
//! use harness_core::testing::conformance::{check_codec, check_environment};
//! use harness_core::testing::{ByteCodec, ToyMaker, toy_task};
//!
//! check_codec(&ByteCodec, &["<end>"]);
//! let solution = [Action::Text("peek".into()), Action::Text("plum".into())];
//! check_environment(&ToyMaker::default(), &toy_task(1, "plum"), &solution);
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::chat::{ChatError, ChatModel, ChatReply, ChatRequest};
use crate::environment::{Action, Environment, Fact, Facts, MakeEnvironment, Part, StepResult};
use crate::ids::RolloutId;
use crate::message::{Message, Role};
use crate::outcome::Verdict;
use crate::policy::{Codec, Deadline, Finish, Generation, Policy, PolicyError, Request, Sampling};
use crate::seed::Seed;
use crate::task::Task;

/// How long a model may take over the requests of one check.
const PATIENCE: Duration = Duration::from_mins(5);

/// Texts that every codec must carry.
const TEXTS: [&str; 4] = ["", "plain words", "two\nlines  ", "ü → 語 🦀"];

/// Checks a [`Codec`] on a few texts and on `texts`: give the spelling of your control tokens there.
///
/// Every id is below the vocabulary's size; a reply ends with a stop token and reads back as it was; no text
/// becomes a stop token (bug report T5); ids of many messages are those of each, one after the other (bug
/// report T1).
///
/// # Panics
/// If the codec breaks its contract; the message names the text.
#[track_caller]
pub fn check_codec(codec: &dyn Codec, texts: &[&str]) {
    let is_stop = |id: &u32| codec.stop_ids().contains(id);
    for (text, role) in TEXTS
        .iter()
        .chain(texts)
        .flat_map(|text| Role::ALL.map(|r| (text, r)))
    {
        let encode = |text: &str| codec.encode_message(&Message::new(role, text));
        let ids = encode(text);
        let what = format!("codec, {role:?} message {text:?}");
        let stranger = ids.iter().find(|id| **id as usize >= codec.vocab_size());
        assert_eq!(
            stranger, None,
            "{what}: an id is not below the vocabulary's size"
        );
        assert_eq!(
            ids,
            encode(text),
            "{what}: the same message has two encodings"
        );
        let n_stops = |ids: &[u32]| ids.iter().filter(|id| is_stop(id)).count();
        let n_own = n_stops(&encode(""));
        assert_eq!(n_stops(&ids), n_own, "{what}: the text became a stop token");
        if role == Role::Assistant {
            let reply = codec.encode_reply(text);
            let opened = [codec.open_assistant(), reply.clone()].concat();
            assert_eq!(ids, opened, "{what}: it is not the opening and the reply");
            assert!(
                reply.last().is_some_and(is_stop),
                "{what}: no stop token ends it"
            );
            assert_eq!(
                codec.decode(&reply),
                **text,
                "{what}: the reply reads back otherwise"
            );
        }
    }
    let messages = Role::ALL.map(|role| Message::new(role, "some words"));
    let mut ids: Vec<u32> = messages
        .iter()
        .flat_map(|m| codec.encode_message(m))
        .collect();
    ids.extend(codec.open_assistant());
    assert_eq!(
        codec.encode(&messages),
        ids,
        "codec: `encode` is not each message in turn"
    );
    assert_eq!(
        codec.encode_next(&messages),
        ids,
        "codec: `encode_next` is not each message in turn"
    );
}

/// Checks a [`Policy`] on some dozen short generations, in the ids of `codec`.
///
/// A request without ids or with an unknown one is refused and leaves nothing behind; every other has one
/// answer, whose ids, log-probs and reason to end fit together; a draw depends on context and seed alone, not on
/// the rollout's name, on others in flight or on how the context was cut into requests; at temperature 0 the
/// seed does not matter; a released rollout is forgotten; a deadline that passed is an error.
///
/// Ids are compared for equality: a model whose log-probs depend on how requests are batched fails where two
/// tokens are nearly as likely, and makes runs that cannot be repeated.
///
/// # Panics
/// If the policy breaks its contract, or takes five minutes over one request.
#[track_caller]
pub fn check_policy(policy: &mut dyn Policy, codec: &dyn Codec) {
    let mut caller = Caller { policy, codec };
    let prompt = |text: &str| codec.encode(&[Message::new(Role::User, text)]);
    caller.check_refused("no ids", vec![]);
    caller.check_refused("an id past the vocabulary", vec![codec.vocab_size() as u32]);

    let version = caller.policy.version();
    let firsts = ["one", "two", "three"].map(|text| ask(text, prompt(text), 1.0));
    let together = caller.answers(&firsts);
    let next = codec.encode_next(&[Message::new(Role::Observation, "go on")]);
    let second = caller.answer(ask("one", next.clone(), 1.0));
    caller.policy.release(&firsts[0].rollout);

    let again = caller.answer(firsts[0].clone());
    assert_same(
        &together[0],
        &again,
        "a released rollout, asked again by itself",
    );
    let whole = [firsts[0].new_ids.clone(), again.ids, next].concat();
    let at_once = caller.answer(ask("whole", whole, 1.0));
    assert_same(&second, &at_once, "the same context given at once");

    let greedy = |name: &str, seed| Request {
        seed: Seed::new(seed),
        ..ask(name, prompt("one"), 0.0)
    };
    let (one, other) = (
        caller.answer(greedy("greedy", 1)),
        caller.answer(greedy("too", 2)),
    );
    assert_same(&one, &other, "another seed at temperature 0");
    let mut short = ask("short", prompt("one"), 1.0);
    short.sampling.max_new_tokens = 1;
    caller.answer(short);

    let late = Request {
        deadline: Deadline::after(Duration::ZERO),
        ..ask("late", prompt("one"), 1.0)
    };
    let late = match caller.policy.submit(late.clone()) {
        Ok(()) => caller.wait(&[late]).remove(0),
        Err(error) => Err(error),
    };
    assert_eq!(
        late,
        Err(PolicyError::Deadline),
        "policy: the request's deadline had passed"
    );
    for name in [
        "one", "two", "three", "whole", "greedy", "too", "short", "late", "nobody",
    ] {
        caller.policy.release(&rollout(name));
    }
    assert_eq!(
        caller.policy.version(),
        version,
        "policy: its version changed by itself"
    );
}

/// A request of a check. All have one seed but for greedy ones.
fn ask(name: &str, new_ids: Vec<u32>, temperature: f32) -> Request {
    Request {
        rollout: rollout(name),
        new_ids,
        sampling: Sampling {
            temperature,
            max_new_tokens: 16,
        },
        seed: Seed::new(7),
        deadline: Deadline::after(PATIENCE),
    }
}

fn rollout(name: &str) -> RolloutId {
    RolloutId::new(format!("conformance/{name}")).expect("the names of the checks are printable")
}

#[track_caller]
fn assert_same(one: &Generation, other: &Generation, what: &str) {
    assert_eq!(one.ids, other.ids, "policy: {what} gives other ids");
    let is_near = one
        .logprobs
        .iter()
        .zip(&other.logprobs)
        .all(|(a, b)| (a - b).abs() < 1e-3);
    assert!(
        is_near,
        "policy: {what} gives other log-probs: {one:?}, {other:?}"
    );
}

struct Caller<'a> {
    policy: &'a mut dyn Policy,
    codec: &'a dyn Codec,
}

impl Caller<'_> {
    #[track_caller]
    fn check_refused(&mut self, what: &str, new_ids: Vec<u32>) {
        let got = self.policy.submit(ask("refused", new_ids, 1.0));
        let is_refused = matches!(got, Err(PolicyError::BadRequest(_)));
        assert!(
            is_refused,
            "policy: {what} must be a bad request, got {got:?}"
        );
        let left = self.policy.poll(Duration::ZERO);
        assert!(
            left.is_empty(),
            "policy: {what} was refused and yet queued: {left:?}"
        );
    }

    #[track_caller]
    fn answer(&mut self, request: Request) -> Generation {
        self.answers(&[request]).remove(0)
    }

    /// The answers, in the order of the requests.
    #[track_caller]
    fn answers(&mut self, requests: &[Request]) -> Vec<Generation> {
        for request in requests {
            let got = self.policy.submit(request.clone());
            assert_eq!(got, Ok(()), "policy: a good request is refused");
        }
        let answers = self.wait(requests).into_iter().zip(requests);
        let check = |(answer, request): (Result<Generation, PolicyError>, &Request)| {
            let answer =
                answer.unwrap_or_else(|error| panic!("policy: a good request fails: {error}"));
            self.check_generation(&answer, request.sampling.max_new_tokens);
            answer
        };
        answers.map(check).collect()
    }

    #[track_caller]
    fn wait(&mut self, requests: &[Request]) -> Vec<Result<Generation, PolicyError>> {
        let patience = Deadline::after(PATIENCE);
        let mut got = BTreeMap::new();
        while got.len() < requests.len() {
            assert!(
                !patience.has_passed(),
                "policy: no answer within {PATIENCE:?}"
            );
            for (id, answer) in self.policy.poll(Duration::from_millis(50)) {
                let is_asked = requests.iter().any(|request| request.rollout == id);
                assert!(is_asked, "policy: {id} is answered and was not asked");
                let is_new = got.insert(id.clone(), answer).is_none();
                assert!(is_new, "policy: {id} is answered twice");
            }
        }
        requests
            .iter()
            .filter_map(|request| got.remove(&request.rollout))
            .collect()
    }

    #[track_caller]
    fn check_generation(&self, got: &Generation, max_new_tokens: usize) {
        let (n, vocab) = (got.ids.len(), self.codec.vocab_size());
        let stop = got
            .ids
            .iter()
            .position(|id| self.codec.stop_ids().contains(id));
        let is_logprob = |logprob: &f32| logprob.is_finite() && *logprob < 1e-3;
        let fits = match got.finish {
            Finish::Stop => stop.is_some_and(|at| at + 1 == n),
            Finish::Length => stop.is_none() && n == max_new_tokens,
            Finish::Window => stop.is_none(),
        };
        for (holds, problem) in [
            (n <= max_new_tokens, "it is longer than was asked for"),
            (
                got.logprobs.len() == n,
                "there are not as many log-probs as ids",
            ),
            (
                got.logprobs.iter().all(is_logprob),
                "a log-prob is above 0 or not finite",
            ),
            (
                got.ids.iter().all(|id| (*id as usize) < vocab),
                "an id is past the vocabulary",
            ),
            (fits, "how it ended does not fit its last id or its length"),
        ] {
            assert!(holds, "policy: {problem}: {got:?}");
        }
    }
}

/// Checks an [`Environment`] on one task that `solution` solves.
///
/// The solution solves the task, not `done` before its last action, and doing nothing does not (bug reports S8,
/// A1); an environment that is used again, and a fresh one, show the same from `reset` to the verdict; names and
/// kinds of facts never change, and those that other crates read are of the kind that they expect; an action that
/// the world cannot read is an observation; a task without data is no panic.
///
/// # Panics
/// If the environment breaks its contract.
#[track_caller]
pub fn check_environment(envs: &dyn MakeEnvironment, task: &Task, solution: &[Action]) {
    let make = || {
        envs.make()
            .unwrap_or_else(|error| panic!("environment: none is made: {error}"))
    };
    let mut env = make();
    let first = play(env.as_mut(), task, solution);
    let (verdict, steps) = (&first.verdict, &first.steps);
    assert!(
        verdict.solved,
        "environment: the solution does not solve: {verdict:?}, {steps:?}"
    );
    let early = steps.iter().rev().skip(1).find(|step| step.done);
    assert_eq!(
        early, None,
        "environment: it is done before the last action"
    );

    let idle = play(env.as_mut(), task, &[]);
    assert!(
        !idle.verdict.solved,
        "environment: doing nothing after a reset solves the task"
    );
    assert_eq!(
        first,
        play(env.as_mut(), task, solution),
        "environment: used again, it shows something else"
    );
    assert_eq!(
        first,
        play(make().as_mut(), task, solution),
        "environment: a fresh one shows something else"
    );

    let unreadable = [
        Action::Text("\u{1} no such command".into()),
        Action::ToolCall {
            name: "no_such_tool".into(),
            arguments: Value::Null,
        },
    ];
    for action in unreadable {
        let got = play(env.as_mut(), task, std::slice::from_ref(&action));
        let text: String = got.steps[0].observation.iter().map(Part::text).collect();
        assert!(
            !text.is_empty(),
            "environment: nothing is said of an unreadable action: {action:?}"
        );
    }
    // Whatever it says of such a task, it says it.
    drop(make().reset(
        &Task {
            data: Value::Null,
            ..task.clone()
        },
        Deadline::NEVER,
    ));
}

/// What an episode showed.
#[derive(Debug, PartialEq)]
struct Episode {
    variables: Facts,
    facts: Vec<Facts>,
    steps: Vec<StepResult>,
    verdict: Verdict,
}

#[track_caller]
fn play(env: &mut dyn Environment, task: &Task, actions: &[Action]) -> Episode {
    let never = Deadline::NEVER;
    let broke = |what: &str, error| panic!("environment: {what} fails: {error}");
    let variables = env
        .reset(task, never)
        .unwrap_or_else(|error| broke("`reset`", error));
    let mut facts = vec![env.predicates()];
    let mut steps = Vec::new();
    for action in actions {
        let step = env.step(action, never);
        steps.push(step.unwrap_or_else(|error| panic!("environment: {action:?} fails: {error}")));
        facts.push(env.predicates());
    }
    for now in &facts {
        check_facts(&facts[0], now);
    }
    let verdict = env
        .evaluate(never)
        .unwrap_or_else(|error| panic!("environment: `evaluate` fails: {error}"));
    Episode {
        variables,
        facts,
        steps,
        verdict,
    }
}

#[track_caller]
fn check_facts(at_start: &Facts, now: &Facts) {
    let kinds = |facts: &Facts| -> BTreeMap<String, _> {
        facts
            .iter()
            .map(|(name, fact)| (name.clone(), std::mem::discriminant(fact)))
            .collect()
    };
    assert_eq!(
        kinds(at_start),
        kinds(now),
        "environment: names or kinds of facts change"
    );
    for name in ["last_result_error", "completed", "gave_up"] {
        let fits = matches!(now.get(name), None | Some(Fact::Bool(_)));
        assert!(fits, "environment: the fact `{name}` must be yes or no");
    }
    assert!(
        matches!(now.get("turns_left"), None | Some(Fact::Int(_))),
        "environment: `turns_left` must be a number"
    );
    let Some(kind) = now.get("error_kind") else {
        return;
    };
    assert!(
        matches!(kind, Fact::Text(_)),
        "environment: the fact `error_kind` must be a text"
    );
    if let Some(Fact::Bool(is_error)) = now.get("last_result_error") {
        let is_none = *kind == Fact::Text("none".into());
        assert_eq!(
            *is_error, !is_none,
            "environment: `error_kind` contradicts `last_result_error`: {kind:?}"
        );
    }
}

/// Checks a [`ChatModel`] with four short requests, two of them at the same time.
///
/// A reply has at most as many tokens as were asked for and leaves thinking out; a request with a schema is
/// answered too; a deadline that passed is an error.
///
/// # Panics
/// If the model breaks its contract, or a reply is an error.
#[track_caller]
pub fn check_chat_model(model: &dyn ChatModel) {
    let request = |max_tokens| ChatRequest {
        messages: vec![Message::new(
            Role::User,
            "Reply with {\"answer\": 1} and nothing else.",
        )],
        temperature: 0.0,
        max_tokens,
        schema: None,
        deadline: Deadline::after(PATIENCE),
    };
    let answer_schema = serde_json::json!({
        "type": "object",
        "properties": { "answer": { "type": "integer" } },
        "required": ["answer"],
        "additionalProperties": false,
    });
    let with_schema = ChatRequest {
        schema: Some(answer_schema),
        ..request(256)
    };
    // A model is shared by threads.
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(|| model.complete(&with_schema));
        (model.complete(&request(256)), other.join())
    });
    check_reply(one, 256);
    check_reply(
        other.unwrap_or_else(|_| panic!("chat model: it panicked in another thread")),
        256,
    );
    check_reply(model.complete(&request(1)), 1);
    let late = ChatRequest {
        deadline: Deadline::after(Duration::ZERO),
        ..request(256)
    };
    assert_eq!(
        model.complete(&late),
        Err(ChatError::Deadline),
        "chat model: the deadline had passed"
    );
}

#[track_caller]
fn check_reply(reply: Result<ChatReply, ChatError>, max_tokens: u64) {
    let reply = reply.unwrap_or_else(|error| panic!("chat model: no reply: {error}"));
    assert!(
        reply.tokens.1 <= max_tokens,
        "chat model: more than {max_tokens} tokens: {reply:?}"
    );
    assert!(
        !reply.text.contains("<think>"),
        "chat model: thinking is not left out: {reply:?}"
    );
    assert!(
        reply.is_cut || !reply.text.is_empty(),
        "chat model: a whole reply is empty: {reply:?}"
    );
}
