//! From groups of attempts to the rows of one update, in the context that the configuration asks for.
//!
//! A [`TrainingRow`] is one value: ids, mask, log-probs, reward, advantage, harness and version of an attempt
//! are made together and travel together, so a replaced group can never be half replaced (bug report G22).
//! No model runs here but for [`Context::BaseIs`], which asks the learner for log-probs.

use harness_core::{
    GroupId, HarnessId, PolicyVersion, RescuedGroup, RolloutGroup, RolloutId, Scope, Sequence,
    Trajectory,
};
use serde::{Deserialize, Serialize};

use crate::advantage::{Signal, group_advantages, replaced_advantages, signal, valid_reward};
use crate::config::{ConfigError, GrpoConfig, require};
use crate::learner::{Learner, LearnerError, OldLogprobs, UpdateBatch, UpdateRow};

/// Smallest weight of a token under [`Context::BaseIs`].
const MIN_BASE_WEIGHT: f32 = 0.01;

/// In which context an attempt under a sibling is trained. Attempts under the base are always trained in
/// their own.
///
/// The literal reading of the abstract and its neighbours are both here because they differ in whether
/// anything transfers.
///
/// # Source
/// Ours: the abstract of arXiv 2611.04277 does not say which context the gradient uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Context {
    /// The base harness's: what only the sibling said is gone, old log-probs are those of the current
    /// weights there, so the first step has ratio 1. Attempts that the base could not have shown are left
    /// out and counted. A negative advantage here acts on text that the base rarely writes, and the clip
    /// never acts: watch [`crate::UpdateReport::negative_share`].
    #[default]
    Base,
    /// As `base`, but negative advantages of rescue attempts become 0.
    BasePositive,
    /// As `base`, each token weighted by `clamp(p(y | base) / p(y | sibling), 0.01, 1)` under the weights
    /// before the update, detached. Costs one more forward pass over the projected rows.
    BaseIs,
    /// The one in which the attempt was made, sibling's texts included: on-policy.
    Sibling,
    /// As `sibling`, and every second rescue attempt is *made* under the sibling with words of its texts
    /// dropped at random ([`GrpoConfig::word_dropout`]): a bridge from the rule's context to the base's, still
    /// on-policy. Such attempts are no evidence on the sibling.
    SiblingDropout,
}

impl Context {
    /// Whether rows are projected to the base harness.
    pub const fn is_base(self) -> bool {
        !matches!(self, Self::Sibling | Self::SiblingDropout)
    }
}

/// What the loss of a step is a mean of. Always over the whole step, never over micro-batches (bug report
/// G11); "rows" are those with a valid reward and a sampled token.
///
/// With `A_i` a row's advantage and `T_i` the number of its sampled tokens, at ratio 1:
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LossMean {
    /// `-sum_i T_i A_i / sum_i T_i`: all tokens weigh the same. Not 0 at ratio 1 when long rows differ in
    /// advantage from short ones (bug report G9).
    #[default]
    Tokens,
    /// `-sum_i A_i / n_rows`: all rows weigh the same, so tokens of long rows weigh less (G10).
    Sequences,
    /// `-sum_i T_i A_i / (n_rows * tokens)`: as `tokens`, but the weight of a token does not depend on how
    /// long the others of its step are (arXiv 2503.20783).
    Constant {
        /// Tokens that one row stands for, at least 1.
        tokens: u32,
    },
}

impl LossMean {
    /// Refuses a constant of 0.
    pub(crate) fn validate(self) -> Result<(), ConfigError> {
        let tokens = match self {
            Self::Tokens | Self::Sequences => return Ok(()),
            Self::Constant { tokens } => f64::from(tokens),
        };
        let field = "loss_mean.constant.tokens";
        require(field, "at least 1", tokens, tokens >= 1.0)
    }
}

/// Whether rows of groups without any advantage count in the mean of the loss (bug report G15). They have no
/// gradient either way; counting them makes steps with few informative groups small ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZeroSpread {
    /// They count.
    #[default]
    Counted,
    /// They are left out, whole groups at a time (bug report G3).
    LeftOut,
}

