//! Steps of a training arm with a stopwatch in them: what `cargo xtask bench` measures and where its real rows
//! come from. Nothing here changes a result.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use env_appworld::{AppWorldMaker, base_harness, catalogue, world_hash};
use harness_core::{
    Action, Deadline, EnvError, Environment, Facts, Generation, MakeEnvironment, Policy,
    PolicyError, PolicyVersion, Request, RolloutId, Seed, Sequence, Split, StepResult, Task,
    Trajectory, Verdict,
};
use harness_pool::{PoolBuilder, Sibling, SiblingPool};
use rescue_grpo::learner::{Learner, LearnerError, UpdateBatch, UpdateStats};
use rescue_grpo::{ModelConfig, NanoLearner, Runtime, step};

use super::arms::{Shared, grpo_of};
use super::chooser::Chooser;
use super::exec_options;
use super::warm_start::{self, WarmStart, tasks};
use crate::arm::Arm;
use crate::config::{Config, Scale};

/// What some steps of an arm did and how long they took.
pub(crate) struct TimedSteps {
    /// The policy's sizes.
    pub(crate) model: ModelConfig,
    /// The shipped warm start's weights, with which the first step began.
    pub(crate) weights: Vec<f32>,
    /// What the learner was given, update by update.
    pub(crate) batches: Vec<UpdateBatch>,
    /// Attempts made.
    pub(crate) n_rollouts: u64,
    /// Wall-clock seconds of all steps.
    pub(crate) wall_s: f64,
    /// Of these, seconds of updates.
    pub(crate) update_s: f64,
    /// Seconds of sampling and of environments, summed over threads.
    pub(crate) sampling_s: f64,
    /// See `sampling_s`.
    pub(crate) environment_s: f64,
}

/// Makes `n_steps` steps of `harness_s` on the embedded world at the default scale, from the shipped warm start,
/// with a router over siblings that [`pool`] takes from the catalogue: evolving them would take minutes.
///
/// # Errors
/// If the warm start cannot be read or a step fails.
pub(crate) fn timed_steps(n_steps: u64, n_threads: usize) -> anyhow::Result<TimedSteps> {
    let config = Config {
        threads: n_threads,
        ..Config::builtin("appworld", Scale::Default)?
    };
    let warm = warm_start::shipped()?;
    let pool = pool(&warm)?;
    let shared = Shared {
        config: &config,
        warm: &warm,
        pool: &pool,
    };
    let grpo = grpo_of(Arm::HarnessS, &config);
    let root = Seed::new(config.run.task_seed);
    let train = tasks(Split::Train, config.run.n_train_per_family, root);
    let exec = exec_options(&config, "bench")?;
    let (sampling, environment) = (Stopwatch::default(), Stopwatch::default());
    let mut learner = TimedLearner {
        inner: shared.learner()?,
        sampling: sampling.clone(),
        update: Duration::ZERO,
        batches: Vec::new(),
    };
    let mut chooser = Chooser::router(&config, &pool)?;
    let envs = TimedMaker {
        inner: AppWorldMaker::default(),
        watch: environment.clone(),
    };
    let mut sink = |_: &Trajectory| -> io::Result<()> { Ok(()) };
    let start = Instant::now();
    let mut n_rollouts = 0;
    for number in 0..n_steps {
        let first = number as usize * grpo.tasks_per_step;
        let drawn: Vec<Arc<Task>> = (first..first + grpo.tasks_per_step)
            // A stride that is coprime to the number of tasks mixes families.
            .map(|i| Arc::clone(&train[i * 97 % train.len()]))
            .collect();
        let mut runtime = Runtime {
            codec: warm.codec.as_ref(),
            envs: &envs,
            exec: &exec,
            n_threads: config.n_threads(),
            seed: Seed::new(1).derive("arm", &[]),
            step: number,
            sink: &mut sink,
        };
        let selector = chooser.selector();
        let made = step(&mut learner, &drawn, &mut runtime, &pool, selector, &grpo)?;
        n_rollouts += made.n_rollouts();
    }
    Ok(TimedSteps {
        model: warm.checkpoint.model.clone(),
        weights: warm.checkpoint.weights.clone(),
        batches: learner.batches,
        n_rollouts,
        wall_s: start.elapsed().as_secs_f64(),
        update_s: learner.update.as_secs_f64(),
        sampling_s: sampling.seconds(),
        environment_s: environment.seconds(),
    })
}

