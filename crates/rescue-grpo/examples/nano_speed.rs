//! Prints tokens per CPU second of the nano sampler, the warm start and an update at the measured size
//! (width 64, 2 layers, vocabulary 640). Usage: `cargo run --example nano_speed -- [threads] [steps]`.

use std::time::Duration;

use harness_core::{Deadline, Policy, PolicyVersion, Request, RolloutId, Sampling, Seed, Sequence};
use rand::Rng;
use rescue_grpo::learner::{Learner, OldLogprobs, UpdateBatch, UpdateRow};
use rescue_grpo::{
    AdamWConfig, DeviceKind, ModelConfig, NanoLearner, NanoLearnerConfig, SupervisedConfig,
    SupervisedRow, train_supervised,
};

/// CPU seconds of this process so far (Linux), which other load on the machine does not stretch.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    let ticks = fields
        .skip(11)
        .take(2)
        .filter_map(|f| f.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

/// Ids of one vocabulary's size.
const VOCAB: usize = 640;

fn ids(rng: &mut impl Rng, n: usize) -> Vec<u32> {
    (0..n)
        .map(|_| 8 + rng.next_u32() % (VOCAB as u32 - 8))
        .collect()
}

/// 96 rollouts in groups of 8: a prompt of 27 tokens, then turns of 6 drawn and 7 read tokens.
fn sample(learner: &NanoLearner) -> Result<(u64, f64), Box<dyn std::error::Error>> {
    let mut sampler = learner.sampler();
    let mut rng = Seed::new(1).rng();
    let prompts: Vec<Vec<u32>> = (0..12).map(|_| ids(&mut rng, 27)).collect();
    let start = cpu_seconds();
    let mut n_drawn = 0;
    for turn in 0..8u64 {
        for i in 0..96 {
            let new_ids = match turn {
                0 => prompts[i / 8].clone(),
                _ => ids(&mut rng, 7),
            };
            let sampling = Sampling {
                temperature: 1.0,
                max_new_tokens: 6,
            };
            sampler.submit(Request {
                rollout: RolloutId::new(format!("r{i}"))?,
                new_ids,
                sampling,
                seed: Seed::new(i as u64 + 1000 * turn),
                deadline: Deadline::NEVER,
            })?;
        }
        let mut open = 96;
        while open > 0 {
            for (_, answer) in sampler.poll(Duration::from_secs(1)) {
                n_drawn += answer?.ids.len() as u64;
                open -= 1;
            }
        }
    }
    let _ = n_drawn;
    Ok((sampler.n_computed(), cpu_seconds() - start))
}

/// Rows of about `len` tokens, a third of them masked.
fn demos(n: usize, len: usize) -> Vec<SupervisedRow> {
    let mut rng = Seed::new(2).rng();
    let mut row = || {
        let len = len - 20 + rng.next_u32() as usize % 41;
        SupervisedRow {
            ids: ids(&mut rng, len),
            mask: (0..len).map(|i| i > 26 && i % 13 < 6).collect(),
        }
    };
    (0..n).map(|_| row()).collect()
}

/// Twelve prompts' rollouts, eight times over.
fn sampler_rate(learner: &NanoLearner) -> Result<f64, Box<dyn std::error::Error>> {
    sample(learner)?;
    let (mut n, mut span) = (0, 0.0);
    for _ in 0..8 {
        let (more, time) = sample(learner)?;
        (n, span) = (n + more, span + time);
    }
    Ok(n as f64 / span)
}

/// Four updates on 128 rows.
fn update_rate(
    learner: &mut NanoLearner,
    demos: &[SupervisedRow],
) -> Result<f64, Box<dyn std::error::Error>> {
    let row = |d: &SupervisedRow| UpdateRow {
        sequence: Sequence {
            ids: d.ids.clone(),
            mask: d.mask.clone(),
            logprobs: vec![0.0; d.ids.len()],
        },
        old: OldLogprobs::Current,
        advantage: 1.0,
        corrects_sampler: false,
    };
    let rows: Vec<UpdateRow> = demos.iter().take(128).map(row).collect();
    let n: usize = rows.iter().map(|r| r.sequence.ids.len()).sum();
    let batch = UpdateBatch {
        rows,
        clip_low: 0.2,
        clip_high: 0.28,
        importance_cap: 2.0,
        normalizer: 1000.0,
        learning_rate: 5e-4,
        max_grad_norm: 1.0,
    };
    let start = cpu_seconds();
    for _ in 0..4 {
        learner.update(&batch)?;
    }
    Ok((4 * n) as f64 / (cpu_seconds() - start))
}

#[expect(clippy::print_stdout, reason = "printing is what this program is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = |i, default| std::env::args().nth(i).map_or(Ok(default), |n| n.parse());
    let (n_threads, steps) = (argument(1, 2)?, argument(2, 20)?);
    let model = ModelConfig::nano(VOCAB, 144);
    let mut weights = model.init(Seed::new(1));
    let demos = demos(640, 80);
    let config = SupervisedConfig {
        steps,
        n_threads,
        ..SupervisedConfig::default()
    };
    let mut n = 0;
    let start = cpu_seconds();
    train_supervised(&model, &mut weights, &demos, &config, Seed::new(3), |_| {
        n += 64 * 80;
        true
    })?;
    let rate = f64::from(n) / (cpu_seconds() - start);
    println!("warm start: {rate:.0} tokens per CPU second on {n_threads} threads");
    let whole = 1600.0 * 64.0 * 80.0 / rate;
    println!("  1600 x 64 x 80 tokens would take {whole:.0} CPU seconds");

    let config = NanoLearnerConfig {
        adamw: AdamWConfig::default(),
        n_threads,
        device: DeviceKind::Cpu,
        stop_ids: vec![1],
    };
    let mut learner = NanoLearner::new(model, weights, PolicyVersion(0), config)?;
    let rate = sampler_rate(&learner)?;
    println!("sampler: {rate:.0} tokens per CPU second");
    let rate = update_rate(&mut learner, &demos)?;
    println!("update: {rate:.0} tokens per CPU second on {n_threads} threads");
    Ok(())
}
