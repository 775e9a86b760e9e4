//! Repair directions: groups of failures with one label that are large enough to search and to confirm.

use std::collections::{BTreeMap, BTreeSet};

use harness_core::{Moment, Seed, TaskId};
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use crate::config::EvolveConfig;
use crate::label::Label;
use crate::packet::FailurePacket;
use crate::report::UndirectedBudget;

/// A failed attempt with its label. The task's id is for grouping; a proposer sees the packet alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The task.
    pub task: TaskId,
    /// What a proposer may see.
    pub packet: FailurePacket,
    /// The label.
    pub label: Label,
}

/// Failures that one repair might remove.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairDirection {
    /// What the failures share.
    pub label: Label,
    /// Where a repair would bite.
    pub moment: Moment,
    /// Distinct tasks on which candidates are ranked; those with most such failures first.
    pub search_tasks: Vec<TaskId>,
    /// Distinct tasks on which the best candidate is confirmed, from their own split.
    pub confirm_tasks: Vec<TaskId>,
    /// Failed attempts with this label in the search split.
    pub n_failures: usize,
}

/// A group of equal labels, kept or not, for the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelGroup {
    /// The label.
    pub label: Label,
    /// Distinct tasks in the search split.
    pub n_search_tasks: usize,
    /// Distinct tasks in the confirmation split.
    pub n_confirm_tasks: usize,
    /// Failed attempts in the search split.
    pub n_failures: usize,
    /// Whether it became a direction.
    pub is_direction: bool,
}

type Counts<'a> = BTreeMap<&'a TaskId, usize>;

#[derive(Default)]
struct Group<'a> {
    search: Counts<'a>,
    confirm: Counts<'a>,
}

impl Group<'_> {
    fn n_failures(&self) -> usize {
        self.search.values().sum()
    }

    fn is_large_enough(&self, config: &EvolveConfig) -> bool {
        self.search.len() >= config.min_search_tasks
            && self.confirm.len() >= config.min_confirm_tasks
    }
}

/// Groups failures by label and keeps the largest groups as directions, largest first.
///
/// A group needs [`EvolveConfig::min_search_tasks`] and [`EvolveConfig::min_confirm_tasks`] distinct tasks.
/// If fewer than [`EvolveConfig::min_directions`] groups do, what is left over is grouped again without the
/// mechanism. A task may belong to several directions, since its attempts may fail in several ways. Size is
/// distinct search tasks, then failures, then label order. Every group is listed beside the directions.
///
/// # Determinism
/// `seed` breaks ties between tasks when a direction has more of them than it may use.
pub fn find_directions(
    search: &[Failure],
    confirm: &[Failure],
    config: &EvolveConfig,
    seed: Seed,
) -> (Vec<RepairDirection>, Vec<LabelGroup>) {
    let fine = group(search, confirm, |f| Some(f.label.clone()));
    let mut kept: BTreeSet<Label> = BTreeSet::new();
    kept.extend(
        fine.iter()
            .filter(|(_, g)| g.is_large_enough(config))
            .map(|(l, _)| l.clone()),
    );
    let mut groups = fine;
    if kept.len() < config.min_directions {
        let left = group(search, confirm, |f| {
            (!kept.contains(&f.label)).then(|| f.label.coarse())
        });
        kept.extend(
            left.iter()
                .filter(|(_, g)| g.is_large_enough(config))
                .map(|(l, _)| l.clone()),
        );
        groups.extend(left);
    }
    let mut order: Vec<(&Label, &Group)> = groups.iter().collect();
    order.sort_by_key(|(_, g)| std::cmp::Reverse((g.search.len(), g.n_failures())));
    let large = order.iter().filter(|(label, _)| kept.contains(*label));
    let directions: Vec<RepairDirection> = large
        .take(config.max_directions)
        .map(|(label, group)| direction(label, group, config, seed))
        .collect();
    let listed = order.iter().map(|(label, group)| LabelGroup {
        label: (*label).clone(),
        n_search_tasks: group.search.len(),
        n_confirm_tasks: group.confirm.len(),
        n_failures: group.n_failures(),
        is_direction: directions.iter().any(|d| d.label == **label),
    });
    let listed = listed.collect();
    (directions, listed)
}

