//! The one confirmation of a direction's best candidate, against as many fresh base retries.

use serde::{Deserialize, Serialize};

use crate::rerun::{ByTask, Tally};
use crate::stats::sign_flip::gcd;
use crate::stats::{TooFineError, sign_flip_p};

/// One task of a confirmation, both arms cut to the same number of valid attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairedTask {
    /// Valid attempts in each arm; at least 1.
    pub n_attempts: u32,
    /// Attempts under the sibling that solved the task.
    pub sibling_solved: u32,
    /// Fresh base retries that solved the task.
    pub retry_solved: u32,
    /// Whether the base's first attempts, by which the task was chosen, had solved it.
    pub is_covered: bool,
}

/// What a confirmation measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Tasks with at least one valid attempt in both arms.
    pub n_tasks: u32,
    /// Attempts in each arm, over all tasks.
    pub n_attempts: u32,
    /// Attempts under the sibling that solved their task.
    pub sibling_solved: u32,
    /// Fresh base retries that solved their task.
    pub retry_solved: u32,
    /// Mean over tasks of the sibling's success rate minus the retries'; in \[-1, 1\], 0 without tasks.
    pub effect: f64,
    /// Exact one-sided p-value; 1 without tasks.
    pub p_value: f64,
    /// What the sibling's attempts add to the base's coverage: the share of *all* `n_tasks` tasks that no
    /// first base attempt solved and that at least one attempt under the sibling did; in \[0, 1\]. Its
    /// tasks are those that [`harness_pool::coverage::union_coverage`] counts as solved for this one harness;
    /// that function divides by the tasks that the base had failed in all first attempts, this one by all
    /// tasks, so it is the difference of two coverages: of first attempts with the sibling, and without.
    /// Other siblings of the pool play no part.
    pub union_gain: f64,
    /// The same for the fresh base retries in the sibling's place, at as many attempts: what one more base
    /// re-run adds; in \[0, 1\].
    pub retry_gain: f64,
    /// Share of all tasks that the sibling alone solved: neither first attempts nor retries did;
    /// in \[0, 1\].
    pub unique_gain: f64,
}

impl Measured {
    /// Share of the attempts under the sibling that solved their task; none without attempts.
    pub fn sibling_rate(&self) -> Option<f64> {
        self.rate(self.sibling_solved)
    }

    /// Share of the fresh base retries that solved their task; none without attempts.
    pub fn retry_rate(&self) -> Option<f64> {
        self.rate(self.retry_solved)
    }

    fn rate(&self, solved: u32) -> Option<f64> {
        (self.n_attempts > 0).then(|| f64::from(solved) / f64::from(self.n_attempts))
    }

    /// Whether the sibling adds more to the base's coverage than a re-run of the base does. Both are counted
    /// on the same tasks, from the same number of fresh attempts, over the same first attempts; equal gains
    /// do not pass.
    pub fn has_union_gain(&self) -> bool {
        self.union_gain > self.retry_gain
    }
}

/// Pairs attempts by task.
///
/// In each arm the first `k` valid attempts of a task count, `k` being the smaller number of valid ones; the
/// choice looks at validity and attempt number only. Tasks without a valid attempt in either arm are left
/// out.
pub(crate) fn pair(first: &ByTask, sibling: &ByTask, retry: &ByTask) -> Vec<PairedTask> {
    let tally = |attempts: &ByTask, task| Tally::of(attempts.get(task).into_iter().flatten());
    let tasks = sibling.iter().filter_map(|(task, attempts)| {
        let n_attempts = Tally::of(attempts).valid.min(tally(retry, task).valid);
        let cut = |arm: &ByTask| {
            let valid = arm
                .get(task)
                .into_iter()
                .flatten()
                .filter(|t| t.outcome.is_valid());
            Tally::of(valid.take(n_attempts as usize)).solved
        };
        (n_attempts > 0).then(|| PairedTask {
            n_attempts,
            sibling_solved: cut(sibling),
            retry_solved: cut(retry),
            is_covered: tally(first, task).solved > 0,
        })
    });
    tasks.collect()
}

/// Measures a confirmation.
///
/// The test statistic is the sum over tasks of the difference of success rates, scaled to whole numbers by
/// the least common multiple of the attempt counts. Should that be too fine for exact enumeration (many
/// invalid attempts at more than 15 attempts a task), tasks with fewer than the most attempts are left out
/// of the p-value.
///
/// # Source
/// Design, "Directional evolution" (ours). Rejected: an interval per candidate, which admits noise when many
/// are tested.
///
/// # Example
/// ```
/// use harness_evolve::confirm::{PairedTask, measure};
/// let better = PairedTask { n_attempts: 2, sibling_solved: 2, retry_solved: 0, is_covered: false };
/// let got = measure(&[better; 5]);
/// assert_eq!((got.p_value, got.effect), (1.0 / 32.0, 1.0));
/// assert!(got.has_union_gain());
/// ```
pub fn measure(tasks: &[PairedTask]) -> Measured {
    let sum = |count: fn(&PairedTask) -> u32| tasks.iter().map(count).sum();
    let share = |holds: fn(&PairedTask) -> bool| {
        let n = tasks.iter().filter(|t| holds(t)).count();
        n as f64 / tasks.len().max(1) as f64
    };
    let effects = tasks.iter().map(|t| {
        (f64::from(t.sibling_solved) - f64::from(t.retry_solved)) / f64::from(t.n_attempts)
    });
    Measured {
        n_tasks: tasks.len() as u32,
        n_attempts: sum(|t| t.n_attempts),
        sibling_solved: sum(|t| t.sibling_solved),
        retry_solved: sum(|t| t.retry_solved),
        effect: effects.sum::<f64>() / tasks.len().max(1) as f64,
        p_value: p_value(tasks)
            .or_else(|_| p_value(&complete(tasks)))
            .unwrap_or(1.0),
        union_gain: share(|t| !t.is_covered && t.sibling_solved > 0),
        retry_gain: share(|t| !t.is_covered && t.retry_solved > 0),
        unique_gain: share(|t| !t.is_covered && t.sibling_solved > 0 && t.retry_solved == 0),
    }
}

