//! A warm start with its pools and what was measured with the initial policy.

use std::sync::Arc;

use anyhow::Context as _;
use env_appworld::Family;
use harness_core::{HarnessId, Seed, Split};
use harness_pool::SiblingPool;
use serde::{Deserialize, Serialize};

use super::anchor::AnchorProbe;
use super::arms::{ArmResult, Shared, judge};
use super::chooser::Chooser;
use super::evaluate::Evaluation;
use super::evolution::{self, Evolved};
use super::moments::{Moment, moment};
use super::saved::Keeper;
use super::tables::{Rank1Table, RescueTable, rank1_table, rescue_table};
use super::training::{Extras, run_arm};
use super::warm_start::{self, WarmStart, tasks};
use crate::arm::Arm;
use crate::cache::build_fingerprint;
use crate::cli::Plan;
use crate::config::Config;
use crate::report::ProfileRow;
use crate::say;

/// A warm start with its pools and what was measured with the initial policy.
pub(super) struct World {
    /// Its name in files: `pool` for the only one of the headline.
    pub(super) name: String,
    /// The settings, with this world's chance of the base.
    pub(super) config: Config,
    /// The warm start.
    pub(super) warm: Arc<WarmStart>,
    /// Hash of its weights.
    pub(super) hash: String,
    /// The evolution that gave the pool.
    pub(super) evolved: Evolved,
    /// The pool.
    pub(super) pool: SiblingPool,
    /// The initial policy.
    pub(super) initial: InitialMeasures,
}

/// What was measured with the initial policy.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct InitialMeasures {
    /// Under the base on test; empty if test is not read.
    pub(super) test: Evaluation,
    /// Base and siblings on dev; absent without siblings, or if it is not asked for.
    pub(super) start: Option<Moment>,
    /// Base and siblings on test.
    pub(super) rank1: Option<Rank1Table>,
    /// Base and siblings on the test tasks that the base fails.
    pub(super) rescue: Option<RescueTable>,
    /// What the anchors say of base and siblings.
    pub(super) profile_rows: Vec<ProfileRow>,
    /// Rollouts that all of it took.
    pub(super) n_rollouts: u64,
}

impl World {
    /// Makes or reads the warm start of a seed, evolves its pool unless one is given, and measures both.
    ///
    /// `name` is that of the pool's file; `given` a pool to use in place of an evolved one.
    ///
    /// # Errors
    /// If a stage fails.
    pub(super) fn prepare(
        plan: &Plan,
        config: Config,
        seed: u64,
        name: &str,
        given: Option<&SiblingPool>,
    ) -> anyhow::Result<Self> {
        let warm = match &plan.inputs.warm {
            Some(warm) => Arc::clone(warm),
            None => Arc::new(warm_start::get(&config, &plan.cache, seed)?),
        };
        let hash = warm.checkpoint.content_hash();
        let evolved = match given.or(plan.inputs.pool.as_ref()) {
            Some(pool) => evolution::given(&warm, pool)?,
            None => evolve(plan, &config, &warm, false)?,
        };
        let pool = keep_pool(plan, name, &evolved)?;
        let shared = Shared {
            config: &config,
            warm: &warm,
            pool: &pool,
        };
        let inputs = (config.arm_essence(), &hash, pool.hash());
        let initial = plan
            .cache
            .get_or_make("initial", &inputs, || measure(shared))?;
        say::note(format_args!(
            "{name}: {} siblings; initial policy under the base: {:.3}",
            pool.len(),
            initial.test.success()
        ));
        Ok(Self {
            name: name.to_owned(),
            config,
            warm,
            hash,
            evolved,
            pool,
            initial,
        })
    }

    /// Trains and judges one arm with one seed, or reads what came of it.
    ///
    /// # Errors
    /// If a stage fails.
    pub(super) fn run(
        &self,
        plan: &Plan,
        arm: Arm,
        seed: u64,
        is_main: bool,
    ) -> anyhow::Result<ArmResult> {
        let pool = self.pool_for(plan, arm)?;
        let shared = Shared {
            config: &self.config,
            warm: &self.warm,
            pool: &pool,
        };
        let is_ours = is_main && matches!(arm, Arm::HarnessS | Arm::HarnessSSibling);
        let spent = self.evolved.report.as_ref().map(|r| r.rollouts.total());
        let extras = Extras {
            is_measured: is_main && arm == Arm::HarnessS && self.config.measure.siblings,
            charged_at: spent
                .filter(|_| is_ours)
                .map(|spent| self.config.run.budget_rollouts.saturating_sub(spent)),
        };
        let inputs = (
            self.config.arm_essence(),
            &self.hash,
            pool.hash(),
            arm,
            seed,
            extras,
        );
        let name = self.file_name(arm, seed, is_main);
        let result: ArmResult = plan.cache.get_or_make("arm", &inputs, || {
            let key = crate::cache::content_hash(&(build_fingerprint(), &inputs))?;
            let every = self.config.run.checkpoint_every_steps;
            let keeper = Keeper::new(&plan.run_dir, &name, key, every);
            let best = self.best_single();
            let chooser = Chooser::new(&self.config, &pool, best.as_ref(), arm)?;
            let world = &self.name;
            let _span = tracing::info_span!("arm", world, arm = arm.as_str(), seed).entered();
            let result = run_arm(shared, arm, seed, extras, chooser, &keeper)?;
            keeper.finish()?;
            Ok(result)
        })?;
        plan.run_dir.append_metrics(&self.name, &result.metrics)?;
        if let Some(text) = &result.profile_file {
            crate::files::write_atomic(&plan.run_dir.profile_path(&name), text.as_bytes())?;
        }
        Ok(result)
    }

