//! The warm start: demonstrations, a tokenizer of their text, supervised training, and the copy gate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use env_appworld::demos::{self, DemoJob, DemoPolicy, DemoRates, Slips};
use env_appworld::names::{API_WORDS, FIRST, SECOND};
use env_appworld::{AppWorldMaker, base_harness, world_hash};
use harness_core::{
    Codec, ExecOptions, Message, Outcome, Policy, PolicyVersion, Role, RunId, Scope, Seed,
    SegmentKind, Split, Task, Trajectory, run_jobs,
};
use rescue_grpo::{
    AdamWConfig, BpeCodec, Checkpoint, ModelConfig, SupervisedConfig, SupervisedRow,
    teacher_forced_accuracy, train_supervised,
};
use serde::{Deserialize, Serialize};

use crate::cache::Cache;
use crate::config::{Config, WarmStartConfig};
use crate::progress::Progress;
use crate::say;

/// The shipped checkpoint and its tokenizer, in the folder `assets`.
pub(crate) const SHIPPED: [&str; 2] = ["appworld-nano.safetensors", "appworld-nano.bpe.json"];
/// Demonstrations whose text the tokenizer is trained on.
const N_TOKENIZER_DEMOS: usize = 1500;
/// Tasks of a family that the copy gate plays.
const N_GATE_TASKS: usize = 24;

/// A policy before reinforcement learning, and how its text becomes ids.
#[derive(Debug)]
pub(super) struct WarmStart {
    /// The tokenizer.
    pub(super) codec: Arc<BpeCodec>,
    /// Weights, sizes and where they come from.
    pub(super) checkpoint: Checkpoint,
}

/// What the copy gate found: by family, the share of copied tokens that the policy would write itself.
pub(super) type Gate = BTreeMap<String, f64>;

/// What a warm start is made from, as its checkpoint keeps it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Generator {
    seed: u64,
    settings: WarmStartConfig,
    model: crate::config::ModelConfig,
}

impl Generator {
    fn new(config: &Config, seed: u64) -> Self {
        // The gate judges weights and does not change them.
        let settings = WarmStartConfig {
            copy_gate: 0.0,
            ..config.warm_start.clone()
        };
        Self {
            seed,
            settings,
            model: config.model.clone(),
        }
    }
}

/// The warm start of a seed: the shipped one if it was made from the same settings, else from the cache or
/// from nothing.
///
/// # Errors
/// As [`shipped`] and [`build`].
pub(super) fn get(config: &Config, cache: &Cache, seed: u64) -> anyhow::Result<WarmStart> {
    let wanted = Generator::new(config, seed);
    let shipped = shipped()?;
    let made_from: Option<Generator> =
        serde_json::from_value(shipped.checkpoint.generator.clone()).ok();
    if made_from.as_ref() == Some(&wanted) {
        return Ok(shipped);
    }
    let folder = cache.folder("warm-start", &(&wanted, world_hash()))?;
    if let Some(folder) = folder.as_deref().filter(|f| f.join(SHIPPED[0]).exists()) {
        match read(folder) {
            Ok(kept) => return Ok(kept),
            Err(error) => tracing::warn!("a kept warm start is made anew: {error:#}"),
        }
    }
    let made = build(config, seed)?.0;
    if let Some(folder) = &folder {
        write(folder, &made)?;
    }
    Ok(made)
}

/// Whether the warm start of a seed is there and need not be made.
///
/// # Errors
/// If the shipped one cannot be read.
pub(super) fn is_there(config: &Config, cache: &Cache, seed: u64) -> anyhow::Result<bool> {
    let wanted = Generator::new(config, seed);
    let made_from: Option<Generator> =
        serde_json::from_value(shipped()?.checkpoint.generator.clone()).ok();
    let folder = cache.folder("warm-start", &(&wanted, world_hash()))?;
    let is_kept = folder.is_some_and(|f| f.join(SHIPPED[0]).is_file());
    Ok(made_from.as_ref() == Some(&wanted) || is_kept)
}

/// Reads the shipped warm start.
///
/// # Errors
/// If a file is missing, corrupt, newer, or belongs to another world or tokenizer; the message names the
/// command that rebuilds it.
pub(super) fn shipped() -> anyhow::Result<WarmStart> {
    read(&assets()).context("the shipped warm start; `cargo xtask warm-start appworld` rebuilds it")
}

