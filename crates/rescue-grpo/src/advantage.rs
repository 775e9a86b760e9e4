//! Advantages: how much better an attempt did than its group.
//!
//! For group `g` with valid rewards `r_j`, `A_i = r_i - mean_j r_j`, divided on request by the spread of
//! the `r_j`. What a group *is* was decided before, by explicit id ([`harness_core::RolloutGroup`]): nothing
//! here looks at prompts (bug report G18). There is one vote per attempt, however many turns or tokens it
//! has (G19). No loss, no rows, no rescue.
//!
//! # Source
//! GRPO: arXiv 2402.03300, section 4.1; without division: arXiv 2503.20783. Which attempts share a baseline
//! after a rescue is ours: the abstract of arXiv 2611.04277 is silent.

use harness_core::{HarnessId, Outcome, RolloutGroup, Trajectory};
use serde::{Deserialize, Serialize};

/// Whose rewards make up the mean from which a rescue attempt's reward is told apart.
///
/// A group under one harness has the same mean under [`Baseline::Union`] and [`Baseline::PerHarness`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Baseline {
    /// All attempts of the replacement, whatever sibling they ran under: a decision that every attempt
    /// under one sibling shares still stands out against the other sibling.
    #[default]
    Union,
    /// The attempts under the same sibling only.
    PerHarness,
    /// All attempts of the replacement and the failed attempts that they replace. The failed ones count in
    /// mean and spread and get no row, so the advantages of the replacement sum to more than 0, and a
    /// replacement that solved everywhere still teaches.
    WithFailed,
    /// All attempts of both, and the failed ones have rows too: one group of twice the size. With
    /// [`crate::RescueMode::BaseAgain`] it is GRPO that draws a second half where the first one failed.
    Pooled,
}

/// How rewards become advantages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdvantageConfig {
    /// Whose rewards make up the mean. Default `union` (ours).
    pub baseline: Baseline,
    /// Whether advantages are divided by the standard deviation of the same rewards. Default `false`
    /// (ours, after arXiv 2503.20783: the division weighs easy and hard tasks up).
    pub divide_by_std: bool,
}

/// What a group has to teach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// Some advantage is not 0.
    Spread,
    /// No attempt solved the task; advantages are 0 whatever shaping the rewards hold (bug report G4).
    AllFailed,
    /// Every valid attempt solved the task, with one reward.
    AllSolved,
    /// Some solved it, and yet no advantage differs from 0: equal rewards, or with
    /// [`Baseline::PerHarness`] one sibling always and the other never.
    Mixed,
    /// No attempt is valid.
    NoValid,
}

/// The reward that counts for an attempt; `None` if it has none, is not finite, or the attempt is no evidence
/// about the policy (infrastructure, verifier, cancelled): such an attempt is in no baseline and gets no
/// row, and is never taken for 0 (bug report F1).
pub fn valid_reward(trajectory: &Trajectory) -> Option<f32> {
    let is_valid = trajectory.outcome.is_valid();
    trajectory.reward.filter(|r| is_valid && r.is_finite())
}

