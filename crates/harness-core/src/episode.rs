//! One attempt as a state machine: what to ask the policy next, or that it is over.

use std::sync::Arc;
use std::time::Duration;

use crate::environment::{Action, EnvError, Facts, MakeEnvironment, StepResult};
use crate::executor::{ExecOptions, Job};
use crate::harness::{ActionFormat, Effect, HarnessError, Moment};
use crate::ids::PolicyVersion;
use crate::journal::{Journal, JournalEntry};
use crate::message::{Message, Role, Scope};
use crate::outcome::{Outcome, Verdict};
use crate::policy::{Codec, Deadline, Finish, Generation, PolicyError, Request, Sampling};
use crate::rules::{self, Fired, RuleRun, Scene};
use crate::trajectory::{Segment, SegmentKind, Trajectory, Turn};
use crate::world::{Opening, World};

/// What an episode needs next.
pub(crate) enum Next {
    /// A generation.
    Ask(Request),
    /// Nothing: it is over.
    Finished,
}

/// An attempt under way.
pub(crate) struct Episode<'a> {
    job: &'a Job,
    codec: &'a dyn Codec,
    journal: Option<&'a dyn Journal>,
    /// There is none before the start.
    world: Option<World>,
    rules: RuleRun<'a>,
    deadline: Deadline,
    n_tries: u32,
    facts: Facts,
    /// Ids of the own context that the policy has not read yet.
    unread: Vec<u32>,
    /// The turn being built.
    turn: Turn,
    /// Turns that the environment saw, which alone count against the base's limit.
    n_acted: usize,
    hit_deadline: bool,
    record: Trajectory,
}

impl<'a> Episode<'a> {
    pub(crate) fn new(
        job: &'a Job,
        codec: &'a dyn Codec,
        options: &'a ExecOptions,
        version: PolicyVersion,
        n_tries: u32,
    ) -> Self {
        Self {
            job,
            codec,
            journal: options.journal.as_deref(),
            world: None,
            rules: RuleRun::new(&job.harness.overlay),
            deadline: Deadline::after(options.rollout_timeout),
            n_tries,
            facts: Facts::new(),
            unread: Vec::new(),
            turn: Turn::default(),
            n_acted: 0,
            hit_deadline: false,
            record: blank(job, options, version),
        }
    }

    /// The record of a job that no thread took.
    pub(crate) fn never_ran(job: &Job, options: &ExecOptions) -> Trajectory {
        let mut record = blank(job, options, PolicyVersion::default());
        record.error = Some("no policy was there to run it".into());
        record
    }

    /// Builds the world and the prompt.
    pub(crate) fn start(&mut self, envs: &dyn MakeEnvironment) -> Next {
        let built = World::build(envs, &self.job.task, self.deadline);
        let prompted = built.map(|(world, opening)| {
            self.world = Some(world);
            self.prompt(opening)
        });
        self.note(JournalEntry::Start);
        match prompted {
            Ok(Ok(())) => self.ask(),
            Ok(Err(error)) => self.over(Outcome::InfraError, Some(error.to_string())),
            Err(error) => self.broke(&error),
        }
    }

    fn prompt(&mut self, opening: Opening) -> Result<(), HarnessError> {
        self.facts = opening.facts;
        let harness = Arc::clone(&self.job.harness);
        let mut visible = self.facts.clone();
        visible.extend(opening.variables);
        let scene = Scene {
            facts: &visible,
            turn: 0,
            turns_left: harness.limits().max_turns,
            action: None,
            observation: None,
            instruction: &self.job.task.instruction,
        };
        let (messages, fired) = rules::opening(&harness, &mut self.rules, scene)?;
        self.turn.fired = fired;
        for (message, scope) in messages {
            let ids = self.codec.encode_message(&message);
            let segment = self.context(ids, scope);
            self.record.prompt.push(segment);
        }
        Ok(())
    }

    /// Takes the policy's answer and carries the episode on to its next question or its end.
    pub(crate) fn take(&mut self, answer: Result<Generation, PolicyError>) -> Next {
        match answer {
            Ok(generation) => self.act_on(generation),
            Err(error) => {
                self.hit_deadline = self.is_overdue();
                self.over(Outcome::InfraError, Some(error.to_string()))
            }
        }
    }

    pub(crate) fn n_tries(&self) -> u32 {
        self.n_tries
    }

    pub(crate) fn is_overdue(&self) -> bool {
        self.deadline.has_passed()
    }

    /// Gives back the time that another attempt took from this one.
    pub(crate) fn put_off(&mut self, span: Duration) {
        self.deadline = self.deadline.put_off(span);
    }

    /// Whether it ended in a way that says nothing about the policy and another try may help.
    pub(crate) fn may_retry(&self) -> bool {
        let is_fault = matches!(
            self.record.outcome,
            Outcome::InfraError | Outcome::VerifierError
        );
        is_fault && !self.hit_deadline
    }

    /// Whether it ended because its time was up.
    pub(crate) fn hit_deadline(&self) -> bool {
        self.hit_deadline
    }

