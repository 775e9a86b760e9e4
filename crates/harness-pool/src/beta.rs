//! The Beta distribution: mean and interval of a rate known by counts.

/// Mean of Beta(1 + `successes`, 1 + `failures`), in `(0, 1)`; 0.5 without evidence.
///
/// Counts may be fractions (discounted evidence) and must not be negative.
pub fn mean(successes: f64, failures: f64) -> f64 {
    (1.0 + successes) / (2.0 + successes + failures)
}

/// Variance of Beta(1 + `successes`, 1 + `failures`).
pub fn variance(successes: f64, failures: f64) -> f64 {
    let mean = mean(successes, failures);
    mean * (1.0 - mean) / (3.0 + successes + failures)
}

/// Central 95 % interval of Beta(1 + `successes`, 1 + `failures`), within `[0, 1]`.
///
/// Computed numerically: bisection on the regularised incomplete beta function, to about 1e-9.
///
/// # Example
/// ```
/// let (low, high) = harness_pool::beta::interval95(0.0, 0.0); // the uniform distribution
/// assert!((low - 0.025).abs() < 1e-6 && (high - 0.975).abs() < 1e-6);
/// ```
pub fn interval95(successes: f64, failures: f64) -> (f64, f64) {
    let (a, b) = (1.0 + successes, 1.0 + failures);
    (quantile(0.025, a, b), quantile(0.975, a, b))
}

fn quantile(p: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..32 {
        let middle = f64::midpoint(low, high);
        if cumulative(middle, a, b) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// P(X <= x) for X from Beta(a, b), `a, b >= 1`, `x` in `(0, 1)`.
fn cumulative(x: f64, a: f64, b: f64) -> f64 {
    let log_front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p();
    let front = log_front.exp();
    // The continued fraction converges fast on this side of the mean only.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(x, a, b) / a
    } else {
        1.0 - front * fraction(1.0 - x, b, a) / b
    }
}

/// Continued fraction of the incomplete beta function by Lentz's method (DLMF 8.17.22).
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let keep = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut numerator = 1.0;
    let mut denominator = keep(1.0 - (a + b) * x / (a + 1.0)).recip();
    let mut result = denominator;
    for n in 1..500 {
        let m = f64::from(n);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for term in [even, odd] {
            denominator = keep(1.0 + term * denominator).recip();
            numerator = keep(1.0 + term / numerator);
            result *= denominator * numerator;
        }
        if (denominator * numerator - 1.0).abs() < 1e-13 {
            break;
        }
    }
    result
}

/// ln Gamma(x) for `x >= 1`: Stirling's series after shifting x to at least 10 (DLMF 5.11.1).
fn ln_gamma(x: f64) -> f64 {
    let mut shift = 0.0;
    let mut y = x;
    while y < 10.0 {
        shift += y.ln();
        y += 1.0;
    }
    let inverse = y.recip();
    let square = inverse * inverse;
    let series =
        inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0)));
    (y - 0.5) * y.ln() - y + 0.5 * std::f64::consts::TAU.ln() + series - shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(successes: f64, failures: f64, expect: (f64, f64)) {
        let (low, high) = interval95(successes, failures);
        let is_near = (low - expect.0).abs() < 1e-5 && (high - expect.1).abs() < 1e-5;
        assert!(is_near, "({low}, {high}) is not {expect:?}");
    }

    #[test]
    fn closed_forms() {
        // Beta(1, n): F(x) = 1 - (1 - x)^n; Beta(n, 1): F(x) = x^n.
        let by_n = |p: f64, n: f64| 1.0 - (1.0 - p).powf(1.0 / n);
        check(0.0, 9.0, (by_n(0.025, 10.0), by_n(0.975, 10.0)));
        check(99.0, 0.0, (0.025_f64.powf(0.01), 0.975_f64.powf(0.01)));
        // Beta(2, 2): F(x) = 3x^2 - 2x^3, so F(0.0942993) = 0.025.
        check(1.0, 1.0, (0.094_299, 0.905_701));
    }

    #[test]
    fn large_counts_approach_the_normal() {
        let (low, high) = interval95(5000.0, 5000.0);
        let half = 1.959_964 * variance(5000.0, 5000.0).sqrt();
        assert!((low - (0.5 - half)).abs() < 1e-5 && (high - (0.5 + half)).abs() < 1e-5);
    }

    #[test]
    fn fractions_lie_between_their_neighbours() {
        let (low, high) = (interval95(2.0, 3.0), interval95(3.0, 3.0));
        let middle = interval95(2.5, 3.0);
        assert!(low.0 < middle.0 && middle.0 < high.0 && low.1 < middle.1 && middle.1 < high.1);
    }
}
