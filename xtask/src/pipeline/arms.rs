//! The arms of a reproduction: the same policy, tasks and budget, another answer to an all-failed group.
//!
//! An arm trains until it has spent its budget of environment rollouts; anchor probes count.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use anyhow::Context as _;
use env_appworld::AppWorldMaker;
use harness_core::{
    ExecOptions, GroupId, HarnessId, HarnessSpec, Job, MakeEnvironment, Outcome, Policy, RolloutId,
    RolloutRole, Seed, Split, Task, Trajectory, run_jobs,
};
use harness_pool::{
    Digest, EvidenceRow, Probe, RescueEvidence, RouteContext, SelectError, SelectSiblings,
    SiblingPool,
};
use rand::seq::SliceRandom as _;
use rescue_grpo::learner::Learner as _;
use rescue_grpo::{
    AdvantageConfig, Context, GrpoConfig, NanoLearner, NanoLearnerConfig, OutcomeCounts,
    RescueMode, Runtime, StepReport, ZeroSpread, step,
};
use serde::{Deserialize, Serialize};

use super::evaluate::{Evaluation, Plan, evaluate};
use super::exec_options;
use super::warm_start::{WarmStart, tasks};
use crate::arm::Arm;
use crate::config::Config;
use crate::files::JsonLines;
use crate::progress::Progress;

/// Whether an arm tries siblings.
pub(super) const fn uses_siblings(arm: Arm) -> bool {
    !matches!(arm, Arm::PolicyOnly | Arm::PolicyOnlyMatched)
}

/// The settings of a training step in an arm.
fn grpo_of(arm: Arm, config: &Config) -> GrpoConfig {
    let (rescue, context) = match arm {
        Arm::PolicyOnly => (RescueMode::Off, Context::Base),
        Arm::PolicyOnlyMatched => (RescueMode::BaseAgain, Context::Base),
        Arm::HarnessSSibling => (RescueMode::Siblings, Context::Sibling),
        Arm::HarnessSBaseIs => (RescueMode::Siblings, Context::BaseIs),
        Arm::HarnessSBasePositive => (RescueMode::Siblings, Context::BasePositive),
        Arm::HarnessS | Arm::RandomSibling | Arm::SingleBest | Arm::NoReanchor => {
            (RescueMode::Siblings, Context::Base)
        }
    };
    let settings = &config.grpo;
    GrpoConfig {
        group_size: settings.group_size,
        tasks_per_step: settings.tasks_per_step,
        min_valid: settings.min_valid,
        rescue,
        k: settings.k,
        context,
        advantage: AdvantageConfig {
            divide_by_std: settings.divide_by_std,
            ..AdvantageConfig::default()
        },
        zero_spread: if settings.counts_zero_spread {
            ZeroSpread::Counted
        } else {
            ZeroSpread::LeftOut
        },
        clip_low: settings.clip_low as f32,
        clip_high: settings.clip_high as f32,
        importance_cap: settings.importance_cap as f32,
        learning_rate: settings.learning_rate,
        max_grad_norm: settings.max_grad_norm as f32,
        temperature: settings.temperature as f32,
        reanchor_every: if arm == Arm::NoReanchor {
            0
        } else {
            config.router.reanchor_every
        },
        ..GrpoConfig::default()
    }
}

/// One point of a learning curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CurvePoint {
    /// Updates so far.
    pub(super) step: u64,
    /// Environment rollouts so far.
    pub(super) rollouts: u64,
    /// The attempts under the base, on dev.
    pub(super) dev: Evaluation,
}

