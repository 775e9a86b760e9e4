//! What both sides do: shapes, weights, rows.

use std::fmt;
use std::path::Path;

use harness_core::{PolicyVersion, Seed, Sequence};
use rand::Rng;
use rescue_grpo::learner::{OldLogprobs, UpdateBatch, UpdateRow};
use rescue_grpo::{AdamWConfig, ModelConfig, NanoLearner, NanoLearnerConfig};
use serde_json::{Value, json};

use crate::files::write_atomic;
use crate::pipeline::timed::timed_steps;

/// Steps whose median update is the nano shape's.
const N_STEPS: u64 = 8;
/// So small that weights hardly move in many updates on the same rows.
const LEARNING_RATE: f64 = 1e-6;

/// The larger shape: 1.77 M weights.
fn wide() -> ModelConfig {
    ModelConfig {
        d_model: 192,
        n_layers: 4,
        n_heads: 6,
        n_kv_heads: 2,
        d_ff: 512,
        ..ModelConfig::nano(1024, 384)
    }
}

fn random_ids(rng: &mut impl Rng, n: usize, vocab: usize) -> Vec<u32> {
    (0..n).map(|_| rng.next_u32() % vocab as u32).collect()
}

/// A learner at these weights.
pub(super) fn learner(
    model: &ModelConfig,
    weights: &[f32],
    n_threads: usize,
) -> anyhow::Result<NanoLearner> {
    let config = NanoLearnerConfig {
        n_threads,
        ..NanoLearnerConfig::new(&[])
    };
    let version = PolicyVersion::default();
    Ok(NanoLearner::new(
        model.clone(),
        weights.to_vec(),
        version,
        config,
    )?)
}

fn write_job(folder: &Path, job: &Value, weights: &[f32]) -> anyhow::Result<()> {
    let bytes: Vec<u8> = weights.iter().flat_map(|w| w.to_le_bytes()).collect();
    write_atomic(&folder.join("weights.f32"), &bytes)?;
    write_atomic(&folder.join("job.json"), &serde_json::to_vec(job)?)
}

/// An update.
pub(super) struct TrainWork {
    pub(super) shape: &'static str,
    pub(super) model: ModelConfig,
    pub(super) weights: Vec<f32>,
    pub(super) batch: UpdateBatch,
}

impl fmt::Display for TrainWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, n) = (self.batch.rows.len(), self.n_tokens());
        let masked: usize = self.masked().map(|at| at.len()).sum();
        let shape = self.shape;
        write!(
            f,
            "{shape}: {rows} rows, {n} tokens, {masked} of them masked"
        )
    }
}

impl TrainWork {
    /// The nano shape with the rows of a real step, and the larger one with 8 rows of 384 random ids, all
    /// learnt.
    ///
    /// # Errors
    /// If the real step cannot be made.
    pub(super) fn all() -> anyhow::Result<[Self; 2]> {
        Ok([Self::nano()?, Self::d192()])
    }

    fn nano() -> anyhow::Result<Self> {
        let steps = timed_steps(N_STEPS, 1)?;
        let mut batches = steps.batches;
        batches.sort_by_key(|b| b.rows.iter().map(|r| r.sequence.ids.len()).sum::<usize>());
        anyhow::ensure!(
            !batches.is_empty(),
            "no step of the arm had anything to learn"
        );
        let mut batch = batches.swap_remove(batches.len() / 2);
        batch.learning_rate = LEARNING_RATE;
        Ok(Self {
            shape: "nano",
            model: steps.model,
            weights: steps.weights,
            batch,
        })
    }

    fn d192() -> Self {
        let (model, len) = (wide(), 384);
        let mut rng = Seed::new(5).rng();
        let mut row = |advantage| UpdateRow {
            sequence: Sequence {
                ids: random_ids(&mut rng, len, model.vocab),
                mask: (0..len).map(|i| i > 0).collect(),
                logprobs: vec![0.0; len],
            },
            old: OldLogprobs::Current,
            advantage,
            corrects_sampler: false,
        };
        let advantages = [0.5, -0.5, 0.75, -0.25, 0.25, -0.75, 1.0, -1.0];
        let batch = UpdateBatch {
            rows: advantages.into_iter().map(&mut row).collect(),
            clip_low: 0.2,
            clip_high: 0.28,
            importance_cap: 2.0,
            normalizer: (8 * (len - 1)) as f32,
            learning_rate: LEARNING_RATE,
            max_grad_norm: 1.0,
        };
        Self {
            shape: "d192",
            weights: model.init(Seed::new(1)),
            model,
            batch,
        }
    }