/// Returns the advantages of rewards that share a baseline, `rewards: [G]`, `joined: [J]`, result `[G]`.
///
/// `A_i = r_i - mean`, divided by `std` if asked, where mean and `std = sqrt(sum (r - mean)^2 / n)` are over
/// the `n` rewards of `rewards` and `joined` together. The variance is the *biased* one (`1/n`), so with
/// rewards 0 and 1 and success rate `p` it is `p (1 - p)`, and no epsilon is added. Two passes in `f64`
/// (bug report G2).
///
/// `None` stays `None`, and a reward that is not finite counts as `None`. All advantages are exactly 0 if the
/// rewards are all equal, or if there are fewer than two: one attempt alone never passes its reward on (G6,
/// G17).
///
/// # Example
/// ```
/// use rescue_grpo::advantages;
/// let rewards = [Some(1.0), Some(0.0), None, Some(1.0), Some(0.0)];
/// assert_eq!(advantages(&rewards, &[], false), [Some(0.5), Some(-0.5), None, Some(0.5), Some(-0.5)]);
/// assert_eq!(advantages(&[Some(5.0)], &[], true), [Some(0.0)]);
/// ```
///
/// # Source
/// arXiv 2402.03300, section 4.1.1; epsilon and the biased variance are ours.
pub fn advantages(
    rewards: &[Option<f32>],
    joined: &[f32],
    divide_by_std: bool,
) -> Vec<Option<f32>> {
    let finite = |r: &f32| r.is_finite();
    let own = rewards.iter().map(|r| r.filter(finite).map(f64::from));
    let own: Vec<Option<f64>> = own.collect();
    let joined = joined.iter().copied().filter(finite).map(f64::from);
    let all: Vec<f64> = own.iter().flatten().copied().chain(joined).collect();
    let highest = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if all.iter().all(|r| highest - r <= 0.0) {
        return own.iter().map(|r| r.map(|_| 0.0)).collect();
    }
    let n = all.len() as f64;
    let mean = all.iter().sum::<f64>() / n;
    let variance = all.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / n;
    let scale = if divide_by_std { variance.sqrt() } else { 1.0 };
    let advantage = |r: f64| ((r - mean) / scale) as f32;
    own.iter().map(|r| r.map(advantage)).collect()
}

/// Returns the advantage of every attempt of `group` in its order, `None` for those without a valid reward.
///
/// `failed` is the group that `group` replaced, read with [`Baseline::WithFailed`] and [`Baseline::Pooled`]. A group in which
/// nobody solved the task has advantage 0 throughout, even if its rewards differ (bug report G4: shaping
/// noise would become full-size advantages).
pub fn group_advantages(
    group: &RolloutGroup,
    failed: Option<&RolloutGroup>,
    config: AdvantageConfig,
) -> Vec<Option<f32>> {
    let attempts = group.attempts();
    let rewards: Vec<Option<f32>> = attempts.iter().map(valid_reward).collect();
    if group.count(Outcome::Solved) == 0 {
        return rewards.iter().map(|r| r.map(|_| 0.0)).collect();
    }
    match config.baseline {
        Baseline::Union => advantages(&rewards, &[], config.divide_by_std),
        Baseline::WithFailed | Baseline::Pooled => {
            let joined = failed.map(valid_rewards).unwrap_or_default();
            advantages(&rewards, &joined, config.divide_by_std)
        }
        Baseline::PerHarness => per_harness(attempts, &rewards, config.divide_by_std),
    }
}

/// Returns the advantages of the attempts that were replaced, in their order, with [`Baseline::Pooled`]; nothing
/// otherwise, or if nobody solved the task.
pub fn replaced_advantages(
    replacement: &RolloutGroup,
    failed: &RolloutGroup,
    config: AdvantageConfig,
) -> Vec<Option<f32>> {
    if config.baseline != Baseline::Pooled || replacement.count(Outcome::Solved) == 0 {
        return vec![None; failed.attempts().len()];
    }
    let rewards: Vec<Option<f32>> = failed.attempts().iter().map(valid_reward).collect();
    advantages(&rewards, &valid_rewards(replacement), config.divide_by_std)
}

fn valid_rewards(group: &RolloutGroup) -> Vec<f32> {
    group.attempts().iter().filter_map(valid_reward).collect()
}

/// Advantages with one baseline for each harness. Others' rewards are masked out, so the order is kept.
fn per_harness(
    attempts: &[Trajectory],
    rewards: &[Option<f32>],
    divide_by_std: bool,
) -> Vec<Option<f32>> {
    let own = |harness: &HarnessId| -> Vec<Option<f32>> {
        let masked = attempts.iter().zip(rewards);
        let masked: Vec<Option<f32>> = masked
            .map(|(t, r)| r.filter(|_| t.harness_id == *harness))
            .collect();
        advantages(&masked, &[], divide_by_std)
    };
    let at = |(i, t): (usize, &Trajectory)| own(&t.harness_id)[i];
    attempts.iter().enumerate().map(at).collect()
}