/// Reads a warm start from a folder.
///
/// # Errors
/// If a file is missing, corrupt, newer, or belongs to another world or tokenizer.
pub(super) fn read(folder: &Path) -> anyhow::Result<WarmStart> {
    let [weights, tokenizer] = SHIPPED.map(|name| folder.join(name));
    let codec = BpeCodec::load(&tokenizer)?;
    let checkpoint = Checkpoint::load_for(&weights, &world_hash(), codec.hash())?;
    let codec = Arc::new(codec);
    Ok(WarmStart { codec, checkpoint })
}

pub(crate) fn assets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets")
}

/// Makes the first warm start of the configuration from nothing, and ships it if it passes the copy gate.
///
/// # Errors
/// If training fails, a family misses the gate, or the files cannot be written. Nothing is shipped then.
pub(super) fn rebuild(config: &Config) -> anyhow::Result<Gate> {
    let seed = config.run.warm_start_seeds.first().copied().unwrap_or(1);
    let (made, gate) = build(config, seed)?;
    std::fs::create_dir_all(assets()).context("making the folder assets/")?;
    write(&assets(), &made)?;
    Ok(gate)
}

fn write(folder: &Path, made: &WarmStart) -> anyhow::Result<()> {
    made.codec.save(folder.join(SHIPPED[1]))?;
    made.checkpoint.save(folder.join(SHIPPED[0]))?;
    Ok(())
}

/// Makes a warm start: a function of the configuration and the seed.
///
/// # Errors
/// If training fails or a family misses the copy gate.
fn build(config: &Config, seed: u64) -> anyhow::Result<(WarmStart, Gate)> {
    let generator = Generator::new(config, seed);
    let settings = &config.warm_start;
    let (seed, threads) = (
        Seed::new(seed).derive("warm-start", &[]),
        config.n_threads(),
    );
    let tasks = tasks(Split::WarmStart, settings.n_demos.div_ceil(5), seed);
    let rates = rates(settings);
    let plain = character_codec()?;
    let few = &tasks[..N_TOKENIZER_DEMOS.min(tasks.len())];
    let texts = play(&plain, few, rates, seed, threads)?.0;
    let messages: Vec<Message> = texts.iter().flat_map(|t| messages_of(&plain, t)).collect();
    let codec = Arc::new(BpeCodec::train(&messages, &atoms(), config.model.vocab)?);

    let (demos, slips) = play(&codec, &tasks, rates, seed, threads)?;
    let rows = rows(&demos, &slips);
    let model = model_of(config, codec.vocab_size());
    check_lengths(&rows, &demos, &model)?;
    let weights = train(&model, &rows, settings, seed, threads)?;
    let gate = copy_gate(&codec, &model, &weights, seed, threads)?;
    for (family, share) in &gate {
        ensure!(
            *share >= settings.copy_gate,
            "the copy gate: family {family} copies {share:.3} of its values, at least {} are needed; train longer",
            settings.copy_gate
        );
    }
    let checkpoint = Checkpoint {
        model,
        weights,
        policy_version: PolicyVersion::default(),
        world_hash: world_hash(),
        tokenizer_hash: codec.hash().to_owned(),
        generator: serde_json::to_value(generator).context("the configuration as JSON")?,
        moments: None,
    };
    Ok((WarmStart { codec, checkpoint }, gate))
}

fn rates(settings: &WarmStartConfig) -> DemoRates {
    DemoRates {
        rel: settings.rel,
        eps: settings.eps,
        base_share: settings.base_context_share,
        matching_share: settings.matching_share,
        hint_share: settings.hint_share,
        wrong_wastes: settings.wrong_wastes,
        wrong_gives_up: settings.wrong_gives_up,
        slip: settings.recovery_share,
    }
}

fn model_of(config: &Config, vocab: usize) -> ModelConfig {
    let sizes = &config.model;
    ModelConfig {
        d_model: sizes.d_model,
        n_layers: sizes.n_layers,
        n_heads: sizes.n_heads,
        n_kv_heads: sizes.n_kv_heads,
        d_ff: sizes.d_ff,
        ..ModelConfig::nano(vocab, sizes.max_context)
    }
}

/// Tasks of a split behind shared pointers.
pub(super) fn tasks(split: Split, n_per_family: usize, seed: Seed) -> Vec<Arc<Task>> {
    env_appworld::tasks(split, n_per_family, seed)
        .into_iter()
        .map(Arc::new)
        .collect()
}

/// Words that are always tokens of their own.
fn atoms() -> Vec<&'static str> {
    let lists: [&[&str]; 3] = [&FIRST, &SECOND, &API_WORDS];
    lists.concat()
}

