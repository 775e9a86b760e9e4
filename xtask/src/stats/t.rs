//! Student's t interval over seeds: what stands beside the bootstrap where seeds are few.

use super::Estimate;

/// Quantiles 0.975 of Student's t for 1 to 30 degrees of freedom.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// Mean and 95 % t interval of independent values, for instance of one paired difference for each seed;
/// `None` for fewer than two. `n` is the number of values. Above 31 values the quantile of 30 degrees of
/// freedom is used, which is a little too wide.
///
/// It takes the scenarios as they are and asks what other seeds would give; [`super::interval`] asks what other
/// seeds and other scenarios would give. A claim should hold by both.
///
/// # Example
/// ```
/// let estimate = xtask::stats::t_interval(&[0.1, 0.3]).unwrap();
/// assert!((estimate.mean - 0.2).abs() < 1e-12);
/// assert!(estimate.ci95[0] < -1.0 && estimate.ci95[1] > 1.0);
/// assert!(xtask::stats::t_interval(&[0.1]).is_none());
/// ```
pub fn t_interval(values: &[f64]) -> Option<Estimate> {
    let n = values.len();
    if n < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    let quantile = T_975[(n - 2).min(T_975.len() - 1)];
    let half = quantile * (variance / n as f64).sqrt();
    Some(Estimate {
        mean,
        ci95: [mean - half, mean + half],
        n,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn textbook_value() {
        let estimate = t_interval(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        // 2.776 * sqrt(2.5 / 5)
        assert!((estimate.ci95[1] - 3.0 - 1.963).abs() < 1e-3);
    }

    #[test]
    fn many_values_use_the_last_quantile() {
        assert!(t_interval(&[0.0; 100]).is_some());
    }
}
