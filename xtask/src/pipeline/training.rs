//! The training of one arm with one seed, until it has spent its budget of environment rollouts; anchor
//! probes count, measurements do not.

use std::io;
use std::sync::Arc;

use anyhow::Context as _;
use env_appworld::AppWorldMaker;
use harness_core::{ExecOptions, Outcome, RolloutRole, Seed, Split, Task, Trajectory};
use harness_router::ReanchorReport;
use rand::seq::SliceRandom as _;
use rescue_grpo::learner::Learner as _;
use rescue_grpo::{
    Checkpoint, GrpoConfig, NanoLearner, OutcomeCounts, RescueMode, Runtime, StepReport, step,
};
use serde::Serialize;

use super::anchor::AnchorProbe;
use super::arms::{ArmResult, CurvePoint, Shared, grpo_of, judge};
use super::chooser::Chooser;
use super::evaluate::{Plan, evaluate};
use super::moments::{Moment, moment};
use super::saved::{Keeper, State};
use super::tables::rank1_table;
use super::warm_start::tasks;
use super::{exec_options, push_new_kind};
use crate::arm::Arm;
use crate::files::JsonLines;
use crate::progress::Progress;
use crate::say;

/// What is done besides training and judging.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Extras {
    /// Whether all harnesses are measured in the middle and at the end.
    pub(super) is_measured: bool,
    /// Rollouts after which the policy is judged on test as if the pool had been paid for.
    pub(super) charged_at: Option<u64>,
}

/// Trains one arm with one seed and judges it under the base harness.
///
/// # Errors
/// If a step fails or a file cannot be written.
pub(super) fn run_arm(
    shared: Shared<'_>,
    arm: Arm,
    seed: u64,
    extras: Extras,
    mut chooser: Chooser,
    keeper: &Keeper,
) -> anyhow::Result<ArmResult> {
    let mut training = Training::new(shared, arm, seed, extras)?;
    let budget = shared.config.run.budget_rollouts;
    let progress = Progress::start(format!("{arm} seed {seed}"), budget);
    let (state, mut trajectories) = keeper.open()?;
    if let Some(state) = state {
        training.go_on(state, &mut chooser)?;
        progress.advance(training.result.rollouts);
    } else {
        if training.has_siblings() {
            training.reanchor(&mut chooser)?;
        }
        training.measure()?;
    }
    while let Some(n_tasks) = training.affordable() {
        training.judge_charged()?;
        let before = training.result.rollouts;
        training.step(n_tasks, &mut chooser, &mut trajectories)?;
        if training.result.rollouts == before {
            let text = "a step made no attempts (no sibling can be chosen): the arm ended early";
            tracing::warn!("{text}");
            training.result.warnings.push(text.into());
            break;
        }
        progress.advance(training.result.rollouts - before);
        training.look_halfway(budget)?;
        if keeper.is_due(training.result.steps) {
            keeper.save(&training.state(&chooser), &trajectories)?;
        }
    }
    training.judge_charged()?;
    training.measure()?;
    training.result.test = judge(shared, &training.learner)?;
    training.finish(&mut chooser)?;
    let last = training.result.curve.last();
    say::note(format!(
        "{arm} seed {seed}: base success on dev {:.3}",
        last.map_or(0.0, |point| point.dev.success())
    ));
    progress.finish();
    Ok(training.result)
}

struct Training<'a> {
    shared: Shared<'a>,
    extras: Extras,
    grpo: GrpoConfig,
    seed: Seed,
    learner: NanoLearner,
    train: Vec<Arc<Task>>,
    anchors: Vec<Arc<Task>>,
    exec: ExecOptions,
    next_curve: u64,
    /// Tasks drawn so far, and the shuffle of the epoch that the next one is of.
    drawn: u64,
    epoch: Option<(u64, Vec<usize>)>,
    result: ArmResult,
}

impl<'a> Training<'a> {
    fn new(shared: Shared<'a>, arm: Arm, seed: u64, extras: Extras) -> anyhow::Result<Self> {
        let config = shared.config;
        let root = Seed::new(config.run.task_seed);
        Ok(Self {
            shared,
            extras,
            grpo: grpo_of(arm, config),
            // The same for every arm: attempts under the base differ only where the policies do.
            seed: Seed::new(seed).derive("arm", &[]),
            learner: shared.learner()?,
            train: tasks(Split::Train, config.run.n_train_per_family, root),
            anchors: tasks(Split::Anchor, config.router.anchors_per_family, root),
            exec: exec_options(config, &format!("{arm}-s{seed}"))?,
            next_curve: 0,
            drawn: 0,
            epoch: None,
            result: ArmResult::new(arm, seed),
        })
    }

    /// All that the rest of the training depends on, between two steps.
    fn state(&self, chooser: &Chooser) -> State {
        let start = &self.shared.warm.checkpoint;
        State {
            result: self.result.clone(),
            drawn: self.drawn,
            next_curve: self.next_curve,
            policy: Checkpoint {
                weights: self.learner.weights().to_vec(),
                policy_version: self.learner.version(),
                moments: Some(self.learner.moments()),
                ..start.clone()
            },
            router: chooser.knowledge(),
        }
    }

