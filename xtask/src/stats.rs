//! Estimates with intervals from attempts: pure functions over rows.
//!
//! Attempts at one scenario with one seed are summed up in one *cell*, the share solved among its valid
//! attempts. Every estimate is a mean over cells; its interval is a percentile bootstrap, crossed over
//! seeds and scenarios (both are drawn anew, independently), since cells that share a seed share its luck.

mod bootstrap;
mod rank;
mod t;

use std::collections::BTreeMap;

use harness_core::Seed;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use bootstrap::interval;
pub use rank::rank_correlation;
pub use t::t_interval;

/// A mean with a 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Lower and upper bound of the 95 % interval.
    pub ci95: [f64; 2],
    /// How many cells (pairs of seed and scenario) the mean is over.
    pub n: usize,
}

/// One attempt of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvalRow {
    /// Seed of the training run.
    pub seed: u64,
    /// The arm's name.
    pub arm: String,
    /// Number of the evaluation in its training run; 0 is before the first update.
    pub checkpoint: u32,
    /// The task's id.
    pub task: String,
    /// The task's scenario.
    pub scenario: String,
    /// The task's family.
    pub family: String,
    /// Number of the attempt at the task.
    pub attempt: u32,
    /// Whether it solved the task; `None` if the attempt is invalid and says nothing.
    pub solved: Option<bool>,
    /// Whether tokens were drawn greedily.
    pub greedy: bool,
}

/// How intervals are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bootstrap {
    /// Number of resamples.
    pub n_resamples: usize,
    /// Seed of the resampling; every estimate of one report may use the same.
    pub seed: Seed,
}

/// Shares solved by (seed, scenario).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cells(BTreeMap<(u64, String), f64>);

impl Cells {
    /// Sums rows up. Rows without a verdict are left out; a cell without any other does not exist.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a EvalRow>) -> Self {
        let mut counts: BTreeMap<(u64, String), (u32, u32)> = BTreeMap::new();
        for row in rows {
            if let Some(solved) = row.solved {
                let (n_solved, n) = counts.entry((row.seed, row.scenario.clone())).or_default();
                *n_solved += u32::from(solved);
                *n += 1;
            }
        }
        let rate = |(n_solved, n): (u32, u32)| f64::from(n_solved) / f64::from(n);
        Self(counts.into_iter().map(|(k, c)| (k, rate(c))).collect())
    }

    /// Cells from values that were made elsewhere.
    pub fn from_values(values: impl IntoIterator<Item = (u64, String, f64)>) -> Self {
        Self(values.into_iter().map(|(s, c, v)| ((s, c), v)).collect())
    }

    /// This minus the other, cell by cell; cells that only one of them has are left out.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let difference =
            |(key, value): (&(u64, String), &f64)| Some((key.clone(), value - other.0.get(key)?));
        Self(self.0.iter().filter_map(difference).collect())
    }

    /// How many cells there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The mean over the cells of each seed, by seed.
    pub fn per_seed(&self) -> BTreeMap<u64, f64> {
        let mut values: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for ((seed, _), value) in &self.0 {
            values.entry(*seed).or_default().push(*value);
        }
        let mean = |v: Vec<f64>| v.iter().sum::<f64>() / v.len() as f64;
        values.into_iter().map(|(s, v)| (s, mean(v))).collect()
    }

    /// Mean and interval; `None` if there is no cell.
    pub fn estimate(&self, bootstrap: Bootstrap) -> Option<Estimate> {
        interval(&self.0, bootstrap)
    }
}

/// Rows of an arm at the last checkpoint of each of its seeds, drawn greedily or not.
pub fn at_last_checkpoint<'a>(rows: &'a [EvalRow], arm: &str, greedy: bool) -> Vec<&'a EvalRow> {
    let of_arm = |row: &&EvalRow| row.arm == arm && row.greedy == greedy;
    let mut last: BTreeMap<u64, u32> = BTreeMap::new();
    for row in rows.iter().filter(of_arm) {
        let known = last.entry(row.seed).or_default();
        *known = row.checkpoint.max(*known);
    }
    rows.iter()
        .filter(of_arm)
        .filter(|row| last[&row.seed] == row.checkpoint)
        .collect()
}

/// Rows of an arm at one checkpoint, drawn greedily or not.
pub fn at_checkpoint<'a>(
    rows: &'a [EvalRow],
    arm: &str,
    checkpoint: u32,
    greedy: bool,
) -> Vec<&'a EvalRow> {
    rows.iter()
        .filter(|row| row.arm == arm && row.checkpoint == checkpoint && row.greedy == greedy)
        .collect()
}

/// Mean and interval of each family among the rows, by family.
pub fn per_family(rows: &[&EvalRow], bootstrap: Bootstrap) -> BTreeMap<String, Estimate> {
    let mut by_family: BTreeMap<&str, Vec<&EvalRow>> = BTreeMap::new();
    for row in rows {
        by_family.entry(&row.family).or_default().push(row);
    }
    by_family
        .into_iter()
        .filter_map(|(family, rows)| {
            let estimate = Cells::of(rows).estimate(bootstrap)?;
            Some((family.to_owned(), estimate))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(seed: u64, checkpoint: u32, scenario: &str, solved: Option<bool>) -> EvalRow {
        EvalRow {
            seed,
            arm: "a".into(),
            checkpoint,
            task: format!("{scenario}-1"),
            scenario: scenario.into(),
            family: "f".into(),
            attempt: 0,
            solved,
            greedy: false,
        }
    }

    #[test]
    fn invalid_attempts_are_no_failures() {
        let rows = [
            row(1, 0, "s", Some(true)),
            row(1, 0, "s", None),
            row(1, 0, "t", None),
        ];
        let cells = Cells::of(&rows);
        assert_eq!(cells.len(), 1);
        assert_eq!(cells.per_seed(), BTreeMap::from([(1, 1.0)]));
    }

    #[test]
    fn each_seed_has_its_own_last_checkpoint() {
        let rows = [
            row(1, 0, "s", Some(false)),
            row(1, 3, "s", Some(true)),
            row(2, 2, "s", Some(true)),
        ];
        let last: Vec<_> = at_last_checkpoint(&rows, "a", false)
            .iter()
            .map(|row| (row.seed, row.checkpoint))
            .collect();
        assert_eq!(last, [(1, 3), (2, 2)]);
        assert!(at_last_checkpoint(&rows, "a", true).is_empty());
    }

    #[test]
    fn differences_are_paired() {
        let a = Cells::from_values([(1, "s".into(), 1.0), (1, "t".into(), 0.5)]);
        let b = Cells::from_values([(1, "s".into(), 0.25), (2, "t".into(), 0.5)]);
        let difference = a.minus(&b);
        assert_eq!(difference.len(), 1);
        assert_eq!(difference.per_seed(), BTreeMap::from([(1, 0.75)]));
    }

    #[test]
    fn no_rows_give_no_estimate() {
        let bootstrap = Bootstrap {
            n_resamples: 10,
            seed: Seed::new(1),
        };
        assert_eq!(Cells::default().estimate(bootstrap), None);
        assert!(per_family(&[], bootstrap).is_empty());
    }
}
