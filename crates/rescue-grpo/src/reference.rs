//! The loss of an update and its gradient, slow and obvious, in `f64`: what the fast path is held against.

use crate::learner::{OldLogprobs, UpdateBatch};

/// Largest `|logprob - old|` that is exponentiated, in nats: beyond it the ratio stands still and has no
/// gradient, so neither can overflow (bug report G13).
pub(crate) const MAX_LOG_RATIO: f64 = 20.0;

/// The loss, its part from rows with negative advantage, and its gradient by log-prob.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReferenceLoss {
    pub(crate) loss: f64,
    pub(crate) negative_loss: f64,
    /// `[rows][tokens]`, 0 where the mask is not set.
    pub(crate) gradient: Vec<Vec<f64>>,
}

/// `-(1/normalizer) * sum over masked tokens of w * min(r*A, clip(r)*A)`, where `trainer: [rows][tokens]` are
/// the current log-probs, `r = exp(clamp(trainer - old))`, and `w = min(exp(trainer - sampler), cap)` is
/// held constant.
pub(crate) fn reference_loss(batch: &UpdateBatch, trainer: &[Vec<f64>]) -> ReferenceLoss {
    let mut out = ReferenceLoss {
        loss: 0.0,
        negative_loss: 0.0,
        gradient: Vec::new(),
    };
    let normalizer = f64::from(batch.normalizer);
    for (row, trainer) in batch.rows.iter().zip(trainer) {
        let advantage = f64::from(row.advantage);
        let mut gradient = vec![0.0; trainer.len()];
        for (at, &logprob) in trainer.iter().enumerate() {
            if !row.sequence.mask[at] {
                continue;
            }
            let old = match &row.old {
                OldLogprobs::Given(old) if old[at].is_finite() => f64::from(old[at]),
                OldLogprobs::Current | OldLogprobs::Given(_) => logprob,
            };
            let difference = logprob - old;
            let ratio = difference.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp();
            let (low, high) = (
                1.0 - f64::from(batch.clip_low),
                1.0 + f64::from(batch.clip_high),
            );
            let (free, clipped) = (ratio * advantage, ratio.clamp(low, high) * advantage);
            let sampler = f64::from(row.sequence.logprobs[at]);
            let weight = if row.corrects_sampler && sampler.is_finite() {
                (logprob - sampler)
                    .exp()
                    .min(f64::from(batch.importance_cap))
            } else {
                1.0
            };
            let token_loss = -weight * free.min(clipped) / normalizer;
            out.loss += token_loss;
            if advantage < 0.0 {
                out.negative_loss += token_loss;
            }
            let moves = free <= clipped && difference.abs() < MAX_LOG_RATIO;
            // d ratio / d logprob = ratio.
            gradient[at] = if moves {
                -weight * free / normalizer
            } else {
                0.0
            };
        }
        out.gradient.push(gradient);
    }
    out
}

mod tests {
    use harness_core::Sequence;
    use proptest::prelude::*;

    use super::*;
    use crate::learner::UpdateRow;

    fn row(len: usize, advantage: f32, old: OldLogprobs) -> UpdateRow {
        UpdateRow {
            sequence: Sequence {
                ids: vec![1; len],
                mask: vec![true; len],
                logprobs: vec![-1.0; len],
            },
            old,
            advantage,
            corrects_sampler: false,
        }
    }

    fn batch(rows: Vec<UpdateRow>, normalizer: f32) -> UpdateBatch {
        UpdateBatch {
            rows,
            clip_low: 0.2,
            clip_high: 0.28,
            importance_cap: 2.0,
            normalizer,
            learning_rate: 1e-3,
            max_grad_norm: 1.0,
        }
    }

    fn at(logprob: f64, batch: &UpdateBatch) -> ReferenceLoss {
        let trainer: Vec<Vec<f64>> = batch
            .rows
            .iter()
            .map(|r| vec![logprob; r.sequence.ids.len()])
            .collect();
        reference_loss(batch, &trainer)
    }

    #[test]
    fn g9_lengths_one_and_three_at_ratio_one() {
        let current = || OldLogprobs::Current;
        let tokens = batch(vec![row(1, 1.0, current()), row(3, -1.0, current())], 4.0);
        let got = at(-1.0, &tokens);
        assert!((got.loss - 0.5).abs() < 1e-12);
        assert!((got.negative_loss - 0.75).abs() < 1e-12);
        assert_eq!(got.gradient, [vec![-0.25], vec![0.25; 3]]);
        let third = -1.0 / 3.0;
        let sequences = batch(vec![row(1, 1.0, current()), row(3, third, current())], 2.0);
        assert!(at(-1.0, &sequences).loss.abs() < 1e-7);
    }

    #[test]
    fn g11_any_split_has_the_loss_of_the_whole() {
        // One token with loss 1, three with loss 0: 1/4, and not the mean of 1 and 0.
        let rows = [
            row(1, -1.0, OldLogprobs::Current),
            row(3, 0.0, OldLogprobs::Current),
        ];
        let whole = at(-1.0, &batch(rows.to_vec(), 4.0)).loss;
        let split: f64 = rows
            .iter()
            .map(|r| at(-1.0, &batch(vec![r.clone()], 4.0)).loss)
            .sum();
        assert!((whole - 0.25).abs() < 1e-12 && (split - 0.25).abs() < 1e-12);
    }