    /// Goes on from a state.
    fn go_on(&mut self, state: State, chooser: &mut Chooser) -> anyhow::Result<()> {
        let learner = self.shared.learner_at(&state.policy)?;
        self.learner = match state.policy.moments {
            Some(moments) => learner.with_moments(moments)?,
            None => learner,
        };
        chooser.restore(state.router)?;
        self.result = state.result;
        self.drawn = state.drawn;
        self.next_curve = state.next_curve;
        Ok(())
    }

    /// What is left of the budget.
    fn left(&self) -> u64 {
        let budget = self.shared.config.run.budget_rollouts;
        budget.saturating_sub(self.result.rollouts)
    }

    /// Tasks of the next step: as many as the settings say, fewer where the budget would not last if all of
    /// them failed; `None` once less than 1 % of the budget is left, or not enough for one task. So every arm
    /// spends its budget to within 1 % and none spends more.
    fn affordable(&self) -> Option<usize> {
        let grpo = &self.grpo;
        let groups = match grpo.rescue {
            RescueMode::Off | RescueMode::Always => 1,
            RescueMode::BaseAgain | RescueMode::Siblings => 2,
        };
        let rounds = 1 + u64::from(grpo.resample_rounds);
        let per_task = groups * rounds * grpo.group_size as u64;
        let n = (self.left() / per_task).min(grpo.tasks_per_step as u64) as usize;
        let is_over = 100 * self.left() < self.shared.config.run.budget_rollouts;
        (n > 0 && !is_over).then_some(n)
    }

    fn has_siblings(&self) -> bool {
        self.result.arm.uses_siblings() && !self.shared.pool.is_empty()
    }

    /// The next `n` tasks of a walk through seeded shuffles of the training tasks.
    fn draw(&mut self, n: usize) -> Vec<Arc<Task>> {
        let all = self.train.len() as u64;
        let of = |i: u64, training: &mut Self| {
            let number = i / all;
            if training.epoch.as_ref().is_none_or(|(n, _)| *n != number) {
                let mut order: Vec<usize> = (0..training.train.len()).collect();
                order.shuffle(&mut training.seed.derive("epoch", &[number]).rng());
                training.epoch = Some((number, order));
            }
            let order = training.epoch.as_ref().map(|(_, order)| order);
            let place = order.map_or(0, |order| order[(i % all) as usize]);
            Arc::clone(&training.train[place])
        };
        let drawn = self.drawn;
        (drawn..drawn + n as u64).map(|i| of(i, self)).collect()
    }

    fn step(
        &mut self,
        n_tasks: usize,
        chooser: &mut Chooser,
        trajectories: &mut JsonLines,
    ) -> anyhow::Result<()> {
        let number = self.result.steps;
        if self.has_siblings() && self.grpo.is_reanchor_due(number) {
            self.reanchor(chooser)?;
        }
        // What the probes took may leave less than was affordable before them.
        let Some(n_tasks) = self.affordable().map(|n| n.min(n_tasks)) else {
            return Ok(());
        };
        let grpo = GrpoConfig {
            tasks_per_step: n_tasks,
            ..self.grpo.clone()
        };
        let n_rounds = 1 + grpo.resample_rounds as usize;
        let drawn = self.draw(n_rounds * n_tasks);
        let is_kept = number.is_multiple_of(self.shared.config.run.keep_every_steps.max(1));
        let shared = self.shared;
        let routed = &mut self.result.routed;
        let mut sink = |t: &Trajectory| -> io::Result<()> {
            if t.role == RolloutRole::Rescue {
                let task = drawn.iter().find(|task| task.id == t.task_id);
                let family = task.map_or("", |task| &task.family).to_owned();
                let name = shared.name_of(&t.harness_id).to_owned();
                let counts = routed.entry(family).or_default().entry(name).or_default();
                counts[0] += u64::from(t.outcome == Outcome::Solved);
                counts[1] += 1;
            }
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
            chooser.selector(),
            &grpo,
        )
        .with_context(|| format!("{}: step {number}", self.result.arm))?;
        self.drawn += report.n_tasks;
        self.take(&report)?;
        if self.result.rollouts >= self.next_curve {
            self.measure()?;
        }
        Ok(())
    }

    fn take(&mut self, report: &StepReport) -> anyhow::Result<()> {
        let result = &mut self.result;
        result.steps += 1;
        result.updates += u64::from(report.update.is_some());
        result.rollouts += report.n_rollouts();
        result.tokens += report.n_tokens;
        let groups = &report.groups;
        result
            .groups
            .push([report.n_tasks, groups.all_failed, groups.rescued]);
        result.unprojectable += report.n_unprojectable;
        for counts in [&report.base, &report.rescue] {
            for (outcome, n) in by_name(counts) {
                let name = outcome.as_str().to_owned();
                *result.outcomes.entry(name).or_default() += n;
            }
        }
        let update = report.update.as_ref();
        let share = update.map(|u| f64::from(u.negative_share));
        result.negative_share.push(share);
        for warning in report.warnings(self.grpo.tasks_per_step) {
            push_new_kind(&mut result.warnings, warning);
        }
        result.metrics.push(serde_json::to_value(MetricsLine {
            arm: result.arm,
            seed: result.seed,
            rollouts: result.rollouts,
            report,
        })?);
        Ok(())
    }