/// What an arm did with one seed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ArmResult {
    /// The arm.
    pub(super) arm: Arm,
    /// The seed.
    pub(super) seed: u64,
    /// Steps made.
    pub(super) steps: u64,
    /// Environment rollouts of training and probes.
    pub(super) rollouts: u64,
    /// Of these, probes.
    pub(super) probe_rollouts: u64,
    /// Tokens of all training contexts.
    pub(super) tokens: u64,
    /// Groups, all-failed groups and rescued groups, by step.
    pub(super) groups: Vec<[u64; 3]>,
    /// How attempts of training ended.
    pub(super) outcomes: BTreeMap<String, u64>,
    /// Trajectories that could not be projected.
    pub(super) unprojectable: u64,
    /// Share of the loss that came from negative advantages, by update.
    pub(super) negative_share: Vec<f64>,
    /// Rescue attempts and solved rescue attempts by harness name.
    pub(super) siblings: BTreeMap<String, [u64; 2]>,
    /// The learning curve on dev.
    pub(super) curve: Vec<CurvePoint>,
    /// The last checkpoint on test.
    pub(super) test: Evaluation,
    /// The text of the router's profile file at the end, if a router chose.
    pub(super) profile_file: Option<String>,
    /// What each step reported.
    pub(super) metrics: Vec<serde_json::Value>,
}

/// What all arms share.
#[derive(Clone, Copy)]
pub(super) struct Shared<'a> {
    /// The resolved configuration.
    pub(super) config: &'a Config,
    /// The policy before training.
    pub(super) warm: &'a WarmStart,
    /// The frozen pool.
    pub(super) pool: &'a SiblingPool,
}

impl Shared<'_> {
    /// A learner at the warm start's weights.
    ///
    /// # Errors
    /// If sizes and weights do not fit.
    pub(super) fn learner(&self) -> anyhow::Result<NanoLearner> {
        let checkpoint = &self.warm.checkpoint;
        let config = NanoLearnerConfig {
            adamw: rescue_grpo::AdamWConfig::default(),
            n_threads: self.config.n_threads(),
            device: rescue_grpo::DeviceKind::Cpu,
            stop_ids: harness_core::Codec::stop_ids(self.warm.codec.as_ref()).to_vec(),
        };
        NanoLearner::new(
            checkpoint.model.clone(),
            checkpoint.weights.clone(),
            checkpoint.policy_version,
            config,
        )
        .context("starting from the warm start's weights")
    }
}

/// Trains one arm with one seed and judges it under the base harness.
///
/// # Errors
/// If a step fails or a file cannot be written.
pub(super) fn run_arm(
    shared: Shared<'_>,
    arm: Arm,
    seed: u64,
    selector: &mut dyn SelectSiblings,
    trajectories: &mut JsonLines,
) -> anyhow::Result<ArmResult> {
    let mut training = Training::new(shared, arm, seed)?;
    let budget = shared.config.run.budget_rollouts;
    let progress = Progress::start(format!("{arm} seed {seed}"), budget);
    if uses_siblings(arm) && !shared.pool.is_empty() {
        training.reanchor(selector)?;
    }
    training.measure()?;
    while training.result.rollouts < budget {
        let before = training.result.rollouts;
        training.step(selector, trajectories)?;
        progress.advance(training.result.rollouts - before);
    }
    training.measure()?;
    training.judge()?;
    progress.note(format!(
        "{} seed {seed}: base success on dev {:.3}",
        arm,
        training
            .result
            .curve
            .last()
            .map_or(0.0, |p| p.dev.success())
    ));
    progress.finish();
    Ok(training.result)
}

struct Training<'a> {
    shared: Shared<'a>,
    arm: Arm,
    grpo: GrpoConfig,
    seed: Seed,
    learner: NanoLearner,
    train: Vec<Arc<Task>>,
    anchors: Vec<Arc<Task>>,
    exec: ExecOptions,
    next_curve: u64,
    result: ArmResult,
}