/// Says what a group with these advantages has to teach; the kinds without any are counted apart.
pub fn signal(group: &RolloutGroup, advantages: &[Option<f32>]) -> Signal {
    let n_solved = group.count(Outcome::Solved);
    let n_valid = advantages.iter().flatten().count();
    if advantages.iter().flatten().any(|a| *a != 0.0) {
        Signal::Spread
    } else if n_valid == 0 {
        Signal::NoValid
    } else if n_solved == 0 {
        Signal::AllFailed
    } else if n_solved == n_valid {
        Signal::AllSolved
    } else {
        Signal::Mixed
    }
}

#[cfg(test)]
mod tests {
    use harness_core::Outcome::{Failed, InfraError, Solved, Truncated};
    use proptest::prelude::*;

    use super::*;
    use crate::fakes::{attempt, group_of, with_harness};

    #[track_caller]
    fn check(rewards: &[f32], expect: &[f32]) {
        let rewards: Vec<Option<f32>> = rewards.iter().copied().map(Some).collect();
        let got: Vec<f32> = advantages(&rewards, &[], false)
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(got.len(), expect.len());
        for (g, e) in got.iter().zip(expect) {
            assert!((g - e).abs() < 1e-6, "got {got:?}, expected {expect:?}");
        }
    }

    #[test]
    fn g17_one_group_of_four_not_four_groups_of_one() {
        check(&[1.0, 0.0, 1.0, 0.0], &[0.5, -0.5, 0.5, -0.5]);
    }

    #[test]
    fn g17_and_g6_one_reward_alone_gives_zero_not_itself() {
        check(&[5.0], &[0.0]);
        assert_eq!(advantages(&[Some(5.0)], &[], true), [Some(0.0)]);
        assert_eq!(advantages(&[Some(5.0), None], &[], true), [Some(0.0), None]);
        assert_eq!(advantages(&[], &[], true), []);
    }

    #[test]
    fn g3_the_only_success_is_kept() {
        check(&[1.0, 0.0, 0.0, 0.0], &[0.75, -0.25, -0.25, -0.25]);
        check(&[1.0, 1.0, 1.0, 0.0], &[0.25, 0.25, 0.25, -0.75]);
    }

    #[test]
    fn g2_seven_equal_rewards_and_an_odd_one() {
        let rewards = [[Some(0.35); 7].as_slice(), &[Some(0.0)]].concat();
        let odd = advantages(&rewards, &[], false)[7].unwrap();
        // Leave-one-out is the centred value times n / (n - 1).
        assert!((odd * 8.0 / 7.0 + 0.35).abs() < 1e-6);
        let divided = advantages(&rewards, &[], true);
        let expected = -(7.0_f32).sqrt();
        assert!((divided[7].unwrap() - expected).abs() < 1e-5);
        assert_eq!(advantages(&rewards[..7], &[], true), [Some(0.0); 7]);
    }

    #[test]
    fn the_variance_is_biased_and_without_epsilon() {
        let rewards = [Some(1.0), Some(0.0), Some(0.0), Some(0.0)];
        let first = advantages(&rewards, &[], true)[0].unwrap();
        // 0.75 / sqrt(0.25 * 0.75); the unbiased one would give 1.5.
        assert!((first - 3.0_f32.sqrt()).abs() < 1e-6);
    }

    #[test]
    fn zeros_of_both_signs_are_equal_and_infinities_are_missing() {
        assert_eq!(
            advantages(&[Some(0.0), Some(-0.0)], &[], true),
            [Some(0.0); 2]
        );
        let broken = [Some(1.0), Some(f32::INFINITY), Some(0.0), Some(f32::NAN)];
        let expected = [Some(0.5), None, Some(-0.5), None];
        assert_eq!(advantages(&broken, &[f32::NAN], false), expected);
    }

