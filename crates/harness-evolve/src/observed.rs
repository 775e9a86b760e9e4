//! A slice of tasks with the base's first attempts, and the failures found in them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use harness_core::{HarnessSpec, ScenarioId, Seed, Split, Task, TaskId, Trajectory};

use crate::config::EvolveConfig;
use crate::direction::{Failure, RepairDirection};
use crate::error::EvolveError;
use crate::label::Label;
use crate::packet::FailurePacket;
use crate::rerun::{ByTask, Runner, Tally};

/// Tasks and the base's first attempts at them.
#[derive(Debug, Clone, Default)]
pub struct Slice {
    /// Tasks of one split, each once; no scenario of theirs may occur in the other slice.
    pub tasks: Vec<Arc<Task>>,
    /// Attempts under the base; if empty, evolution makes [`EvolveConfig::base_attempts`] a task itself.
    pub attempts: Vec<Trajectory>,
}

impl From<Vec<Arc<Task>>> for Slice {
    /// Tasks that nobody attempted yet.
    fn from(tasks: Vec<Arc<Task>>) -> Self {
        let attempts = Vec::new();
        Self { tasks, attempts }
    }
}

/// A slice that was observed under the base.
pub(crate) struct Observed {
    tasks: BTreeMap<TaskId, Arc<Task>>,
    pub(crate) attempts: ByTask,
    pub(crate) failures: Vec<Failure>,
}

/// Refuses slices that are empty, of other splits, or that share a scenario (bug report E6).
pub(crate) fn check_slices(search: &Slice, confirm: &Slice) -> Result<(), EvolveError> {
    let mut tasks: BTreeSet<&TaskId> = BTreeSet::new();
    let mut scenarios: BTreeMap<&ScenarioId, Split> = BTreeMap::new();
    let slices = [
        (search, Split::EvolutionSearch),
        (confirm, Split::EvolutionConfirm),
    ];
    for (slice, expected) in slices {
        if slice.tasks.is_empty() {
            return Err(EvolveError::NoTasks(expected));
        }
        for task in &slice.tasks {
            if task.split != expected {
                return Err(EvolveError::WrongSplit {
                    task: task.id.clone(),
                    expected,
                    got: task.split,
                });
            }
            let owner = *scenarios.entry(&task.scenario).or_insert(expected);
            if !tasks.insert(&task.id) || owner != expected {
                return Err(EvolveError::Overlap(task.id.clone()));
            }
        }
    }
    Ok(())
}

/// Takes the caller's base attempts, or makes them, and labels the failures among them.
pub(crate) fn observe(
    runner: &mut Runner<'_>,
    base: &HarnessSpec,
    slice: Slice,
    config: &EvolveConfig,
    seed: Seed,
    purpose: &str,
) -> Result<Observed, EvolveError> {
    let attempts = if slice.attempts.is_empty() {
        runner.run(base, &slice.tasks, config.base_attempts, seed, purpose)?
    } else {
        runner.admit(slice.attempts, &base.id(), &slice.tasks)?
    };
    let tasks: BTreeMap<_, _> = slice.tasks.into_iter().map(|t| (t.id.clone(), t)).collect();
    let failures = failures(&tasks, &attempts, base, config);
    Ok(Observed {
        tasks,
        attempts,
        failures,
    })
}

fn failures(
    tasks: &BTreeMap<TaskId, Arc<Task>>,
    attempts: &ByTask,
    base: &HarnessSpec,
    config: &EvolveConfig,
) -> Vec<Failure> {
    let is_weak = |list: &[Trajectory]| {
        Tally::of(list)
            .rate()
            .is_some_and(|rate| rate <= config.max_base_rate)
    };
    let mut failures = Vec::new();
    for (id, list) in attempts.iter().filter(|(_, list)| is_weak(list)) {
        let instruction = tasks.get(id).map_or("", |t| &t.instruction);
        let packet = |t| FailurePacket::new(instruction, t, base.limits(), &config.packet);
        failures.extend(list.iter().filter_map(packet).map(|packet| Failure {
            task: id.clone(),
            label: Label::of(&packet.signals, config),
            packet,
        }));
    }
    failures
}

impl Observed {
    /// The tasks of these ids, in their order.
    pub(crate) fn pick(&self, ids: &[TaskId]) -> Vec<Arc<Task>> {
        ids.iter()
            .filter_map(|id| self.tasks.get(id).cloned())
            .collect()
    }

    /// Tasks that the base solved in every valid attempt.
    pub(crate) fn always_solved(&self) -> Vec<Arc<Task>> {
        let solved = self.attempts.iter().filter(|(_, list)| {
            let tally = Tally::of(*list);
            tally.valid > 0 && tally.solved == tally.valid
        });
        solved
            .filter_map(|(id, _)| self.tasks.get(id).cloned())
            .collect()
    }

    /// Packets of a direction's search tasks, at most [`EvolveConfig::packets_per_brief`]: one of every task
    /// before a second of any.
    pub(crate) fn packets(
        &self,
        direction: &RepairDirection,
        config: &EvolveConfig,
    ) -> Vec<FailurePacket> {
        let belongs = |f: &&Failure| direction.label.holds(&f.label);
        let of_task = |task: &TaskId| -> Vec<&FailurePacket> {
            let failures = self.failures.iter().filter(|f| f.task == *task);
            failures.filter(belongs).map(|f| &f.packet).collect()
        };
        let lists: Vec<Vec<&FailurePacket>> = direction.search_tasks.iter().map(of_task).collect();
        let deepest = lists.iter().map(Vec::len).max().unwrap_or(0);
        let spread = (0..deepest).flat_map(|depth| lists.iter().filter_map(move |l| l.get(depth)));
        spread
            .take(config.packets_per_brief)
            .map(|p| (*p).clone())
            .collect()
    }
}