    #[test]
    fn g13_a_log_ratio_of_a_hundred_stays_finite_in_f32() {
        for (old, advantage) in [(-101.0, 1.0), (-101.0, -1.0), (99.0, 1.0), (99.0, -1.0)] {
            let got = at(
                -1.0,
                &batch(vec![row(1, advantage, OldLogprobs::Given(vec![old]))], 1.0),
            );
            assert!((got.loss as f32).is_finite() && (got.gradient[0][0] as f32).is_finite());
            assert!(got.loss.abs() <= MAX_LOG_RATIO.exp());
            assert!(got.gradient[0][0].abs() < 1e-30, "{got:?}");
        }
    }

    #[test]
    fn the_clip_stops_the_gradient_on_its_own_side_only() {
        let gradient = |old: f32, advantage: f32| {
            let given = OldLogprobs::Given(vec![old]);
            at(-1.0, &batch(vec![row(1, advantage, given)], 1.0)).gradient[0][0]
        };
        // Ratio e: beyond 1.28.
        assert!(gradient(-2.0, 1.0).abs() < 1e-30);
        assert!((gradient(-2.0, -1.0) - std::f64::consts::E).abs() < 1e-9);
        // Ratio 1/e: below 0.8.
        assert!((gradient(0.0, 1.0) + (-1.0_f64).exp()).abs() < 1e-9);
        assert!(gradient(0.0, -1.0).abs() < 1e-30);
    }

    proptest! {
        #[test]
        fn the_gradient_is_the_slope_of_the_loss(
            logprob in -3.0_f64..-0.1, old in -3.0_f32..-0.1, advantage in -2.0_f32..2.0, normalizer in 1.0_f32..9.0,
        ) {
            let ratio = (logprob - f64::from(old)).exp();
            prop_assume!((ratio - 0.8).abs() > 1e-3 && (ratio - 1.28).abs() > 1e-3);
            let batch = batch(vec![row(1, advantage, OldLogprobs::Given(vec![old]))], normalizer);
            let step = 1e-6;
            let slope = (at(logprob + step, &batch).loss - at(logprob - step, &batch).loss) / (2.0 * step);
            prop_assert!((slope - at(logprob, &batch).gradient[0][0]).abs() < 1e-4);
        }
    }
}

mod against_nano {
    use harness_core::{PolicyVersion, Seed, Sequence};
    use proptest::prelude::*;

    use super::*;
    use crate::learner::{Learner, UpdateRow};
    use crate::{AdamWConfig, DeviceKind, ModelConfig, NanoLearner, NanoLearnerConfig};

    /// So large that one `AdamW` step of this rate is plain gradient descent of rate 1.
    const HUGE: f64 = 1e4;

    fn model() -> ModelConfig {
        ModelConfig {
            d_model: 8,
            n_layers: 1,
            n_heads: 2,
            n_kv_heads: 1,
            d_ff: 12,
            ..ModelConfig::nano(11, 24)
        }
    }

    fn nano(weights: Vec<f32>) -> NanoLearner {
        let adamw = AdamWConfig {
            epsilon: HUGE,
            ..AdamWConfig::default()
        };
        let config = NanoLearnerConfig {
            adamw,
            n_threads: 1,
            device: DeviceKind::Cpu,
            stop_ids: vec![0],
        };
        NanoLearner::new(model(), weights, PolicyVersion(0), config).unwrap()
    }

    /// What a row is made of: ids with mask, and per row the advantage and two switches.
    type Plan = (Vec<(u32, bool)>, f32, bool, bool);

