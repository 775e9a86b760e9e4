//! What a training step reports: counts, shares and the numbers of its update, one JSON object a line.
//!
//! Plain values that can be added up over steps; no trajectory and no text is kept here, and no wall clock,
//! so equal seeds give equal lines.

use std::collections::BTreeMap;

use harness_core::{GroupId, HarnessId, Outcome, PolicyVersion, RolloutGroup, TaskId, Trajectory};
use harness_pool::{Cluster, Decision};
use serde::{Deserialize, Serialize};

use crate::advantage::{Signal, valid_reward};
use crate::learner::UpdateStats;

/// Share of valid attempts cut by the token window from which a step warns (ours).
const TRUNCATED_ALARM: f64 = 0.9;

/// How many attempts ended in which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutcomeCounts {
    /// Attempts with a positive verdict.
    pub solved: u64,
    /// Attempts with a negative verdict.
    pub failed: u64,
    /// Attempts that the token window ended; no evidence of failure (bug report G30).
    pub truncated: u64,
    /// Attempts that the environment lost.
    pub infra_error: u64,
    /// Attempts without verdict.
    pub verifier_error: u64,
    /// Attempts that somebody stopped.
    pub cancelled: u64,
}

impl OutcomeCounts {
    /// Counts one attempt.
    pub fn add(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Solved => &mut self.solved,
            Outcome::Failed => &mut self.failed,
            Outcome::Truncated => &mut self.truncated,
            Outcome::InfraError => &mut self.infra_error,
            Outcome::VerifierError => &mut self.verifier_error,
            Outcome::Cancelled => &mut self.cancelled,
        } += 1;
    }

    /// All attempts.
    pub const fn total(&self) -> u64 {
        let valid = self.solved + self.failed + self.truncated;
        valid + self.infra_error + self.verifier_error + self.cancelled
    }
}

/// Groups that gave no gradient, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ZeroSpreadCounts {
    /// Nobody solved the task.
    pub all_failed: u64,
    /// Everybody did, with one reward.
    pub all_solved: u64,
    /// Some did, and rewards (or those of each sibling) are equal all the same.
    pub mixed: u64,
    /// No attempt was valid.
    pub no_valid: u64,
}

impl ZeroSpreadCounts {
    /// Counts one group, unless it has something to teach.
    pub fn add(&mut self, signal: Signal) {
        match signal {
            Signal::Spread => {}
            Signal::AllFailed => self.all_failed += 1,
            Signal::AllSolved => self.all_solved += 1,
            Signal::Mixed => self.mixed += 1,
            Signal::NoValid => self.no_valid += 1,
        }
    }
}

/// What became of the failed groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RescueCounts {
    /// Groups under the base in which all attempts failed.
    pub all_failed: u64,
    /// Of these, replaced by attempts of which some solved the task.
    pub rescued: u64,
    /// Replaced by attempts of which none did.
    pub unsolved: u64,
    /// Not replaced: too few rescue attempts were valid.
    pub too_few_valid: u64,
    /// Not replaced: no sibling was chosen.
    pub unrouted: u64,
}

/// What one harness was used for in rescues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HarnessTally {
    /// Failed groups for which it was chosen.
    pub chosen: u64,
    /// Attempts under it.
    pub attempts: u64,
    /// Of these, valid ones.
    pub valid: u64,
    /// Of these, solved ones.
    pub solved: u64,
}

/// One choice of siblings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionRecord {
    /// The group under the base that was looked at, or would have been.
    pub group_id: GroupId,
    /// Its task.
    pub task_id: TaskId,
    /// The failure cluster under which siblings were chosen.
    pub cluster: Cluster,
    /// What was chosen, and why.
    pub decision: Decision,
}

/// Everything that a training step reports.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StepReport {
    /// The step's number.
    pub step: u64,
    /// The version that made all attempts of the step.
    pub policy_version: PolicyVersion,
    /// Tasks, one group each.
    pub n_tasks: u64,
    /// Attempts under the base by outcome; their total is the number of base rollouts.
    pub base: OutcomeCounts,
    /// Attempts of rescues by outcome, under siblings or the base again.
    pub rescue: OutcomeCounts,
    /// What became of the failed groups.
    pub groups: RescueCounts,
    /// Groups without gradient, after rescue.
    pub zero_spread: ZeroSpreadCounts,
    /// Attempts with a valid reward that were left out because the base could not have shown them.
    pub n_unprojectable: u64,
    /// Attempts without a valid reward in the groups that were trained on.
    pub n_missing: u64,
    /// Further rounds in which tasks were drawn because too few groups had something to teach.
    #[serde(default)]
    pub resampled: u64,
    /// Valid attempts under the base.
    #[serde(default)]
    pub n_rewards: u64,
    /// Mean reward of the valid attempts under the base; absent without any.
    pub mean_reward: Option<f64>,
    /// Tokens of all attempts, context included.
    pub n_tokens: u64,
    /// Tokens that the policy sampled.
    pub n_sampled: u64,
    /// Those of them whose log-prob the engine did not give; their ratio counts as 1 (bug report G24).
    #[serde(default)]
    pub n_missing_logprobs: u64,
    /// Rescue attempts by harness.
    pub harnesses: BTreeMap<HarnessId, HarnessTally>,
    /// Every choice of siblings, with its ballots, in the order of the tasks.
    pub decisions: Vec<DecisionRecord>,
    /// The update; absent if no advantage differed from 0. The weights are then as before and the version
    /// too: an optimizer's momentum alone does not move them.
    pub update: Option<UpdateReport>,
}

