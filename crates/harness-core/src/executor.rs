//! Runs harnesses on tasks: many episodes in flight over one policy, on as many threads as there are policies.
//!
//! What an attempt does depends on its job alone, never on which thread or beside which others it runs.
//! A fault of the machinery ends one attempt, with its cause, and is tried again on a fresh environment.
//!
//! Each fault is a `tracing` event of level WARN, in the span of the caller of [`run_jobs`].

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::environment::MakeEnvironment;
use crate::episode::{Episode, Next};
use crate::harness::HarnessSpec;
use crate::ids::{GroupId, IdError, RolloutId, RunId};
use crate::journal::Journal;
use crate::policy::{Codec, Generation, Policy, PolicyError};
use crate::seed::Seed;
use crate::task::Task;
use crate::trajectory::{RolloutRole, Trajectory};

/// How long one poll may wait before deadlines are looked at again.
const POLL: Duration = Duration::from_millis(50);

/// One attempt to be made.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its name, unique in the run.
    pub rollout_id: RolloutId,
    /// The group it belongs to.
    pub group_id: GroupId,
    /// The task.
    pub task: Arc<Task>,
    /// The harness it runs under.
    pub harness: Arc<HarnessSpec>,
    /// Number of the attempt in its group.
    pub attempt: u32,
    /// Why it is made.
    pub role: RolloutRole,
    /// Everything random in the attempt derives from it; the world itself derives from the task's seed.
    pub seed: Seed,
}

/// How attempts are run.
#[derive(Debug, Clone)]
pub struct ExecOptions {
    /// The run they belong to.
    pub run_id: RunId,
    /// Temperature; reply lengths come from each harness's limits.
    pub temperature: f32,
    /// Most episodes in flight on one thread.
    pub max_in_flight: usize,
    /// Wall-clock limit of one attempt (bug report F10); an attempt past it is an infrastructure error and
    /// is not tried again. Time that a late environment took from its neighbours is given back to them.
    pub rollout_timeout: Duration,
    /// How often an invalid attempt is made again on a fresh environment.
    pub retries: u32,
    /// What is told of attempts while they run (bug report F6); worth its file where they are long or dear.
    pub journal: Option<Arc<dyn Journal>>,
}

impl Job {
    /// The jobs of a group: `n` attempts at a task. The group is named `{name}/{task}` and its attempts
    /// `{name}/{task}/{attempt}`, so a name may be used once in a run.
    ///
    /// # Errors
    /// [`IdError`] if `name` does not fit into an id.
    ///
    /// # Determinism
    /// An attempt's seed derives from `seed`, the task's id and the attempt's number.
    pub fn group(
        name: &str,
        task: &Arc<Task>,
        harness: &Arc<HarnessSpec>,
        n: u32,
        role: RolloutRole,
        seed: Seed,
    ) -> Result<Vec<Self>, IdError> {
        let group_id = GroupId::new(format!("{name}/{}", task.id))?;
        let job = |attempt: u32| {
            Ok(Self {
                rollout_id: RolloutId::new(format!("{group_id}/{attempt}"))?,
                group_id: group_id.clone(),
                task: Arc::clone(task),
                harness: Arc::clone(harness),
                attempt,
                role,
                seed: seed.derive(task.id.as_str(), &[u64::from(attempt)]),
            })
        };
        (0..n).map(job).collect()
    }

    /// The jobs of one group for each task, task by task; see [`Job::group`].
    ///
    /// # Errors
    /// [`IdError`] if `name` does not fit into an id.
    pub fn groups(
        name: &str,
        tasks: &[Arc<Task>],
        harness: &HarnessSpec,
        n: u32,
        role: RolloutRole,
        seed: Seed,
    ) -> Result<Vec<Self>, IdError> {
        let harness = Arc::new(harness.clone());
        let mut jobs = Vec::new();
        for task in tasks {
            jobs.extend(Self::group(name, task, &harness, n, role, seed)?);
        }
        Ok(jobs)
    }
}

