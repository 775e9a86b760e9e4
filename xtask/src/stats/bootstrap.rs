//! The percentile bootstrap, crossed over seeds and scenarios.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;

use super::{Bootstrap, Estimate};

/// Mean over cells and the 2.5 % and 97.5 % percentiles of its crossed bootstrap; `None` without cells.
///
/// A resample draws as many seeds as there are, and as many scenarios, each with replacement; a cell counts
/// as often as its seed was drawn times as often as its scenario was. A resample that holds no cell (cells
/// may be missing) is left out. With one seed only scenarios vary. Equal cells give an interval of width 0.
///
/// # Determinism
/// The same cells, seed and number of resamples give the same bits.
///
/// # Source
/// Owen, "The pigeonhole bootstrap", arXiv 0711.0835. It errs to the wide side where seeds and scenarios are
/// many. With few seeds its percentiles are too narrow, since no resample knows a seed that was not run; that
/// is why [`super::t_interval`] stands beside it.
pub fn interval(cells: &BTreeMap<(u64, String), f64>, bootstrap: Bootstrap) -> Option<Estimate> {
    // Sums are taken of differences from one cell, so that equal cells give exactly their value.
    let center = *cells.values().next()?;
    let grid = Grid::of(cells, center);
    let mean = center + grid.mean(&vec![1; grid.n_seeds], &vec![1; grid.n_scenarios])?;
    let mut rng = bootstrap.seed.derive("bootstrap", &[]).rng();
    let mut draw = |n: usize| {
        let mut counts = vec![0_u32; n];
        for _ in 0..n {
            counts[rng.random_range(0..n as u64) as usize] += 1;
        }
        counts
    };
    let mut means: Vec<f64> = (0..bootstrap.n_resamples)
        .filter_map(|_| {
            let (seeds, scenarios) = (draw(grid.n_seeds), draw(grid.n_scenarios));
            Some(center + grid.mean(&seeds, &scenarios)?)
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let ci95 = if means.is_empty() {
        [mean, mean]
    } else {
        [percentile(&means, 0.025), percentile(&means, 0.975)]
    };
    Some(Estimate {
        mean,
        ci95,
        n: cells.len(),
    })
}

/// Cells by the indices of their seed and scenario.
struct Grid {
    n_seeds: usize,
    n_scenarios: usize,
    cells: Vec<(usize, usize, f64)>,
}

impl Grid {
    fn of(cells: &BTreeMap<(u64, String), f64>, center: f64) -> Self {
        let seeds: BTreeSet<u64> = cells.keys().map(|(seed, _)| *seed).collect();
        let scenarios: BTreeSet<&String> = cells.keys().map(|(_, scenario)| scenario).collect();
        let seed_index: BTreeMap<_, _> = seeds.iter().copied().zip(0..).collect();
        let scenario_index: BTreeMap<_, _> = scenarios.iter().copied().zip(0..).collect();
        Self {
            n_seeds: seeds.len(),
            n_scenarios: scenarios.len(),
            cells: cells
                .iter()
                .map(|((seed, scenario), value)| {
                    (seed_index[seed], scenario_index[scenario], value - center)
                })
                .collect(),
        }
    }

    /// Mean of the cells, each counted as often as its seed and its scenario together.
    fn mean(&self, seed_counts: &[u32], scenario_counts: &[u32]) -> Option<f64> {
        let (mut sum, mut n) = (0.0, 0_u32);
        for &(seed, scenario, value) in &self.cells {
            let count = seed_counts[seed] * scenario_counts[scenario];
            sum += f64::from(count) * value;
            n += count;
        }
        (n > 0).then(|| sum / f64::from(n))
    }
}

/// The `q`-quantile of sorted values, linear between neighbours.
fn percentile(sorted: &[f64], q: f64) -> f64 {
    let position = q * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (position - below as f64) * (sorted[above] - sorted[below])
}

#[cfg(test)]
mod tests {
    use harness_core::Seed;
    use proptest::prelude::*;

    use super::*;

    const BOOTSTRAP: Bootstrap = Bootstrap {
        n_resamples: 200,
        seed: Seed::new(7),
    };

    fn cells() -> impl Strategy<Value = BTreeMap<(u64, String), f64>> {
        let key = (0_u64..4, "[a-f]");
        proptest::collection::btree_map(key, 0.0..=1.0_f64, 1..24)
    }

    fn of(values: &[(u64, &str, f64)]) -> BTreeMap<(u64, String), f64> {
        values
            .iter()
            .map(|&(seed, scenario, value)| ((seed, scenario.to_owned()), value))
            .collect()
    }

    proptest! {
        #[test]
        fn bounds_lie_in_the_data_and_in_order(cells in cells()) {
            let estimate = interval(&cells, BOOTSTRAP).unwrap();
            let low = cells.values().copied().fold(f64::INFINITY, f64::min) - 1e-9;
            let high = cells.values().copied().fold(f64::NEG_INFINITY, f64::max) + 1e-9;
            let [lower, upper] = estimate.ci95;
            prop_assert!(low <= lower && lower <= upper && upper <= high);
            prop_assert!((low..=high).contains(&estimate.mean));
            prop_assert_eq!(estimate.n, cells.len());
        }

        #[test]
        fn equal_cells_give_width_zero(mut cells in cells(), value in -1.0..1.0_f64) {
            for v in cells.values_mut() {
                *v = value;
            }
            let estimate = interval(&cells, BOOTSTRAP).unwrap();
            let [lower, upper] = estimate.ci95;
            for got in [lower, estimate.mean, upper] {
                prop_assert_eq!(got.to_bits(), (value + 0.0).to_bits());
            }
        }

        #[test]
        fn a_shift_of_the_data_shifts_the_estimate(cells in cells(), shift in -2.0..2.0_f64) {
            let mut shifted = cells.clone();
            for v in shifted.values_mut() {
                *v += shift;
            }
            let before = interval(&cells, BOOTSTRAP).unwrap();
            let after = interval(&shifted, BOOTSTRAP).unwrap();
            prop_assert!((after.mean - before.mean - shift).abs() < 1e-9);
            for side in 0..2 {
                prop_assert!((after.ci95[side] - before.ci95[side] - shift).abs() < 1e-9);
            }
        }

        #[test]
        fn the_mean_is_that_of_the_cells(cells in cells()) {
            let mean = cells.values().sum::<f64>() / cells.len() as f64;
            prop_assert!((interval(&cells, BOOTSTRAP).unwrap().mean - mean).abs() < 1e-9);
        }
    }

    #[test]
    fn luck_that_a_seed_shares_widens_the_interval() {
        let names: Vec<String> = (0..20).map(|i| format!("s{i}")).collect();
        let fill = |value: fn(u64, usize) -> f64| {
            let mut cells = BTreeMap::new();
            for seed in 0..4 {
                for (i, name) in names.iter().enumerate() {
                    cells.insert((seed, name.clone()), value(seed, i));
                }
            }
            let [low, high] = interval(&cells, BOOTSTRAP).unwrap().ci95;
            high - low
        };
        let by_seed = fill(|seed, _| f64::from(u8::from(seed < 2)));
        let by_cell = fill(|seed, i| ((seed as usize + i) % 2) as f64);
        assert!(by_seed > 2.0 * by_cell, "{by_seed} {by_cell}");
    }

    #[test]
    fn one_cell() {
        let estimate = interval(&of(&[(1, "s", 0.5)]), BOOTSTRAP).unwrap();
        assert!(
            estimate
                .ci95
                .iter()
                .all(|bound| (bound - 0.5).abs() < 1e-12)
        );
    }

    #[test]
    fn resamples_without_a_cell_are_left_out() {
        let cells = of(&[(1, "s", 0.0), (2, "t", 1.0)]);
        let estimate = interval(&cells, BOOTSTRAP).unwrap();
        assert!(estimate.ci95.iter().all(|bound| bound.is_finite()));
    }

    #[test]
    fn percentiles_lie_between_neighbours() {
        let values = [0.0, 1.0, 2.0];
        assert!((percentile(&values, 0.25) - 0.5).abs() < 1e-12);
        assert!((percentile(&values, 1.0) - 2.0).abs() < 1e-12);
    }
}