    /// Tokens of all rows, context included.
    pub(super) fn n_tokens(&self) -> usize {
        self.batch.rows.iter().map(|r| r.sequence.ids.len()).sum()
    }

    /// Positions of the masked ids, row by row.
    pub(super) fn masked(&self) -> impl Iterator<Item = Vec<usize>> + '_ {
        self.batch.rows.iter().map(|row| {
            let mask = &row.sequence.mask;
            (0..mask.len()).filter(|&i| mask[i]).collect()
        })
    }

    /// Writes it for the twin.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let rows: Vec<Value> = (self.batch.rows.iter().zip(self.masked()))
            .map(|(row, masked)| {
                let given = |&i: &usize| row.sequence.logprobs.get(i).copied().unwrap_or(0.0);
                json!({
                    "ids": row.sequence.ids,
                    "masked": masked,
                    "sampler": masked.iter().map(given).collect::<Vec<f32>>(),
                    "advantage": row.advantage,
                    "corrects_sampler": row.corrects_sampler,
                })
            })
            .collect();
        let adamw = AdamWConfig::default();
        let job = json!({
            "what": "train",
            "model": self.model,
            "rows": rows,
            "clip_low": self.batch.clip_low,
            "clip_high": self.batch.clip_high,
            "importance_cap": self.batch.importance_cap,
            "normalizer": self.batch.normalizer,
            "learning_rate": self.batch.learning_rate,
            "max_grad_norm": self.batch.max_grad_norm,
            "beta1": adamw.beta1,
            "beta2": adamw.beta2,
            "epsilon": adamw.epsilon,
            "weight_decay": adamw.weight_decay,
        });
        write_job(folder, &job, &self.weights)
    }
}

/// A batch of generations of one length, at temperature 1.
pub(super) struct SampleWork {
    pub(super) shape: &'static str,
    pub(super) model: ModelConfig,
    pub(super) weights: Vec<f32>,
    /// Different prompts of one length.
    pub(super) prompts: Vec<Vec<u32>>,
    /// Rows that share each prompt: the size of a group.
    pub(super) copies: usize,
    /// Ids drawn for each row.
    pub(super) n_new: usize,
}

impl fmt::Display for SampleWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shape, n, copies) = (self.shape, self.prompts.len(), self.copies);
        let (len, new) = (self.prompts[0].len(), self.n_new);
        write!(
            f,
            "{shape}: {n} prompts of {len} x {copies}, {new} drawn each"
        )
    }
}

impl SampleWork {
    /// The nano shape with 12 groups of 8, prompts and generations of a real step's mean lengths, and the
    /// larger one with 64 different prompts of 128 and 128 drawn ids.
    ///
    /// # Errors
    /// If the real step cannot be made.
    pub(super) fn all() -> anyhow::Result<[Self; 2]> {
        let steps = timed_steps(N_STEPS, 1)?;
        let rows: Vec<&Sequence> = steps
            .batches
            .iter()
            .flat_map(|b| &b.rows)
            .map(|r| &r.sequence)
            .collect();
        anyhow::ensure!(!rows.is_empty(), "no step of the arm had anything to learn");
        let prompt = |row: &Sequence| row.mask.iter().take_while(|m| !**m).count();
        let n_prompt = rows.iter().map(|r| prompt(r)).sum::<usize>() / rows.len();
        let n_all = rows.iter().map(|r| r.ids.len()).sum::<usize>() / rows.len();
        let mut rng = Seed::new(6).rng();
        let mut prompts = |n: usize, len: usize, vocab: usize| -> Vec<Vec<u32>> {
            (0..n).map(|_| random_ids(&mut rng, len, vocab)).collect()
        };
        let wide = wide();
        Ok([
            Self {
                shape: "nano",
                prompts: prompts(12, n_prompt, steps.model.vocab),
                model: steps.model,
                weights: steps.weights,
                copies: 8,
                n_new: n_all - n_prompt,
            },
            Self {
                shape: "d192",
                prompts: prompts(64, 128, wide.vocab),
                weights: wide.init(Seed::new(1)),
                model: wide,
                copies: 1,
                n_new: 128,
            },
        ])
    }

    /// Ids drawn in one go.
    pub(super) fn n_drawn(&self) -> usize {
        self.prompts.len() * self.copies * self.n_new
    }

    /// Writes it for the twin.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let job = json!({
            "what": "sample",
            "model": self.model,
            "prompts": self.prompts,
            "copies": self.copies,
            "n_new": self.n_new,
        });
        write_job(folder, &job, &self.weights)
    }
}
