//! A voter that looks at the evidence tasks which resemble the one at hand.

use std::collections::{BTreeMap, BTreeSet};

use harness_core::{HarnessId, TaskId};
use harness_pool::{BehaviorProfile, Cluster, ClusterScope, Given, RouteContext, beta};

use crate::ballot::{Ballot, NoBallot};
use crate::voter::{Voter, ballot_by, given};

/// Ranks by success on the `k` evidence tasks nearest to the one at hand, among those that the base failed.
///
/// Distance is that of failure clusters, which is all that a row of evidence tells of its task: 0 for the same
/// verb and error kind, 1 for the same verb or the same kind, 2 otherwise. Tasks as near as the `k`-th count
/// too, so no name of a task decides which are looked at. A sibling's score is the mean of
/// Beta(1 + s, 1 + f), s and f being its solved and failed attempts there, each weighted by
/// 1 / (1 + distance) and by age as in the profile. A sibling never tried there has the prior's 0.5; ties go
/// to the smaller id. All siblings are judged on the same tasks, so none looks good for having been sent to
/// easy ones. Without a digest (no failed attempts to look at) tasks of any kind count.
///
/// Without evidence it gives no ballot.
///
/// # Source
/// Design, "Router" (ours; the abstract of arXiv 2611.04277 does not say how its voters judge). Rejected:
/// overlap of the instructions' words, for which every row would have to carry them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NearestFailures {
    /// Tasks to look at, counting 0 as 1. Default 8 (ours).
    pub k: usize,
}

impl Default for NearestFailures {
    fn default() -> Self {
        Self { k: 8 }
    }
}

impl Voter for NearestFailures {
    fn name(&self) -> &'static str {
        "nearest_failures"
    }

    fn vote(
        &self,
        context: &RouteContext,
        pool: &[HarnessId],
        profile: &BehaviorProfile,
    ) -> Result<Ballot, NoBallot> {
        let reach = self.reach(context, pool, profile).ok_or(NoBallot::Empty)?;
        ballot_by(pool, |id| score(profile, context, id, reach))
    }
}

impl NearestFailures {
    /// The distance of the `k`-th nearest task, or of the farthest if there are fewer; `None` without any.
    fn reach(
        self,
        context: &RouteContext,
        pool: &[HarnessId],
        profile: &BehaviorProfile,
    ) -> Option<u32> {
        let here = context.cluster();
        let pool: BTreeSet<&HarnessId> = pool.iter().collect();
        let needs_failure = given(context) == Given::BaseFailedAll;
        let mut nearest: BTreeMap<&TaskId, u32> = BTreeMap::new();
        for row in profile.rows() {
            if pool.contains(&row.harness) && (row.base_failed_all || !needs_failure) {
                let distance = distance(&row.cluster, &here);
                let known = nearest.entry(&row.task).or_insert(distance);
                *known = distance.min(*known);
            }
        }
        let mut distances: Vec<u32> = nearest.into_values().collect();
        distances.sort_unstable();
        let last = distances.len().checked_sub(1)?;
        Some(distances[last.min(self.k.saturating_sub(1))])
    }
}

/// Beta mean of a sibling over clusters within reach.
fn score(profile: &BehaviorProfile, context: &RouteContext, id: &HarnessId, reach: u32) -> f64 {
    let here = context.cluster();
    let (mut successes, mut failures) = (0.0, 0.0);
    for cluster in profile.clusters(id) {
        let distance = distance(cluster, &here);
        if distance <= reach {
            let stats = profile.stats(id, ClusterScope::Cluster(cluster), given(context));
            let weight = 1.0 / f64::from(1 + distance);
            successes += weight * stats.weighted_successes;
            failures += weight * (stats.weight - stats.weighted_successes).max(0.0);
        }
    }
    beta::mean(successes, failures)
}

fn distance(a: &Cluster, b: &Cluster) -> u32 {
    match (a.verb() == b.verb(), a.error_kind() == b.error_kind()) {
        (true, true) => 0,
        (false, false) => 2,
        _ => 1,
    }
}