    #[test]
    fn f1_a_missing_reward_is_not_zero() {
        let got = advantages(&[Some(1.0), None, Some(0.0)], &[], false);
        assert_eq!(got, [Some(0.5), None, Some(-0.5)]);
        let broken = with_reward(attempt("g", 0, InfraError), Some(0.0));
        assert_eq!(valid_reward(&broken), None);
        let nan = with_reward(attempt("g", 0, Failed), Some(f32::NAN));
        assert_eq!(valid_reward(&nan), None);
    }

    fn with_reward(mut t: Trajectory, reward: Option<f32>) -> Trajectory {
        t.reward = reward;
        t
    }

    #[test]
    fn g4_a_group_without_success_has_no_advantage_whatever_its_shaping() {
        let shaped = [10.0, 20.0, 30.0, 40.0_f32].map(|len| Some(-0.3 * len / 40.0));
        let attempts = (0..4).zip(shaped);
        let attempts = attempts.map(|(i, r)| with_reward(attempt("g", i, Failed), r));
        let group = RolloutGroup::new(attempts.collect()).unwrap();
        let got = group_advantages(&group, None, AdvantageConfig::default());
        assert_eq!(got, [Some(0.0); 4]);
        assert_eq!(signal(&group, &got), Signal::AllFailed);
    }

    #[test]
    fn g19_one_vote_per_attempt_whatever_its_turns() {
        let attempts = [(2, Solved), (1, Failed), (2, Solved), (1, Failed)];
        let attempts = attempts
            .into_iter()
            .zip(0..)
            .map(|((n_turns, outcome), i)| {
                let mut t = attempt("g", i, outcome);
                let turn = t.turns[0].clone();
                t.turns = vec![turn; n_turns];
                t
            });
        let group = RolloutGroup::new(attempts.collect()).unwrap();
        let got = group_advantages(&group, None, AdvantageConfig::default());
        assert_eq!(got, [0.5, -0.5, 0.5, -0.5].map(Some));
    }

    #[test]
    fn g18_groups_are_told_by_id_not_by_prompt() {
        let outcomes = [Solved, Failed, Solved, Failed];
        let attempts = outcomes.into_iter().zip(0..).map(|(outcome, i)| {
            let mut t = attempt("g", i, outcome);
            t.prompt[0].ids = format!("/ws/{i}").bytes().map(u32::from).collect();
            t
        });
        let group = RolloutGroup::new(attempts.collect()).unwrap();
        let got = group_advantages(&group, None, AdvantageConfig::default());
        assert_eq!(got, [0.5, -0.5, 0.5, -0.5].map(Some));
    }

    fn two_siblings() -> RolloutGroup {
        let outcomes = [Solved, Solved, Failed, Failed, Failed, Solved];
        let names = ["a", "b", "a", "b", "b", "a"];
        let attempts = outcomes.into_iter().zip(names).zip(0..);
        let attempts = attempts.map(|((o, name), i)| with_harness(attempt("g", i, o), name));
        RolloutGroup::new(attempts.collect()).unwrap()
    }

    fn baseline(baseline: Baseline) -> AdvantageConfig {
        AdvantageConfig {
            baseline,
            divide_by_std: false,
        }
    }

    #[test]
    fn baselines_differ_in_whose_rewards_they_read() {
        let group = two_siblings();
        let failed = group_of("f", &[Failed, Failed, InfraError]);
        let of = |b| group_advantages(&group, Some(&failed), baseline(b));
        let third = 1.0 / 3.0_f32;
        assert_eq!(of(Baseline::Union)[..2], [Some(0.5), Some(0.5)]);
        let per_harness = of(Baseline::PerHarness);
        let near = |got: Option<f32>, expected: f32| (got.unwrap() - expected).abs() < 1e-6;
        assert!(near(per_harness[0], third) && near(per_harness[1], 2.0 * third));
        // Three of eight: the attempt without reward is in no baseline.
        assert_eq!(of(Baseline::WithFailed)[0], Some(0.625));
    }