/// A group as it enters an update.
#[derive(Debug, Clone, PartialEq)]
pub enum UpdateGroup {
    /// Attempts under the base harness, not replaced; if nobody solved the task they teach nothing.
    Base(RolloutGroup),
    /// A failed group and what replaces it. Only the replacement has rows.
    Rescued(RescuedGroup),
    /// Attempts under siblings that no group under the base came before
    /// ([`crate::RescueMode::Always`]).
    Siblings(RolloutGroup),
}

impl UpdateGroup {
    /// The attempts that have rows.
    pub fn trained(&self) -> &RolloutGroup {
        match self {
            Self::Base(group) | Self::Siblings(group) => group,
            Self::Rescued(rescued) => rescued.replacement(),
        }
    }

    /// The attempts that were replaced, if any.
    pub fn failed(&self) -> Option<&RolloutGroup> {
        match self {
            Self::Rescued(rescued) => Some(rescued.failed()),
            Self::Base(_) | Self::Siblings(_) => None,
        }
    }

    const fn is_base(&self) -> bool {
        matches!(self, Self::Base(_))
    }
}

/// One attempt as it is trained on, all of it from the same trajectory.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingRow {
    /// The attempt.
    pub rollout_id: RolloutId,
    /// The group whose rewards its advantage compares.
    pub group_id: GroupId,
    /// The harness that ran.
    pub harness_id: HarnessId,
    /// The policy that sampled.
    pub policy_version: PolicyVersion,
    /// Its reward.
    pub reward: f32,
    /// Whether its ids are another context than that in which they were sampled.
    pub is_projected: bool,
    /// What the learner gets. Until [`batch`] the advantage is that of the attempt.
    pub row: UpdateRow,
}

/// A group's rows and what was left out.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupRows {
    /// What the group has to teach.
    pub signal: Signal,
    /// Rows in the order of the attempts.
    pub rows: Vec<TrainingRow>,
    /// Attempts with a valid reward that the base could not have shown. Their rewards count in the baseline,
    /// so that advantages are the same in every context; only their rows are missing.
    pub n_unprojectable: usize,
    /// Attempts without a valid reward.
    pub n_missing: usize,
}

/// Returns the rows of one group.
///
/// An attempt under the base is a row in its own context. One of a replacement or under a sibling is a row
/// in the context that `config.context` asks for. The sampler correction applies exactly where a row's ids
/// are the context in which they were sampled; where a sibling never said anything that is so in the base
/// context as well, which makes a sibling without effect the same as the base. Attempts without a valid
/// reward have no row (bug report F1).
pub fn group_rows(group: &UpdateGroup, config: &GrpoConfig) -> GroupRows {
    let advantages = group_advantages(group.trained(), group.failed(), config.advantage);
    let mut out = GroupRows {
        signal: signal(group.trained(), &advantages),
        rows: Vec::new(),
        n_unprojectable: 0,
        n_missing: 0,
    };
    let context = if group.is_base() {
        Context::Sibling
    } else {
        config.context
    };
    for (trajectory, advantage) in group.trained().attempts().iter().zip(advantages) {
        let Some((advantage, reward)) = advantage.zip(valid_reward(trajectory)) else {
            out.n_missing += 1;
            continue;
        };
        match training_row(trajectory, reward, advantage, context) {
            Some(row) => out.rows.push(row),
            None => out.n_unprojectable += 1,
        }
    }
    if let Some(failed) = group.failed() {
        let advantages = replaced_advantages(group.trained(), failed, config.advantage);
        let attempts = failed.attempts().iter().zip(advantages);
        out.rows.extend(attempts.filter_map(|(t, advantage)| {
            training_row(t, valid_reward(t)?, advantage?, Context::Sibling)
        }));
    }
    out
}

impl GroupRows {
    /// Takes out rows longer than a model's context: what a rewrite put in place of the policy's words can be
    /// longer than what the projection dropped. They count as not projectable.
    pub fn leave_out_longer_than(&mut self, max_context: usize) {
        let before = self.rows.len();
        self.rows
            .retain(|row| row.row.sequence.ids.len() <= max_context);
        self.n_unprojectable += before - self.rows.len();
    }
}

