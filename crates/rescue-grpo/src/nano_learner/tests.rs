//! Tests of `nano_learner`.

use harness_core::Seed;
use rand::Rng;

use super::*;

fn sizes() -> ModelConfig {
    let mut model = ModelConfig::nano(20, 24);
    (model.d_model, model.d_ff, model.n_heads, model.n_kv_heads) = (16, 24, 4, 2);
    model
}

fn learner(n_threads: usize) -> NanoLearner {
    let config = NanoLearnerConfig {
        adamw: AdamWConfig::default(),
        n_threads,
        device: DeviceKind::Cpu,
        stop_ids: vec![1],
    };
    let weights = sizes().init(Seed::new(1));
    NanoLearner::new(sizes(), weights, PolicyVersion(3), config).unwrap()
}

fn rows(n: usize) -> Vec<UpdateRow> {
    let mut rng = Seed::new(8).rng();
    let mut row = |i: usize| {
        let len = 6 + i % 13;
        let ids: Vec<u32> = (0..len).map(|_| rng.next_u32() % 20).collect();
        let mask: Vec<bool> = (0..len)
            .map(|at| at > 0 && !(at + i).is_multiple_of(3))
            .collect();
        let logprobs = mask.iter().map(|&m| if m { -2.9 } else { 0.0 }).collect();
        UpdateRow {
            sequence: Sequence {
                ids,
                mask,
                logprobs,
            },
            old: OldLogprobs::Current,
            advantage: if i.is_multiple_of(2) { 1.0 } else { -0.7 },
            corrects_sampler: false,
        }
    };
    (0..n).map(&mut row).collect()
}

fn batch(rows: Vec<UpdateRow>) -> UpdateBatch {
    UpdateBatch {
        rows,
        clip_low: 0.2,
        clip_high: 0.28,
        importance_cap: 2.0,
        normalizer: 100.0,
        learning_rate: 1e-3,
        max_grad_norm: 1.0,
    }
}

/// The loss in the plainest words, from log-probs alone.
fn plain_loss(batch: &UpdateBatch, logprobs: &[Vec<f32>]) -> f64 {
    let mut sum = 0.0;
    for (row, lps) in batch.rows.iter().zip(logprobs) {
        for (i, &lp) in lps
            .iter()
            .enumerate()
            .filter(|(i, _)| row.sequence.mask[*i])
        {
            let a = f64::from(row.advantage);
            let old = match &row.old {
                OldLogprobs::Current => lp,
                OldLogprobs::Given(old) => old[i],
            };
            let r = f64::from(lp - old).exp();
            let clipped = r.clamp(
                1.0 - f64::from(batch.clip_low),
                1.0 + f64::from(batch.clip_high),
            );
            let drift = f64::from(lp - row.sequence.logprobs[i]).exp();
            let cap = f64::from(batch.importance_cap);
            let w = if row.corrects_sampler {
                drift.min(cap)
            } else {
                1.0
            };
            sum -= w * (r * a).min(clipped * a);
        }
    }
    sum / f64::from(batch.normalizer)
}

#[test]
fn the_loss_is_the_documented_one() {
    let mut learner = learner(2);
    let mut batch = batch(rows(30));
    for (i, row) in batch.rows.iter_mut().enumerate() {
        row.corrects_sampler = i % 3 == 0;
        if i % 4 != 0 {
            row.old = OldLogprobs::Given(vec![-3.0 + 0.1 * (i % 5) as f32; row.sequence.ids.len()]);
        }
    }
    let sequences: Vec<Sequence> = batch.rows.iter().map(|r| r.sequence.clone()).collect();
    let logprobs = learner.logprobs(&sequences).unwrap();
    let expected = plain_loss(&batch, &logprobs);
    let stats = learner.update(&batch).unwrap();
    assert!(
        (f64::from(stats.loss) - expected).abs() < 1e-5,
        "{} {expected}",
        stats.loss
    );
    assert!(stats.clipped_share > 0.0 && stats.clipped_share < 1.0);
    let n = sequences
        .iter()
        .flat_map(|s| &s.mask)
        .filter(|m| **m)
        .count();
    assert_eq!((stats.n_tokens, learner.version()), (n, PolicyVersion(4)));
}