/// Makes one group of all failures, with the budget that `directed` would have; none without directions.
///
/// Its tasks are drawn at random: without labels no task belongs to the group more than another. See
/// [`UndirectedBudget`] for the sizes.
pub(crate) fn undirected(
    search: &[Failure],
    confirm: &[Failure],
    directed: &[RepairDirection],
    config: &EvolveConfig,
    seed: Seed,
) -> Option<(RepairDirection, UndirectedBudget)> {
    let n_directions = directed.len();
    if n_directions == 0 {
        return None;
    }
    let n_each = config.rounds as usize * config.candidates_per_round;
    let n_candidates = n_each * n_directions;
    let n_search: usize = directed.iter().map(|d| d.search_tasks.len()).sum();
    let n_confirm: usize = directed.iter().map(|d| d.confirm_tasks.len()).sum();
    let label = Label::undirected();
    let draw = |failures: &[Failure], n: usize, what: &str| {
        let counts: Counts = failures.iter().map(|f| (&f.task, 1)).collect();
        pick(&counts, n, seed.derive(what, &[]))
    };
    let search_size = nearest(n_search * (1 + n_each), 1 + n_candidates);
    let confirm_size = nearest(n_confirm, n_directions);
    let direction = RepairDirection {
        moment: label.moment(),
        label,
        search_tasks: draw(search, search_size, "pick-search"),
        confirm_tasks: draw(confirm, confirm_size, "pick-confirm"),
        n_failures: search.len(),
    };
    let reruns = |n_tasks: usize, n_harnesses: usize, attempts: u32| {
        (n_tasks * n_harnesses) as u64 * u64::from(attempts)
    };
    let (a, both_arms) = (config.search_attempts, 2 * config.confirm_attempts);
    let budget = UndirectedBudget {
        n_directions,
        n_candidates,
        directed_search: reruns(n_search, 1 + n_each, a),
        search: reruns(direction.search_tasks.len(), 1 + n_candidates, a),
        directed_confirm: reruns(n_confirm, 1, both_arms),
        confirm: reruns(direction.confirm_tasks.len(), n_directions, both_arms),
    };
    Some((direction, budget))
}

/// `a / b`, rounded to the nearest whole number, halves up.
const fn nearest(a: usize, b: usize) -> usize {
    (2 * a + b) / (2 * b)
}

fn group<'a>(
    search: &'a [Failure],
    confirm: &'a [Failure],
    key: impl Fn(&Failure) -> Option<Label>,
) -> BTreeMap<Label, Group<'a>> {
    let mut groups: BTreeMap<Label, Group> = BTreeMap::new();
    for failure in search {
        if let Some(label) = key(failure) {
            *groups
                .entry(label)
                .or_default()
                .search
                .entry(&failure.task)
                .or_insert(0) += 1;
        }
    }
    for failure in confirm {
        if let Some(label) = key(failure) {
            *groups
                .entry(label)
                .or_default()
                .confirm
                .entry(&failure.task)
                .or_insert(0) += 1;
        }
    }
    groups
}

fn direction(label: &Label, group: &Group, config: &EvolveConfig, seed: Seed) -> RepairDirection {
    RepairDirection {
        label: label.clone(),
        moment: label.moment(),
        search_tasks: pick(
            &group.search,
            config.max_search_tasks,
            seed.derive("pick-search", &[]),
        ),
        confirm_tasks: pick(
            &group.confirm,
            config.max_confirm_tasks,
            seed.derive("pick-confirm", &[]),
        ),
        n_failures: group.n_failures(),
    }
}