impl<'a> Training<'a> {
    fn new(shared: Shared<'a>, arm: Arm, seed: u64) -> anyhow::Result<Self> {
        let config = shared.config;
        let root = Seed::new(config.run.task_seed);
        Ok(Self {
            shared,
            arm,
            grpo: grpo_of(arm, config),
            // The same for every arm: attempts under the base differ only where the policies do.
            seed: Seed::new(seed).derive("arm", &[]),
            learner: shared.learner()?,
            train: tasks(Split::Train, config.run.n_train_per_family, root),
            anchors: tasks(Split::Anchor, config.router.anchors_per_family, root),
            exec: exec_options(config, &format!("{arm}-s{seed}"))?,
            next_curve: 0,
            result: ArmResult {
                arm,
                seed,
                steps: 0,
                rollouts: 0,
                probe_rollouts: 0,
                tokens: 0,
                groups: Vec::new(),
                outcomes: Outcome::ALL.map(|o| (o.as_str().to_owned(), 0)).into(),
                unprojectable: 0,
                negative_share: Vec::new(),
                siblings: BTreeMap::new(),
                curve: Vec::new(),
                test: Evaluation::default(),
                profile_file: None,
                metrics: Vec::new(),
            },
        })
    }

    /// The tasks of a step: a walk through seeded shuffles of the training tasks.
    fn draw(&self, step: u64) -> Vec<Arc<Task>> {
        let (n, m) = (self.train.len() as u64, self.grpo.tasks_per_step as u64);
        (step * m..(step + 1) * m)
            .map(|i| {
                let mut order: Vec<usize> = (0..self.train.len()).collect();
                order.shuffle(&mut self.seed.derive("epoch", &[i / n]).rng());
                Arc::clone(&self.train[order[(i % n) as usize]])
            })
            .collect()
    }

    fn step(
        &mut self,
        selector: &mut dyn SelectSiblings,
        trajectories: &mut JsonLines,
    ) -> anyhow::Result<()> {
        let number = self.result.steps;
        let uses_router = uses_siblings(self.arm) && !self.shared.pool.is_empty();
        if uses_router && self.grpo.is_reanchor_due(number) {
            self.reanchor(selector)?;
        }
        let drawn = self.draw(number);
        let is_kept = number.is_multiple_of(self.shared.config.run.keep_every_steps.max(1));
        let mut sink = |t: &Trajectory| -> io::Result<()> {
            if is_kept {
                trajectories.push(t).map_err(io::Error::other)?;
            }
            Ok(())
        };
        let mut runtime = Runtime {
            codec: self.shared.warm.codec.as_ref(),
            envs: &AppWorldMaker::default(),
            exec: &self.exec,
            n_threads: self.shared.config.n_threads(),
            seed: self.seed,
            step: number,
            sink: &mut sink,
        };
        let report = step(
            &mut self.learner,
            &drawn,
            &mut runtime,
            self.shared.pool,
            selector,
            &self.grpo,
        )
        .with_context(|| format!("{}: step {number}", self.arm))?;
        self.take(&report);
        self.result.metrics.push(serde_json::to_value(MetricsLine {
            arm: self.arm,
            seed: self.result.seed,
            rollouts: self.result.rollouts,
            report: &report,
        })?);
        if self.result.rollouts >= self.next_curve {
            self.measure()?;
        }
        Ok(())
    }

    fn take(&mut self, report: &StepReport) {
        let result = &mut self.result;
        result.steps += 1;
        result.rollouts += report.n_rollouts();
        result.tokens += report.n_tokens;
        let groups = [
            report.n_tasks,
            report.groups.all_failed,
            report.groups.rescued,
        ];
        result.groups.push(groups);
        result.unprojectable += report.n_unprojectable;
        for counts in [&report.base, &report.rescue] {
            for (outcome, n) in by_name(counts) {
                *result
                    .outcomes
                    .entry(outcome.as_str().to_owned())
                    .or_default() += n;
            }
        }
        let update = report.update.iter();
        result
            .negative_share
            .extend(update.map(|u| f64::from(u.negative_share)));
        for (id, tally) in &report.harnesses {
            let name = self.shared.pool.get(id).map_or("base", |s| s.name.as_str());
            let entry = result.siblings.entry(name.to_owned()).or_default();
            entry[0] += tally.attempts;
            entry[1] += tally.solved;
        }
    }

