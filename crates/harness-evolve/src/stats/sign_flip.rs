//! The exact one-sided sign-flip test over paired whole-number differences.

/// Largest sum of absolute differences, after division by their common divisor.
pub const MAX_STATES: u64 = 1 << 24;

/// The differences are too fine or too many for exact enumeration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("exact sign-flip needs more than {MAX_STATES} states")]
pub struct TooFineError;

/// The exact p-value of a one-sided sign-flip test.
///
/// `differences[t]` is (sibling - base) on task `t`, in any common unit. Under the null hypothesis the two
/// arms of each task may be exchanged, so every sign is + or - with chance 1/2, independently:
/// `p = P(sum of s_t |d_t| >= sum of d_t)`. In (0, 1], lower speaks for the sibling.
///
/// - *Ties* count: a sum equal to the observed one is "at least as large". The test is conservative.
/// - *Zero differences* stay zero under any flip and change nothing. With none but zeros (or no tasks) p = 1.
/// - It is exact enumeration, not sampling: with P the sum of the positive differences, the event is that a
///   random subset of |d| sums to P or more, and the distribution of that sum is built by dynamic
///   programming over its values. Masses are `f64` and only added and halved, so the relative error is about
///   the number of tasks times 1e-16.
///
/// # Errors
/// [`TooFineError`] if the sum of |d| exceeds [`MAX_STATES`].
///
/// # Source
/// Design, "Directional evolution" (ours; the abstract of arXiv 2611.04277 is silent).
///
/// # Example
/// ```
/// use harness_evolve::stats::sign_flip_p;
/// assert_eq!(sign_flip_p(&[1, 1, 1]), Ok(0.125));
/// assert_eq!(sign_flip_p(&[1, -1, 0]), Ok(0.75)); // sums 2, 0, 0, -2; three of four are at least 0
/// assert_eq!(sign_flip_p(&[0, 0]), Ok(1.0));
/// ```
pub fn sign_flip_p(differences: &[i64]) -> Result<f64, TooFineError> {
    let divisor = differences.iter().fold(0, |g, d| gcd(g, d.unsigned_abs()));
    if divisor == 0 {
        return Ok(1.0);
    }
    let (mut observed, mut total) = (0_u64, 0_u64);
    for d in differences {
        let size = d.unsigned_abs() / divisor;
        total = total
            .checked_add(size)
            .filter(|t| *t <= MAX_STATES)
            .ok_or(TooFineError)?;
        observed += if *d > 0 { size } else { 0 };
    }
    let mass = subset_sums(differences, divisor, total as usize);
    let tail: f64 = mass[observed as usize..].iter().rev().sum();
    Ok(tail.min(1.0))
}

/// Chance of each subset sum of |d| / `divisor`, where each element is in with chance 1/2.
fn subset_sums(differences: &[i64], divisor: u64, total: usize) -> Vec<f64> {
    let mut mass = vec![0.0; total + 1];
    mass[0] = 1.0;
    let mut reached = 0;
    for d in differences {
        let size = (d.unsigned_abs() / divisor) as usize;
        if size == 0 {
            continue;
        }
        reached += size;
        for sum in (0..=reached).rev() {
            let with = if sum >= size { mass[sum - size] } else { 0.0 };
            mass[sum] = 0.5 * (mass[sum] + with);
        }
    }
    mass
}

pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The slow reference: all 2^n sign patterns.
    fn brute_force(d: &[i64]) -> f64 {
        let observed: i64 = d.iter().sum();
        let at_least = (0..1_u32 << d.len()).filter(|signs| {
            let flip = |(i, d): (usize, &i64)| if signs >> i & 1 == 1 { -d } else { *d };
            d.iter().enumerate().map(flip).sum::<i64>() >= observed
        });
        at_least.count() as f64 / f64::from(1_u32 << d.len())
    }

    proptest! {
        #[test]
        fn equals_brute_force(d in prop::collection::vec(-9_i64..=9, 0..11)) {
            prop_assert!((sign_flip_p(&d).unwrap() - brute_force(&d)).abs() < 1e-12);
        }

        #[test]
        fn scale_order_and_zeros_do_not_matter(
            d in prop::collection::vec(-9_i64..=9, 0..11),
            scale in 1_i64..1000,
        ) {
            let mut other: Vec<i64> = d.iter().rev().map(|x| x * scale).collect();
            other.push(0);
            prop_assert!((sign_flip_p(&d).unwrap() - sign_flip_p(&other).unwrap()).abs() < 1e-12);
        }

        #[test]
        fn a_better_task_never_raises_p(d in prop::collection::vec(-4_i64..=4, 1..9)) {
            let p = sign_flip_p(&d).unwrap();
            let swapped: Vec<i64> = d.iter().map(|x| x.abs()).collect();
            prop_assert!(sign_flip_p(&swapped).unwrap() <= p + 1e-12);
        }
    }

    #[test]
    fn many_tasks_keep_small_p_exact() {
        let p = sign_flip_p(&[1; 100]).unwrap();
        assert!((p / 0.5_f64.powi(100) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn e10_all_zero_is_no_evidence() {
        assert_eq!(sign_flip_p(&[]), Ok(1.0));
        assert_eq!(sign_flip_p(&[0; 40]), Ok(1.0));
    }

    #[test]
    fn too_fine_is_refused() {
        assert_eq!(sign_flip_p(&[i64::MIN, 1]), Err(TooFineError));
        assert_eq!(sign_flip_p(&[i64::MIN, i64::MAX, 1]), Err(TooFineError));
        assert!(sign_flip_p(&[i64::MIN]).is_ok());
    }
}
