//! A voter that looks at the evidence tasks which resemble the one at hand.

use std::collections::BTreeSet;

use harness_core::{HarnessId, TaskId};
use harness_pool::{BehaviorProfile, Cluster, Given, RouteContext, beta};

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
        let (here, given) = (context.cluster(), given(context));
        let reach = self
            .reach(&here, given, pool, profile)
            .ok_or(NoBallot::Empty)?;
        ballot_by(pool, |id| score(profile, &here, given, id, reach))
    }
}

impl NearestFailures {
    /// The distance of the `k`-th nearest task, or of the farthest if there are fewer; `None` without any.
    fn reach(
        self,
        here: &Cluster,
        given: Given,
        pool: &[HarnessId],
        profile: &BehaviorProfile,
    ) -> Option<u32> {
        let pool: BTreeSet<&HarnessId> = pool.iter().collect();
        let mut at_distance: [Vec<&Cluster>; 3] = Default::default();
        for cluster in profile.all_clusters() {
            at_distance[distance(cluster, here) as usize].push(cluster);
        }
        // A task is as near as the nearest of its clusters, so those come first.
        let mut nearest: BTreeSet<&TaskId> = BTreeSet::new();
        let mut reach = None;
        for (distance, clusters) in (0..).zip(at_distance) {
            for cluster in clusters {
                for task in profile.tasks(cluster, given, |id| pool.contains(id)) {
                    if nearest.insert(task) {
                        reach = Some(distance);
                    }
                    if nearest.len() >= self.k.max(1) {
                        return reach;
                    }
                }
            }
        }
        reach
    }
}

/// Beta mean of a sibling over clusters within reach.
fn score(
    profile: &BehaviorProfile,
    here: &Cluster,
    given: Given,
    id: &HarnessId,
    reach: u32,
) -> f64 {
    let (mut successes, mut failures) = (0.0, 0.0);
    for (cluster, stats) in profile.stats_by_cluster(id, given) {
        let distance = distance(cluster, here);
        if distance <= reach {
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