/// The numbers of one update.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct UpdateReport {
    /// Rows with an advantage other than 0.
    pub n_rows: u64,
    /// Sampled tokens in these rows.
    pub n_tokens: u64,
    /// By what the summed token losses were divided.
    pub normalizer: f32,
    /// The loss before the step.
    pub loss: f32,
    /// Its part from rows with negative advantage.
    pub negative_loss: f32,
    /// How much of the loss comes from these rows, in `[0, 1]`: `|N| / (|P| + |N|)` with `N` their part and
    /// `P = loss - N`; 0 if both are 0. Near 1 in context `base`, the update mostly pushes down text that
    /// the base hardly writes.
    pub negative_share: f32,
    /// Global gradient norm before clipping.
    pub grad_norm: f32,
    /// Share of tokens whose ratio was clipped, in `[0, 1]`.
    pub clipped_share: f32,
    /// Mean `-logprob` of the tokens, in nats.
    pub surprise: f32,
}

impl UpdateReport {
    /// Takes over what a learner says of an update with so many rows.
    pub fn new(n_rows: usize, normalizer: f32, stats: UpdateStats) -> Self {
        let negative = stats.negative_loss.abs();
        let whole = negative + (stats.loss - stats.negative_loss).abs();
        Self {
            n_rows: n_rows as u64,
            n_tokens: stats.n_tokens as u64,
            normalizer,
            loss: stats.loss,
            negative_loss: stats.negative_loss,
            negative_share: if whole > 0.0 { negative / whole } else { 0.0 },
            grad_norm: stats.grad_norm,
            clipped_share: stats.clipped_share,
            surprise: stats.surprise,
        }
    }
}

impl StepReport {
    /// All attempts of the step: what a budget is charged.
    pub const fn n_rollouts(&self) -> u64 {
        self.base.total() + self.rescue.total()
    }

    /// Share of groups under the base in which all attempts failed, in `[0, 1]`; 0 without tasks.
    pub fn all_failed_share(&self) -> f64 {
        self.groups.all_failed as f64 / self.n_tasks.max(1) as f64
    }

    /// What a reader of the numbers should not overlook, in words; mostly nothing.
    ///
    /// - Nearly all attempts were cut by the token window: rewards say nothing about the policy, and such
    ///   attempts are no evidence for a rescue (bug report G30).
    /// - Groups in which some solved the task and yet no reward differs: a combined reward is constant though
    ///   its parts vary (G1).
    /// - Dynamic sampling ended without enough groups that teach (G21).
    pub fn warnings(&self, tasks_per_step: usize) -> Vec<String> {
        let mut warnings = Vec::new();
        let counts = [&self.base, &self.rescue];
        let truncated: u64 = counts.iter().map(|c| c.truncated).sum();
        let valid: u64 = counts
            .iter()
            .map(|c| c.solved + c.failed + c.truncated)
            .sum();
        if valid > 0 && truncated as f64 >= TRUNCATED_ALARM * valid as f64 {
            warnings.push(format!(
                "{truncated} of {valid} attempts were cut by the token window: raise the window or \
                 max_reply_tokens; such attempts are no evidence of failure"
            ));
        }
        let mixed = self.zero_spread.mixed;
        if mixed > 0 {
            warnings.push(format!(
                "combined reward constant in {mixed} groups though some attempts solved the task: nothing \
                 to learn from them"
            ));
        }
        let zero = &self.zero_spread;
        let silent = zero.all_failed + zero.all_solved + zero.mixed + zero.no_valid;
        let teaching = self.n_tasks.saturating_sub(silent);
        if self.resampled > 0 && teaching < tasks_per_step as u64 {
            warnings.push(format!(
                "dynamic sampling ended with {teaching} of {tasks_per_step} groups that teach"
            ));
        }
        warnings
    }

    /// Tells the step's numbers and warnings to whoever follows the run.
    pub(crate) fn tell(&self, tasks_per_step: usize) {
        let update = self.update.as_ref();
        tracing::info!(
            policy_version = self.policy_version.0,
            n_tasks = self.n_tasks,
            n_rollouts = self.n_rollouts(),
            mean_reward = self.mean_reward,
            all_failed = self.groups.all_failed,
            rescued = self.groups.rescued,
            loss = update.map(|u| u.loss),
            grad_norm = update.map(|u| u.grad_norm),
            "step"
        );
        for warning in self.warnings(tasks_per_step) {
            tracing::warn!("{warning}");
        }
    }

    /// Counts the tokens of one attempt.
    pub(crate) fn count_tokens(&mut self, trajectory: &Trajectory) {
        self.n_tokens += trajectory.n_tokens() as u64;
        self.n_sampled += trajectory.n_sampled() as u64;
        self.n_missing_logprobs += trajectory.n_missing_logprobs() as u64;
    }