/// Cuts what follows the last sampled token: no loss is on it, the policy may never have read it, and an
/// observation that ended the window would not fit the trainer's context either.
fn up_to_last_sampled(mut sequence: Sequence) -> Sequence {
    let end = sequence
        .mask
        .iter()
        .rposition(|m| *m)
        .map_or(0, |at| at + 1);
    sequence.ids.truncate(end);
    sequence.mask.truncate(end);
    sequence.logprobs.truncate(end);
    sequence
}

/// The row of one attempt; `None` if it cannot be seen in `context`.
fn training_row(
    trajectory: &Trajectory,
    reward: f32,
    advantage: f32,
    context: Context,
) -> Option<TrainingRow> {
    let sequence = up_to_last_sampled(if context.is_base() {
        trajectory.base_sequence().ok()?
    } else {
        trajectory.own_sequence()
    });
    let says_more = || trajectory.segments().any(|s| s.scope != Scope::Both);
    let is_projected = context.is_base() && says_more();
    let advantage = match context {
        Context::BasePositive => advantage.max(0.0),
        Context::Base | Context::BaseIs | Context::Sibling | Context::SiblingDropout => advantage,
    };
    Some(TrainingRow {
        rollout_id: trajectory.rollout_id.clone(),
        group_id: trajectory.group_id.clone(),
        harness_id: trajectory.harness_id.clone(),
        policy_version: trajectory.policy_version,
        reward,
        is_projected,
        row: UpdateRow {
            sequence,
            old: OldLogprobs::Current,
            advantage,
            corrects_sampler: !is_projected,
        },
    })
}

/// Gives every projected token the weight of [`Context::BaseIs`]; rows in their own context stay as they are.
///
/// The learner weighs a token by `exp(trainer - sampler)`. Here `sampler` becomes
/// `trainer - ln clamp(p(y | base) / p(y | sibling), 0.01, 1)`, so that weight is the clamped one; no cap of at
/// least 1 acts on it. A token whose log-prob the sampler did not give keeps weight 1 (bug report G24).
///
/// # Errors
/// [`LearnerError`] if the learner cannot read a row.
pub fn weigh_projected(
    groups: &mut [GroupRows],
    learner: &dyn Learner,
) -> Result<(), LearnerError> {
    let rows = groups.iter_mut().flat_map(|g| &mut g.rows);
    let mut projected: Vec<&mut TrainingRow> = rows
        .filter(|r| r.is_projected && r.row.advantage != 0.0)
        .collect();
    let sequences: Vec<Sequence> = projected.iter().map(|r| r.row.sequence.clone()).collect();
    let in_base = learner.logprobs(&sequences)?;
    for (row, in_base) in projected.iter_mut().zip(in_base) {
        let sampled = row.row.sequence.logprobs.iter_mut().zip(in_base);
        for (sampler, base) in sampled.filter(|(sampler, _)| sampler.is_finite()) {
            *sampler = base - (base - *sampler).clamp(MIN_BASE_WEIGHT.ln(), 0.0);
        }
        row.row.corrects_sampler = true;
    }
    Ok(())
}

