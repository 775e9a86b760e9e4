//! Tests of `sampler`.

use harness_core::{Seed, Sequence};

use super::*;
use crate::learner::Learner;
use crate::model::{DeviceKind, ModelConfig};
use crate::nano_learner::{NanoLearner, NanoLearnerConfig};

const VOCAB: usize = 40;

/// Odd sizes on purpose: nothing is a multiple of the vector width, and heads share keys.
fn sizes(context: usize) -> ModelConfig {
    ModelConfig {
        vocab: VOCAB,
        d_model: 24,
        n_layers: 2,
        n_heads: 4,
        n_kv_heads: 2,
        d_ff: 20,
        max_context: context,
        rope_base: 10_000.0,
        norm_eps: 1e-5,
    }
}

fn learner(context: usize) -> NanoLearner {
    let model = sizes(context);
    let mut weights = model.init(Seed::new(5));
    // Sharper than a fresh model, so that log-probs are not all alike.
    weights[..VOCAB * 24].iter_mut().for_each(|w| *w *= 12.0);
    let config = NanoLearnerConfig {
        adamw: crate::AdamWConfig::default(),
        n_threads: 1,
        device: DeviceKind::Cpu,
        stop_ids: vec![1],
    };
    NanoLearner::new(model, weights, PolicyVersion(0), config).unwrap()
}

fn rollout(i: usize) -> RolloutId {
    RolloutId::new(format!("r{i}")).unwrap()
}

fn ids(seed: u64, n: usize) -> Vec<u32> {
    use rand::Rng;
    let mut rng = Seed::new(seed).rng();
    (0..n)
        .map(|_| 2 + rng.next_u32() % (VOCAB as u32 - 2))
        .collect()
}

fn request(i: usize, new_ids: Vec<u32>, temperature: f32, max_new_tokens: usize) -> Request {
    Request {
        rollout: rollout(i),
        seed: Seed::new(99).derive("test", &[i as u64, new_ids.len() as u64]),
        new_ids,
        sampling: Sampling {
            temperature,
            max_new_tokens,
        },
        deadline: Deadline::NEVER,
    }
}

/// Answers of all requests in flight.
fn drain(sampler: &mut NanoSampler) -> HashMap<RolloutId, Result<Generation, PolicyError>> {
    let mut all = HashMap::new();
    while !(sampler.active.is_empty() && sampler.done.is_empty()) {
        all.extend(sampler.poll(Duration::from_mins(1)));
    }
    all
}

/// Three turns of `n` rollouts, four of a group sharing an opening; returns what each drew, turn by turn.
fn play(sampler: &mut NanoSampler, which: &[usize]) -> HashMap<usize, Vec<Generation>> {
    let mut drawn: HashMap<usize, Vec<Generation>> = HashMap::new();
    for turn in 0..3 {
        for &i in which {
            let new_ids = match turn {
                0 => ids(i as u64 / 4, 7 + (i / 4) % 5),
                _ => ids((1000 * turn + i) as u64, 1 + i % 9),
            };
            sampler.submit(request(i, new_ids, 1.0, 12)).unwrap();
        }
        let mut answers = drain(sampler);
        for &i in which {
            let answer = answers.remove(&rollout(i)).unwrap().unwrap();
            drawn.entry(i).or_default().push(answer);
        }
    }
    for &i in which {
        sampler.release(&rollout(i));
    }
    drawn
}

#[test]
fn logprobs_equal_the_full_forward_over_several_turns() {
    let learner = learner(90);
    let mut sampler = learner.sampler();
    let which: Vec<usize> = (0..10).collect();
    let drawn = play(&mut sampler, &which);
    for (i, turns) in drawn {
        let mut row = Sequence::default();
        for (turn, generation) in turns.iter().enumerate() {
            let context = match turn {
                0 => ids(i as u64 / 4, 7 + (i / 4) % 5),
                _ => ids((1000 * turn + i) as u64, 1 + i % 9),
            };
            row.mask.extend(context.iter().map(|_| false));
            row.logprobs.extend(context.iter().map(|_| 0.0));
            row.ids.extend(context);
            row.mask.extend(generation.ids.iter().map(|_| true));
            row.ids.extend(&generation.ids);
            row.logprobs.extend(&generation.logprobs);
        }
        let full = learner.logprobs(std::slice::from_ref(&row)).unwrap();
        for (a, b) in full[0].iter().zip(&row.logprobs) {
            assert!((a - b).abs() < 1e-4, "rollout {i}: {a} and {b}");
        }
        assert!(row.logprobs.iter().any(|l| *l < -1.0));
    }
}