    /// Counts groups under the base.
    pub(crate) fn count_base(&mut self, groups: &[RolloutGroup]) {
        let attempts = || groups.iter().flat_map(RolloutGroup::attempts);
        let n_before = self.n_rewards as f64;
        let sum_before = self.mean_reward.map_or(0.0, |mean| mean * n_before);
        attempts().for_each(|t| self.base.add(t.outcome));
        let rewards: Vec<f64> = attempts().filter_map(valid_reward).map(f64::from).collect();
        self.n_rewards += rewards.len() as u64;
        if self.n_rewards > 0 {
            let sum = sum_before + rewards.iter().sum::<f64>();
            self.mean_reward = Some(sum / self.n_rewards as f64);
        }
    }

    /// Counts the attempts of one rescue, and each harness that was chosen for it once; `sibling_of` names the
    /// harness that was chosen by the one that ran.
    pub(crate) fn count_rescue<'i>(
        &mut self,
        group: &'i RolloutGroup,
        sibling_of: impl Fn(&'i HarnessId) -> &'i HarnessId,
    ) {
        let mut chosen: Vec<&HarnessId> = Vec::new();
        for t in group.attempts() {
            self.rescue.add(t.outcome);
            let sibling = sibling_of(&t.harness_id);
            let tally = self.harnesses.entry(sibling.clone()).or_default();
            if !chosen.contains(&sibling) {
                chosen.push(sibling);
                tally.chosen += 1;
            }
            tally.attempts += 1;
            tally.valid += u64::from(t.outcome.is_valid());
            tally.solved += u64::from(t.outcome == Outcome::Solved);
        }
    }
}

#[cfg(test)]
mod tests {
    use harness_core::Outcome::{Failed, InfraError, Solved};

    use super::*;
    use crate::fakes::{attempt, group_of, with_harness};

    #[test]
    fn base_attempts_are_counted_by_outcome_and_missing_is_not_zero() {
        let mut report = StepReport::default();
        let groups = [
            group_of("a", &[Solved, InfraError]),
            group_of("b", &[Failed, Solved]),
        ];
        report.count_base(&groups);
        assert_eq!((report.base.solved, report.base.infra_error), (2, 1));
        assert_eq!((report.base.total(), report.n_rollouts()), (4, 4));
        assert!((report.mean_reward.unwrap() - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn rescue_attempts_are_counted_by_harness() {
        let outcomes = [Solved, Failed, InfraError, Failed].into_iter();
        let names = ["s1", "s2", "s1", "s2"];
        let attempts = outcomes.zip(names).zip(0..);
        let attempts = attempts.map(|((o, name), i)| with_harness(attempt("g", i, o), name));
        let group = RolloutGroup::new(attempts.collect()).unwrap();
        let mut report = StepReport::default();
        report.count_rescue(&group, |id| id);
        let tally = report.harnesses[&HarnessId::new("s1").unwrap()];
        let expected = HarnessTally {
            chosen: 1,
            attempts: 2,
            valid: 1,
            solved: 1,
        };
        assert_eq!(tally, expected);
    }

    #[test]
    fn g30_every_completion_clipped_is_told() {
        let mut report = StepReport::default();
        report.base.failed = 10;
        assert!(report.warnings(12).is_empty());
        report.base.truncated = 90;
        assert!(report.warnings(12)[0].starts_with("90 of 100 attempts were cut"));
    }

    #[test]
    fn g1_a_constant_combined_reward_is_told() {
        // Parts A = [-3, 3] and B = [3, -3] vary, their sum does not.
        let mut group = group_of("g", &[Solved, Failed]).attempts().to_vec();
        for (t, parts) in group.iter_mut().zip([[-3.0, 3.0], [3.0, -3.0_f32]]) {
            t.reward = Some(parts.iter().sum());
        }
        let group = RolloutGroup::new(group).unwrap();
        let advantages = crate::group_advantages(&group, None, crate::AdvantageConfig::default());
        assert_eq!(advantages, [Some(0.0), Some(0.0)]);
        let mut report = StepReport::default();
        report.zero_spread.add(crate::signal(&group, &advantages));
        assert!(report.warnings(12)[0].starts_with("combined reward constant in 1 groups"));
    }

    #[test]
    fn the_negative_share_compares_both_parts() {
        let share = |loss, negative_loss| {
            let stats = UpdateStats {
                loss,
                negative_loss,
                ..UpdateStats::default()
            };
            UpdateReport::new(1, 1.0, stats).negative_share
        };
        assert!((share(0.5, 0.75) - 0.75).abs() < 1e-6);
        assert!((share(-0.25, 0.0)).abs() < 1e-6);
        assert!((share(0.0, 0.0)).abs() < 1e-6);
        assert!((share(0.25, 0.25) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_report_is_one_line_that_reads_back() {
        let mut report = StepReport::default();
        report.count_rescue(&group_of("g", &[Solved, Failed]), |id| id);
        report.update = Some(UpdateReport::default());
        let line = serde_json::to_string(&report).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<StepReport>(&line).unwrap(), report);
    }
}