/// Puts the rows of a whole step together: all groups share one normalizer.
///
/// The learner's loss is `-(1/normalizer) sum_i sum_t w_it min(r_it a_i, clip(r_it) a_i)`. With `T_i` the
/// sampled tokens of row `i` (mask ones, never observations: bug report G27) the mean decides:
/// `tokens`: `a_i = A_i`, normalizer `sum_i T_i`; `sequences`: `a_i = A_i / T_i`, normalizer `n_rows`;
/// `constant`: `a_i = A_i`, normalizer `n_rows * tokens`. The scale is positive, so it passes through the
/// minimum. The normalizer is at least 1: without rows the loss is 0 and not NaN.
///
/// Rows with advantage 0 or without a sampled token count as said, and are then dropped: they have neither
/// loss nor gradient, and need no forward pass.
pub fn batch(groups: Vec<GroupRows>, config: &GrpoConfig) -> UpdateBatch {
    let counts =
        |g: &GroupRows| config.zero_spread == ZeroSpread::Counted || g.signal == Signal::Spread;
    let rows = groups.into_iter().filter(counts).flat_map(|g| g.rows);
    let mut rows: Vec<UpdateRow> = rows.map(|r| r.row).collect();
    let lengths: Vec<usize> = rows.iter().map(|r| n_masked(&r.sequence)).collect();
    let n_tokens: usize = lengths.iter().sum();
    let n_rows = lengths.iter().filter(|len| **len > 0).count();
    let normalizer = match config.loss_mean {
        LossMean::Tokens => n_tokens as f32,
        LossMean::Sequences => n_rows as f32,
        LossMean::Constant { tokens } => n_rows as f32 * tokens as f32,
    };
    if config.loss_mean == LossMean::Sequences {
        for (row, len) in rows.iter_mut().zip(&lengths) {
            row.advantage /= (*len).max(1) as f32;
        }
    }
    rows.retain(|row| row.advantage != 0.0 && row.sequence.mask.contains(&true));
    UpdateBatch {
        rows,
        clip_low: config.clip_low,
        clip_high: config.clip_high,
        importance_cap: config.importance_cap,
        normalizer: normalizer.max(1.0),
        learning_rate: config.learning_rate,
        max_grad_norm: config.max_grad_norm,
    }
}

