//! How long a run will take, told before it starts.

use std::time::Instant;

use harness_pool::PoolBuilder;

use super::arms::Shared;
use super::evaluate::{Plan as EvalPlan, evaluate};
use super::warm_start;
use crate::cli::Plan;
use crate::config::{Config, Control};
use crate::say;

/// Costs in units of one evaluation rollout on the same machine (measured on two cores, see
/// `docs/results.md`): one rollout of training with its share of the update, and one warm start.
const TRAINING_ROLLOUT: f64 = 3.6;
const WARM_START: f64 = 600_000.0;
/// Runs shorter than this are not worth a forecast, in seconds.
const TELL_ABOVE_S: f64 = 120.0;

/// Says how much will be run and about how long it takes on this machine, if that is long.
///
/// # Errors
/// If the shipped warm start cannot be read.
pub(super) fn tell(plan: &Plan) -> anyhow::Result<()> {
    let work = Work::of(plan)?;
    if plan.config.scale == crate::config::Scale::Smoke {
        return Ok(());
    }
    let seconds = work.units(&plan.config) / rollouts_per_s(&plan.config)?;
    if seconds > TELL_ABOVE_S {
        say::note(format_args!(
            "{} warm starts to train, {} pools to evolve, {} trainings of {} rollouts: about {:.0} minutes if \
             this machine stays as busy as it is; what an earlier run of the same build and settings left in \
             the cache is not made again, so a run that is cut off goes on where it was",
            work.warm_starts,
            work.pools,
            work.trainings,
            plan.config.run.budget_rollouts,
            (seconds / 60.0).ceil()
        ));
    }
    Ok(())
}

/// What there is to do.
#[derive(Debug, PartialEq)]
struct Work {
    warm_starts: usize,
    pools: usize,
    trainings: usize,
}

impl Work {
    fn of(plan: &Plan) -> anyhow::Result<Self> {
        let config = &plan.config;
        let (run, study) = (&config.run, &config.study);
        let few = study.n_seeds.min(run.seeds.len());
        let is_obedient = study.controls.contains(&Control::Obedient);
        let mut wanted: Vec<(u64, f64)> = super::study::warm_starts_in_use(config)
            .iter()
            .map(|seed| (*seed, config.warm_start.eps))
            .collect();
        let n_main = wanted.len();
        let first = run.warm_start_seeds[0];
        wanted.extend(study.sweep_eps.iter().map(|eps| (first, *eps)));
        if is_obedient {
            wanted.push((first, config.warm_start.rel));
        }
        let mut warm_starts = 0;
        if plan.inputs.warm.is_none() {
            for (seed, eps) in wanted {
                let mut config = config.clone();
                config.warm_start.eps = eps;
                let is_there = warm_start::is_there(&config, &plan.cache, seed)?;
                warm_starts += usize::from(!is_there);
            }
        }
        let n_controls = study.controls.len() + usize::from(is_obedient);
        let swept = study.sweep_eps.len() * super::study::SWEPT.len();
        Ok(Self {
            warm_starts,
            pools: n_main + study.sweep_eps.len(),
            trainings: run.seeds.len() * run.arms.len()
                + few * (study.ablations.len() + n_controls + swept),
        })
    }

    /// The work in evaluation rollouts; measuring counts as a tenth of training.
    fn units(&self, config: &Config) -> f64 {
        let evolution = &config.evolution;
        let tasks = evolution.search_tasks_per_family + evolution.confirm_tasks_per_family;
        let per_pool = 5.0 * tasks as f64 * f64::from(evolution.attempts)
            + evolution.max_directions as f64
                * evolution.rounds as f64
                * evolution.candidates as f64
                * f64::from(evolution.search_attempts)
                * evolution.search_tasks_per_family as f64;
        let training = config.run.budget_rollouts as f64 * TRAINING_ROLLOUT * 1.1;
        self.warm_starts as f64 * WARM_START
            + self.pools as f64 * per_pool
            + self.trainings as f64 * training
    }
}

/// Evaluation rollouts a second of the shipped policy on this machine, now.
fn rollouts_per_s(config: &Config) -> anyhow::Result<f64> {
    let warm = warm_start::shipped()?;
    let base = env_appworld::base_harness();
    let pool = PoolBuilder::new(base, String::new(), String::new()).freeze();
    let shared = Shared {
        config,
        warm: &warm,
        pool: &pool,
    };
    let learner = shared.learner()?;
    let plan = EvalPlan::dev(&config.run, 4);
    let started = Instant::now();
    let done = evaluate(shared, &learner, pool.base(), plan)?;
    Ok(done.rows.len() as f64 / started.elapsed().as_secs_f64().max(1e-3))
}