/// A codec without merges, to read texts with before there is a tokenizer.
fn character_codec() -> anyhow::Result<Arc<BpeCodec>> {
    let none: [Message; 0] = [];
    let (least, no_atoms): (usize, [&str; 0]) = (128, []);
    Ok(Arc::new(BpeCodec::train(&none, &no_atoms, least)?))
}

/// Plays demonstrations and returns them with the turns that are slips.
fn play(
    codec: &Arc<BpeCodec>,
    tasks: &[Arc<Task>],
    rates: DemoRates,
    seed: Seed,
    threads: usize,
) -> anyhow::Result<(Vec<Trajectory>, Slips)> {
    let plans = demos::plan(tasks, &rates, seed);
    let slips: Slips = Arc::new(Mutex::new(BTreeMap::new()));
    let policies = (0..threads.max(1))
        .map(|_| -> Box<dyn Policy> {
            let codec: Arc<dyn Codec> = codec.clone();
            Box::new(DemoPolicy::new(codec, &plans, rates, Arc::clone(&slips)))
        })
        .collect();
    let options = ExecOptions {
        rollout_timeout: Duration::from_mins(1),
        ..ExecOptions::new(RunId::new("warm-start").expect("letters are an id"))
    };
    let jobs = plans.into_iter().map(|DemoJob { job, .. }| job).collect();
    let done = run_jobs(
        policies,
        codec.as_ref(),
        &AppWorldMaker::default(),
        jobs,
        &options,
    );
    if let Some(broken) = done.iter().find(|t| !t.outcome.is_valid()) {
        let why = broken.error.as_deref().unwrap_or("no reason given");
        bail!("demonstration {} broke: {why}", broken.rollout_id);
    }
    Ok((done, slips))
}

/// The messages of a trajectory, for the tokenizer.
fn messages_of(codec: &BpeCodec, t: &Trajectory) -> Vec<Message> {
    let prose = |ids: &[u32]| Message::new(Role::User, codec.decode(ids));
    let mut messages: Vec<Message> = t.prompt.iter().map(|s| prose(&s.ids)).collect();
    for turn in &t.turns {
        messages.push(Message::new(Role::Assistant, turn.action.clone()));
        messages.push(Message::new(Role::Observation, turn.observation.clone()));
        let hints = turn
            .segments
            .iter()
            .filter(|s| s.kind == SegmentKind::Context && s.scope == Scope::SiblingOnly);
        messages.extend(hints.map(|s| prose(&s.ids)));
    }
    messages
}

/// What is trained on: every sampled token but those of slips.
fn rows(demos: &[Trajectory], slips: &Slips) -> Vec<SupervisedRow> {
    let slips = slips.lock().expect("no thread panicked with the lock");
    demos
        .iter()
        .map(|t| {
            let sequence = t.own_sequence();
            let mut mask = sequence.mask;
            let slipped: BTreeSet<usize> = slips
                .get(&t.rollout_id)
                .into_iter()
                .flatten()
                .copied()
                .collect();
            let mut at: usize = t.prompt.iter().map(|s| s.ids.len()).sum();
            for (i, turn) in t.turns.iter().enumerate() {
                let n: usize = turn.segments.iter().map(|s| s.ids.len()).sum();
                if slipped.contains(&i) {
                    mask[at..at + n].fill(false);
                }
                at += n;
            }
            SupervisedRow {
                ids: sequence.ids,
                mask,
            }
        })
        .collect()
}

/// Refuses a model or a harness that could not write what the demonstrations show.
fn check_lengths(
    rows: &[SupervisedRow],
    demos: &[Trajectory],
    model: &ModelConfig,
) -> anyhow::Result<()> {
    let longest = rows.iter().map(|r| r.ids.len()).max().unwrap_or(0);
    ensure!(
        longest <= model.max_context,
        "a demonstration has {longest} tokens, the model's context is {}: raise model.max_context",
        model.max_context
    );
    let most = base_harness().limits().max_reply_tokens;
    let sampled = demos
        .iter()
        .flat_map(Trajectory::segments)
        .filter(|s| s.kind == SegmentKind::Sampled);
    let reply = sampled.map(|s| s.ids.len()).max().unwrap_or(0);
    ensure!(
        reply <= most,
        "a demonstrated reply has {reply} tokens, the base harness allows {most}"
    );
    Ok(())
}