/// One sibling for each topic of the environment's catalogue: its first start rule.
fn pool(warm: &WarmStart) -> anyhow::Result<SiblingPool> {
    let base = base_harness();
    let hash = warm.checkpoint.content_hash();
    let mut builder = PoolBuilder::new(base.clone(), hash, world_hash());
    for entry in catalogue() {
        if entry.name.ends_with("-start-0") {
            builder.add(Sibling::by_hand(entry.name, &base, entry.edits)?)?;
        }
    }
    Ok(builder.freeze())
}

/// Time summed over threads.
#[derive(Debug, Clone, Default)]
struct Stopwatch(Arc<AtomicU64>);

impl Stopwatch {
    fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let out = work();
        let nanos = start.elapsed().as_nanos() as u64;
        self.0.fetch_add(nanos, Ordering::Relaxed);
        out
    }

    fn seconds(&self) -> f64 {
        self.0.load(Ordering::Relaxed) as f64 / 1e9
    }
}

struct TimedLearner {
    inner: NanoLearner,
    sampling: Stopwatch,
    update: Duration,
    batches: Vec<UpdateBatch>,
}

impl Learner for TimedLearner {
    fn snapshot(&self) -> Box<dyn Policy> {
        Box::new(TimedPolicy {
            inner: self.sampling.time(|| self.inner.snapshot()),
            watch: self.sampling.clone(),
        })
    }

    fn logprobs(&self, rows: &[Sequence]) -> Result<Vec<Vec<f32>>, LearnerError> {
        self.inner.logprobs(rows)
    }

    fn update(&mut self, batch: &UpdateBatch) -> Result<UpdateStats, LearnerError> {
        self.batches.push(batch.clone());
        let start = Instant::now();
        let stats = self.inner.update(batch);
        self.update += start.elapsed();
        stats
    }

    fn version(&self) -> PolicyVersion {
        self.inner.version()
    }

    fn max_context(&self) -> usize {
        self.inner.max_context()
    }
}

struct TimedPolicy {
    inner: Box<dyn Policy>,
    watch: Stopwatch,
}

impl Policy for TimedPolicy {
    fn submit(&mut self, request: Request) -> Result<(), PolicyError> {
        self.watch.time(|| self.inner.submit(request))
    }

    fn poll(&mut self, wait: Duration) -> Vec<(RolloutId, Result<Generation, PolicyError>)> {
        self.watch.time(|| self.inner.poll(wait))
    }

    fn release(&mut self, rollout: &RolloutId) {
        self.inner.release(rollout);
    }

    fn version(&self) -> PolicyVersion {
        self.inner.version()
    }
}

struct TimedMaker {
    inner: AppWorldMaker,
    watch: Stopwatch,
}

impl MakeEnvironment for TimedMaker {
    fn make(&self) -> Result<Box<dyn Environment>, EnvError> {
        let inner = self.watch.time(|| self.inner.make())?;
        let watch = self.watch.clone();
        Ok(Box::new(TimedEnvironment { inner, watch }))
    }
}

struct TimedEnvironment {
    inner: Box<dyn Environment>,
    watch: Stopwatch,
}

impl Environment for TimedEnvironment {
    fn reset(&mut self, task: &Task, deadline: Deadline) -> Result<Facts, EnvError> {
        self.watch.time(|| self.inner.reset(task, deadline))
    }

    fn step(&mut self, action: &Action, deadline: Deadline) -> Result<StepResult, EnvError> {
        self.watch.time(|| self.inner.step(action, deadline))
    }

    fn evaluate(&mut self, deadline: Deadline) -> Result<Verdict, EnvError> {
        self.watch.time(|| self.inner.evaluate(deadline))
    }

    fn predicates(&self) -> Facts {
        self.watch.time(|| self.inner.predicates())
    }
}