/// Gradients against central differences of the documented loss, through the whole model.
#[test]
fn the_gradient_is_that_of_the_loss() {
    let learner = learner(1);
    let mut batch = batch(rows(6));
    for (i, row) in batch
        .rows
        .iter_mut()
        .enumerate()
        .filter(|(i, _)| i % 2 == 1)
    {
        row.old = OldLogprobs::Given(vec![-2.9 - 0.05 * i as f32; row.sequence.ids.len()]);
    }
    batch.normalizer = 1.0;
    let masked: Vec<_> = (0..6)
        .map(|i| learner.check(i, &batch.rows[i].sequence).unwrap())
        .collect();
    let slopes = |row: usize, lps: &[f32]| -> Vec<f32> {
        let tokens = masked[row].positions().zip(lps);
        tokens
            .map(|(at, &lp)| token_loss(&batch, &batch.rows[row], at, lp).slope as f32)
            .collect()
    };
    let pass = learner.engine.gradient(&learner.weights, &masked, &slopes);
    let loss = |weights: &[f32]| {
        let found = learner.engine.logprobs(weights, &masked);
        let rows = batch.rows.iter().zip(&masked).zip(&found);
        let tokens = rows.flat_map(|((row, m), lps)| {
            m.positions().zip(lps).map(|(at, &lp)| match row.old {
                OldLogprobs::Current => -f64::from(lp) * f64::from(row.advantage),
                OldLogprobs::Given(_) => token_loss(&batch, row, at, lp).loss,
            })
        });
        tokens.sum::<f64>()
    };
    let mut start = 0;
    for spec in sizes().layout() {
        let at = start + spec.len() / 3;
        let (mut up, mut down) = (learner.weights.clone(), learner.weights.clone());
        (up[at], down[at]) = (up[at] + 2e-3, down[at] - 2e-3);
        let expected = (loss(&up) - loss(&down)) / f64::from(up[at] - down[at]);
        let got = f64::from(pass.gradient[at]);
        let close = (got - expected).abs() < 2e-2 * expected.abs().max(1.0);
        assert!(close, "{}: {got} and {expected}", spec.name);
        start += spec.len();
    }
}

#[test]
fn the_burn_forward_agrees_with_the_selected_logprobs() {
    use burn::tensor::{Int, Tensor, TensorData};
    let learner = learner(1);
    let row = &rows(3)[2].sequence;
    let device = DeviceKind::Cpu.open().unwrap();
    let model = crate::model::Transformer::from_flat(&sizes(), &learner.weights, &device).unwrap();
    let n = row.ids.len();
    let ids: Vec<i32> = row.ids.iter().map(|&id| id as i32).collect();
    let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [1, n]), &device);
    let all = burn::tensor::activation::log_softmax(model.forward(ids), 2);
    let all: Vec<f32> = all.into_data().try_to_vec().unwrap();
    let found = learner.logprobs(std::slice::from_ref(row)).unwrap();
    for i in (0..n).filter(|&i| row.mask[i]) {
        let expected = all[(i - 1) * 20 + row.ids[i] as usize];
        assert!((found[0][i] - expected).abs() < 1e-5);
    }
}

#[test]
fn an_update_moves_probability_towards_what_was_good() {
    let mut learner = learner(1);
    let rows = rows(8);
    let sequences: Vec<Sequence> = rows.iter().map(|r| r.sequence.clone()).collect();
    let before = learner.logprobs(&sequences).unwrap();
    for _ in 0..5 {
        learner.update(&batch(rows.clone())).unwrap();
    }
    let after = learner.logprobs(&sequences).unwrap();
    let sum = |all: &[Vec<f32>], odd: usize| -> f32 {
        let of_kind = all.iter().skip(odd).step_by(2);
        of_kind.flatten().sum()
    };
    assert!(sum(&after, 0) > sum(&before, 0) && sum(&after, 1) < sum(&before, 1));
}

#[test]
fn threads_do_not_change_a_bit() {
    let run = |n_threads: usize| {
        let mut learner = learner(n_threads);
        let stats = learner.update(&batch(rows(70))).unwrap();
        (stats, learner.weights.clone())
    };
    assert_eq!(run(1), run(4));
}

