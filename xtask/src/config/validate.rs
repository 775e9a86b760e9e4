//! Ranges of settings, checked once; all that is wrong is told together.

use super::Config;
use crate::usage::UsageError;

impl Config {
    /// Checks every range.
    ///
    /// # Errors
    /// [`UsageError`] with one line for each field out of its range.
    pub fn validate(&self) -> Result<(), UsageError> {
        let mut problems = Problems::default();
        super::check_environment(&self.env)?;
        self.check_run(&mut problems);
        self.check_model(&mut problems);
        self.check_warm_start(&mut problems);
        self.check_evolution(&mut problems);
        self.check_grpo(&mut problems);
        self.check_router(&mut problems);
        self.check_study(&mut problems);
        problems.into_result()
    }

    fn check_run(&self, problems: &mut Problems) {
        let run = &self.run;
        problems.distinct("run.seeds", &run.seeds);
        problems.distinct("run.warm_start_seeds", &run.warm_start_seeds);
        problems.distinct("run.arms", &run.arms);
        problems.positive("run.budget_rollouts", run.budget_rollouts);
        problems.positive("run.n_train_per_family", run.n_train_per_family as u64);
        problems.positive("run.keep_every_steps", run.keep_every_steps);
        problems.positive("run.eval_every_rollouts", run.eval_every_rollouts);
        problems.positive("run.n_dev_per_family", run.n_dev_per_family as u64);
        problems.positive("run.dev_attempts", u64::from(run.dev_attempts));
        problems.positive("run.n_test_per_family", run.n_test_per_family as u64);
        problems.positive("run.test_attempts", u64::from(run.test_attempts));
        problems.positive("run.bootstrap_resamples", run.bootstrap_resamples as u64);
        problems.positive("run.max_in_flight", run.max_in_flight as u64);
        problems.positive_real("run.rollout_timeout_s", run.rollout_timeout_s);
    }

    fn check_model(&self, problems: &mut Problems) {
        let model = &self.model;
        for (name, value) in [
            ("model.d_model", model.d_model),
            ("model.n_layers", model.n_layers),
            ("model.n_heads", model.n_heads),
            ("model.n_kv_heads", model.n_kv_heads),
            ("model.d_ff", model.d_ff),
            ("model.max_context", model.max_context),
            ("model.vocab", model.vocab),
        ] {
            problems.positive(name, value as u64);
        }
        problems.divides(
            "model.n_heads",
            model.n_heads,
            "model.d_model",
            model.d_model,
        );
        problems.divides(
            "model.n_kv_heads",
            model.n_kv_heads,
            "model.n_heads",
            model.n_heads,
        );
    }

    fn check_warm_start(&self, problems: &mut Problems) {
        let warm = &self.warm_start;
        problems.positive("warm_start.steps", warm.steps as u64);
        problems.positive("warm_start.batch", warm.batch as u64);
        problems.positive("warm_start.n_demos", warm.n_demos as u64);
        problems.positive_real("warm_start.learning_rate", warm.learning_rate);
        problems.not_negative("warm_start.weight_decay", warm.weight_decay);
        problems.share("warm_start.rel", warm.rel);
        problems.share("warm_start.eps", warm.eps);
        problems.share("warm_start.base_context_share", warm.base_context_share);
        problems.share("warm_start.matching_share", warm.matching_share);
        problems.share(
            "warm_start.base_context_share + warm_start.matching_share",
            warm.base_context_share + warm.matching_share,
        );
        problems.share("warm_start.hint_share", warm.hint_share);
        problems.share("warm_start.wrong_wastes", warm.wrong_wastes);
        problems.share("warm_start.wrong_gives_up", warm.wrong_gives_up);
        problems.share("warm_start.recovery_share", warm.recovery_share);
        problems.share("warm_start.copy_gate", warm.copy_gate);
    }

    fn check_evolution(&self, problems: &mut Problems) {
        let evolution = &self.evolution;
        for (name, value) in [
            ("search_tasks_per_family", evolution.search_tasks_per_family),
            (
                "confirm_tasks_per_family",
                evolution.confirm_tasks_per_family,
            ),
            ("attempts", evolution.attempts as usize),
            ("search_attempts", evolution.search_attempts as usize),
            ("rounds", evolution.rounds),
            ("candidates", evolution.candidates),
            ("max_directions", evolution.max_directions),
            ("min_tasks", evolution.min_tasks),
        ] {
            problems.positive(&format!("evolution.{name}"), value as u64);
        }
        problems.positive_share("evolution.alpha", evolution.alpha);
    }

    fn check_grpo(&self, problems: &mut Problems) {
        let grpo = &self.grpo;
        if grpo.group_size < 2 {
            problems.add("grpo.group_size", "at least 2", grpo.group_size);
        }
        problems.positive("grpo.tasks_per_step", grpo.tasks_per_step as u64);
        problems.positive("grpo.k", grpo.k as u64);
        if grpo.k > 0 {
            problems.divides("grpo.k", grpo.k, "grpo.group_size", grpo.group_size);
        }
        problems.positive_share("grpo.min_valid", grpo.min_valid);
        problems.positive_share("grpo.clip_low", grpo.clip_low);
        problems.positive_real("grpo.clip_high", grpo.clip_high);
        problems.positive_real("grpo.importance_cap", grpo.importance_cap);
        problems.positive_real("grpo.learning_rate", grpo.learning_rate);
        let matched = grpo.matched_learning_rate;
        problems.positive_real("grpo.matched_learning_rate", matched);
        problems.positive_real("grpo.max_grad_norm", grpo.max_grad_norm);
        problems.positive_real("grpo.temperature", grpo.temperature);
    }

