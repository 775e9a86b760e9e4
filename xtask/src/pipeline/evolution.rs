//! Directional harness evolution with the initial policy: from its failures to a frozen pool.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use env_appworld::{AppWorldMaker, base_harness, catalogue};
use harness_core::{
    GroupId, HarnessId, HarnessSpec, Job, Policy, RolloutId, RolloutRole, Seed, Split, Task,
    Trajectory, run_jobs,
};
use harness_evolve::{
    CatalogueEntry, CatalogueProposer, CheckConfig, EvolutionReport, EvolveConfig, EvolveInput,
    Rerun, RerunError, Slice,
};
use harness_pool::{PoolBuilder, SiblingPool};
use rescue_grpo::NanoLearner;
use rescue_grpo::learner::Learner as _;
use serde::{Deserialize, Serialize};

use super::arms::Shared;
use super::evaluate::{Plan, evaluate};
use super::warm_start::{WarmStart, tasks};
use super::{exec_options, file_text};
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
    /// Share of dev attempts solved by the initial policy, by harness name (`base` first) and family.
    pub(super) matrix: BTreeMap<String, BTreeMap<String, f64>>,
}

impl Evolved {
    /// The sibling with the best mean over families with the initial policy.
    pub(super) fn best_single(&self, pool: &SiblingPool) -> Vec<HarnessId> {
        let mean = |name: &str| {
            let rates = self.matrix.get(name);
            rates.map_or(0.0, |rates| rates.values().sum::<f64>())
        };
        let best = pool
            .siblings()
            .iter()
            .max_by(|a, b| mean(&a.name).total_cmp(&mean(&b.name)));
        best.map(|sibling| sibling.harness.id())
            .into_iter()
            .collect()
    }
}

/// Runs the evolution of a warm start.
///
/// # Errors
/// If reruns cannot be made or the configuration is refused.
pub(super) fn evolve(config: &Config, warm: &WarmStart) -> anyhow::Result<Evolved> {
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
    let made = harness_evolve::evolve(
        input,
        &mut proposer,
        &mut rerun,
        &evolve_config(config),
        seed,
    )
    .context("evolving siblings")?;
    let matrix = matrix(
        Shared {
            pool: &made.pool,
            ..shared
        },
        &rerun.learner,
    )?;
    progress.finish();
    Ok(Evolved {
        pool_file: file_text(|path| made.pool.save(path))?,
        report: Some(made.report),
        matrix,
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
/// If attempts cannot be run.
pub(super) fn given(
    config: &Config,
    warm: &WarmStart,
    pool: &SiblingPool,
) -> anyhow::Result<Evolved> {
    if pool.policy_hash() != warm.checkpoint.content_hash() {
        crate::say::warn("the pool was evolved with another policy");
    }
    let shared = Shared { config, warm, pool };
    Ok(Evolved {
        pool_file: file_text(|path| pool.save(path))?,
        report: None,
        matrix: matrix(shared, &shared.learner()?)?,
    })
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

/// Success of the initial policy by harness and family, on dev; it is shown and decides nothing but the
/// ablation `single_best`.
fn matrix(
    shared: Shared<'_>,
    learner: &NanoLearner,
) -> anyhow::Result<BTreeMap<String, BTreeMap<String, f64>>> {
    let plan = Plan {
        split: Split::Dev,
        n_per_family: shared.config.run.n_dev_per_family,
        attempts: shared.config.run.dev_attempts,
        is_greedy: false,
    };
    let siblings = shared.pool.siblings().iter();
    let named = siblings.map(|s| (s.name.clone(), s.harness.clone()));
    std::iter::once(("base".to_owned(), shared.pool.base().clone()))
        .chain(named)
        .map(|(name, harness)| {
            Ok((
                name,
                evaluate(shared, learner, &harness, plan)?.per_family(),
            ))
        })
        .collect()
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
        let broke = |source: Box<dyn std::error::Error + Send + Sync>| RerunError {
            purpose: purpose.to_owned(),
            source,
        };
        let harness = Arc::new(harness.clone());
        let mut jobs = Vec::with_capacity(tasks.len() * attempts as usize);
        for (i, task) in tasks.iter().enumerate() {
            let group = format!("{purpose}-t{i}");
            for attempt in 0..attempts {
                let rollout = RolloutId::new(format!("{group}-a{attempt}"));
                jobs.push(Job {
                    rollout_id: rollout.map_err(|e| broke(e.into()))?,
                    group_id: GroupId::new(&group).map_err(|e| broke(e.into()))?,
                    task: Arc::clone(task),
                    harness: Arc::clone(&harness),
                    attempt,
                    role: RolloutRole::Probe,
                    seed: seed.derive("attempt", &[i as u64, u64::from(attempt)]),
                });
            }
        }
        let config = self.shared.config;
        let options = exec_options(config, "evolution").map_err(|e| broke(e.into()))?;
        let policies: Vec<Box<dyn Policy>> = (0..config.n_threads())
            .map(|_| self.learner.snapshot())
            .collect();
        let codec = self.shared.warm.codec.as_ref();
        let done = run_jobs(policies, codec, &AppWorldMaker::default(), jobs, &options);
        self.progress.advance(done.len() as u64);
        Ok(done)
    }
}
