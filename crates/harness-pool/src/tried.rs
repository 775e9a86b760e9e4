//! Which tasks of a cluster were tried under which harnesses: an index over rows of evidence.

use std::collections::BTreeMap;

use harness_core::{HarnessId, TaskId};

use crate::cluster::Cluster;
use crate::evidence::EvidenceRow;
use crate::stats::{CellKey, Given};

/// The index. It knows that there are rows, not how many.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tried(BTreeMap<Cluster, BTreeMap<TaskId, BTreeMap<HarnessId, Origins>>>);

/// Of which kinds there are rows, by [`Given`].
type Origins = [bool; Given::COUNT];

impl Tried {
    pub(crate) fn add(&mut self, row: &EvidenceRow) {
        let tasks = self.0.entry(row.cluster.clone()).or_default();
        let harnesses = tasks.entry(row.task.clone()).or_default();
        let origins = harnesses.entry(row.harness.clone()).or_default();
        for given in Given::ALL {
            origins[given as usize] |= given.holds(CellKey::of(row));
        }
    }

    /// All clusters, ascending.
    pub(crate) fn clusters(&self) -> impl Iterator<Item = &Cluster> {
        self.0.keys()
    }

    /// Tasks of a cluster with a row of the right kind under one of the harnesses, ascending.
    pub(crate) fn tasks(
        &self,
        cluster: &Cluster,
        given: Given,
        is_wanted: impl Fn(&HarnessId) -> bool,
    ) -> impl Iterator<Item = &TaskId> {
        let tasks = self.0.get(cluster).into_iter().flatten();
        tasks.filter_map(move |(task, harnesses)| {
            let mut harnesses = harnesses.iter();
            harnesses
                .any(|(harness, origins)| origins[given as usize] && is_wanted(harness))
                .then_some(task)
        })
    }
}
