//! Which tasks a set of harnesses solves together, and what each is good for.
//!
//! Three numbers are about "the union"; they are not the same. [`Coverage`] counts tasks *ever* solved by any
//! of several harnesses, so it grows with the number of attempts. [`Complementarity::gain`] is an expected
//! share at equal numbers of attempts, against the best single sibling, and so fit for a report.
//! `AcceptanceEvidence::union_gain` was measured when a sibling was accepted, against the base's own first
//! attempts (see there).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use harness_core::{HarnessId, RolloutId, TaskId};
use serde::{Deserialize, Serialize};

use crate::cluster::Cluster;
use crate::evidence::EvidenceRow;

/// How many of the tasks that the base had failed are solved by some attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Coverage {
    /// Tasks with at least one attempt under one of the harnesses.
    pub tasks: u64,
    /// Tasks that at least one attempt solved.
    pub solved: u64,
    /// Attempts that went into it.
    pub attempts: u64,
}

impl Coverage {
    /// Share of tasks solved, in `[0, 1]`; `None` without tasks, which is not zero.
    pub fn rate(&self) -> Option<f64> {
        (self.tasks > 0).then(|| self.solved as f64 / self.tasks as f64)
    }
}

/// Tasks solved by at least one attempt under one of the harnesses, among those that the base had failed in
/// all attempts. Its denominator is the tasks with an attempt under *some* of the harnesses, not under each.
///
/// Rows of routed rescues are left out, since they were not drawn on the same tasks for every harness.
/// More attempts cover more: compare sets at equal `attempts` only. Rows are counted as given: take them
/// from a profile, which holds each rollout once.
pub fn union_coverage<'a>(
    rows: impl IntoIterator<Item = &'a EvidenceRow>,
    harnesses: &[HarnessId],
) -> Coverage {
    let mut coverage = Coverage::default();
    let mut tasks: BTreeMap<&TaskId, bool> = BTreeMap::new();
    for row in rows {
        if is_probe_of_failed(row) && harnesses.contains(&row.harness) {
            *tasks.entry(&row.task).or_default() |= row.solved;
            coverage.attempts += 1;
        }
    }
    coverage.tasks = tasks.len() as u64;
    coverage.solved = tasks.values().filter(|solved| **solved).count() as u64;
    coverage
}

fn is_probe_of_failed(row: &EvidenceRow) -> bool {
    row.base_failed_all && !row.is_selected
}

/// Rates of every harness in every cluster, on tasks that the base had failed (not only routed ones).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RateMatrix {
    /// Rows of the matrix, ascending.
    pub harnesses: Vec<HarnessId>,
    /// Columns of the matrix, ascending.
    pub clusters: Vec<Cluster>,
    /// `rates[harness][cluster]`: share of attempts that solved their task; `None` without attempts.
    pub rates: Vec<Vec<Option<f64>>>,
    /// `attempts[harness][cluster]`.
    pub attempts: Vec<Vec<u64>>,
}

impl RateMatrix {
    /// Counts rows of probes.
    pub fn from_rows<'a>(rows: impl IntoIterator<Item = &'a EvidenceRow>) -> Self {
        let mut cells: BTreeMap<(&HarnessId, &Cluster), (u64, u64)> = BTreeMap::new();
        for row in rows.into_iter().filter(|row| is_probe_of_failed(row)) {
            let (attempts, solved) = cells.entry((&row.harness, &row.cluster)).or_default();
            *attempts += 1;
            *solved += u64::from(row.solved);
        }
        let harnesses: BTreeSet<_> = cells.keys().map(|(harness, _)| *harness).collect();
        let clusters: BTreeSet<_> = cells.keys().map(|(_, cluster)| *cluster).collect();
        let count = |h, c| cells.get(&(h, c)).copied().unwrap_or_default();
        let per_cell = |h, c| match count(h, c) {
            (0, _) => None,
            (attempts, solved) => Some(solved as f64 / attempts as f64),
        };
        let row = |h| clusters.iter().map(|c| per_cell(h, *c)).collect();
        let row_attempts = |h| clusters.iter().map(|c| count(h, *c).0).collect();
        Self {
            rates: harnesses.iter().map(|h| row(*h)).collect(),
            attempts: harnesses.iter().map(|h| row_attempts(*h)).collect(),
            harnesses: harnesses.into_iter().cloned().collect(),
            clusters: clusters.into_iter().cloned().collect(),
        }
    }

    /// The rate of one harness in one cluster; `None` if it was not tried there.
    pub fn rate(&self, harness: &HarnessId, cluster: &Cluster) -> Option<f64> {
        let row = self.harnesses.binary_search(harness).ok()?;
        let column = self.clusters.binary_search(cluster).ok()?;
        self.rates[row][column]
    }
}

