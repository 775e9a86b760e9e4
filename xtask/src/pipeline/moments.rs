//! Base and siblings side by side on the dev tasks at one moment of training, measured twice.

use std::collections::BTreeMap;

use rescue_grpo::NanoLearner;
use serde::{Deserialize, Serialize};

use super::arms::{BASE, Shared};
use super::evaluate::{Plan, evaluate};

/// Solved and valid attempts, by harness and family.
pub(super) type Counts = BTreeMap<String, BTreeMap<String, [u64; 2]>>;

/// What every harness did at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Moment {
    /// `start`, `middle` or `end`.
    pub(super) at: String,
    /// Environment rollouts of the arm so far.
    pub(super) rollouts: u64,
    /// Two repeats of the same measurement with other seeds.
    pub(super) repeats: [Counts; 2],
    /// Rollouts that it took.
    pub(super) n_rollouts: u64,
}

/// Measures base and siblings with the current policy.
///
/// # Errors
/// If attempts cannot be run.
pub(super) fn moment(
    shared: Shared<'_>,
    learner: &NanoLearner,
    at: &str,
    rollouts: u64,
) -> anyhow::Result<Moment> {
    let mut made = Moment {
        at: at.to_owned(),
        rollouts,
        repeats: [Counts::new(), Counts::new()],
        n_rollouts: 0,
    };
    let plan = Plan::dev(&shared.config.run, shared.config.measure.moment_attempts);
    for (repeat, counts) in (1..).zip(&mut made.repeats) {
        for (name, harness) in shared.harnesses() {
            let done = evaluate(shared, learner, harness, Plan { repeat, ..plan })?;
            made.n_rollouts += done.rows.len() as u64;
            counts.insert(name.to_owned(), done.counts());
        }
    }
    Ok(made)
}

impl Moment {
    /// Success of a harness in a family over both repeats; `None` without valid attempts.
    pub(super) fn rate(&self, harness: &str, family: &str) -> Option<f64> {
        let of = |counts: &Counts| counts.get(harness)?.get(family).copied();
        let [a, b] = [&self.repeats[0], &self.repeats[1]].map(|c| of(c).unwrap_or_default());
        share([a[0] + b[0], a[1] + b[1]])
    }

    /// Harness names, in the order of the alphabet.
    pub(super) fn harnesses(&self) -> impl Iterator<Item = &str> {
        self.repeats[0].keys().map(String::as_str)
    }

    /// Families.
    pub(super) fn families(&self) -> impl Iterator<Item = &str> {
        let first = self.repeats[0].get(BASE);
        first
            .into_iter()
            .flat_map(BTreeMap::keys)
            .map(String::as_str)
    }

    /// The harness, base or sibling, with the best mean over families; ties go to the first in the alphabet.
    pub(super) fn best_harness(&self) -> Option<String> {
        self.best_of(self.harnesses())
    }

    /// The sibling with the best mean over families.
    pub(super) fn best_sibling(&self) -> Option<String> {
        self.best_of(self.harnesses().filter(|name| *name != BASE))
    }

    fn best_of<'a>(&'a self, names: impl Iterator<Item = &'a str>) -> Option<String> {
        let mean = |name: &str| -> f64 {
            let rates = self.families().filter_map(|f| self.rate(name, f));
            rates.sum()
        };
        let mut best: Option<(f64, &str)> = None;
        for name in names {
            let value = mean(name);
            if best.is_none_or(|(most, _)| value > most) {
                best = Some((value, name));
            }
        }
        best.map(|(_, name)| name.to_owned())
    }

    /// Success of every sibling minus the base's, by sibling and family, in one repeat. Utilities without
    /// valid attempts are left out.
    pub(super) fn utilities(&self, repeat: usize) -> BTreeMap<(String, String), f64> {
        let counts = &self.repeats[repeat];
        let rate = |name: &str, family: &str| share(*counts.get(name)?.get(family)?);
        let mut out = BTreeMap::new();
        for name in self.harnesses().filter(|name| *name != BASE) {
            for family in self.families() {
                if let (Some(s), Some(b)) = (rate(name, family), rate(BASE, family)) {
                    out.insert((name.to_owned(), family.to_owned()), s - b);
                }
            }
        }
        out
    }

    /// Success of the best sibling of each family minus the base's, mean over families; the best is chosen on
    /// one repeat and scored on the other, both ways. `None` without siblings.
    pub(super) fn support_gap(&self) -> Option<f64> {
        let gaps = [(0, 1), (1, 0)].map(|(choose, score)| {
            let (chosen, scored) = (self.utilities(choose), self.utilities(score));
            let of = |family: &str| {
                let own = chosen.iter().filter(|((_, f), _)| f == family);
                let best = own.max_by(|a, b| a.1.total_cmp(b.1))?.0;
                scored.get(best).copied()
            };
            let gaps: Vec<f64> = self.families().filter_map(of).collect();
            (!gaps.is_empty()).then(|| gaps.iter().sum::<f64>() / gaps.len() as f64)
        });
        Some(f64::midpoint(gaps[0]?, gaps[1]?))
    }
}

fn share([solved, valid]: [u64; 2]) -> Option<f64> {
    (valid > 0).then(|| solved as f64 / valid as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(rates: &[(&str, [u64; 2])]) -> Counts {
        rates
            .iter()
            .map(|(name, [easy, hard])| {
                let row = [("easy", *easy), ("hard", *hard)];
                let row = row.map(|(family, solved)| (family.to_owned(), [solved, 10]));
                ((*name).to_owned(), row.into())
            })
            .collect()
    }

    fn sample() -> Moment {
        Moment {
            at: "start".into(),
            rollouts: 0,
            repeats: [
                counts(&[("base", [10, 0]), ("a", [8, 6]), ("b", [9, 1])]),
                counts(&[("base", [10, 0]), ("a", [10, 4]), ("b", [9, 7])]),
            ],
            n_rollouts: 120,
        }
    }

    #[test]
    fn rates_are_over_both_repeats() {
        let moment = sample();
        assert_eq!(moment.rate("a", "hard"), Some(0.5));
        assert_eq!(moment.rate("c", "hard"), None);
        assert_eq!(moment.best_sibling().as_deref(), Some("a"));
        assert_eq!(moment.best_harness().as_deref(), Some("a"));
    }

    #[test]
    fn the_best_sibling_is_scored_where_it_was_not_chosen() {
        // Chosen on the first: b (easy, -0.1), a (hard, 0.4); on the second: a (easy, -0.2), b (hard, 0.1).
        let expected = f64::midpoint(f64::midpoint(-0.1, 0.4), f64::midpoint(-0.2, 0.1));
        assert!((sample().support_gap().unwrap() - expected).abs() < 1e-12);
    }
}