    /// What is known of it so far.
    pub(crate) fn record(&self) -> &Trajectory {
        &self.record
    }

    pub(crate) fn into_trajectory(self) -> Trajectory {
        self.record
    }

    /// A context segment; the own context's ids are queued for the policy.
    fn context(&mut self, ids: Vec<u32>, scope: Scope) -> Segment {
        if scope != Scope::BaseOnly {
            self.unread.extend(&ids);
        }
        Segment {
            kind: SegmentKind::Context,
            scope,
            ids,
            logprobs: Vec::new(),
        }
    }

    fn say(&mut self, role: Role, text: &str, scope: Scope) {
        let ids = self.codec.encode_message(&Message::new(role, text));
        let segment = self.context(ids, scope);
        self.turn.segments.push(segment);
    }

    fn fire(
        &mut self,
        moment: Moment,
        action: Option<&str>,
        observation: Option<&str>,
    ) -> Option<Fired> {
        let n_turns = self.record.turns.len();
        let scene = Scene {
            facts: &self.facts,
            turn: n_turns,
            turns_left: self.job.harness.limits().max_turns.saturating_sub(n_turns),
            action,
            observation,
            instruction: &self.job.task.instruction,
        };
        let fired = self.rules.fire(moment, scene);
        if let Some(fired) = &fired {
            self.turn.fired.push(fired.rule.clone());
        }
        fired
    }

    /// Opens the next turn and asks for it.
    fn ask(&mut self) -> Next {
        let last = self.record.turns.last().map(|t| t.observation.clone());
        if let Some(Fired {
            effect: Effect::Say(text),
            ..
        }) = self.fire(Moment::BeforeTurn, None, last.as_deref())
        {
            self.say(Role::Hint, &text, Scope::SiblingOnly);
        }
        let ids = self.codec.open_assistant();
        let segment = self.context(ids, Scope::Both);
        self.turn.segments.push(segment);
        let turn = self.record.turns.len() as u64;
        Next::Ask(Request {
            rollout: self.job.rollout_id.clone(),
            new_ids: std::mem::take(&mut self.unread),
            sampling: Sampling {
                max_new_tokens: self.job.harness.limits().max_reply_tokens,
                ..self.record.sampling
            },
            seed: self
                .job
                .seed
                .derive("turn", &[u64::from(self.n_tries), turn]),
            deadline: self.deadline,
        })
    }

    fn act_on(&mut self, generation: Generation) -> Next {
        let (n_ids, n_logprobs) = (generation.ids.len(), generation.logprobs.len());
        if n_ids != n_logprobs {
            let error = format!("the policy gave {n_logprobs} log-probs for {n_ids} ids");
            return self.over(Outcome::InfraError, Some(error));
        }
        let text = self.codec.decode(&generation.ids);
        self.turn.segments.push(Segment {
            kind: SegmentKind::Sampled,
            scope: Scope::Both,
            ids: generation.ids,
            logprobs: generation.logprobs,
        });
        if generation.finish == Finish::Window {
            self.turn.action = text;
            self.close_turn();
            return self.judge(Some(Outcome::Truncated));
        }
        if generation.finish == Finish::Length {
            let stop = self.codec.stop_ids().first().copied();
            let segment = self.context(stop.into_iter().collect(), Scope::Both);
            self.turn.segments.push(segment);
        }
        let action = extract(self.job.harness.base.action, &text);
        match self
            .fire(Moment::BeforeAction, Some(&action), None)
            .map(|f| f.effect)
        {
            Some(Effect::Block(message)) => self.blocked(action, &message),
            Some(Effect::Rewrite { find, replace }) => {
                let action = self.rewritten(&action, &find, &replace);
                self.step(action)
            }
            Some(Effect::Say(_)) | None => self.step(action),
        }
    }

    /// A blocked turn: the environment never saw it, so the base context does not hold it.
    fn blocked(&mut self, action: String, message: &str) -> Next {
        for segment in &mut self.turn.segments {
            segment.scope = Scope::SiblingOnly;
        }
        self.turn.action = action;
        self.turn.is_blocked = true;
        message.clone_into(&mut self.turn.observation);
        self.say(Role::Hint, message, Scope::SiblingOnly);
        self.close_turn();
        if self.record.turns.len() >= self.job.harness.limits().max_turns {
            return self.judge(None);
        }
        self.ask()
    }

    /// A rewritten action: the base context holds what the environment saw, with mask 0.
    fn rewritten(&mut self, action: &str, find: &str, replace: &str) -> String {
        let action = if find.is_empty() {
            replace.to_owned()
        } else {
            action.replacen(find, replace, 1)
        };
        let is_sampled = |s: &Segment| s.kind == SegmentKind::Sampled;
        let from = self.turn.segments.iter().rposition(is_sampled);
        for segment in self.turn.segments.iter_mut().skip(from.unwrap_or(0)) {
            segment.scope = Scope::SiblingOnly;
        }
        let ids = self.codec.encode_reply(&action);
        let segment = self.context(ids, Scope::BaseOnly);
        self.turn.segments.push(segment);
        action
    }