#[test]
fn a_rollout_draws_the_same_in_any_company_and_order() {
    let learner = learner(90);
    let together = play(&mut learner.sampler(), &(0..50).collect::<Vec<_>>());
    let mut backwards: Vec<usize> = (0..50).rev().collect();
    backwards.swap(3, 40);
    assert_eq!(together, play(&mut learner.sampler(), &backwards));
    let mut alone = learner.sampler();
    for i in 0..50 {
        let single = play(&mut alone, &[i]);
        assert_eq!(single[&i], together[&i], "rollout {i}");
    }
}

#[test]
fn rollouts_submitted_while_others_run_draw_the_same() {
    let learner = learner(90);
    let expected = play(&mut learner.sampler(), &(0..12).collect::<Vec<_>>());
    let mut sampler = learner.sampler();
    let mut answers = HashMap::new();
    for i in 0..12 {
        let opening = ids(i as u64 / 4, 7 + (i / 4) % 5);
        sampler.submit(request(i, opening, 1.0, 12)).unwrap();
        answers.extend(sampler.poll(Duration::ZERO));
    }
    answers.extend(drain(&mut sampler));
    for i in 0..12 {
        assert_eq!(answers[&rollout(i)], Ok(expected[&i][0].clone()));
    }
}

#[test]
fn a_shared_opening_is_read_once_and_forgotten_with_its_last_rollout() {
    let learner = learner(90);
    let mut sampler = learner.sampler();
    let opening = ids(3, 40);
    for i in 0..8 {
        sampler.submit(request(i, opening.clone(), 1.0, 1)).unwrap();
    }
    assert_eq!(drain(&mut sampler).len(), 8);
    assert_eq!(sampler.n_computed(), 40);
    sampler.submit(request(8, opening.clone(), 1.0, 1)).unwrap();
    assert_eq!(drain(&mut sampler).len(), 1);
    assert_eq!(sampler.n_computed(), 40, "a late sibling copies too");
    (0..9).for_each(|i| sampler.release(&rollout(i)));
    sampler.submit(request(9, opening, 1.0, 1)).unwrap();
    drain(&mut sampler);
    assert_eq!(sampler.n_computed(), 80);
}

#[test]
fn a_released_reader_hands_its_opening_on() {
    let learner = learner(300);
    let mut sampler = learner.sampler();
    let opening = ids(3, 280);
    for i in 0..3 {
        sampler.submit(request(i, opening.clone(), 0.0, 2)).unwrap();
    }
    assert!(
        sampler.poll(Duration::ZERO).is_empty(),
        "one step reads 256 tokens"
    );
    sampler.release(&rollout(0));
    let answers = drain(&mut sampler);
    assert_eq!(answers[&rollout(1)], answers[&rollout(2)]);
    let mut fresh = learner.sampler();
    fresh.submit(request(0, opening, 0.0, 2)).unwrap();
    assert_eq!(drain(&mut fresh)[&rollout(0)], answers[&rollout(1)]);
}

#[test]
fn greedy_takes_the_most_likely_and_the_lowest_of_equals() {
    let learner = learner(60);
    let run = |seed: u64| {
        let mut one = request(0, ids(2, 9), 0.0, 20);
        one.seed = Seed::new(seed);
        learner.sampler().generate_all(vec![one]).remove(0).unwrap()
    };
    assert_eq!(run(1), run(2));
    let mut drawer = Drawer::new(pulp::Arch::new(), 5);
    let mut logits = vec![f32::NEG_INFINITY; 16];
    logits[..5].copy_from_slice(&[0.0, 2.0, 1.0, 2.0, -1.0]);
    let (id, logprob) = drawer.draw(&logits, 0.0, &mut Seed::new(0).rng()).unwrap();
    let exact = 2.0 - (0f64.exp() + 2.0 * 2f64.exp() + 1f64.exp() + (-1f64).exp()).ln();
    assert!(id == 1 && (f64::from(logprob) - exact).abs() < 1e-6);
}

