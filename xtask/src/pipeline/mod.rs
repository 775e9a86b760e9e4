//! The training pipeline: warm start, evolution, arms, judgement, report.
//!
//! Every stage is a function of the configuration and of the hashes of earlier stages, and is cached by
//! them. Nothing here decides how the method works; it only puts the crates together.

mod arms;
mod evaluate;
mod evolution;
mod outcome;
mod warm_start;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use env_appworld::Family;
use harness_core::{ExecOptions, RunId};
use harness_pool::{BehaviorProfile, ProfileConfig, SelectSiblings, SiblingPool};
use harness_router::{FixedSelector, RandomSelector, Router, RouterConfig, embedded_voters};

use crate::arm::Arm;
use crate::cli::Plan;
use crate::config::Config;
use crate::{clock, say};
use arms::{ArmResult, NoSelector, Shared, judge, run_arm, uses_siblings};
use evaluate::Evaluation;
use evolution::Evolved;
use warm_start::WarmStart;

/// Rebuilds the shipped warm start of an environment.
///
/// # Errors
/// If training fails or a family misses the copy gate; the shipped files are then as before.
pub fn warm_start(config: &Config) -> anyhow::Result<()> {
    let gate = warm_start::rebuild(config)?;
    for (family, share) in gate {
        say::out(format_args!("copy gate: {family} {share:.3}"));
    }
    Ok(())
}

/// A policy and a pool from elsewhere.
#[derive(Debug, Default)]
pub struct Inputs {
    warm: Option<Arc<WarmStart>>,
    pool: Option<SiblingPool>,
}

/// Reads and checks a policy and a pool from elsewhere, before anything is written.
///
/// # Errors
/// If a file is missing, corrupt, made by a newer version, or belongs to another world, tokenizer or base
/// harness.
pub fn read_inputs(policy: Option<&Path>, pool: Option<&Path>) -> anyhow::Result<Inputs> {
    let warm = match policy {
        Some(folder) => Some(Arc::new(warm_start::read(folder)?)),
        None => None,
    };
    let pool = match pool {
        Some(path) => Some(evolution::read_pool(path)?),
        None => None,
    };
    Ok(Inputs { warm, pool })
}

/// Runs a whole reproduction into a run folder.
///
/// # Errors
/// If a stage fails; what earlier stages wrote stays, and their results are in the cache.
pub fn reproduce(plan: &Plan) -> anyhow::Result<()> {
    let started = (clock::now_rfc3339(), Instant::now());
    let config = &plan.config;
    let mut worlds = Vec::new();
    for seed in warm_starts_in_use(config) {
        worlds.push(World::prepare(plan, seed)?);
    }
    let mut metrics = plan.run_dir.metrics()?;
    let mut results = Vec::new();
    for (i, seed) in config.run.seeds.iter().enumerate() {
        let world = &worlds[i % worlds.len()];
        for arm in &config.run.arms {
            let result = world.run(plan, *arm, *seed)?;
            for line in &result.metrics {
                metrics.push(line)?;
            }
            if let Some(text) = &result.profile_file {
                let path = plan.run_dir.profile_path(&format!("{arm}-s{seed}"));
                crate::files::write_atomic(&path, text.as_bytes())?;
            }
            results.push(result);
        }
    }
    let mut report = outcome::report(config, &worlds, &results);
    report.started = Some(started.0);
    report.ended = Some(clock::now_rfc3339());
    report.wall_s = started.1.elapsed().as_secs_f64();
    plan.run_dir.write_report(&report)?;
    say::out(outcome::headline(&report));
    Ok(())
}

fn warm_starts_in_use(config: &Config) -> Vec<u64> {
    let seeds = &config.run.warm_start_seeds;
    let n = seeds.len().min(config.run.seeds.len()).max(1);
    seeds[..n].to_vec()
}

/// A warm start with its pool and the initial policy's measures.
struct World {
    warm: Arc<WarmStart>,
    hash: String,
    evolved: Evolved,
    pool: SiblingPool,
    initial: Evaluation,
}