    fn step(&mut self, action: String) -> Next {
        let deadline = self.deadline;
        let world = self.world.as_mut().expect("the episode has started");
        let (result, facts) = match world.step(&Action::Text(action.clone()), deadline) {
            Ok(stepped) => stepped,
            Err(error) => {
                self.turn.action = action;
                self.close_turn();
                return self.broke(&error);
            }
        };
        self.facts = facts;
        self.n_acted += 1;
        self.turn.action = action;
        self.turn.is_unsupported = result.unsupported;
        self.turn.facts = self.facts.clone();
        self.see(&result);
        let is_last = self.record.turns.len() + 1 >= self.job.harness.limits().max_turns;
        if result.done || is_last {
            self.close_turn();
            return self.judge(None);
        }
        self.answer();
        self.close_turn();
        self.ask()
    }

    /// Cuts the observation, and notes whether the base would have shown the same.
    fn see(&mut self, result: &StepResult) {
        let harness = &self.job.harness;
        self.turn.observation = rules::observe(harness.observation(), &result.observation);
        if self.record.unprojectable.is_some() {
            return;
        }
        let base_view = rules::observe(&harness.base.observation, &result.observation);
        if base_view != self.turn.observation {
            self.record.unprojectable =
                Some("an observation that the base would show otherwise".into());
        } else if self.n_acted > harness.base.limits.max_turns {
            self.record.unprojectable = Some("more turns than the base allows".into());
        }
    }

    /// Says the observation, and what a rule has to say about it.
    fn answer(&mut self) {
        let observation = self.turn.observation.clone();
        let action = self.turn.action.clone();
        self.say(Role::Observation, &observation, Scope::Both);
        if let Some(Fired {
            effect: Effect::Say(text),
            ..
        }) = self.fire(Moment::AfterStep, Some(&action), Some(&observation))
        {
            self.say(Role::Hint, &text, Scope::SiblingOnly);
        }
    }

    fn close_turn(&mut self) {
        self.record.turns.push(std::mem::take(&mut self.turn));
        self.note(JournalEntry::Turn);
    }

    fn note<'r>(&'r self, entry: fn(&'r Trajectory) -> JournalEntry<'r>) {
        if let Some(journal) = self.journal {
            journal.record(entry(&self.record));
        }
    }

    /// Asks for the verdict; `forced` is an outcome that stands unless the task was solved.
    fn judge(&mut self, forced: Option<Outcome>) -> Next {
        let deadline = self.deadline;
        let world = self.world.as_mut().expect("the episode has started");
        match world.evaluate(deadline) {
            Ok(Verdict {
                reward: Some(reward),
                ..
            }) if !reward.is_finite() => {
                self.broke(&EnvError::Verifier(format!("the reward is {reward}")))
            }
            Ok(verdict) => {
                let outcome = match (verdict.solved, forced) {
                    (true, _) => Outcome::Solved,
                    (false, Some(outcome)) => outcome,
                    (false, None) => Outcome::Failed,
                };
                let default = f32::from(u8::from(verdict.solved));
                self.record.reward = Some(verdict.reward.unwrap_or(default));
                self.over(outcome, None)
            }
            Err(EnvError::Panicked(message)) => self.broke(&EnvError::Verifier(format!(
                "the environment panicked: {message}"
            ))),
            Err(error) => self.broke(&error),
        }
    }

    fn broke(&mut self, error: &EnvError) -> Next {
        let outcome = match error {
            EnvError::Verifier(_) => Outcome::VerifierError,
            _ => Outcome::InfraError,
        };
        self.hit_deadline = *error == EnvError::Deadline || self.is_overdue();
        self.over(outcome, Some(error.to_string()))
    }

    fn over(&mut self, outcome: Outcome, error: Option<String>) -> Next {
        if self.turn != Turn::default() {
            self.close_turn();
        }
        if !outcome.is_valid() {
            self.record.reward = None;
        }
        self.record.outcome = outcome;
        self.record.error = error;
        self.record.rule_errors = self.rules.errors();
        self.note(JournalEntry::End);
        Next::Finished
    }
}

fn blank(job: &Job, options: &ExecOptions, version: PolicyVersion) -> Trajectory {
    Trajectory {
        policy_version: version,
        attempt: job.attempt,
        role: job.role,
        sampling: Sampling {
            temperature: options.temperature,
            max_new_tokens: job.harness.limits().max_reply_tokens,
        },
        ..Trajectory::new(
            options.run_id.clone(),
            job.rollout_id.clone(),
            job.group_id.clone(),
            &job.task,
            job.harness.id(),
            Outcome::InfraError,
        )
    }
}

/// The action in a reply.
fn extract(format: ActionFormat, text: &str) -> String {
    match format {
        ActionFormat::Text => text.to_owned(),
        ActionFormat::FencedCode => fenced(text).unwrap_or(text).to_owned(),
    }
}

/// The inside of the first fenced block that is closed.
fn fenced(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("```")?;
    let (_, body) = after.split_once('\n')?;
    let (code, _) = body.split_once("```")?;
    Some(code)
}