    /// The name of the files of one arm with one seed.
    fn file_name(&self, arm: Arm, seed: u64, is_main: bool) -> String {
        if is_main {
            format!("{arm}-s{seed}")
        } else {
            format!("{}-{arm}-s{seed}", self.name)
        }
    }

    /// What attempts need to know.
    pub(super) fn shared(&self) -> Shared<'_> {
        Shared {
            config: &self.config,
            warm: &self.warm,
            pool: &self.pool,
        }
    }

    fn pool_for(&self, plan: &Plan, arm: Arm) -> anyhow::Result<SiblingPool> {
        match arm {
            Arm::IdentitySiblings => evolution::identity_pool(&self.config, &self.warm),
            Arm::DistractorPool => evolution::distractor_pool(&self.warm),
            Arm::UndirectedPool => {
                let evolved = evolve(plan, &self.config, &self.warm, true)?;
                keep_pool(plan, &format!("{}-undirected", self.name), &evolved)
            }
            _ => Ok(self.pool.clone()),
        }
    }

    /// The sibling with the best mean over families with the initial policy, on dev.
    fn best_single(&self) -> Option<HarnessId> {
        let name = self.initial.start.as_ref()?.best_sibling()?;
        let mut siblings = self.pool.siblings().iter();
        let best = siblings.find(|sibling| sibling.name == name)?;
        Some(best.harness.id())
    }
}

fn evolve(
    plan: &Plan,
    config: &Config,
    warm: &WarmStart,
    undirected: bool,
) -> anyhow::Result<Evolved> {
    let hash = warm.checkpoint.content_hash();
    let essence = config.arm_essence();
    let inputs = (essence.evolution, config.run.task_seed, hash, undirected);
    plan.cache.get_or_make("evolution", &inputs, || {
        evolution::evolve(config, warm, undirected)
    })
}

/// Writes the pool into the run's folder and reads it back.
fn keep_pool(plan: &Plan, name: &str, evolved: &Evolved) -> anyhow::Result<SiblingPool> {
    let path = plan
        .run_dir
        .pool_path()
        .with_file_name(format!("{name}.json"));
    crate::files::write_atomic(&path, evolved.pool_file.as_bytes())?;
    SiblingPool::load(&path).context("reading back the pool")
}

/// Measures the initial policy: under the base, and under siblings if there are any.
fn measure(shared: Shared<'_>) -> anyhow::Result<InitialMeasures> {
    let config = shared.config;
    let learner = shared.learner()?;
    let test = judge(shared, &learner)?;
    let mut made = InitialMeasures {
        n_rollouts: test.rows.len() as u64,
        test,
        start: None,
        rank1: None,
        rescue: None,
        profile_rows: Vec::new(),
    };
    if shared.pool.is_empty() || !config.measure.siblings {
        return Ok(made);
    }
    let start = moment(shared, &learner, "start", 0)?;
    made.n_rollouts += start.n_rollouts;
    let root = Seed::new(config.run.task_seed);
    let anchors = tasks(Split::Anchor, config.router.anchors_per_family, root);
    let seed = root.derive("initial-anchors", &[]);
    let mut probe = AnchorProbe::new(shared, &learner, &anchors, seed, 0);
    let mut chooser = Chooser::router(config, shared.pool)?;
    chooser.selector().reanchor(&mut probe)?;
    made.n_rollouts += probe.n_rollouts;
    made.profile_rows = chooser.profile_rows(shared, "start");
    if !config.run.dev_only {
        let best = start.best_harness();
        let table = rank1_table(shared, &learner, &chooser, best, &made.test)?;
        made.n_rollouts += table.n_rollouts;
        made.rank1 = Some(table);
        let table = rescue_table(shared, &learner)?;
        made.n_rollouts += table.n_rollouts;
        made.rescue = Some(table);
    }
    made.start = Some(start);
    Ok(made)
}

/// Whether the initial policy can solve a family's tasks only with a skill.
pub(super) fn needs_skill(family: &str) -> bool {
    family != Family::Lookup.name()
}