#[test]
fn what_is_not_finite_changes_nothing() {
    let mut learner = learner(1);
    let before = learner.weights.clone();
    let mut bad = batch(rows(4));
    bad.rows[1].advantage = f32::NAN;
    assert!(matches!(
        learner.update(&bad),
        Err(LearnerError::NotFinite { what: "loss", .. })
    ));
    bad = batch(rows(4));
    bad.normalizer = f32::MIN_POSITIVE;
    bad.rows.iter_mut().for_each(|r| r.advantage = 1e30);
    assert!(matches!(
        learner.update(&bad),
        Err(LearnerError::NotFinite { .. })
    ));
    assert_eq!(
        (learner.weights.clone(), learner.version()),
        (before, PolicyVersion(3))
    );
}

#[test]
fn g13_far_apart_logprobs_stay_finite() {
    let mut learner = learner(1);
    let mut far = batch(rows(4));
    for (i, row) in far.rows.iter_mut().enumerate() {
        let old = if i < 2 { -1e4 } else { 1e4 };
        row.old = OldLogprobs::Given(vec![old; row.sequence.ids.len()]);
    }
    let stats = learner.update(&far).unwrap();
    assert!(stats.loss.is_finite() && stats.grad_norm.is_finite());
}

/// `[-0.1, missing, -0.3]`: the token without a log-prob is learnt from with ratio 1, as if the engine had said
/// what the trainer says.
#[test]
fn g24_a_missing_logprob_counts_as_ratio_one() {
    let rows = || {
        let mut rows = rows(4);
        for row in &mut rows {
            row.corrects_sampler = true;
        }
        rows
    };
    let of = |change: &dyn Fn(&mut UpdateRow, &[f32])| {
        let mut learner = learner(1);
        let mut batch = batch(rows());
        let sequences: Vec<_> = batch.rows.iter().map(|r| r.sequence.clone()).collect();
        let now = learner.logprobs(&sequences).unwrap();
        for (row, now) in batch.rows.iter_mut().zip(&now) {
            change(row, now);
        }
        let stats = learner.update(&batch).unwrap();
        (learner.weights, stats)
    };
    let missing = of(&|row, _| {
        row.sequence
            .logprobs
            .iter_mut()
            .step_by(2)
            .for_each(|lp| *lp = f32::NAN);
    });
    let said = of(&|row, now| {
        let told = row.sequence.logprobs.iter_mut().zip(now).step_by(2);
        told.for_each(|(lp, now)| *lp = *now);
    });
    let (weights, stats) = missing;
    assert!(stats.loss.is_finite() && weights.iter().all(|w| w.is_finite()));
    assert_eq!((weights, stats), said);
    let old = of(&|row, _| row.old = OldLogprobs::Given(vec![f32::NAN; row.sequence.ids.len()]));
    let current = of(&|row, _| row.old = OldLogprobs::Current);
    assert_eq!(old.0, current.0);
}

#[test]
fn snapshots_keep_their_weights_and_share_them() {
    let mut learner = learner(1);
    let (a, b) = (learner.sampler(), learner.sampler());
    assert_eq!(a.version(), PolicyVersion(3));
    learner.update(&batch(rows(4))).unwrap();
    assert_eq!(
        (b.version(), learner.snapshot().version()),
        (PolicyVersion(3), PolicyVersion(4))
    );
}

#[test]
fn bad_rows_are_named() {
    let mut learner = learner(1);
    let check = |learner: &mut NanoLearner, change: fn(&mut UpdateRow)| {
        let mut bad = batch(rows(4));
        change(&mut bad.rows[2]);
        let error = learner.update(&bad).unwrap_err();
        assert!(
            matches!(error, LearnerError::BadRow { row: 2, .. }),
            "{error}"
        );
    };
    check(&mut learner, |r| r.sequence.mask[0] = true);
    check(&mut learner, |r| r.sequence.ids.push(1));
    check(&mut learner, |r| r.sequence.ids[1] = 20);
    check(&mut learner, |r| r.old = OldLogprobs::Given(vec![0.0]));
    check(&mut learner, |r| {
        r.corrects_sampler = true;
        r.sequence.logprobs.clear();
    });
    check(&mut learner, |r| {
        r.sequence.ids = vec![1; 25];
        r.sequence.mask = vec![false; 25];
    });
}
