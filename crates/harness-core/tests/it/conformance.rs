//! The shipped fakes keep the contracts, and the checks find what breaks them.

use std::time::Duration;

use harness_core::testing::conformance::{
    check_chat_model, check_codec, check_environment, check_policy,
};
use harness_core::testing::{ByteCodec, ScriptedPolicy, ToyMaker, toy_task};
use harness_core::{
    Action, ChatError, ChatModel, ChatReply, ChatRequest, Codec, Deadline, EnvError, Environment,
    Facts, Generation, Message, Policy, PolicyError, PolicyVersion, Request, RolloutId, StepResult,
    Task, Verdict,
};

/// Says as many words as the context has messages.
fn chatty() -> ScriptedPolicy {
    ScriptedPolicy::new(|context, _| "ab".repeat(context.matches('<').count()))
}

#[test]
fn the_fakes_keep_their_contracts() {
    check_codec(&ByteCodec, &["<end>", "<assistant>", "\u{0}"]);
    check_policy(&mut chatty(), &ByteCodec);
    let solution = ["peek", "plum"].map(|text| Action::Text(text.into()));
    check_environment(&ToyMaker::default(), &toy_task(1, "plum"), &solution);
    check_chat_model(&Echo { thinks: false });
}

/// Bug report T5: a codec that reads control tokens out of a text.
struct Gullible;

impl Codec for Gullible {
    fn encode_message(&self, message: &Message) -> Vec<u32> {
        let mut ids = ByteCodec.encode_message(message);
        if message.text.contains("<end>") {
            ids.insert(1, ByteCodec::END);
        }
        ids
    }

    fn open_assistant(&self) -> Vec<u32> {
        ByteCodec.open_assistant()
    }

    fn decode(&self, ids: &[u32]) -> String {
        ByteCodec.decode(ids)
    }

    fn stop_ids(&self) -> &[u32] {
        &[ByteCodec::END]
    }

    fn vocab_size(&self) -> usize {
        ByteCodec.vocab_size()
    }
}

#[test]
#[should_panic(expected = "the text became a stop token")]
fn t5_a_control_token_in_a_text_is_found() {
    check_codec(&Gullible, &["say <end>"]);
}

/// A policy that changes what another says.
struct Meddling(ScriptedPolicy, fn(&mut Generation));

impl Policy for Meddling {
    fn submit(&mut self, request: Request) -> Result<(), PolicyError> {
        self.0.submit(request)
    }

    fn poll(&mut self, wait: Duration) -> Vec<(RolloutId, Result<Generation, PolicyError>)> {
        let mut answers = self.0.poll(wait);
        for (_, answer) in &mut answers {
            answer.iter_mut().for_each(self.1);
        }
        answers
    }

    fn release(&mut self, rollout: &RolloutId) {
        self.0.release(rollout);
    }

    fn version(&self) -> PolicyVersion {
        self.0.version()
    }
}

#[test]
#[should_panic(expected = "not as many log-probs as ids")]
fn o5_missing_log_probs_are_found() {
    check_policy(&mut Meddling(chatty(), |g| g.logprobs.clear()), &ByteCodec);
}

#[test]
#[should_panic(expected = "a log-prob is above 0 or not finite")]
fn g24_a_log_prob_that_is_no_number_is_found() {
    let spoil = |g: &mut Generation| g.logprobs.fill(f32::NAN);
    check_policy(&mut Meddling(chatty(), spoil), &ByteCodec);
}

#[test]
#[should_panic(expected = "another seed at temperature 0")]
fn a_greedy_draw_that_needs_the_seed_is_found() {
    let mut policy = ScriptedPolicy::new(|_, seed| format!("{}", seed.value() % 10));
    check_policy(&mut policy, &ByteCodec);
}

/// A world that is solved from the start, or whose second episode is not the first.
#[derive(Default)]
struct Careless {
    is_solved: bool,
    forgets: bool,
}

impl Environment for Careless {
    fn reset(&mut self, _: &Task, _: Deadline) -> Result<Facts, EnvError> {
        self.is_solved &= !self.forgets;
        Ok(Facts::new())
    }

    fn step(&mut self, _: &Action, _: Deadline) -> Result<StepResult, EnvError> {
        self.is_solved = true;
        Ok(StepResult::new(vec![], false))
    }

    fn evaluate(&mut self, _: Deadline) -> Result<Verdict, EnvError> {
        Ok(Verdict::from_solved(self.is_solved))
    }

    fn predicates(&self) -> Facts {
        Facts::new()
    }
}

#[track_caller]
fn check_careless(forgets: bool) {
    let make = move || -> Result<Box<dyn Environment>, EnvError> {
        Ok(Box::new(Careless {
            is_solved: false,
            forgets,
        }))
    };
    check_environment(&make, &toy_task(1, "plum"), &[Action::Text("do".into())]);
}

#[test]
#[should_panic(expected = "doing nothing after a reset solves the task")]
fn s8_a_world_that_stays_solved_is_found() {
    check_careless(false);
}

#[test]
#[should_panic(expected = "nothing is said of an unreadable action")]
fn silence_on_an_unreadable_action_is_found() {
    check_careless(true);
}

/// Says one word, and maybe what it thought.
struct Echo {
    thinks: bool,
}

impl ChatModel for Echo {
    fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ChatError> {
        if request.deadline.has_passed() {
            return Err(ChatError::Deadline);
        }
        let thought = if self.thinks { "<think>hm</think>" } else { "" };
        Ok(ChatReply {
            text: format!("{thought}word"),
            tokens: (9, 1),
            is_cut: false,
        })
    }
}

#[test]
#[should_panic(expected = "thinking is not left out")]
fn v3_thinking_in_a_reply_is_found() {
    check_chat_model(&Echo { thinks: true });
}
