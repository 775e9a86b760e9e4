//! Rank-1: one harness per task, at inference, out of base and siblings.

use harness_core::HarnessId;
use harness_pool::{BehaviorProfile, ClusterScope, Given, RouteContext};
use serde::{Deserialize, Serialize};

/// What Rank-1 chose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rank1 {
    /// The harness, which may be the base.
    pub harness: HarnessId,
    /// Its estimated P(solved | harness, task's cluster), in `(0, 1)`.
    pub estimate: f64,
    /// The base's.
    pub base_estimate: f64,
}

/// Chooses by the unconditional P(solved | harness, cluster): one rollout, no failed attempts to look at.
///
/// The estimate is the Beta mean over probes (routed rescues are conditional on failure and left out) of the
/// task's verb, or else of all. Probes at tasks that the base failed and at tasks that it solved count alike:
/// the cluster of a task that nobody attempted would hold the solved ones alone and lean to the base. Where
/// the context does have failed attempts, its cluster comes before its verb. Each harness is judged by the narrowest of these
/// in which *every* harness with evidence was tried, so that none is compared on easier tasks. Ties go to
/// the base, then to the smaller id. A sibling without any evidence is never chosen, nor is any sibling if
/// there is none on the base.
///
/// # Source
/// arXiv 2611.04277 (Rank-1 at the same rollout count); the estimate is ours.
pub fn rank1(
    profile: &BehaviorProfile,
    base: &HarnessId,
    siblings: &[HarnessId],
    context: &RouteContext,
) -> Rank1 {
    let of = |id: &HarnessId, scope: ClusterScope<'_>| profile.stats(id, scope, Given::Probed);
    let is_tried = |id: &HarnessId, scope: ClusterScope<'_>| of(id, scope).attempts > 0;
    let mut tried: Vec<&HarnessId> = siblings
        .iter()
        .filter(|id| is_tried(id, ClusterScope::All))
        .collect();
    tried.sort();
    let cluster = context.cluster();
    let all_are_tried = |scope: ClusterScope<'_>| {
        is_tried(base, scope) && tried.iter().all(|id| is_tried(id, scope))
    };
    let verb = ClusterScope::Verb(cluster.verb());
    let narrow = match context.digest {
        Some(_) => vec![ClusterScope::Cluster(&cluster), verb],
        None => vec![verb],
    };
    let scope = narrow
        .into_iter()
        .find(|scope| all_are_tried(*scope))
        .unwrap_or(ClusterScope::All);
    let base_estimate = of(base, scope).mean();
    let mut best = (base, base_estimate);
    if is_tried(base, ClusterScope::All) {
        for id in tried {
            let estimate = of(id, scope).mean();
            if estimate > best.1 {
                best = (id, estimate);
            }
        }
    }
    Rank1 {
        harness: best.0.clone(),
        estimate: best.1,
        base_estimate,
    }
}