fn p_value(tasks: &[PairedTask]) -> Result<f64, TooFineError> {
    let unit = tasks.iter().try_fold(1_u64, |lcm, t| {
        let n = u64::from(t.n_attempts);
        lcm.checked_mul(n / gcd(lcm, n)).ok_or(TooFineError)
    })?;
    let difference = |t: &PairedTask| {
        let scale = i64::try_from(unit / u64::from(t.n_attempts)).map_err(|_| TooFineError)?;
        let solved = i64::from(t.sibling_solved) - i64::from(t.retry_solved);
        solved.checked_mul(scale).ok_or(TooFineError)
    };
    let differences: Result<Vec<i64>, TooFineError> = tasks.iter().map(difference).collect();
    sign_flip_p(&differences?)
}

fn complete(tasks: &[PairedTask]) -> Vec<PairedTask> {
    let most = tasks.iter().map(|t| t.n_attempts).max();
    tasks
        .iter()
        .filter(|t| Some(t.n_attempts) == most)
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::rerun::by_task;
    use harness_core::Outcome::{self, Failed, InfraError, Solved};
    use harness_pool::{Cluster, EvidenceRow, union_coverage};

    fn arm(task: &str, outcomes: &[Outcome]) -> ByTask {
        let attempts = outcomes.iter().zip(0..).map(|(o, attempt)| {
            let mut t = fixture::attempt(task, *o);
            t.attempt = attempt;
            t
        });
        by_task(attempts.collect())
    }

    fn paired(n_attempts: u32, sibling_solved: u32, retry_solved: u32) -> PairedTask {
        PairedTask {
            n_attempts,
            sibling_solved,
            retry_solved,
            is_covered: false,
        }
    }

    #[test]
    fn arms_are_cut_to_equal_numbers_of_valid_attempts() {
        let sibling = arm("t", &[Solved, InfraError, Failed, Solved]);
        let retry = arm("t", &[InfraError, InfraError, Solved, Failed]);
        let got = pair(&arm("t", &[Failed, Failed]), &sibling, &retry);
        assert_eq!(got, [paired(2, 1, 1)]);
        let none = arm("t", &[InfraError]);
        assert!(pair(&ByTask::new(), &none, &retry).is_empty());
        assert!(pair(&ByTask::new(), &sibling, &ByTask::new()).is_empty());
    }

    #[test]
    fn coverage_counts_what_first_attempts_left() {
        let covered = PairedTask {
            is_covered: true,
            ..paired(1, 1, 0)
        };
        let got = measure(&[covered, paired(1, 1, 1), paired(1, 1, 0), paired(1, 0, 0)]);
        assert_eq!(
            (got.union_gain, got.retry_gain, got.unique_gain),
            (0.5, 0.25, 0.25)
        );
        assert!(got.has_union_gain());
    }

    /// The tasks of a gain are those that the pool's coverage counts as solved.
    #[test]
    fn union_gain_counts_the_tasks_of_the_pools_union_coverage() {
        let all = |arms: [ByTask; 4]| arms.into_iter().flatten().collect::<ByTask>();
        let first = all([
            arm("a", &[Failed, Failed]),
            arm("b", &[Failed, Solved]),
            arm("c", &[Failed, InfraError]),
            arm("d", &[Failed, Failed]),
        ]);
        let sibling = all([
            arm("a", &[Failed, Solved]),
            arm("b", &[Solved, Solved]),
            arm("c", &[Solved, Failed]),
            arm("d", &[Failed, Failed]),
        ]);
        let got = measure(&pair(&first, &sibling, &sibling));
        let rows: Vec<EvidenceRow> = sibling
            .iter()
            .flat_map(|(task, attempts)| {
                let is_failed = Tally::of(&first[task]).solved == 0;
                let row = move |t| {
                    EvidenceRow::from_trajectory(t, Cluster::unseen("pay"), is_failed, false)
                };
                attempts.iter().filter_map(row)
            })
            .collect();
        let covered = union_coverage(&rows, &[fixture::base().id()]);
        assert_eq!((covered.solved, covered.tasks), (2, 3));
        assert!((got.union_gain - 2.0 / 4.0).abs() < 1e-12, "of all tasks");
    }

    #[test]
    fn e10_equal_arms_are_never_better() {
        let got = measure(&[paired(4, 2, 2); 30]);
        assert!((got.p_value - 1.0).abs() < 1e-12 && !got.has_union_gain());
        let empty = measure(&[]);
        assert!((empty.p_value - 1.0).abs() < 1e-12 && empty.effect.abs() < 1e-12);
    }

    #[test]
    fn unequal_attempt_counts_are_scaled_by_task() {
        // 1/2 on one task against -1/3 on another: of the four flips +5/6, +1/6, -1/6, -5/6 two reach 1/6.
        let got = measure(&[paired(2, 1, 0), paired(3, 0, 1)]);
        assert!((got.p_value - 0.5).abs() < 1e-12);
    }

    #[test]
    fn too_fine_counts_fall_back_to_complete_tasks() {
        let primes = [
            2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61,
        ];
        let mut tasks: Vec<PairedTask> = primes.iter().map(|p| paired(*p, 1, 0)).collect();
        tasks.extend([paired(64, 9, 0); 3]);
        assert!((measure(&tasks).p_value - 0.125).abs() < 1e-12);
    }
}
