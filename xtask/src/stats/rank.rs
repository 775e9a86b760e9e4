//! Rank correlation.

/// Spearman's rank correlation of paired values, with mean ranks for ties; `None` for fewer than two pairs, or
/// if either side is constant.
///
/// # Example
/// ```
/// let rho = xtask::stats::rank_correlation(&[(1.0, 10.0), (2.0, 20.0), (3.0, 15.0)]).unwrap();
/// assert!((rho - 0.5).abs() < 1e-12);
/// ```
pub fn rank_correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let a = ranks(&pairs.iter().map(|p| p.0).collect::<Vec<_>>());
    let b = ranks(&pairs.iter().map(|p| p.1).collect::<Vec<_>>());
    let mean = f64::midpoint(pairs.len() as f64, 1.0);
    let (mut both, mut of_a, mut of_b) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(&b) {
        both += (x - mean) * (y - mean);
        of_a += (x - mean).powi(2);
        of_b += (y - mean).powi(2);
    }
    (of_a > 0.0 && of_b > 0.0).then(|| both / (of_a * of_b).sqrt())
}

/// The rank of each value, from 1; equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|v| *v < value).count();
        let not_above = values.iter().filter(|v| *v <= value).count();
        f64::midpoint(below as f64 + 1.0, not_above as f64)
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ties_share_their_ranks() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0]), [2.5, 1.0, 2.5]);
        assert_eq!(rank_correlation(&[(1.0, 1.0)]), None);
        assert_eq!(rank_correlation(&[(1.0, 1.0), (1.0, 2.0)]), None);
    }

    proptest! {
        #[test]
        fn only_the_order_matters(values in proptest::collection::vec(-5.0..5.0_f64, 2..20)) {
            let up: Vec<_> = values.iter().map(|v| (*v, v.exp())).collect();
            let down: Vec<_> = values.iter().map(|v| (*v, -v)).collect();
            prop_assert!((rank_correlation(&up).unwrap() - 1.0).abs() < 1e-9);
            prop_assert!((rank_correlation(&down).unwrap() + 1.0).abs() < 1e-9);
        }
    }
}
