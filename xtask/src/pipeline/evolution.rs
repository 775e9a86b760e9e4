//! Directional harness evolution with the initial policy: from its failures to a frozen pool.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use env_appworld::{base_harness, catalogue, distractors};
use harness_core::{
    Condition, Effect, HarnessEdit, HarnessSpec, Moment, RolloutRole, Rule, Seed, Split, Task,
    Trajectory,
};
use harness_evolve::{
    CatalogueEntry, CatalogueProposer, CheckConfig, EvolutionReport, EvolveConfig, EvolveInput,
    Rerun, RerunError, Slice,
};
use harness_pool::{AcceptanceEvidence, PoolBuilder, Sibling, SiblingPool};
use rescue_grpo::NanoLearner;
use serde::{Deserialize, Serialize};

use super::arms::Shared;
use super::chooser::file_text;
use super::jobs::Attempts;
use super::warm_start::{WarmStart, tasks};
use crate::config::Config;
use crate::progress::Progress;

/// Share of proposals that are drawn at random.
const EXPLORE: f64 = 0.34;

/// What evolution gave, in a form that can be cached.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Evolved {
    /// The text of the pool file.
    pub(super) pool_file: String,
    /// Everything that was tried; nothing for a pool from elsewhere.
    pub(super) report: Option<EvolutionReport>,
}

/// Runs the evolution of a warm start, along directions or (an ablation) without them.
///
/// # Errors
/// If reruns cannot be made or the configuration is refused.
pub(super) fn evolve(
    config: &Config,
    warm: &WarmStart,
    undirected: bool,
) -> anyhow::Result<Evolved> {
    let base = base_harness();
    let root = Seed::new(config.run.task_seed);
    let settings = &config.evolution;
    let hash = warm.checkpoint.content_hash();
    let slice = |split, n| Slice {
        tasks: tasks(split, n, root),
        attempts: Vec::new(),
    };
    let search = slice(Split::EvolutionSearch, settings.search_tasks_per_family);
    let confirm = slice(Split::EvolutionConfirm, settings.confirm_tasks_per_family);
    let manifest = crate::cache::content_hash(&(&search.tasks, &confirm.tasks))?;
    let empty = PoolBuilder::new(base.clone(), hash.clone(), manifest.clone()).freeze();
    let shared = Shared {
        config,
        warm,
        pool: &empty,
    };
    let progress = Progress::start("evolution", 0);
    let mut rerun = Reruns {
        shared,
        learner: shared.learner()?,
        progress: &progress,
    };
    let input = EvolveInput {
        base,
        search,
        confirm,
        secrets: Vec::new(),
        policy_hash: hash,
        manifest_hash: manifest,
    };
    let mut proposer = CatalogueProposer::new(entries(), EXPLORE)?;
    let seed = root.derive("evolution", &[]);
    let settings = EvolveConfig {
        undirected,
        ..evolve_config(config)
    };
    let made = harness_evolve::evolve(input, &mut proposer, &mut rerun, &settings, seed)
        .context("evolving siblings")?;
    progress.finish();
    Ok(Evolved {
        pool_file: file_text(|path| made.pool.save(path))?,
        report: Some(made.report),
    })
}

/// Reads a pool from elsewhere.
///
/// # Errors
/// If the file is not a whole pool of this version, or stands on another base harness.
pub(super) fn read_pool(path: &Path) -> anyhow::Result<SiblingPool> {
    let pool = SiblingPool::load(path)?;
    ensure!(
        *pool.base() == base_harness(),
        "the pool `{}` stands on another base harness ({}), this environment's is {}: evolve a new pool",
        path.display(),
        pool.base_id(),
        base_harness().id()
    );
    Ok(pool)
}

/// A pool from elsewhere in place of an evolved one.
///
/// # Errors
/// If its file cannot be written.
pub(super) fn given(warm: &WarmStart, pool: &SiblingPool) -> anyhow::Result<Evolved> {
    if pool.policy_hash() != warm.checkpoint.content_hash() {
        tracing::warn!("the pool was evolved with another policy");
    }
    Ok(Evolved {
        pool_file: file_text(|path| pool.save(path))?,
        report: None,
    })
}

