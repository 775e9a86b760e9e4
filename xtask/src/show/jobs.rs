//! What a run is to train, in its order, under the names that its files have.
//!
//! Only a few settings are read, whatever else the file holds, so that runs of other versions can be shown.

use serde::Deserialize;

/// The settings that say what is trained.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Settings {
    pub(super) env: String,
    pub(super) scale: String,
    run: Run,
    study: Study,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Run {
    seeds: Vec<u64>,
    warm_start_seeds: Vec<u64>,
    arms: Vec<String>,
    budget_rollouts: u64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Study {
    ablations: Vec<String>,
    controls: Vec<String>,
    sweep_eps: Vec<f64>,
    n_seeds: usize,
}

/// One arm with one seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    /// The name of its files, without ending.
    pub(super) name: String,
    /// The arm.
    pub(super) arm: String,
    /// The training seed.
    pub(super) seed: u64,
}

impl Settings {
    /// Rollouts that each job may spend.
    pub(super) fn budget_rollouts(&self) -> u64 {
        self.run.budget_rollouts
    }

    /// Everything that is trained, in the order in which `pipeline::study` runs it.
    pub(super) fn jobs(&self) -> Vec<Job> {
        let (run, study) = (&self.run, &self.study);
        let mut jobs = Vec::new();
        let mut add = |name: String, arm: &str, seed: u64| {
            let arm = arm.to_owned();
            jobs.push(Job { name, arm, seed });
        };
        for seed in &run.seeds {
            for arm in &run.arms {
                add(format!("{arm}-s{seed}"), arm, *seed);
            }
        }
        let few = || run.seeds.iter().copied().take(study.n_seeds).enumerate();
        for control in &study.controls {
            for (i, seed) in few() {
                let (world, arms): (_, &[&str]) = match control.as_str() {
                    "obedient" => (
                        "pool-obedient".into(),
                        &["policy_only_matched", "harness_s"],
                    ),
                    "identity" => (self.world(i), &["identity_siblings"]),
                    _ => (self.world(i), &["distractor_pool"]),
                };
                for arm in arms {
                    add(format!("{world}-{arm}-s{seed}"), arm, seed);
                }
            }
        }
        for eps in &study.sweep_eps {
            for (_, seed) in few() {
                for arm in ["policy_only", "policy_only_matched", "harness_s"] {
                    add(format!("pool-eps-{eps}-{arm}-s{seed}"), arm, seed);
                }
            }
        }
        for (i, seed) in few() {
            let world = self.world(i);
            for arm in &study.ablations {
                add(format!("{world}-{arm}-s{seed}"), arm, seed);
            }
        }
        jobs
    }

    /// The name of the world of the training seed with this number.
    fn world(&self, seed_idx: usize) -> String {
        let warm_starts = &self.run.warm_start_seeds;
        match warm_starts.len().min(self.run.seeds.len()) {
            0 | 1 => "pool".into(),
            n => format!("pool-{}", warm_starts[seed_idx % n]),
        }
    }
}

/// The arm that a name of files is of.
pub(super) fn arm_of(name: &str) -> &str {
    let without_seed = name.rsplit_once("-s").map_or(name, |(arm, _)| arm);
    without_seed.rsplit('-').next().unwrap_or(without_seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Scale};

    fn names(scale: Scale) -> Vec<String> {
        let config = Config::builtin("appworld", scale).unwrap();
        let settings: Settings = toml::from_str(&config.to_toml().unwrap()).unwrap();
        settings.jobs().into_iter().map(|job| job.name).collect()
    }

    #[test]
    fn names_are_those_of_files() {
        assert_eq!(
            names(Scale::Smoke),
            [
                "policy_only-s1",
                "policy_only_matched-s1",
                "harness_s-s1",
                "harness_s_sibling-s1",
                "pool-identity_siblings-s1",
                "pool-sibling_dropout-s1",
            ]
        );
        let full = names(Scale::Full);
        for name in [
            "policy_only-s5",
            "pool-2-identity_siblings-s2",
            "pool-obedient-harness_s-s3",
            "pool-eps-0.02-policy_only-s1",
            "pool-3-resampling-s3",
        ] {
            assert!(full.iter().any(|n| n == name), "{name} is not in {full:?}");
        }
        let distinct: std::collections::BTreeSet<_> = full.iter().collect();
        assert_eq!(distinct.len(), full.len());
    }

    #[test]
    fn a_name_says_its_arm() {
        assert_eq!(arm_of("policy_only-s1"), "policy_only");
        assert_eq!(arm_of("pool-eps-0.02-harness_s-s12"), "harness_s");
        assert_eq!(arm_of("notes"), "notes");
    }
}
