//! Demonstrations for the warm start: a scripted, imperfect agent plays tasks in the real world through the
//! executor, so that their tokens are laid out exactly as the policy's own will be.
//!
//! The agent takes each decision of a skill with probability `rel` if a rule about the skill is in its
//! context, else with probability `eps`; a rule about something else sometimes costs it a turn or the task.
//! (Rates of a throw-away prototype, 2026; ours.)

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use harness_core::{
    Codec, Finish, Generation, GroupId, HarnessSpec, Job, Policy, PolicyError, PolicyVersion,
    Request, RolloutId, RolloutRole, Seed, Task,
};
use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use serde::{Deserialize, Serialize};

use crate::base_harness::base_harness;
use crate::catalogue::{hint_rule, start_rule};
use crate::demo_agent::DemoAgent;
use crate::grammar::Topic;

/// Rates of the demonstrations. All are probabilities in `[0, 1]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DemoRates {
    /// A skill's decision with a rule about it in context.
    pub rel: f64,
    /// The same without such a rule: the base's chance.
    pub eps: f64,
    /// Share of demonstrations under the base harness.
    pub base_share: f64,
    /// Share under a sibling whose rule is about the task's skill; the rest are under another rule.
    pub matching_share: f64,
    /// Share of sibling demonstrations whose rule is a hint after a step and not a start rule.
    pub hint_share: f64,
    /// A rule about another skill costs a turn.
    pub wrong_wastes: f64,
    /// After a wasted turn the agent gives the task up.
    pub wrong_gives_up: f64,
    /// An action is preceded by a slip: a syntax error, from which the agent recovers. Slips are not trained on.
    pub slip: f64,
}

impl Default for DemoRates {
    fn default() -> Self {
        Self {
            rel: 0.85,
            eps: 0.004,
            base_share: 0.40,
            matching_share: 0.35,
            hint_share: 0.25,
            wrong_wastes: 0.30,
            wrong_gives_up: 0.40,
            slip: 0.04,
        }
    }
}

/// A demonstration to be played.
#[derive(Debug, Clone)]
pub struct DemoJob {
    /// The attempt to be made.
    pub job: Job,
    /// What the rule in its context is about, if there is one.
    pub topic: Option<Topic>,
}

/// The skill that a task's family needs, if any.
pub fn skill_of(task: &Task) -> Option<Topic> {
    match task.family.as_str() {
        "auth" => Some(Topic::Auth),
        "pages" => Some(Topic::Pages),
        "docs" => Some(Topic::Docs),
        "write" => Some(Topic::Verify),
        _ => None,
    }
}

/// Plans one demonstration for every task: which harness it is played under.
///
/// # Determinism
/// Depends on the arguments only; each task's plan on its own seed and position.
pub fn plan(tasks: &[Arc<Task>], rates: &DemoRates, seed: Seed) -> Vec<DemoJob> {
    let base = Arc::new(base_harness());
    tasks
        .iter()
        .enumerate()
        .map(|(i, task)| plan_one(i as u64, task, &base, rates, seed))
        .collect()
}

fn plan_one(
    number: u64,
    task: &Arc<Task>,
    base: &Arc<HarnessSpec>,
    rates: &DemoRates,
    seed: Seed,
) -> DemoJob {
    let seed = seed.derive("demo", &[number]);
    let mut rng = seed.derive("plan", &[]).rng();
    let draw: f64 = rng.random();
    let skill = skill_of(task);
    let topic = if draw < rates.base_share {
        None
    } else if draw < rates.base_share + rates.matching_share && skill.is_some() {
        skill
    } else {
        other_topic(skill, &mut rng)
    };
    let harness = match topic {
        None => Arc::clone(base),
        Some(topic) => {
            let text = topic.draw(&mut rng);
            let edit = if rng.random_bool(rates.hint_share) {
                hint_rule(topic, &text)
            } else {
                start_rule(topic, &text)
            };
            Arc::new(base.apply(&edit).expect("rules of the grammar are valid"))
        }
    };
    let name = format!("demo-{number}");
    DemoJob {
        job: Job {
            rollout_id: RolloutId::new(&name).expect("made of plain ASCII"),
            group_id: GroupId::new(&name).expect("made of plain ASCII"),
            task: Arc::clone(task),
            harness,
            attempt: 0,
            role: RolloutRole::Probe,
            seed,
        },
        topic,
    }
}

fn other_topic(skill: Option<Topic>, rng: &mut impl rand::Rng) -> Option<Topic> {
    let others: Vec<Topic> = Topic::SKILLS
        .into_iter()
        .chain(Topic::DISTRACTORS)
        .filter(|t| Some(*t) != skill)
        .collect();
    others.choose(rng).copied()
}

/// Plays demonstrations as a [`Policy`], so that the executor runs them.
pub struct DemoPolicy {
    codec: Arc<dyn Codec>,
    agents: BTreeMap<RolloutId, DemoAgent>,
    answers: Vec<(RolloutId, Result<Generation, PolicyError>)>,
    slips: Slips,
}

impl fmt::Debug for DemoPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DemoPolicy")
            .field("waiting", &self.answers.len())
            .finish_non_exhaustive()
    }
}