/// What a set of siblings gains over its best member, at equal numbers of attempts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Complementarity {
    /// Tasks on which every sibling was tried at least twice.
    pub tasks: u64,
    /// The sibling that is best on the first half of its attempts; ties go to the smaller id.
    pub best_single: HarnessId,
    /// Expected share of tasks that one attempt under each sibling covers, on the second halves.
    pub union: f64,
    /// Expected share that as many attempts under `best_single` cover, on its second half.
    pub single: f64,
    /// Expected share that as many fresh base retries cover; `None` if the base was not tried on every
    /// task.
    pub retry: Option<f64>,
    /// `union - single`, in `[-1, 1]`: how complementary the siblings are. Not the `union_gain` of a
    /// sibling's acceptance.
    pub gain: f64,
    /// Whether `single` (and so `gain`) had too few attempts for an unbiased value.
    pub is_plug_in: bool,
    /// What these are means of, by task: what an interval is drawn from.
    #[serde(default)]
    pub per_task: BTreeMap<TaskId, TaskCoverage>,
}

/// Chances of one task to be solved at least once, each in `[0, 1]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TaskCoverage {
    /// By one attempt under each sibling.
    pub union: f64,
    /// By as many attempts under the best single sibling.
    pub single: f64,
    /// By as many fresh base retries; `None` if the base was not tried on this task.
    pub retry: Option<f64>,
    /// By one fresh base retry.
    pub retry_once: Option<f64>,
}

/// Compares a set of siblings with its best member and with the base.
///
/// The best is chosen on half of the attempts (odd ones in the order of rollout ids) and everything is
/// scored on the rest, so noise is not taken for skill. With n siblings, n attempts are compared with n:
/// `union` is the mean over tasks of 1 - prod (1 - p), over siblings with p the rate of the second half; `single` and
/// `retry` are the chance that n attempts solve a task at least once. With fewer than n attempts in a half
/// the latter can only be plugged in, which makes them too low and the gain too high: `is_plug_in` says so.
///
/// `None` if there is no sibling, or no task on which every sibling was tried at least twice.
///
/// # Source
/// Ours, after design.md section 4 ("what is measured").
pub fn complementarity<'a>(
    rows: impl IntoIterator<Item = &'a EvidenceRow>,
    siblings: &[HarnessId],
    base: &HarnessId,
) -> Option<Complementarity> {
    let attempts = Attempts::of(rows);
    let tasks = attempts.common_tasks(siblings);
    if tasks.is_empty() {
        return None;
    }
    let over_tasks = |score: &dyn Fn(&TaskId) -> Option<f64>| -> Option<f64> {
        let scores: Option<Vec<f64>> = tasks.iter().map(score).collect();
        Some(scores?.iter().sum::<f64>() / tasks.len() as f64)
    };
    let first_rate = |sibling| over_tasks(&|task| attempts.rate(sibling, task, Half::First));
    let best_single = siblings.iter().min_by(|a, b| {
        let (a_rate, b_rate) = (first_rate(*a), first_rate(*b));
        b_rate
            .partial_cmp(&a_rate)
            .unwrap_or(Ordering::Equal)
            .then_with(|| a.cmp(b))
    })?;
    let n = siblings.len();
    let of_task = |task: &TaskId| {
        let miss = |sibling| Some(1.0 - attempts.rate(sibling, task, Half::Second)?);
        let misses: Option<Vec<f64>> = siblings.iter().map(miss).collect();
        let many = |harness, half, n| Some(covered_by(n, attempts.count(harness, task, half)?));
        let coverage = TaskCoverage {
            union: 1.0 - misses?.iter().product::<f64>(),
            single: many(best_single, Half::Second, n)?,
            retry: many(base, Half::Whole, n),
            retry_once: many(base, Half::Whole, 1),
        };
        Some((task.clone(), coverage))
    };
    let per_task: Option<BTreeMap<TaskId, TaskCoverage>> = tasks.iter().map(of_task).collect();
    let per_task = per_task?;
    let mean = |value: &dyn Fn(&TaskCoverage) -> Option<f64>| -> Option<f64> {
        let values: Option<Vec<f64>> = per_task.values().map(value).collect();
        Some(values?.iter().sum::<f64>() / per_task.len() as f64)
    };
    let (union, single) = (mean(&|c| Some(c.union))?, mean(&|c| Some(c.single))?);
    let retry = mean(&|c| c.retry);
    let has_few = |task| {
        attempts
            .count(best_single, task, Half::Second)
            .is_some_and(|c| c.0 < n)
    };
    let is_plug_in = tasks.iter().any(has_few);
    Some(Complementarity {
        tasks: tasks.len() as u64,
        best_single: best_single.clone(),
        union,
        single,
        retry,
        is_plug_in,
        gain: union - single,
        per_task,
    })
}