#[test]
fn draws_follow_the_distribution_at_their_temperature() {
    let mut drawer = Drawer::new(pulp::Arch::new(), 40);
    let mut logits = vec![f32::NEG_INFINITY; 48];
    (0..40).for_each(|i| logits[i] = (i % 7) as f32 * 0.5);
    for temperature in [0.5, 1.0, 2.0] {
        let mut rng = Seed::new(4).rng();
        let mut counts = [0u32; 40];
        for _ in 0..40_000 {
            counts[drawer.draw(&logits, temperature, &mut rng).unwrap().0 as usize] += 1;
        }
        let weight = |i: usize| f64::from(logits[i] / temperature).exp();
        let total: f64 = (0..40).map(weight).sum();
        for (i, count) in counts.iter().enumerate() {
            let p = weight(i) / total;
            let spread = (p * 40_000.0).sqrt();
            assert!((f64::from(*count) - p * 40_000.0).abs() < 5.0 * spread + 1.0);
        }
    }
}

#[test]
fn g29_a_full_window_ends_the_generation() {
    let learner = learner(100);
    let mut sampler = learner.sampler();
    sampler.stop_ids.clear();
    sampler.submit(request(0, ids(1, 90), 1.0, 20)).unwrap();
    let first = drain(&mut sampler).remove(&rollout(0)).unwrap().unwrap();
    assert_eq!((first.finish, first.ids.len()), (Finish::Window, 10));
    sampler.submit(request(0, ids(2, 5), 1.0, 20)).unwrap();
    let second = drain(&mut sampler).remove(&rollout(0)).unwrap().unwrap();
    assert_eq!((second.finish, second.ids.len()), (Finish::Window, 0));
    sampler.submit(request(1, ids(1, 90), 1.0, 10)).unwrap();
    let exact = drain(&mut sampler).remove(&rollout(1)).unwrap().unwrap();
    assert_eq!((exact.finish, exact.ids.len()), (Finish::Length, 10));
}

#[test]
fn a_deadline_ends_its_own_row_only() {
    let learner = learner(90);
    let mut sampler = learner.sampler();
    let opening = ids(1, 8);
    for i in 0..4 {
        let mut one = request(i, opening.clone(), 1.0, 12);
        if i == 0 {
            one.deadline = Deadline::after(Duration::ZERO);
        }
        sampler.submit(one).unwrap();
    }
    let answers = drain(&mut sampler);
    assert_eq!(answers[&rollout(0)], Err(PolicyError::Deadline));
    assert!((1..4).all(|i| answers[&rollout(i)].is_ok()));
}

#[test]
fn unusable_requests_are_refused() {
    let learner = learner(90);
    let mut sampler = learner.sampler();
    let refused = |sampler: &mut NanoSampler, r: Request| {
        assert!(matches!(sampler.submit(r), Err(PolicyError::BadRequest(_))));
    };
    refused(&mut sampler, request(0, vec![], 1.0, 5));
    refused(&mut sampler, request(0, vec![VOCAB as u32], 1.0, 5));
    refused(&mut sampler, request(0, vec![2], 1.0, 0));
    refused(&mut sampler, request(0, vec![2], f32::NAN, 5));
    sampler.submit(request(0, vec![2], 1.0, 5)).unwrap();
    refused(&mut sampler, request(0, vec![2], 1.0, 5));
    sampler.release(&RolloutId::new("unknown").unwrap());
}

#[test]
fn weights_that_are_not_finite_fail_the_request() {
    let model = sizes(20);
    let weights = vec![f32::NAN; model.n_params()];
    let packed = Arc::new(SamplerWeights::pack(&model, &weights));
    let mut sampler = NanoSampler::new(packed, PolicyVersion(0), vec![1]);
    let answer = sampler.generate_all(vec![request(0, vec![2, 3], 1.0, 5)]);
    assert!(matches!(answer[0], Err(PolicyError::Backend(_))));
}