/// The turns of each demonstration that are slips and must not be trained on.
pub type Slips = Arc<Mutex<BTreeMap<RolloutId, Vec<usize>>>>;

impl DemoPolicy {
    /// A policy that knows how each of the planned demonstrations goes. `slips` is filled as it plays.
    pub fn new(codec: Arc<dyn Codec>, jobs: &[DemoJob], rates: DemoRates, slips: Slips) -> Self {
        let agents = jobs
            .iter()
            .map(|d| {
                let agent =
                    DemoAgent::new(&d.job.task, d.topic, rates, d.job.seed.derive("agent", &[]));
                (d.job.rollout_id.clone(), agent)
            })
            .collect();
        Self {
            codec,
            agents,
            answers: Vec::new(),
            slips,
        }
    }
}

impl Policy for DemoPolicy {
    fn submit(&mut self, request: Request) -> Result<(), PolicyError> {
        let seen = self.codec.decode(&request.new_ids);
        let agent = self
            .agents
            .get_mut(&request.rollout)
            .ok_or_else(|| PolicyError::BadRequest("no such demonstration".into()))?;
        let (reply, slip_turn) = agent.next(&seen);
        if let Some(turn) = slip_turn {
            let mut slips = self.slips.lock().expect("no thread panics with the lock");
            slips.entry(request.rollout.clone()).or_default().push(turn);
        }
        let ids = self.codec.encode_reply(&reply);
        let generation = Generation {
            logprobs: vec![0.0; ids.len()],
            ids,
            finish: Finish::Stop,
        };
        self.answers.push((request.rollout, Ok(generation)));
        Ok(())
    }

    fn poll(&mut self, _wait: Duration) -> Vec<(RolloutId, Result<Generation, PolicyError>)> {
        std::mem::take(&mut self.answers)
    }

    fn release(&mut self, rollout: &RolloutId) {
        self.agents.remove(rollout);
    }

    fn version(&self) -> PolicyVersion {
        PolicyVersion::default()
    }
}

#[cfg(test)]
mod tests {
    use harness_core::testing::ByteCodec;
    use harness_core::{ExecOptions, Outcome, RunId, Split, Trajectory, run_jobs};

    use super::*;
    use crate::AppWorldMaker;

    fn play(rates: DemoRates, n_per_family: usize) -> Vec<(Arc<Task>, Option<Topic>, Trajectory)> {
        let tasks: Vec<Arc<Task>> = crate::tasks(Split::WarmStart, n_per_family, Seed::new(3))
            .into_iter()
            .map(Arc::new)
            .collect();
        let plans = plan(&tasks, &rates, Seed::new(4));
        let codec: Arc<dyn Codec> = Arc::new(ByteCodec);
        let policy = DemoPolicy::new(codec, &plans, rates, Slips::default());
        let topics: Vec<_> = plans.iter().map(|p| p.topic).collect();
        let options = ExecOptions {
            max_in_flight: 32,
            rollout_timeout: Duration::from_mins(1),
            retries: 0,
            ..ExecOptions::new(RunId::new("demos").expect("letters are an id"))
        };
        let jobs = plans.into_iter().map(|p| p.job).collect();
        let maker = AppWorldMaker::default();
        let done = run_jobs(vec![Box::new(policy)], &ByteCodec, &maker, jobs, &options);
        let both = tasks.into_iter().zip(topics).zip(done);
        both.map(|((task, topic), done)| (task, topic, done))
            .collect()
    }

    #[test]
    fn a_skilled_agent_solves_everything_and_a_habit_only_lookups() {
        let skilled = DemoRates {
            rel: 1.0,
            eps: 1.0,
            base_share: 0.5,
            matching_share: 0.5,
            wrong_wastes: 0.0,
            slip: 0.0,
            ..DemoRates::default()
        };
        for (task, topic, done) in play(skilled, 12) {
            assert_eq!(
                done.outcome,
                Outcome::Solved,
                "{}: {topic:?}\n{done:#?}",
                task.id
            );
        }
        let habit = DemoRates {
            eps: 0.0,
            base_share: 1.0,
            matching_share: 0.0,
            ..DemoRates::default()
        };
        for (task, _, done) in play(habit, 12) {
            let expect = task.family == "lookup";
            assert_eq!(
                done.outcome == Outcome::Solved,
                expect,
                "{}\n{done:#?}",
                task.id
            );
        }
    }

    #[test]
    fn a_matching_rule_helps_and_another_does_not() {
        let rates = DemoRates {
            base_share: 0.0,
            matching_share: 0.5,
            ..DemoRates::default()
        };
        let (mut matching, mut other) = ([0_usize; 2], [0_usize; 2]);
        for (task, topic, done) in play(rates, 60) {
            let Some(skill) = skill_of(&task) else {
                continue;
            };
            let count = if topic == Some(skill) {
                &mut matching
            } else {
                &mut other
            };
            count[0] += usize::from(done.outcome == Outcome::Solved);
            count[1] += 1;
        }
        assert!(matching[0] * 2 > matching[1], "{matching:?}");
        assert!(other[0] * 20 < other[1], "{other:?}");
    }
}