/// Tokens with mask 1.
fn n_masked(sequence: &Sequence) -> usize {
    sequence.mask.iter().filter(|m| **m).count()
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the compared values are exact in f32")]
mod tests {
    use harness_core::Outcome::{Failed, InfraError, Solved};
    use harness_core::{GroupCheck, Segment, SegmentKind};

    use super::*;
    use crate::advantage::{AdvantageConfig, Baseline};
    use crate::fakes::{FakeLearner, attempt, group_of, with_harness};

    fn config(context: Context) -> GrpoConfig {
        GrpoConfig {
            context,
            ..GrpoConfig::default()
        }
    }

    fn rescue(failed: RolloutGroup, replacement: RolloutGroup) -> UpdateGroup {
        let GroupCheck::Failed(failed) = failed.check(0.75) else {
            panic!("the group is not failed");
        };
        UpdateGroup::Rescued(failed.replace_with(replacement).unwrap())
    }

    fn segment(kind: SegmentKind, scope: Scope, ids: &[u32]) -> Segment {
        let is_sampled = kind == SegmentKind::Sampled;
        let logprobs = if is_sampled {
            vec![-0.5; ids.len()]
        } else {
            Vec::new()
        };
        Segment {
            kind,
            scope,
            ids: ids.to_vec(),
            logprobs,
        }
    }

    /// Prompt, the sibling's rule, an observation, and two sampled ids.
    fn hinted(group: &str, i: u32, outcome: harness_core::Outcome) -> Trajectory {
        let mut t = with_harness(attempt(group, i, outcome), "sibling");
        let context = SegmentKind::Context;
        t.prompt = vec![
            segment(context, Scope::Both, &[1]),
            segment(context, Scope::SiblingOnly, &[90, 91]),
        ];
        t.turns[0].segments = vec![
            segment(SegmentKind::Sampled, Scope::Both, &[2, 3]),
            segment(context, Scope::Both, &[4]),
        ];
        t
    }

    fn hinted_group(outcomes: &[harness_core::Outcome]) -> RolloutGroup {
        let attempts = outcomes.iter().zip(0..).map(|(o, i)| hinted("r", i, *o));
        RolloutGroup::new(attempts.collect()).unwrap()
    }

    fn failed_group() -> RolloutGroup {
        group_of("f", &[Failed; 4])
    }

    #[test]
    fn g22_a_replacement_is_one_atomic_value() {
        let other = group_of("s0-t1", &[Solved, Failed, Failed, Solved]);
        let replacement = hinted_group(&[Solved, Failed, Failed, Solved]);
        let config = config(Context::Sibling);
        let kept = group_rows(&UpdateGroup::Base(other.clone()), &config);
        let rescued = group_rows(&rescue(failed_group(), replacement.clone()), &config);
        let advantages: Vec<f32> = rescued.rows.iter().map(|r| r.row.advantage).collect();
        assert_eq!(advantages, [0.5, -0.5, -0.5, 0.5]);
        assert_eq!(rescued.rows.len(), 4);
        for (row, source) in rescued.rows.iter().zip(replacement.attempts()) {
            assert_eq!(row.row.sequence, up_to_last_sampled(source.own_sequence()));
            assert_eq!(row.row.sequence.ids, [1, 90, 91, 2, 3]);
            assert_eq!(row.row.sequence.mask, [false, false, false, true, true]);
            assert_eq!(row.row.sequence.logprobs, [0.0, 0.0, 0.0, -0.5, -0.5]);
            assert_eq!(Some(row.reward), source.reward);
            assert_eq!(row.harness_id, source.harness_id);
            assert_eq!(row.policy_version, source.policy_version);
            assert_eq!(row.rollout_id, source.rollout_id);
            assert_eq!(row.group_id.as_str(), "r");
        }
        // The other group is what it would be without any rescue, to the last bit.
        let alone = group_rows(&UpdateGroup::Base(other), &config);
        assert_eq!(kept, alone);
        assert_eq!(format!("{kept:?}"), format!("{alone:?}"));
    }

    #[test]
    fn in_the_base_context_the_siblings_words_are_gone() {
        let group = rescue(failed_group(), hinted_group(&[Solved, Failed]));
        let rows = group_rows(&group, &config(Context::Base)).rows;
        assert_eq!(rows[0].row.sequence.ids, [1, 2, 3]);
        assert_eq!(rows[0].row.old, OldLogprobs::Current);
        assert!(rows[0].is_projected && !rows[0].row.corrects_sampler);
        let rows = group_rows(&group, &config(Context::Sibling)).rows;
        assert!(!rows[0].is_projected && rows[0].row.corrects_sampler);
    }

    #[test]
    fn a_sibling_that_said_nothing_is_the_same_as_the_base() {
        let silent = group_of("r", &[Solved, Failed]);
        let base = group_rows(&UpdateGroup::Base(silent.clone()), &config(Context::Base));
        for context in [Context::Base, Context::BaseIs, Context::Sibling] {
            let rescued = rescue(failed_group(), silent.clone());
            assert_eq!(group_rows(&rescued, &config(context)), base);
        }
    }

    #[test]
    fn unprojectable_attempts_are_left_out_in_the_base_context_and_counted() {
        let mut attempts = hinted_group(&[Solved, Failed, Failed, Failed])
            .attempts()
            .to_vec();
        attempts[0].unprojectable = Some("turn 17 of 16".into());
        let group = rescue(failed_group(), RolloutGroup::new(attempts).unwrap());
        let base = group_rows(&group, &config(Context::Base));
        assert_eq!((base.rows.len(), base.n_unprojectable), (3, 1));
        // Their rewards still count.
        assert_eq!(base.rows[0].row.advantage, -0.25);
        let sibling = group_rows(&group, &config(Context::Sibling));
        assert_eq!((sibling.rows.len(), sibling.n_unprojectable), (4, 0));
    }

    #[test]
    fn base_positive_keeps_negative_rows_without_advantage() {
        let group = rescue(failed_group(), hinted_group(&[Solved, Failed]));
        let rows = group_rows(&group, &config(Context::BasePositive)).rows;
        let advantages: Vec<f32> = rows.iter().map(|r| r.row.advantage).collect();
        assert_eq!(advantages, [0.5, 0.0]);
        // Attempts under the base keep both signs.
        let own = UpdateGroup::Base(group_of("g", &[Solved, Failed]));
        let rows = group_rows(&own, &config(Context::BasePositive)).rows;
        assert_eq!(rows[1].row.advantage, -0.5);
    }

    #[test]
    fn base_is_weighs_by_the_clamped_ratio_of_contexts() {
        let weight_at = |base: f32| {
            let group = rescue(failed_group(), hinted_group(&[Solved, Failed]));
            let mut rows = [group_rows(&group, &config(Context::BaseIs))];
            weigh_projected(&mut rows, &FakeLearner::with_logprob(base)).unwrap();
            let row = &rows[0].rows[0].row;
            assert!(row.corrects_sampler);
            (base - row.sequence.logprobs[1]).exp()
        };
        // Sampled with log-prob -0.5 under the sibling.
        assert!((weight_at(-1.5) - (-1.0_f32).exp()).abs() < 1e-6);
        assert!((weight_at(-0.1) - 1.0).abs() < 1e-6);
        assert!((weight_at(-100.0) - 0.01).abs() < 1e-6);
    }

    #[test]
    fn f1_attempts_without_reward_have_no_row() {
        let outcomes = [Solved, InfraError, Failed, InfraError];
        let group = UpdateGroup::Base(group_of("g", &outcomes));
        let rows = group_rows(&group, &config(Context::Base));
        assert_eq!((rows.rows.len(), rows.n_missing), (2, 2));
        assert_eq!(rows.rows[0].row.advantage, 0.5);
    }

    /// Rows with so many sampled tokens and an advantage each, under `mean`.
    fn batch_of(lengths_and_advantages: &[(usize, f32)], mean: LossMean) -> UpdateBatch {
        let rows = lengths_and_advantages.iter().zip(0..).map(|((len, a), i)| {
            let mut t = attempt("g", i, Solved);
            let sampled = segment(SegmentKind::Sampled, Scope::Both, &vec![7; *len]);
            t.turns[0].segments = vec![segment(SegmentKind::Context, Scope::Both, &[5]), sampled];
            training_row(&t, 1.0, *a, Context::Base).unwrap()
        });
        let group = GroupRows {
            signal: Signal::Spread,
            rows: rows.collect(),
            n_unprojectable: 0,
            n_missing: 0,
        };
        let config = GrpoConfig {
            loss_mean: mean,
            ..GrpoConfig::default()
        };
        batch(vec![group], &config)
    }

    /// The loss at ratio 1: `-(1/normalizer) sum_i T_i a_i`.
    fn loss_at_ratio_one(batch: &UpdateBatch) -> f32 {
        let sum: f32 = batch
            .rows
            .iter()
            .map(|r| n_masked(&r.sequence) as f32 * r.advantage)
            .sum();
        -sum / batch.normalizer
    }

    #[test]
    fn g9_token_mean_and_sequence_mean_differ_on_unequal_lengths() {
        let rows = [(1, 1.0), (3, -1.0)];
        let loss = |mean| loss_at_ratio_one(&batch_of(&rows, mean));
        assert_eq!(loss(LossMean::Tokens), 0.5);
        assert_eq!(loss(LossMean::Sequences), 0.0);
        assert_eq!(loss(LossMean::Constant { tokens: 4 }), 0.25);
    }

    #[test]
    fn g10_weight_of_a_token_of_a_long_and_a_short_failure() {
        let rows = [(10, -1.0), (1000, -1.0)];
        let weights = |mean| {
            let batch = batch_of(&rows, mean);
            [0, 1].map(|i: usize| -batch.rows[i].advantage / batch.normalizer)
        };
        let [short, long] = weights(LossMean::Sequences);
        assert!((short / long - 100.0).abs() < 1e-3);
        let constant = LossMean::Constant { tokens: 100 };
        assert_eq!(weights(constant), [1.0 / 200.0; 2]);
        assert_eq!(weights(LossMean::Tokens), [1.0 / 1010.0; 2]);
    }

    #[test]
    fn g27_only_sampled_tokens_are_counted() {
        let mut t = attempt("g", 0, Solved);
        t.prompt = vec![segment(SegmentKind::Context, Scope::Both, &[1, 2, 3])];
        t.turns[0].segments = vec![
            segment(SegmentKind::Sampled, Scope::Both, &[4, 5]),
            segment(SegmentKind::Context, Scope::Both, &[6]),
        ];
        let row = training_row(&t, 1.0, 1.0, Context::Base).unwrap();
        assert_eq!(t.own_sequence().ids.len(), 6);
        let group = GroupRows {
            signal: Signal::Spread,
            rows: vec![row],
            n_unprojectable: 0,
            n_missing: 0,
        };
        assert_eq!(batch(vec![group], &GrpoConfig::default()).normalizer, 2.0);
    }

    #[test]
    fn g15_groups_without_spread_count_in_the_mean_by_switch() {
        let of = |zero_spread, loss_mean| {
            let config = GrpoConfig {
                loss_mean,
                zero_spread,
                ..GrpoConfig::default()
            };
            let groups = [failed_group(), group_of("g", &[Solved, Failed])];
            let rows = groups.map(|g| group_rows(&UpdateGroup::Base(g), &config));
            batch(rows.into(), &config)
        };
        let tokens = |zero_spread| of(zero_spread, LossMean::Tokens);
        let (counted, left_out) = (tokens(ZeroSpread::Counted), tokens(ZeroSpread::LeftOut));
        assert_eq!(counted.normalizer, 3.0 * left_out.normalizer);
        let sequences = |zero_spread| of(zero_spread, LossMean::Sequences).normalizer;
        assert_eq!(sequences(ZeroSpread::Counted), 6.0);
        assert_eq!(sequences(ZeroSpread::LeftOut), 2.0);
        // Neither has rows that no gradient comes from.
        assert_eq!((counted.rows.len(), &counted.rows), (2, &left_out.rows));
    }

    #[test]
    fn g3_whole_groups_are_kept_or_left_out() {
        for outcomes in [
            [Solved, Failed, Failed, Failed],
            [Solved, Solved, Solved, Failed],
        ] {
            for zero_spread in [ZeroSpread::Counted, ZeroSpread::LeftOut] {
                let config = GrpoConfig {
                    zero_spread,
                    ..GrpoConfig::default()
                };
                let kept = group_rows(&UpdateGroup::Base(group_of("g", &outcomes)), &config);
                let batch = batch(vec![kept], &config);
                assert_eq!(batch.rows.len(), 4);
                assert_eq!(batch.normalizer, 8.0);
            }
        }
    }

    #[test]
    fn a_pooled_group_has_rows_for_both_halves() {
        let config = GrpoConfig {
            advantage: AdvantageConfig {
                baseline: Baseline::Pooled,
                ..AdvantageConfig::default()
            },
            ..GrpoConfig::default()
        };
        let group = rescue(
            failed_group(),
            group_of("r", &[Solved, Failed, Failed, Solved]),
        );
        let rows = group_rows(&group, &config).rows;
        let advantages: Vec<f32> = rows.iter().map(|r| r.row.advantage).collect();
        let (won, lost) = (0.75, -0.25);
        assert_eq!(advantages, [won, lost, lost, won, lost, lost, lost, lost]);
        let unsolved = rescue(failed_group(), group_of("r", &[Failed; 4]));
        assert!(
            group_rows(&unsolved, &config)
                .rows
                .iter()
                .all(|r| r.row.advantage == 0.0)
        );
    }

    #[test]
    fn rows_beyond_the_context_are_left_out_and_counted() {
        let mut rows = group_rows(
            &UpdateGroup::Base(group_of("g", &[Solved, Failed])),
            &GrpoConfig::default(),
        );
        rows.leave_out_longer_than(3);
        assert_eq!((rows.rows.len(), rows.n_unprojectable), (2, 0));
        rows.leave_out_longer_than(2);
        assert_eq!((rows.rows.len(), rows.n_unprojectable), (0, 2));
    }

    #[test]
    fn no_rows_give_a_normalizer_of_one() {
        for mean in [LossMean::Tokens, LossMean::Sequences] {
            assert_eq!(batch_of(&[], mean).normalizer, 1.0);
            assert_eq!(batch_of(&[(0, 1.0)], mean).normalizer, 1.0);
        }
    }
}