#[derive(Clone, Copy)]
enum Half {
    First,
    Second,
    Whole,
}

/// Whether each attempt solved its task, in the order of rollout ids.
struct Attempts(BTreeMap<HarnessId, BTreeMap<TaskId, BTreeMap<RolloutId, bool>>>);

impl Attempts {
    fn of<'a>(rows: impl IntoIterator<Item = &'a EvidenceRow>) -> Self {
        let mut all = Self(BTreeMap::new());
        for row in rows.into_iter().filter(|row| is_probe_of_failed(row)) {
            let tasks = all.0.entry(row.harness.clone()).or_default();
            let attempts = tasks.entry(row.task.clone()).or_default();
            attempts.insert(row.rollout.clone(), row.solved);
        }
        all
    }

    fn of_task(&self, harness: &HarnessId, task: &TaskId) -> Option<&BTreeMap<RolloutId, bool>> {
        self.0.get(harness)?.get(task)
    }

    /// Tasks on which every sibling was tried at least twice, ascending.
    fn common_tasks(&self, siblings: &[HarnessId]) -> Vec<TaskId> {
        let first = siblings.first().and_then(|sibling| self.0.get(sibling));
        let is_tried = |sibling, task| self.of_task(sibling, task).is_some_and(|a| a.len() >= 2);
        let tasks = first.into_iter().flat_map(BTreeMap::keys);
        tasks
            .filter(|task| siblings.iter().all(|sibling| is_tried(sibling, task)))
            .cloned()
            .collect()
    }

    /// Attempts and solved attempts; `None` without attempts.
    fn count(&self, harness: &HarnessId, task: &TaskId, half: Half) -> Option<(usize, usize)> {
        let in_half = |i: usize| match half {
            Half::First => i.is_multiple_of(2),
            Half::Second => !i.is_multiple_of(2),
            Half::Whole => true,
        };
        let attempts = self.of_task(harness, task)?.values().enumerate();
        let kept = attempts.filter(|(i, _)| in_half(*i));
        let count = kept.fold((0, 0), |(n, s), (_, solved)| {
            (n + 1, s + usize::from(*solved))
        });
        (count.0 > 0).then_some(count)
    }

    fn rate(&self, harness: &HarnessId, task: &TaskId, half: Half) -> Option<f64> {
        let (attempts, solved) = self.count(harness, task, half)?;
        Some(solved as f64 / attempts as f64)
    }
}

/// Chance that at least one of `n` attempts solves a task: unbiased, 1 - C(failed, n) / C(attempts, n),
/// if there are at least `n` attempts, else by plugging the rate into 1 - (1 - rate)^n.
fn covered_by(n: usize, (attempts, solved): (usize, usize)) -> f64 {
    let failed = attempts - solved;
    if attempts < n {
        return 1.0 - (failed as f64 / attempts as f64).powi(n as i32);
    }
    let ratio = |i: usize| failed.saturating_sub(i) as f64 / (attempts - i) as f64;
    1.0 - (0..n).map(ratio).product::<f64>()
}