    /// Adds a point to the learning curve.
    fn measure(&mut self) -> anyhow::Result<()> {
        let run = &self.shared.config.run;
        let is_due = self
            .result
            .curve
            .last()
            .is_none_or(|p| p.step < self.result.steps);
        if !is_due {
            return Ok(());
        }
        self.next_curve = self.result.rollouts + run.eval_every_rollouts;
        let plan = Plan {
            split: Split::Dev,
            n_per_family: run.n_dev_per_family,
            attempts: run.dev_attempts,
            is_greedy: false,
        };
        let dev = evaluate(self.shared, &self.learner, self.shared.pool.base(), plan)?;
        self.result.curve.push(CurvePoint {
            step: self.result.steps,
            rollouts: self.result.rollouts,
            dev,
        });
        Ok(())
    }

    /// Judges the last checkpoint on test, back under the base harness.
    fn judge(&mut self) -> anyhow::Result<()> {
        self.result.test = judge(self.shared, &self.learner)?;
        Ok(())
    }

    fn reanchor(&mut self, selector: &mut dyn SelectSiblings) -> anyhow::Result<()> {
        let mut probe = AnchorProbe {
            shared: self.shared,
            learner: &self.learner,
            anchors: &self.anchors,
            seed: self.seed.derive("anchor", &[self.result.steps]),
            step: self.result.steps,
            exec: &self.exec,
            failed: BTreeMap::new(),
            n_rollouts: 0,
            tokens: 0,
        };
        selector.reanchor(&mut probe).context("re-anchoring")?;
        self.result.rollouts += probe.n_rollouts;
        self.result.probe_rollouts += probe.n_rollouts;
        self.result.tokens += probe.tokens;
        Ok(())
    }
}

/// Counts of outcomes with their names.
const fn by_name(counts: &OutcomeCounts) -> [(Outcome, u64); 6] {
    [
        (Outcome::Solved, counts.solved),
        (Outcome::Failed, counts.failed),
        (Outcome::Truncated, counts.truncated),
        (Outcome::InfraError, counts.infra_error),
        (Outcome::VerifierError, counts.verifier_error),
        (Outcome::Cancelled, counts.cancelled),
    ]
}

/// Judges a policy on the test split under the base harness: sampled and greedy.
///
/// # Errors
/// If attempts cannot be run.
pub(super) fn judge(shared: Shared<'_>, learner: &NanoLearner) -> anyhow::Result<Evaluation> {
    let run = &shared.config.run;
    let sampled = Plan {
        split: Split::Test,
        n_per_family: run.n_test_per_family,
        attempts: run.test_attempts,
        is_greedy: false,
    };
    let greedy = Plan {
        attempts: 1,
        is_greedy: true,
        ..sampled
    };
    let mut test = evaluate(shared, learner, shared.pool.base(), sampled)?;
    test.rows
        .extend(evaluate(shared, learner, shared.pool.base(), greedy)?.rows);
    Ok(test)
}

#[derive(Serialize)]
struct MetricsLine<'a> {
    arm: Arm,
    seed: u64,
    /// Environment rollouts so far, this step's included.
    rollouts: u64,
    #[serde(flatten)]
    report: &'a StepReport,
}

/// Runs the anchor tasks with the current policy.
struct AnchorProbe<'a> {
    shared: Shared<'a>,
    learner: &'a NanoLearner,
    anchors: &'a [Arc<Task>],
    seed: Seed,
    step: u64,
    exec: &'a ExecOptions,
    /// What the base's attempts at each task showed, once they were made.
    failed: BTreeMap<String, Option<Digest>>,
    n_rollouts: u64,
    tokens: u64,
}