fn train(
    model: &ModelConfig,
    rows: &[SupervisedRow],
    settings: &WarmStartConfig,
    seed: Seed,
    threads: usize,
) -> anyhow::Result<Vec<f32>> {
    let config = SupervisedConfig {
        steps: settings.steps,
        batch: settings.batch,
        learning_rate: settings.learning_rate,
        warmup_steps: settings.warmup_steps,
        adamw: AdamWConfig {
            weight_decay: settings.weight_decay,
            ..AdamWConfig::default()
        },
        n_threads: threads,
        ..SupervisedConfig::default()
    };
    let mut weights = model.init(seed.derive("init", &[]));
    let progress = Progress::start("warm start", settings.steps as u64);
    let n_tokens: usize = rows.iter().map(|r| r.ids.len()).sum();
    let longest = rows.iter().map(|r| r.ids.len()).max().unwrap_or(0);
    say::note(format!(
        "{} demonstrations of {:.1} tokens on average, {longest} at most; {} ids, {} parameters",
        rows.len(),
        n_tokens as f64 / rows.len().max(1) as f64,
        model.vocab,
        model.n_params(),
    ));
    train_supervised(
        model,
        &mut weights,
        rows,
        &config,
        seed.derive("sft", &[]),
        |p| {
            progress.advance(1);
            if p.step % 100 == 0 {
                say::note(format!("step {}: loss {:.4}", p.step, p.loss));
            }
            true
        },
    )?;
    progress.finish();
    Ok(weights)
}

/// Plays skilled demonstrations of unseen tasks and asks, teacher-forced, how many of the copied tokens
/// (digits, capitals, names) the policy would write itself.
fn copy_gate(
    codec: &Arc<BpeCodec>,
    model: &ModelConfig,
    weights: &[f32],
    seed: Seed,
    threads: usize,
) -> anyhow::Result<Gate> {
    let rates = DemoRates {
        rel: 1.0,
        eps: 1.0,
        base_share: 0.5,
        matching_share: 0.5,
        wrong_wastes: 0.0,
        slip: 0.0,
        ..DemoRates::default()
    };
    let seed = seed.derive("copy-gate", &[]);
    let tasks = tasks(Split::Dev, N_GATE_TASKS, seed);
    let (demos, slips) = play(codec, &tasks, rates, seed, threads)?;
    for (task, demo) in tasks.iter().zip(&demos) {
        ensure!(
            demo.outcome == Outcome::Solved,
            "a skilled demonstration of {} ended as {}",
            task.id,
            demo.outcome.as_str()
        );
    }
    let rows = rows(&demos, &slips);
    let forced = teacher_forced_accuracy(model, weights, &rows, threads)?;
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for ((task, row), hits) in tasks.iter().zip(&rows).zip(&forced.hits) {
        let count = counts.entry(task.family.clone()).or_default();
        let masked = row.ids.iter().zip(&row.mask).filter(|(_, m)| **m);
        for ((id, _), hit) in masked.zip(hits) {
            if is_copied(&codec.texts()[*id as usize]) {
                count.0 += usize::from(*hit);
                count.1 += 1;
            }
        }
    }
    let share = |(hit, all): (usize, usize)| {
        if all == 0 {
            1.0
        } else {
            hit as f64 / all as f64
        }
    };
    Ok(counts.into_iter().map(|(f, c)| (f, share(c))).collect())
}

/// Whether a token is a value that has to be copied: a digit, a capital, or an atom.
fn is_copied(text: &str) -> bool {
    let word = text.trim();
    let is_character = word.len() == 1
        && word
            .chars()
            .all(|c| c.is_ascii_digit() || c.is_ascii_uppercase());
    is_character || atoms().contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage::damaged;

    #[test]
    fn c1_a_damaged_warm_start_is_refused_by_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let good = shipped().expect("the shipped warm start");
        write(folder.path(), &good).expect("it is written");
        let hash = good.checkpoint.content_hash();
        let [weights, tokenizer] = SHIPPED.map(|name| {
            let bytes = std::fs::read(folder.path().join(name));
            bytes.expect("it was written")
        });
        for (name, good, other) in [
            (SHIPPED[0], &weights, &tokenizer),
            (SHIPPED[1], &tokenizer, &weights),
        ] {
            let path = folder.path().join(name);
            for (round, bad) in damaged(good, other).enumerate() {
                std::fs::write(&path, bad).expect("a write");
                match read(folder.path()) {
                    // A blank, or the part of a version that says only how old it is.
                    Ok(read) => assert_eq!(read.checkpoint.content_hash(), hash, "round {round}"),
                    Err(error) => {
                        assert!(format!("{error:#}").contains("appworld-nano"), "{error:#}");
                    }
                }
            }
            std::fs::write(&path, good).expect("a write");
        }
    }
}
