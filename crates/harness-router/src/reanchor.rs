//! What a re-anchoring found: the change of each harness's success, that of the base apart, and which
//! siblings are unroutable where.
//!
//! It changes nothing; it is for the log.

use std::collections::BTreeSet;

use harness_core::{HarnessId, PolicyVersion, TaskId};
use harness_pool::{
    BehaviorProfile, Cluster, ClusterScope, EvidenceRow, Share, SiblingPool, Utility,
};
use serde::{Deserialize, Serialize};

/// One harness on the anchor tasks, before and now.
///
/// All attempts on anchor tasks count, whether or not the base failed them: which tasks the base fails
/// changes with the policy, so rates under that condition are of other tasks each time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnchorChange {
    /// The harness; a sibling or the base.
    pub harness: HarnessId,
    /// Solved attempts of this probe, over all of its tasks.
    pub now: Share,
    /// The newest earlier version of the policy at which the harness was probed on some of these tasks;
    /// `None` if there is none.
    pub before_version: Option<PolicyVersion>,
    /// Tasks probed then and now.
    pub common_tasks: u64,
    /// Solved attempts then, on the common tasks.
    pub before: Share,
    /// Solved attempts now, on the common tasks.
    pub after: Share,
}

/// A sibling that is worse than fresh base retries in a cluster: its utility's upper 95 % bound is below 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unroutable {
    /// The sibling.
    pub harness: HarnessId,
    /// The cluster.
    pub cluster: Cluster,
    /// Its gain over the base there.
    pub utility: Utility,
}

/// What one re-anchoring found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReanchorReport {
    /// The version of the policy at the re-anchoring before, 0 for the first.
    pub from: PolicyVersion,
    /// The version that was probed.
    pub to: PolicyVersion,
    /// The base.
    pub base: AnchorChange,
    /// The siblings, ascending by id.
    pub siblings: Vec<AnchorChange>,
    /// By sibling, then cluster, ascending; whether or not the router is set to demote them. All evidence
    /// counts here, not this probe alone.
    pub unroutable: Vec<Unroutable>,
}

impl AnchorChange {
    /// Rate now minus rate before on the common tasks, in `[-1, 1]`; `None` without common tasks.
    ///
    /// Taken apart for sibling and base, it tells a sibling that got worse from a base that caught up: both
    /// shrink the sibling's utility.
    pub fn change(&self) -> Option<f64> {
        Some(self.after.rate()? - self.before.rate()?)
    }

    /// Compares fresh probes of a harness with what was known.
    pub(crate) fn of(known: &BehaviorProfile, harness: &HarnessId, fresh: &[EvidenceRow]) -> Self {
        let to = fresh.iter().map(|row| row.policy_version).max();
        let tasks: BTreeSet<&TaskId> = fresh.iter().map(|row| &row.task).collect();
        let earlier: Vec<&EvidenceRow> = known
            .rows()
            .filter(|row| row.harness == *harness && !row.is_selected)
            .filter(|row| Some(row.policy_version) < to && tasks.contains(&row.task))
            .collect();
        let before_version = earlier.iter().map(|row| row.policy_version).max();
        let before = || {
            let is_newest = |row: &&EvidenceRow| Some(row.policy_version) == before_version;
            earlier.iter().copied().filter(is_newest)
        };
        let common: BTreeSet<&TaskId> = before().map(|row| &row.task).collect();
        let after = fresh.iter().filter(|row| common.contains(&row.task));
        Self {
            harness: harness.clone(),
            now: solved(fresh),
            before_version,
            common_tasks: common.len() as u64,
            before: solved(before()),
            after: solved(after),
        }
    }
}

impl ReanchorReport {
    /// The entry of a harness, the base among them.
    pub fn of(&self, harness: &HarnessId) -> Option<&AnchorChange> {
        let mut all = self.siblings.iter().chain([&self.base]);
        all.find(|change| change.harness == *harness)
    }
}

/// Which siblings of a pool are unroutable where, by all that a profile knows.
pub fn unroutable(profile: &BehaviorProfile, pool: &SiblingPool) -> Vec<Unroutable> {
    unroutable_of(profile, pool.base_id(), pool.ids())
}

pub(crate) fn unroutable_of(
    profile: &BehaviorProfile,
    base: &HarnessId,
    siblings: &[HarnessId],
) -> Vec<Unroutable> {
    let in_cluster = |id: &HarnessId, cluster: &Cluster| Unroutable {
        harness: id.clone(),
        cluster: cluster.clone(),
        utility: profile.utility(id, base, ClusterScope::Cluster(cluster)),
    };
    siblings
        .iter()
        .flat_map(|id| profile.clusters(id).map(move |cluster| (id, cluster)))
        .map(|(id, cluster)| in_cluster(id, cluster))
        .filter(|found| found.utility.high < 0.0)
        .collect()
}

fn solved<'a>(rows: impl IntoIterator<Item = &'a EvidenceRow>) -> Share {
    rows.into_iter().fold(Share::default(), |share, row| Share {
        n: share.n + u64::from(row.solved),
        of: share.of + 1,
    })
}