impl AnchorProbe<'_> {
    fn run(&mut self, harness: &HarnessSpec, purpose: u64) -> Result<Vec<Trajectory>, SelectError> {
        let attempts = self.shared.config.router.anchor_attempts;
        let harness = Arc::new(harness.clone());
        let mut jobs = Vec::new();
        for (i, task) in self.anchors.iter().enumerate() {
            for attempt in 0..attempts {
                let name = format!("p{}-h{purpose}-t{i}", self.step);
                let group = GroupId::new(&name).map_err(SelectError::probe)?;
                let rollout = RolloutId::new(format!("{name}-a{attempt}"));
                jobs.push(Job {
                    rollout_id: rollout.map_err(SelectError::probe)?,
                    group_id: group,
                    task: Arc::clone(task),
                    harness: Arc::clone(&harness),
                    attempt,
                    role: RolloutRole::Probe,
                    seed: self
                        .seed
                        .derive("probe", &[purpose, i as u64, u64::from(attempt)]),
                });
            }
        }
        let policies: Vec<Box<dyn Policy>> = (0..self.shared.config.n_threads())
            .map(|_| self.learner.snapshot())
            .collect();
        let envs: &dyn MakeEnvironment = &AppWorldMaker::default();
        let done = run_jobs(
            policies,
            self.shared.warm.codec.as_ref(),
            envs,
            jobs,
            self.exec,
        );
        self.n_rollouts += done.len() as u64;
        self.tokens += done.iter().map(|t| t.n_tokens() as u64).sum::<u64>();
        Ok(done)
    }

    fn rows(&self, done: &[Trajectory]) -> Vec<EvidenceRow> {
        done.iter()
            .filter_map(|t| {
                let digest = self.failed.get(t.task_id.as_str())?;
                let task = self.anchors.iter().find(|task| task.id == t.task_id)?;
                let context = RouteContext {
                    task_id: t.task_id.clone(),
                    instruction: task.instruction.clone(),
                    digest: digest.clone(),
                    policy_version: t.policy_version,
                    step: self.step,
                    seed: self.seed,
                };
                EvidenceRow::from_trajectory(t, context.cluster(), digest.is_some(), false)
            })
            .collect()
    }
}

impl Probe for AnchorProbe<'_> {
    fn probe(&mut self, harness: Option<&HarnessId>) -> Result<Vec<EvidenceRow>, SelectError> {
        let pool = self.shared.pool;
        let Some(id) = harness else {
            let done = self.run(&pool.base().clone(), 0)?;
            for task in self.anchors {
                let own: Vec<Trajectory> = done
                    .iter()
                    .filter(|t| t.task_id == task.id)
                    .cloned()
                    .collect();
                let is_failed = own.iter().all(|t| t.outcome != Outcome::Solved);
                let digest = is_failed.then(|| Digest::from_attempts(&task.instruction, &own));
                self.failed.insert(task.id.to_string(), digest);
            }
            return Ok(self.rows(&done));
        };
        let place = pool.ids().iter().position(|other| other == id);
        let (Some(place), Some(sibling)) = (place, pool.get(id)) else {
            return Err(SelectError::UnknownHarness(id.clone()));
        };
        let done = self.run(&sibling.harness.clone(), place as u64 + 1)?;
        Ok(self.rows(&done))
    }
}

/// A selector for arms that never select.
pub(super) struct NoSelector;

impl SelectSiblings for NoSelector {
    fn select(
        &mut self,
        _context: &RouteContext,
        _k: usize,
    ) -> Result<harness_pool::Decision, SelectError> {
        Ok(harness_pool::Decision::default())
    }
    fn observe(&mut self, _evidence: &RescueEvidence) -> Result<(), SelectError> {
        Ok(())
    }
    fn reanchor(&mut self, _probe: &mut dyn Probe) -> Result<(), SelectError> {
        Ok(())
    }
}