impl World {
    fn prepare(plan: &Plan, seed: u64) -> anyhow::Result<Self> {
        let config = &plan.config;
        let warm = match &plan.inputs.warm {
            Some(warm) => Arc::clone(warm),
            None => Arc::new(warm_start::get(config, &plan.cache, seed)?),
        };
        let hash = warm.checkpoint.content_hash();
        let inputs = (config.essence().evolution, config.run.task_seed, &hash);
        let name = match config.run.warm_start_seeds.len() {
            0 | 1 => "pool".to_owned(),
            _ => format!("pool-{seed}"),
        };
        let evolved: Evolved = match &plan.inputs.pool {
            Some(pool) => evolution::given(config, &warm, pool)?,
            None => plan
                .cache
                .get_or_make("evolution", &inputs, || evolution::evolve(config, &warm))?,
        };
        let path = plan
            .run_dir
            .pool_path()
            .with_file_name(format!("{name}.json"));
        crate::files::write_atomic(&path, evolved.pool_file.as_bytes())?;
        let pool = SiblingPool::load(&path).context("reading back the pool")?;
        let shared = Shared {
            config,
            warm: &warm,
            pool: &pool,
        };
        let run = &config.run;
        let inputs = (
            &hash,
            run.task_seed,
            run.n_test_per_family,
            run.test_attempts,
        );
        let initial = plan
            .cache
            .get_or_make("initial", &inputs, || judge(shared, &shared.learner()?))?;
        say::note(format_args!(
            "pool: {} siblings; initial policy under the base: {:.3}",
            pool.len(),
            initial.success()
        ));
        Ok(Self {
            warm,
            hash,
            evolved,
            pool,
            initial,
        })
    }

    fn run(&self, plan: &Plan, arm: Arm, seed: u64) -> anyhow::Result<ArmResult> {
        let config = &plan.config;
        let shared = Shared {
            config,
            warm: &self.warm,
            pool: &self.pool,
        };
        let mut essence = config.essence();
        essence.run.arms.clear();
        essence.run.seeds.clear();
        let inputs = (essence, &self.hash, self.pool.hash(), arm, seed);
        plan.cache.get_or_make("arm", &inputs, || {
            let name = format!("{arm}-s{seed}");
            let mut trajectories = plan.run_dir.trajectories(&name)?;
            let mut chooser = Chooser::new(config, &self.pool, &self.evolved, arm)?;
            let mut result = run_arm(shared, arm, seed, chooser.selector(), &mut trajectories)?;
            if let Some(profile) = chooser.profile() {
                result.profile_file = Some(file_text(|path| profile.save(path))?);
            }
            Ok(result)
        })
    }
}

/// Who chooses siblings in an arm.
enum Chooser {
    Nobody(NoSelector),
    Random(RandomSelector),
    Fixed(FixedSelector),
    Router(Box<Router>),
}

impl Chooser {
    fn new(
        config: &Config,
        pool: &SiblingPool,
        evolved: &Evolved,
        arm: Arm,
    ) -> anyhow::Result<Self> {
        if !uses_siblings(arm) || pool.is_empty() {
            return Ok(Self::Nobody(NoSelector));
        }
        Ok(match arm {
            Arm::RandomSibling => Self::Random(RandomSelector::new(pool)),
            Arm::SingleBest => Self::Fixed(FixedSelector::new(pool, &evolved.best_single(pool))?),
            _ => {
                let settings = RouterConfig {
                    epsilon: config.router.epsilon,
                    profile: ProfileConfig {
                        half_life: Some(config.router.half_life),
                    },
                    ..RouterConfig::default()
                };
                Self::Router(Box::new(Router::new(pool, embedded_voters(), settings)?))
            }
        })
    }

    fn selector(&mut self) -> &mut dyn SelectSiblings {
        match self {
            Self::Nobody(selector) => selector,
            Self::Random(selector) => selector,
            Self::Fixed(selector) => selector,
            Self::Router(router) => router.as_mut(),
        }
    }

    fn profile(&self) -> Option<&BehaviorProfile> {
        match self {
            Self::Router(router) => Some(router.profile()),
            Self::Nobody(_) | Self::Random(_) | Self::Fixed(_) => None,
        }
    }
}

/// The bytes that a record's own `save` writes.
fn file_text<E>(save: impl FnOnce(&Path) -> Result<(), E>) -> anyhow::Result<String>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let folder = tempfile::tempdir().context("making a temporary folder")?;
    let path = folder.path().join("record.json");
    save(&path)?;
    std::fs::read_to_string(&path).context("reading a record back")
}

/// How attempts of the pipeline are run.
fn exec_options(config: &Config, name: &str) -> anyhow::Result<ExecOptions> {
    let threads = config.n_threads().max(1);
    Ok(ExecOptions {
        run_id: RunId::new(name)?,
        temperature: config.grpo.temperature as f32,
        max_in_flight: config.run.max_in_flight.div_ceil(threads),
        rollout_timeout: Duration::from_secs_f64(config.run.rollout_timeout_s),
        retries: 1,
    })
}

/// The families' names, in the order of tables.
fn families() -> impl Iterator<Item = &'static str> {
    Family::ALL.into_iter().map(Family::name)
}
