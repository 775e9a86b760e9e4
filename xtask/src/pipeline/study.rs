//! Everything that a reproduction runs: the arms, variants of them, negative controls, and the sweep over the
//! base's chance.

use super::arms::ArmResult;
use super::world::World;
use crate::arm::Arm;
use crate::cli::Plan;
use crate::config::{Config, Control};

/// What a reproduction ran.
pub(super) struct Study {
    /// One world for each warm start; training seed number `i` uses number `i` modulo their count.
    pub(super) worlds: Vec<World>,
    /// The arms, seed by seed.
    pub(super) main: Vec<ArmResult>,
    /// Variants.
    pub(super) ablations: Vec<ArmResult>,
    /// Negative controls with what was run for each.
    pub(super) controls: Vec<(Control, Vec<ArmResult>)>,
    /// Levels of the base's chance other than the main one, ascending.
    pub(super) sweep: Vec<(World, Vec<ArmResult>)>,
}

/// The arms that the sweep compares.
pub(super) const SWEPT: [Arm; 3] = [Arm::PolicyOnly, Arm::PolicyOnlyMatched, Arm::HarnessS];

/// Runs all of it, the headline first.
///
/// # Errors
/// If a stage fails.
pub(super) fn run(plan: &Plan) -> anyhow::Result<Study> {
    let config = &plan.config;
    let seeds = warm_starts_in_use(config);
    let mut worlds = Vec::new();
    for seed in &seeds {
        let name = match seeds.len() {
            1 => "pool".to_owned(),
            _ => format!("pool-{seed}"),
        };
        worlds.push(World::prepare(plan, config.clone(), *seed, &name, None)?);
    }
    let mut study = Study {
        worlds,
        main: Vec::new(),
        ablations: Vec::new(),
        controls: Vec::new(),
        sweep: Vec::new(),
    };
    for (i, seed) in config.run.seeds.iter().enumerate() {
        for arm in &config.run.arms {
            let result = study.world_of(i).run(plan, *arm, *seed, true)?;
            study.main.push(result);
        }
    }
    for control in &config.study.controls {
        let results = run_control(plan, &study, *control)?;
        study.controls.push((*control, results));
    }
    for eps in &config.study.sweep_eps {
        study.sweep.push(run_level(plan, *eps)?);
    }
    study.sweep.sort_by(|a, b| {
        let eps = |level: &(World, Vec<ArmResult>)| level.0.config.warm_start.eps;
        eps(a).total_cmp(&eps(b))
    });
    for (i, seed) in few_seeds(config) {
        for arm in &config.study.ablations {
            let result = study.world_of(i).run(plan, *arm, *seed, false)?;
            study.ablations.push(result);
        }
    }
    Ok(study)
}

impl Study {
    /// The world of the training seed with this number.
    pub(super) fn world_of(&self, seed_idx: usize) -> &World {
        &self.worlds[seed_idx % self.worlds.len()]
    }

    /// Everything that was trained.
    pub(super) fn results(&self) -> impl Iterator<Item = &ArmResult> {
        let controls = self.controls.iter().flat_map(|(_, results)| results);
        let sweep = self.sweep.iter().flat_map(|(_, results)| results);
        self.main
            .iter()
            .chain(&self.ablations)
            .chain(controls)
            .chain(sweep)
    }
}

/// Seeds of the warm starts that the training seeds use.
pub(super) fn warm_starts_in_use(config: &Config) -> Vec<u64> {
    let seeds = &config.run.warm_start_seeds;
    let n = seeds.len().min(config.run.seeds.len()).max(1);
    seeds[..n].to_vec()
}

/// The seeds that studies use, with their numbers.
fn few_seeds(config: &Config) -> impl Iterator<Item = (usize, &u64)> {
    let seeds = config.run.seeds.iter();
    seeds.take(config.study.n_seeds).enumerate()
}

/// What is run for a control; what it is compared with, if that is an arm of the headline, is there already.
fn run_control(plan: &Plan, study: &Study, control: Control) -> anyhow::Result<Vec<ArmResult>> {
    let mut results = Vec::new();
    if control == Control::Obedient {
        let mut config = plan.config.clone();
        config.warm_start.eps = config.warm_start.rel;
        // The rate of the matched control was chosen where the base starts low; here it would cost the
        // control 3 points (docs/results.md), and a gain that is only a rate would look like a leak.
        config.grpo.matched_learning_rate = config.grpo.learning_rate;
        config.measure.siblings = false;
        let seed = config.run.warm_start_seeds[0];
        // Its own evolution would find nothing to repair; the pool of the first warm start is one that works.
        let pool = Some(&study.worlds[0].pool);
        let world = World::prepare(plan, config, seed, "pool-obedient", pool)?;
        for (_, seed) in few_seeds(&plan.config) {
            for arm in [Arm::PolicyOnlyMatched, Arm::HarnessS] {
                results.push(world.run(plan, arm, *seed, false)?);
            }
        }
        return Ok(results);
    }
    let arm = match control {
        Control::Identity => Arm::IdentitySiblings,
        _ => Arm::DistractorPool,
    };
    for (i, seed) in few_seeds(&plan.config) {
        results.push(study.world_of(i).run(plan, arm, *seed, false)?);
    }
    Ok(results)
}

fn run_level(plan: &Plan, eps: f64) -> anyhow::Result<(World, Vec<ArmResult>)> {
    let mut config = plan.config.clone();
    config.warm_start.eps = eps;
    config.measure.siblings = false;
    let seed = config.run.warm_start_seeds[0];
    let world = World::prepare(plan, config, seed, &format!("pool-eps-{eps}"), None)?;
    let mut results = Vec::new();
    for (_, seed) in few_seeds(&plan.config) {
        for arm in SWEPT {
            results.push(world.run(plan, arm, *seed, false)?);
        }
    }
    Ok((world, results))
}
