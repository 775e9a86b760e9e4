//! Advantages, an update and a decode step of the nano policy: `cargo bench -p rescue-grpo --profile dev` (any
//! other profile compiles burn once more).

use std::time::Duration;

use divan::{Bencher, black_box};
use harness_core::{
    Deadline, Policy as _, PolicyVersion, Request, RolloutId, Sampling, Seed, Sequence,
};
use rand::Rng;
use rescue_grpo::learner::{Learner as _, OldLogprobs, UpdateBatch, UpdateRow};
use rescue_grpo::{ModelConfig, NanoLearner, NanoLearnerConfig, NanoSampler, advantages};

fn main() {
    divan::main();
}

const VOCAB: usize = 640;

fn ids(rng: &mut impl Rng, n: usize) -> Vec<u32> {
    (0..n).map(|_| rng.next_u32() % VOCAB as u32).collect()
}

fn learner() -> NanoLearner {
    let model = ModelConfig::nano(VOCAB, 256);
    let weights = model.init(Seed::new(1));
    let config = NanoLearnerConfig::new(&[]);
    NanoLearner::new(model, weights, PolicyVersion(0), config).expect("the sizes fit")
}

/// The advantages of one group.
#[divan::bench(name = "advantages", args = [8, 512])]
fn group(bencher: Bencher, n: usize) {
    let rewards: Vec<Option<f32>> = (0..n).map(|i| Some((i % 3) as f32)).collect();
    bencher.bench_local(|| advantages(black_box(&rewards), &[], false));
}

/// One update on rows of 60 to 100 tokens, half of them learnt after the prompt, on one thread.
#[divan::bench(name = "update_step_rows", args = [32, 96], sample_count = 20, sample_size = 1)]
fn update(bencher: Bencher, n_rows: usize) {
    let mut rng = Seed::new(2).rng();
    let mut row = |i: usize| {
        let n = 60 + rng.next_u32() as usize % 41;
        UpdateRow {
            sequence: Sequence {
                ids: ids(&mut rng, n),
                mask: (0..n).map(|i| i > 26 && i % 13 < 6).collect(),
                logprobs: Vec::new(),
            },
            old: OldLogprobs::Current,
            advantage: if i.is_multiple_of(2) { 0.5 } else { -0.5 },
            corrects_sampler: false,
        }
    };
    let batch = UpdateBatch {
        rows: (0..n_rows).map(&mut row).collect(),
        clip_low: 0.2,
        clip_high: 0.28,
        importance_cap: 2.0,
        normalizer: 1000.0,
        learning_rate: 1e-6,
        max_grad_norm: 1.0,
    };
    let mut learner = learner();
    bencher.bench_local(|| learner.update(&batch).expect("the rows fit"));
}

/// A sampler whose rows, in groups of eight, have read their prompts of 27 tokens and drawn a few.
fn decoding(learner: &NanoLearner, n_rows: usize) -> NanoSampler {
    let mut sampler = learner.sampler();
    let mut rng = Seed::new(3).rng();
    let prompts: Vec<Vec<u32>> = (0..n_rows.div_ceil(8)).map(|_| ids(&mut rng, 27)).collect();
    for i in 0..n_rows {
        let request = Request {
            rollout: RolloutId::new(format!("r{i}")).expect("letters and digits are an id"),
            new_ids: prompts[i / 8].clone(),
            sampling: Sampling {
                temperature: 1.0,
                max_new_tokens: 200,
            },
            seed: Seed::new(i as u64),
            deadline: Deadline::NEVER,
        };
        sampler.submit(request).expect("the request fits");
    }
    for _ in 0..20 {
        sampler.poll(Duration::ZERO);
    }
    sampler
}

/// One decode step: one id for every row, by continuous batching with a key-value cache.
#[divan::bench(name = "sampling_step_rows", args = [8, 96], sample_count = 50, sample_size = 1)]
fn decode(bencher: Bencher, n_rows: usize) {
    let learner = learner();
    bencher
        .with_inputs(|| decoding(&learner, n_rows))
        .bench_local_values(|mut sampler| {
            sampler.poll(Duration::ZERO);
            sampler
        });
}