    fn plans(n_rows: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Plan>> {
        let ids = proptest::collection::vec((0_u32..11, any::<bool>()), 2..20);
        let advantage = prop_oneof![Just(0.0_f32), -1.0_f32..1.0];
        proptest::collection::vec((ids, advantage, any::<bool>(), any::<bool>()), n_rows)
    }

    /// Rows whose old and sampler log-probs are off the current ones by up to a nat.
    fn batch(learner: &NanoLearner, plans: &[Plan]) -> UpdateBatch {
        let sequence = |ids: &[(u32, bool)]| Sequence {
            ids: ids.iter().map(|(id, _)| *id).collect(),
            mask: ids
                .iter()
                .enumerate()
                .map(|(i, (_, m))| *m && i > 0)
                .collect(),
            logprobs: vec![0.0; ids.len()],
        };
        let sequences: Vec<Sequence> = plans.iter().map(|p| sequence(&p.0)).collect();
        let current = learner.logprobs(&sequences).unwrap();
        let off = |lp: &f32, i: usize, scale: f32| lp + scale * (i as f32 * 1.7).sin();
        let shift = |lps: &[f32], scale| -> Vec<f32> {
            let shifted = lps.iter().enumerate();
            shifted.map(|(i, lp)| off(lp, i, scale)).collect()
        };
        let rows = plans.iter().zip(sequences).zip(current);
        let rows = rows.map(|((plan, mut sequence), lps)| {
            sequence.logprobs = shift(&lps, 1.0);
            UpdateRow {
                sequence,
                old: if plan.2 {
                    OldLogprobs::Current
                } else {
                    OldLogprobs::Given(shift(&lps, 0.6))
                },
                advantage: plan.1,
                corrects_sampler: plan.3,
            }
        });
        UpdateBatch {
            rows: rows.collect(),
            clip_low: 0.2,
            clip_high: 0.28,
            importance_cap: 2.0,
            normalizer: 7.0,
            learning_rate: HUGE,
            max_grad_norm: 1e9,
        }
    }

    fn trainer(learner: &NanoLearner, batch: &UpdateBatch) -> Vec<Vec<f64>> {
        let rows: Vec<Sequence> = batch.rows.iter().map(|r| r.sequence.clone()).collect();
        let lps = learner.logprobs(&rows).unwrap();
        let wide = |row: Vec<f32>| row.into_iter().map(f64::from).collect();
        lps.into_iter().map(wide).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// Up to 40 rows: more than one micro-batch of the learner. G11: any split has the same loss.
        #[test]
        fn g11_the_fast_path_has_the_loss_of_the_reference(plans in plans(1..40), seed in 0_u64..99) {
            let mut learner = nano(model().init(Seed::new(seed)));
            let batch = batch(&learner, &plans);
            let expected = reference_loss(&batch, &trainer(&learner, &batch));
            let got = learner.update(&batch).unwrap();
            prop_assert!((f64::from(got.loss) - expected.loss).abs() < 1e-4 * (1.0 + expected.loss.abs()));
            let negative = expected.negative_loss;
            prop_assert!((f64::from(got.negative_loss) - negative).abs() < 1e-4 * (1.0 + negative.abs()));
        }

        /// Along the fast path's own gradient and three fixed directions, the reference rises as it says.
        #[test]
        fn the_fast_paths_gradient_is_that_of_the_reference(plans in plans(1..20), seed in 0_u64..99) {
            let weights = model().init(Seed::new(seed));
            let mut learner = nano(weights.clone());
            let batch = batch(&learner, &plans);
            let by_logprob = reference_loss(&batch, &trainer(&learner, &batch)).gradient;
            learner.update(&batch).unwrap();
            let moved = weights.iter().zip(learner.weights());
            let gradient: Vec<f64> = moved.map(|(a, b)| f64::from(*a) - f64::from(*b)).collect();
            let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
            let fixed = |k: usize| -> Vec<f64> {
                (0..weights.len()).map(|i| ((i * (k + 3)) as f64 * 0.7).sin()).collect()
            };
            for direction in [gradient.clone(), fixed(0), fixed(1), fixed(2)] {
                let length = direction.iter().map(|d| d * d).sum::<f64>().sqrt().max(1e-12);
                let at = |step: f64| {
                    let moved = weights.iter().zip(&direction);
                    let moved = moved.map(|(w, d)| (f64::from(*w) + step * d / length) as f32);
                    trainer(&nano(moved.collect()), &batch)
                };
                // Central differences at two steps, extrapolated: a norm layer over small embeddings curves
                // so much that one step is off by some per cent.
                let rise_at = |step: f64| -> f64 {
                    let (up, down) = (at(step), at(-step));
                    let rises = up.iter().flatten().zip(down.iter().flatten());
                    let rises = rises.map(|(u, d)| (u - d) / (2.0 * step));
                    by_logprob.iter().flatten().zip(rises).map(|(g, rise)| g * rise).sum()
                };
                let expected = (4.0 * rise_at(5e-4) - rise_at(1e-3)) / 3.0;
                let pairs = gradient.iter().zip(&direction);
                let got: f64 = pairs.map(|(g, d)| g * d / length).sum();
                prop_assert!((got - expected).abs() < 0.02 * norm + 1e-3, "got {got}, expected {expected}, norm {norm}");
            }
        }
    }

    #[test]
    fn g13_the_fast_path_stays_finite_at_a_log_ratio_of_a_hundred() {
        let weights = model().init(Seed::new(1));
        for (shift, advantage) in [(-100.0, 1.0), (-100.0, -1.0), (100.0, 1.0), (100.0, -1.0)] {
            let mut learner = nano(weights.clone());
            let plan = (
                vec![(1, false), (2, true), (3, true)],
                advantage,
                false,
                false,
            );
            let mut batch = batch(&learner, &[plan]);
            let now = trainer(&learner, &batch);
            let old = now[0].iter().map(|lp| *lp as f32 + shift);
            batch.rows[0].old = OldLogprobs::Given(old.collect());
            let expected = reference_loss(&batch, &now);
            let got = learner.update(&batch).unwrap();
            assert!(got.loss.is_finite() && got.grad_norm == 0.0, "{got:?}");
            let tolerance = 1e-4 * (1.0 + expected.loss.abs());
            assert!((f64::from(got.loss) - expected.loss).abs() < tolerance);
        }
    }
}
