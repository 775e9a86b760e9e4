//! Holm's step-down procedure.

use serde::{Deserialize, Serialize};

/// What Holm's procedure says of one hypothesis.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HolmStep {
    /// The level that its p-value was compared with: alpha / (m - rank), rank from 0.
    pub threshold: f64,
    /// Whether its null hypothesis is rejected, as are those of all smaller p-values.
    pub is_rejected: bool,
}

/// Holm's step-down procedure: controls the chance of any false rejection at `alpha`, whatever the
/// dependence between the tests.
///
/// The result stands in the order of `p_values`. Equal p-values are ranked in that order; either all or none
/// of them is rejected unless the level between them decides. An empty list gives an empty list. A p-value
/// that is not a number is never rejected.
///
/// # Source
/// Holm 1979; its use over all confirmations of a run is the design's (ours).
///
/// # Example
/// ```
/// use harness_evolve::stats::holm;
/// let steps = holm(&[0.04, 0.01], 0.05);
/// assert!(steps[0].is_rejected && steps[1].is_rejected); // 0.01 <= 0.025, then 0.04 <= 0.05
/// assert!(!holm(&[0.04, 0.03], 0.05)[0].is_rejected); // 0.03 > 0.025 stops at once
/// ```
pub fn holm(p_values: &[f64], alpha: f64) -> Vec<HolmStep> {
    let m = p_values.len();
    let mut order: Vec<usize> = (0..m).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let none = HolmStep {
        threshold: 0.0,
        is_rejected: false,
    };
    let mut steps = vec![none; m];
    let mut goes_on = true;
    for (rank, at) in order.into_iter().enumerate() {
        let threshold = alpha / (m - rank) as f64;
        goes_on = goes_on && p_values[at] <= threshold;
        steps[at] = HolmStep {
            threshold,
            is_rejected: goes_on,
        };
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The slow reference, by adjusted p-values: adjusted(i) = the largest of (m - rank(j)) p(j) over all j
    /// ranked no later than i.
    fn reference(p: &[f64], alpha: f64) -> Vec<bool> {
        let m = p.len();
        let rank = |i: usize| (0..m).filter(|j| (p[*j], *j) < (p[i], i)).count();
        let adjusted = |i: usize| {
            let before = (0..m).filter(|j| rank(*j) <= rank(i));
            before
                .map(|j| (m - rank(j)) as f64 * p[j])
                .fold(0.0, f64::max)
        };
        (0..m).map(|i| adjusted(i) <= alpha).collect()
    }

    proptest! {
        #[test]
        fn equals_reference(grid in prop::collection::vec(0_u32..64, 0..9)) {
            // Dyadic values, so that p * (m - rank) and alpha / (m - rank) compare alike.
            let p: Vec<f64> = grid.iter().map(|x| (f64::from(*x) + 0.5) / 512.0).collect();
            let got: Vec<bool> = holm(&p, 0.05).iter().map(|s| s.is_rejected).collect();
            prop_assert_eq!(got, reference(&p, 0.05));
        }

        #[test]
        fn order_does_not_matter(grid in prop::collection::btree_set(0_u32..64, 0..9)) {
            let p: Vec<f64> = grid.iter().map(|x| f64::from(*x) / 512.0).collect();
            let turned: Vec<f64> = p.iter().rev().copied().collect();
            let mut back = holm(&turned, 0.05);
            back.reverse();
            prop_assert_eq!(holm(&p, 0.05), back);
        }
    }

    #[test]
    fn not_a_number_is_never_rejected() {
        let steps = holm(&[f64::NAN, 0.0], 0.05);
        assert!(!steps[0].is_rejected && steps[1].is_rejected);
        assert!(holm(&[], 0.05).is_empty());
    }
}