impl ExecOptions {
    /// Temperature 1, 64 episodes in flight, 10 minutes an attempt, one retry, no journal. All are ours.
    pub fn new(run_id: RunId) -> Self {
        Self {
            run_id,
            temperature: 1.0,
            max_in_flight: 64,
            rollout_timeout: Duration::from_mins(10),
            retries: 1,
            journal: None,
        }
    }
}

/// Makes every attempt and returns the trajectories in the order of the jobs.
///
/// One thread per policy; whole groups are handed to threads, so that prompts can be shared. Without a policy
/// every attempt is an infrastructure error.
///
/// # Determinism
/// The trajectories do not depend on the number of policies, unless a deadline passes.
///
/// An environment that panics is thrown away, and its attempt ends as an infrastructure error, or as a verifier
/// error if it was being judged (bug report F2). Like any other fault it is tried again on a fresh one.
/// That needs a program that unwinds: under `panic = "abort"` it ends.
///
/// # Panics
/// If a policy, codec or journal panics.
#[expect(
    clippy::needless_pass_by_value,
    reason = "a job is made for one run and must not be run twice under the same ids"
)]
pub fn run_jobs(
    mut policies: Vec<Box<dyn Policy>>,
    codec: &dyn Codec,
    envs: &dyn MakeEnvironment,
    jobs: Vec<Job>,
    options: &ExecOptions,
) -> Vec<Trajectory> {
    let shared = Shared {
        codec,
        envs,
        options,
        results: Mutex::new((0..jobs.len()).map(|_| None).collect()),
        queue: Mutex::new(by_group(&jobs)),
        jobs: &jobs,
    };
    let last = policies.pop();
    // Events of every thread belong to the caller's span.
    let span = tracing::Span::current();
    std::thread::scope(|scope| {
        for mut policy in policies {
            let (shared, span) = (&shared, &span);
            scope.spawn(move || span.in_scope(|| shared.work(policy.as_mut())));
        }
        if let Some(mut policy) = last {
            shared.work(policy.as_mut());
        }
    });
    let results = shared
        .results
        .into_inner()
        .expect("no thread panicked while it held the lock");
    results
        .into_iter()
        .zip(&jobs)
        .map(|(done, job)| done.unwrap_or_else(|| Episode::never_ran(job, options)))
        .collect()
}

/// Tells what ended an attempt in a way that says nothing about the policy.
fn tell_fault(episode: &Episode<'_>, may_retry: bool) {
    let record = episode.record();
    let message = match (may_retry, episode.hit_deadline()) {
        (true, _) => "an attempt broke and is made again",
        (false, true) => "an attempt ran past its deadline",
        (false, false) => "an attempt broke",
    };
    tracing::warn!(
        rollout_id = %record.rollout_id,
        task_id = %record.task_id,
        harness_id = %record.harness_id,
        outcome = record.outcome.as_str(),
        error = record.error.as_deref(),
        n_tries = episode.n_tries() + 1,
        "{message}"
    );
}

/// Indexes of the jobs, neighbours of one group and harness together.
fn by_group(jobs: &[Job]) -> VecDeque<Vec<usize>> {
    let mut queue: VecDeque<Vec<usize>> = VecDeque::new();
    for (i, job) in jobs.iter().enumerate() {
        match queue.back_mut() {
            Some(last) if is_neighbour(&jobs[last[0]], job) => last.push(i),
            _ => queue.push_back(vec![i]),
        }
    }
    queue
}

fn is_neighbour(a: &Job, b: &Job) -> bool {
    a.group_id == b.group_id && Arc::ptr_eq(&a.harness, &b.harness)
}

struct Shared<'a> {
    codec: &'a dyn Codec,
    envs: &'a dyn MakeEnvironment,
    options: &'a ExecOptions,
    jobs: &'a [Job],
    queue: Mutex<VecDeque<Vec<usize>>>,
    results: Mutex<Vec<Option<Trajectory>>>,
}

/// Episodes in flight on one thread, by rollout.
type InFlight<'a> = BTreeMap<RolloutId, (usize, Episode<'a>)>;

