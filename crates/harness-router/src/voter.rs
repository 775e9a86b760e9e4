//! Voters, and two of the three that need no language model.

use harness_core::HarnessId;
use harness_pool::{BehaviorProfile, Cluster, ClusterScope, Given, RouteContext};

use crate::ballot::{Ballot, NoBallot};
use crate::nearest::NearestFailures;

/// Ranks siblings for a task.
///
/// Contract for implementers: `vote` ranks ids of `pool` only, best first, each once; it may leave some out.
/// Whoever has nothing to say returns [`NoBallot`], which counts against the quorum; an answer is never made
/// up. The same arguments give the same ballot, as far as a remote model allows. A voter never sees the
/// base among the candidates, since the base is no rescue.
pub trait Voter: Send + Sync {
    /// The voter's name for the log, unique among the voters of a router.
    fn name(&self) -> &str;

    /// Ranks the siblings.
    ///
    /// # Errors
    /// [`NoBallot`] if there is no valid ranking.
    fn vote(
        &self,
        context: &RouteContext,
        pool: &[HarnessId],
        profile: &BehaviorProfile,
    ) -> Result<Ballot, NoBallot>;
}

/// Ranks by the Beta mean of P(solved | sibling, cluster, base failed all).
///
/// A sibling without evidence in the cluster is judged by its evidence in all clusters, and without any by
/// the prior's 0.5, so an untried sibling stands before one that is known to fail. Ties go to the smaller
/// id. Without a digest (no failed attempts to look at) rows of any task count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BetaByCluster;

/// Ranks by the Beta mean of P(solved | sibling, error kind, base failed all), whatever the verb.
///
/// The ballot is partial: siblings never tried on this error kind are left out. If none was tried, all are
/// ranked by their evidence on all error kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ErrorKindRate;

/// The three embedded voters: what decides below the quorum, and a router's electorate if no model is at hand.
pub fn embedded_voters() -> Vec<Box<dyn Voter>> {
    vec![
        Box::new(BetaByCluster),
        Box::new(ErrorKindRate),
        Box::new(NearestFailures::default()),
    ]
}

impl Voter for BetaByCluster {
    fn name(&self) -> &'static str {
        "beta_by_cluster"
    }

    fn vote(
        &self,
        context: &RouteContext,
        pool: &[HarnessId],
        profile: &BehaviorProfile,
    ) -> Result<Ballot, NoBallot> {
        let (cluster, given) = (context.cluster(), given(context));
        ballot_by(pool, |id| rescue_mean(profile, &cluster, given, id))
    }
}

impl Voter for ErrorKindRate {
    fn name(&self) -> &'static str {
        "error_kind_rate"
    }

    fn vote(
        &self,
        context: &RouteContext,
        pool: &[HarnessId],
        profile: &BehaviorProfile,
    ) -> Result<Ballot, NoBallot> {
        let cluster = context.cluster();
        let scope = ClusterScope::ErrorKind(cluster.error_kind());
        let given = given(context);
        let of = |id| (profile.stats(id, scope, given), id);
        let tried = pool.iter().map(of).filter(|(stats, _)| stats.attempts > 0);
        let tried: Vec<(f64, &HarnessId)> = tried.map(|(stats, id)| (stats.mean(), id)).collect();
        if tried.is_empty() {
            return ballot_by(pool, |id| {
                profile.stats(id, ClusterScope::All, given).mean()
            });
        }
        ballot_of(tried)
    }
}

/// What a sibling's chance of solving a task of this cluster is, by the cluster or else by all clusters.
pub(crate) fn rescue_mean(
    profile: &BehaviorProfile,
    cluster: &Cluster,
    given: Given,
    id: &HarnessId,
) -> f64 {
    let here = profile.stats(id, ClusterScope::Cluster(cluster), given);
    if here.attempts > 0 {
        return here.mean();
    }
    profile.stats(id, ClusterScope::All, given).mean()
}

/// Which rows speak of the task at hand.
pub(crate) fn given(context: &RouteContext) -> Given {
    if context.digest.is_some() {
        Given::BaseFailedAll
    } else {
        Given::Anything
    }
}

/// All of `ids` by score, largest first; ties go to the smaller id.
pub(crate) fn ballot_by(
    ids: &[HarnessId],
    score: impl Fn(&HarnessId) -> f64,
) -> Result<Ballot, NoBallot> {
    ballot_of(ids.iter().map(|id| (score(id), id)).collect())
}

fn ballot_of(mut scored: Vec<(f64, &HarnessId)>) -> Result<Ballot, NoBallot> {
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    if scored.is_empty() {
        return Err(NoBallot::Empty);
    }
    Ok(Ballot::new(
        scored.into_iter().map(|(_, id)| id.clone()).collect(),
    ))
}