    fn check_router(&self, problems: &mut Problems) {
        let router = &self.router;
        problems.share("router.epsilon", router.epsilon);
        problems.positive("router.reanchor_every", router.reanchor_every);
        problems.positive(
            "router.anchors_per_family",
            router.anchors_per_family as u64,
        );
        problems.positive("router.anchor_attempts", u64::from(router.anchor_attempts));
        problems.positive_real("router.half_life", router.half_life);
    }
}

impl Config {
    fn check_study(&self, problems: &mut Problems) {
        let (measure, study) = (&self.measure, &self.study);
        let moment = u64::from(measure.moment_attempts);
        problems.positive("measure.moment_attempts", moment);
        if measure.rescue_attempts < 2 {
            let got = measure.rescue_attempts;
            problems.add("measure.rescue_attempts", "at least 2", got);
        }
        problems.share("grpo.word_dropout", self.grpo.word_dropout);
        for eps in &study.sweep_eps {
            problems.share("study.sweep_eps", *eps);
        }
        let is_study = !(study.ablations.is_empty()
            && study.controls.is_empty()
            && study.sweep_eps.is_empty());
        let n_seeds = self.run.seeds.len();
        if is_study && n_seeds > 0 && !(1..=n_seeds).contains(&study.n_seeds) {
            let range = "1 to the number of run.seeds";
            problems.add("study.n_seeds", range, study.n_seeds);
        }
        for (name, n, n_distinct) in [
            (
                "ablations",
                study.ablations.len(),
                n_distinct(&study.ablations),
            ),
            (
                "controls",
                study.controls.len(),
                n_distinct(&study.controls),
            ),
        ] {
            if n != n_distinct {
                let field = format!("study.{name}");
                problems.add(&field, "a list of distinct values", format!("{n} values"));
            }
        }
        if let Some(arm) = study.ablations.iter().find(|a| self.run.arms.contains(a)) {
            let text = "arms that are not in run.arms";
            problems.add("study.ablations", text, arm);
        }
    }
}

fn n_distinct<T: Ord>(values: &[T]) -> usize {
    values
        .iter()
        .collect::<std::collections::BTreeSet<_>>()
        .len()
}

/// What is out of range so far.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, field: &str, range: &str, got: impl std::fmt::Display) {
        self.0.push(format!("{field} must be {range}, got: {got}"));
    }

    fn positive(&mut self, field: &str, value: u64) {
        if value == 0 {
            self.add(field, "at least 1", value);
        }
    }

    fn positive_real(&mut self, field: &str, value: f64) {
        if !(value.is_finite() && value > 0.0) {
            self.add(field, "a finite number above 0", value);
        }
    }

    fn not_negative(&mut self, field: &str, value: f64) {
        if !(value.is_finite() && value >= 0.0) {
            self.add(field, "a finite number, 0 or above", value);
        }
    }

    fn share(&mut self, field: &str, value: f64) {
        // Sums of shares such as 0.4 + 0.6 may end a hair above 1.
        if !(0.0..=1.0 + 1e-9).contains(&value) {
            self.add(field, "in [0, 1]", value);
        }
    }

    fn positive_share(&mut self, field: &str, value: f64) {
        if !(value > 0.0 && value <= 1.0) {
            self.add(field, "in (0, 1]", value);
        }
    }

    fn divides(&mut self, field: &str, value: usize, other_field: &str, other: usize) {
        if value == 0 || !other.is_multiple_of(value) {
            let range = format!("a divisor of {other_field} = {other}");
            self.add(field, &range, value);
        }
    }

    fn distinct<T: Ord>(&mut self, field: &str, values: &[T]) {
        let n_distinct = values
            .iter()
            .collect::<std::collections::BTreeSet<_>>()
            .len();
        if values.is_empty() || n_distinct < values.len() {
            self.0.push(format!(
                "{field} must be a list of distinct values, at least one"
            ));
        }
    }

    fn into_result(self) -> Result<(), UsageError> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(UsageError::new(format!(
            "settings out of range:\n  {}",
            self.0.join("\n  ")
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Scale};

    #[track_caller]
    fn check(change: impl FnOnce(&mut Config), expect: &str) {
        let mut config = Config::builtin("appworld", Scale::Smoke).unwrap();
        change(&mut config);
        let error = config.validate().unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }

    #[test]
    fn a_group_of_one() {
        check(
            |c| c.grpo.group_size = 1,
            "grpo.group_size must be at least 2, got: 1",
        );
    }

    #[test]
    fn groups_that_cannot_be_shared_evenly() {
        check(
            |c| c.grpo.k = 3,
            "grpo.k must be a divisor of grpo.group_size",
        );
    }

    #[test]
    fn not_a_number() {
        check(|c| c.grpo.learning_rate = f64::NAN, "grpo.learning_rate");
    }

    #[test]
    fn shares_beyond_one() {
        check(
            |c| c.warm_start.matching_share = 0.9,
            "base_context_share + ",
        );
    }

    #[test]
    fn an_arm_twice() {
        check(|c| c.run.arms.extend(c.run.arms.clone()), "run.arms");
    }

    #[test]
    fn all_problems_are_told_together() {
        let mut config = Config::builtin("appworld", Scale::Smoke).unwrap();
        config.run.seeds.clear();
        config.router.epsilon = 2.0;
        let error = config.validate().unwrap_err().to_string();
        assert_eq!(error.lines().count(), 3, "{error}");
    }
}