    /// Adds a point to the learning curve.
    fn measure(&mut self) -> anyhow::Result<()> {
        let run = &self.shared.config.run;
        let last = self.result.curve.last();
        if last.is_some_and(|point| point.step >= self.result.steps) {
            return Ok(());
        }
        self.next_curve = self.result.rollouts + run.eval_every_rollouts;
        let plan = Plan::dev(run, run.dev_attempts);
        let dev = evaluate(self.shared, &self.learner, self.shared.pool.base(), plan)?;
        self.result.measuring_rollouts += dev.rows.len() as u64;
        self.result.metrics.push(serde_json::to_value(DevLine {
            arm: self.result.arm,
            seed: self.result.seed,
            step: self.result.steps,
            rollouts: self.result.rollouts,
            dev: DevScore {
                success: dev.success(),
                n: dev.rows.len(),
            },
        })?);
        self.result.curve.push(CurvePoint {
            step: self.result.steps,
            rollouts: self.result.rollouts,
            dev,
        });
        Ok(())
    }

    /// Judges the policy once at the moment when the pool's cost would have used the budget up.
    fn judge_charged(&mut self) -> anyhow::Result<()> {
        let due = self.extras.charged_at;
        if self.result.charged.is_none() && due.is_some_and(|at| self.result.rollouts >= at) {
            let test = judge(self.shared, &self.learner)?;
            self.result.charged = Some((self.result.rollouts, test));
        }
        Ok(())
    }

    fn look_halfway(&mut self, budget: u64) -> anyhow::Result<()> {
        let is_due = 2 * self.result.rollouts >= budget && self.result.moments.is_empty();
        if self.extras.is_measured && is_due {
            self.look("middle")?;
        }
        Ok(())
    }

    /// Measures base and siblings on dev.
    fn look(&mut self, at: &str) -> anyhow::Result<()> {
        let made = moment(self.shared, &self.learner, at, self.result.rollouts)?;
        self.result.measuring_rollouts += made.n_rollouts;
        self.result.moments.push(made);
        Ok(())
    }

    /// What is measured with the last checkpoint; a last look of the router at the anchors is not charged.
    fn finish(&mut self, chooser: &mut Chooser) -> anyhow::Result<()> {
        self.result.measuring_rollouts += self.result.test.rows.len() as u64;
        if self.extras.is_measured && self.has_siblings() {
            self.look("end")?;
            let mut probe = self.probe();
            chooser.selector().reanchor(&mut probe)?;
            self.result.measuring_rollouts += probe.n_rollouts;
            self.result.profile_rows = chooser.profile_rows(self.shared, "end");
            if !self.shared.config.run.dev_only {
                let best = self.result.moments.last().and_then(Moment::best_harness);
                let base = &self.result.test;
                let table = rank1_table(self.shared, &self.learner, chooser, best, base)?;
                self.result.measuring_rollouts += table.n_rollouts;
                self.result.rank1 = Some(table);
            }
        }
        self.result.profile_file = chooser.profile_text()?;
        Ok(())
    }

    fn probe(&self) -> AnchorProbe<'_> {
        AnchorProbe::new(
            self.shared,
            &self.learner,
            &self.anchors,
            self.seed.derive("anchor", &[self.result.steps]),
            self.result.steps,
        )
    }

    /// Refreshes the profiles, if the budget lasts for it.
    fn reanchor(&mut self, chooser: &mut Chooser) -> anyhow::Result<()> {
        let mut probe = self.probe();
        if chooser.is_probing() && probe.cost() > self.left() {
            return Ok(());
        }
        let selector = chooser.selector();
        selector.reanchor(&mut probe).context("re-anchoring")?;
        let (n_rollouts, tokens) = (probe.n_rollouts, probe.tokens);
        self.result.rollouts += n_rollouts;
        self.result.probe_rollouts += n_rollouts;
        self.result.tokens += tokens;
        if let Some(reanchor) = chooser.last_reanchor() {
            self.result.metrics.push(serde_json::to_value(AnchorLine {
                arm: self.result.arm,
                seed: self.result.seed,
                step: self.result.steps,
                rollouts: self.result.rollouts,
                reanchor,
            })?);
        }
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

/// The line of a re-anchoring: how base and siblings changed, each apart.
#[derive(Serialize)]
struct AnchorLine<'a> {
    arm: Arm,
    seed: u64,
    step: u64,
    rollouts: u64,
    reanchor: &'a ReanchorReport,
}

/// The line of an evaluation under the base on dev; `xtask::show` reads it.
#[derive(Serialize)]
struct DevLine {
    arm: Arm,
    seed: u64,
    step: u64,
    rollouts: u64,
    dev: DevScore,
}

#[derive(Serialize)]
struct DevScore {
    /// Share of valid attempts that solved their task, in `[0, 1]`.
    success: f64,
    /// Attempts.
    n: usize,
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