/// Puts the deadlines of the others off if an environment came back late (bug report F10): one that holds its
/// thread must not end its neighbours. A neighbour whose policy was already given the old deadline may still
/// lose its answer; it is tried again.
fn give_back(episode: &Episode<'_>, began: Instant, open: &mut InFlight<'_>) {
    if episode.is_overdue() {
        let span = began.elapsed();
        for (_, other) in open.values_mut() {
            other.put_off(span);
        }
    }
}

impl<'a> Shared<'a> {
    fn work(&self, policy: &mut dyn Policy) {
        let mut open = InFlight::new();
        loop {
            self.fill(&mut open, policy);
            if open.is_empty() {
                return;
            }
            for (id, answer) in policy.poll(POLL) {
                if let Some((at, episode)) = open.remove(&id) {
                    self.advance(at, episode, answer, &mut open, policy);
                }
            }
            self.drop_overdue(&mut open, policy);
        }
    }

    /// Starts episodes of whole groups while there is room.
    fn fill(&self, open: &mut InFlight<'a>, policy: &mut dyn Policy) {
        while open.len() < self.options.max_in_flight.max(1) {
            let next = self
                .queue
                .lock()
                .expect("no thread panicked while it held the lock")
                .pop_front();
            let Some(group) = next else { return };
            for at in group {
                self.start(at, 0, open, policy);
            }
        }
    }

    fn start(&self, at: usize, n_tries: u32, open: &mut InFlight<'a>, policy: &mut dyn Policy) {
        let job = &self.jobs[at];
        let mut episode = Episode::new(job, self.codec, self.options, policy.version(), n_tries);
        let began = Instant::now();
        let next = episode.start(self.envs);
        give_back(&episode, began, open);
        self.go_on(at, episode, next, open, policy);
    }

    fn advance(
        &self,
        at: usize,
        mut episode: Episode<'a>,
        answer: Result<Generation, PolicyError>,
        open: &mut InFlight<'a>,
        policy: &mut dyn Policy,
    ) {
        let began = Instant::now();
        let next = episode.take(answer);
        give_back(&episode, began, open);
        self.go_on(at, episode, next, open, policy);
    }

    fn go_on(
        &self,
        at: usize,
        mut episode: Episode<'a>,
        next: Next,
        open: &mut InFlight<'a>,
        policy: &mut dyn Policy,
    ) {
        let next = match next {
            Next::Ask(request) => match policy.submit(request) {
                Ok(()) => {
                    open.insert(self.jobs[at].rollout_id.clone(), (at, episode));
                    return;
                }
                Err(error) => episode.take(Err(error)),
            },
            Next::Finished => Next::Finished,
        };
        debug_assert!(matches!(next, Next::Finished));
        self.finish(at, episode, open, policy);
    }

    fn finish(
        &self,
        at: usize,
        episode: Episode<'a>,
        open: &mut InFlight<'a>,
        policy: &mut dyn Policy,
    ) {
        policy.release(&self.jobs[at].rollout_id);
        let n_tries = episode.n_tries();
        let may_retry = episode.may_retry() && n_tries < self.options.retries;
        if !episode.record().outcome.is_valid() {
            tell_fault(&episode, may_retry);
        }
        if may_retry {
            drop(episode);
            self.start(at, n_tries + 1, open, policy);
            return;
        }
        let trajectory = episode.into_trajectory();
        self.results
            .lock()
            .expect("no thread panicked while it held the lock")[at] = Some(trajectory);
    }

    /// Ends attempts whose deadline passed while the policy still owes an answer.
    fn drop_overdue(&self, open: &mut InFlight<'a>, policy: &mut dyn Policy) {
        let overdue: Vec<RolloutId> = open
            .iter()
            .filter(|(_, (_, episode))| episode.is_overdue())
            .map(|(id, _)| id.clone())
            .collect();
        for id in overdue {
            if let Some((at, episode)) = open.remove(&id) {
                self.advance(at, episode, Err(PolicyError::Deadline), open, policy);
            }
        }
    }
}