/// The tasks with most failures of the label, ties in seeded order.
fn pick(counts: &Counts, max: usize, seed: Seed) -> Vec<TaskId> {
    let mut tasks: Vec<(&TaskId, usize)> = counts.iter().map(|(t, n)| (*t, *n)).collect();
    tasks.shuffle(&mut seed.rng());
    tasks.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    tasks
        .into_iter()
        .take(max)
        .map(|(t, _)| t.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn failures(prefix: &str, n: usize, mechanism: &str) -> Vec<Failure> {
        (0..n)
            .map(|i| fixture::failure(&format!("{prefix}{i}"), mechanism))
            .collect()
    }

    fn config(min_directions: usize) -> EvolveConfig {
        EvolveConfig {
            min_search_tasks: 3,
            min_confirm_tasks: 2,
            max_search_tasks: 4,
            min_directions,
            ..EvolveConfig::default()
        }
    }

    #[test]
    fn small_groups_are_listed_but_not_kept() {
        let search = [
            failures("a", 6, "x"),
            failures("b", 2, "y"),
            failures("c", 5, "z"),
        ]
        .concat();
        let confirm = [
            failures("d", 2, "x"),
            failures("e", 9, "y"),
            failures("f", 1, "z"),
        ]
        .concat();
        let (directions, groups) = find_directions(&search, &confirm, &config(1), Seed::new(1));
        assert_eq!(directions.len(), 1);
        assert_eq!(directions[0].label.mechanism, "x");
        assert_eq!(directions[0].search_tasks.len(), 4);
        assert_eq!(directions[0].confirm_tasks.len(), 2);
        assert_eq!(directions[0].n_failures, 6);
        let listed: Vec<_> = groups
            .iter()
            .map(|g| (g.label.mechanism.as_str(), g.is_direction))
            .collect();
        assert_eq!(listed, [("x", true), ("z", false), ("y", false)]);
    }

    #[test]
    fn leftovers_are_joined_when_directions_are_few() {
        let search = [
            failures("a", 3, "x"),
            failures("b", 2, "y"),
            failures("c", 2, "z"),
        ]
        .concat();
        let confirm = [
            failures("d", 2, "x"),
            failures("e", 1, "y"),
            failures("f", 1, "z"),
        ]
        .concat();
        let (directions, _) = find_directions(&search, &confirm, &config(2), Seed::new(1));
        let got: Vec<_> = directions
            .iter()
            .map(|d| d.label.mechanism.as_str())
            .collect();
        assert_eq!(got, ["mixed", "x"]);
        assert!(
            !directions[0]
                .search_tasks
                .iter()
                .any(|t| t.as_str().starts_with('a'))
        );
    }

    #[test]
    fn tasks_with_most_failures_come_first() {
        let mut search = failures("a", 9, "x");
        search.extend(failures("a8", 1, "x").into_iter().map(|mut f| {
            f.task = TaskId::new("a8").unwrap();
            f
        }));
        let confirm = failures("d", 2, "x");
        let (directions, _) = find_directions(&search, &confirm, &config(1), Seed::new(1));
        assert_eq!(directions[0].search_tasks[0].as_str(), "a8");
    }

    #[test]
    fn undirected_slices_have_the_budget_of_the_directed() {
        let many = |prefix| {
            [
                failures(prefix, 40, "x"),
                failures(&format!("{prefix}{prefix}"), 9, "y"),
            ]
            .concat()
        };
        let (search, confirm) = (many("a"), many("b"));
        let config = EvolveConfig {
            max_confirm_tasks: 20,
            ..config(1)
        };
        let (directions, _) = find_directions(&search, &confirm, &config, Seed::new(1));
        let (one, budget) =
            undirected(&search, &confirm, &directions, &config, Seed::new(1)).unwrap();
        assert_eq!((budget.n_directions, budget.n_candidates), (2, 24));
        assert_eq!(
            (one.search_tasks.len(), one.confirm_tasks.len()),
            (4, 15),
            "8 x 13 / 25 and (20 + 9) / 2"
        );
        let (a, n) = (u64::from(config.search_attempts), 24);
        assert!(budget.search.abs_diff(budget.directed_search) <= a * (1 + n) / 2);
        let most = u64::from(config.confirm_attempts) * 2;
        assert!(budget.confirm.abs_diff(budget.directed_confirm) <= most);
        assert!(undirected(&search, &confirm, &[], &config, Seed::new(1)).is_none());
    }

    #[test]
    fn no_failures_no_directions() {
        let (directions, groups) = find_directions(&[], &[], &config(1), Seed::new(1));
        assert!(directions.is_empty() && groups.is_empty());
    }
}