/// Siblings that never do anything, as many as a failed group is split over: the negative control in which
/// rescue must equal more attempts under the base.
///
/// # Errors
/// If the base is refused.
pub(super) fn identity_pool(config: &Config, warm: &WarmStart) -> anyhow::Result<SiblingPool> {
    let never = |i: usize| {
        HarnessEdit::AddRule(Rule {
            name: format!("never-{i}"),
            moment: Moment::OnStart,
            when: Condition::Not(Box::new(Condition::Always)),
            effect: Effect::Say("unsaid".into()),
            max_fires: 1,
            count: Vec::new(),
        })
    };
    let edits = (0..config.grpo.k).map(|i| (format!("identity-{i}"), vec![never(i)]));
    pool_of(warm, edits)
}

/// Siblings that the policy obeys and that repair nothing.
///
/// # Errors
/// If the base is refused.
pub(super) fn distractor_pool(warm: &WarmStart) -> anyhow::Result<SiblingPool> {
    let edits = distractors()
        .into_iter()
        .map(|entry| (entry.name, entry.edits));
    pool_of(warm, edits)
}

/// A pool that no evolution accepted.
fn pool_of(
    warm: &WarmStart,
    siblings: impl IntoIterator<Item = (String, Vec<HarnessEdit>)>,
) -> anyhow::Result<SiblingPool> {
    let base = base_harness();
    let hash = warm.checkpoint.content_hash();
    let mut builder = PoolBuilder::new(base.clone(), hash, "made by hand".into());
    for (name, edits) in siblings {
        let harness = edits
            .iter()
            .try_fold(base.clone(), |h, edit| h.apply(edit))?;
        builder.add(Sibling {
            name,
            harness,
            direction: "none".into(),
            lineage: Vec::new(),
            evidence: AcceptanceEvidence::default(),
        })?;
    }
    Ok(builder.freeze())
}

fn entries() -> Vec<CatalogueEntry> {
    catalogue()
        .into_iter()
        .map(|entry| CatalogueEntry {
            name: entry.name,
            edits: entry.edits,
            keywords: entry.keywords,
        })
        .collect()
}

fn evolve_config(config: &Config) -> EvolveConfig {
    let settings = &config.evolution;
    EvolveConfig {
        base_attempts: settings.attempts,
        max_directions: settings.max_directions,
        min_search_tasks: settings.min_tasks,
        min_confirm_tasks: settings.min_tasks,
        rounds: settings.rounds as u32,
        candidates_per_round: settings.candidates,
        search_attempts: settings.search_attempts,
        confirm_attempts: settings.attempts,
        alpha: settings.alpha,
        check: CheckConfig {
            protected: vec!["complete_task".into()],
            ..CheckConfig::default()
        },
        ..EvolveConfig::default()
    }
}

/// Reruns with the initial policy.
struct Reruns<'a> {
    shared: Shared<'a>,
    learner: NanoLearner,
    progress: &'a Progress,
}

impl Rerun for Reruns<'_> {
    fn rerun(
        &mut self,
        harness: &HarnessSpec,
        tasks: &[Arc<Task>],
        attempts: u32,
        seed: Seed,
        purpose: &str,
    ) -> Result<Vec<Trajectory>, RerunError> {
        let config = self.shared.config;
        let attempting = Attempts {
            config,
            warm: self.shared.warm,
            learner: &self.learner,
            role: RolloutRole::Probe,
            prefix: purpose,
            seed,
            temperature: config.grpo.temperature as f32,
        };
        let done = attempting
            .run(harness, tasks, attempts)
            .map_err(|source| RerunError {
                purpose: purpose.to_owned(),
                source: source.into(),
            })?;
        self.progress.advance(done.len() as u64);
        Ok(done)
    }
}