    #[test]
    fn with_failed_lets_a_replacement_that_always_solved_teach() {
        let (solved, failed) = (group_of("g", &[Solved; 4]), group_of("f", &[Failed; 4]));
        let of = |b| group_advantages(&solved, Some(&failed), baseline(b));
        assert_eq!(of(Baseline::WithFailed), [Some(0.5); 4]);
        assert_eq!(of(Baseline::Union), [Some(0.0); 4]);
        assert_eq!(signal(&solved, &of(Baseline::Union)), Signal::AllSolved);
    }

    #[test]
    fn signals_are_told_apart() {
        let of = |outcomes: &[Outcome], b| {
            let group = group_of("g", outcomes);
            let advantages = group_advantages(&group, None, baseline(b));
            signal(&group, &advantages)
        };
        assert_eq!(of(&[Solved, Failed], Baseline::Union), Signal::Spread);
        assert_eq!(of(&[Failed, Truncated], Baseline::Union), Signal::AllFailed);
        assert_eq!(
            of(&[Solved, InfraError], Baseline::Union),
            Signal::AllSolved
        );
        assert_eq!(
            of(&[InfraError, InfraError], Baseline::Union),
            Signal::NoValid
        );
        let outcomes = [Solved, Failed].into_iter().zip(["a", "b"]).zip(0..);
        let attempts = outcomes.map(|((o, name), i)| with_harness(attempt("g", i, o), name));
        let split = RolloutGroup::new(attempts.collect()).unwrap();
        let advantages = group_advantages(&split, None, baseline(Baseline::PerHarness));
        assert_eq!(signal(&split, &advantages), Signal::Mixed);
    }

    fn rewards() -> impl Strategy<Value = Vec<Option<f32>>> {
        let reward = prop_oneof![
            3 => prop_oneof![Just(0.0_f32), Just(1.0), 0.0_f32..1.0].prop_map(Some),
            1 => Just(None),
        ];
        proptest::collection::vec(reward, 0..12)
    }

    proptest! {
        #[test]
        fn advantages_sum_to_zero(rewards in rewards(), divide in any::<bool>()) {
            let total: f64 = advantages(&rewards, &[], divide).iter().flatten().map(|a| f64::from(*a)).sum();
            prop_assert!(total.abs() < 1e-4, "{total}");
        }

        #[test]
        fn a_shift_of_all_rewards_changes_nothing(rewards in rewards(), shift in -4_i8..4, divide in any::<bool>()) {
            // Rewards on a grid of 2^-10, so that the shift itself is exact in f32.
            let grid = |r: f32| (r * 1024.0).round() / 1024.0;
            let plain: Vec<_> = rewards.iter().map(|r| r.map(grid)).collect();
            let shifted: Vec<_> = plain.iter().map(|r| r.map(|r| r + f32::from(shift))).collect();
            let (a, b) = (advantages(&plain, &[], divide), advantages(&shifted, &[], divide));
            for (a, b) in a.iter().zip(&b) {
                prop_assert!((a.unwrap_or(0.0) - b.unwrap_or(0.0)).abs() < 1e-5);
            }
        }

        #[test]
        fn permuting_a_group_permutes_its_advantages(
            (rewards, order) in rewards().prop_flat_map(|r| {
                let order: Vec<usize> = (0..r.len()).collect();
                (Just(r), Just(order).prop_shuffle())
            }),
            divide in any::<bool>(),
        ) {
            let permuted: Vec<_> = order.iter().map(|&i| rewards[i]).collect();
            let (plain, got) = (advantages(&rewards, &[], divide), advantages(&permuted, &[], divide));
            for (&i, got) in order.iter().zip(&got) {
                prop_assert_eq!(plain[i].is_some(), got.is_some());
                prop_assert!((plain[i].unwrap_or(0.0) - got.unwrap_or(0.0)).abs() < 1e-5);
            }
        }
    }
}
