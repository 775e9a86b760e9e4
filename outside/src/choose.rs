//! A voter, and a selector that could stand in the router's place.

use harness_core::{HarnessId, PolicyVersion};
use harness_pool::{
    BehaviorProfile, ClusterScope, Decision, Given, Probe, ProfileConfig, ProfileError,
    RescueEvidence, RouteContext, SelectError, SelectSiblings, SiblingPool,
};
use harness_router::{Ballot, NoBallot, Voter};

/// Ranks the siblings that ever solved a task by their tokens an attempt, fewest first. The others are left
/// out: a partial ballot puts them behind.
#[derive(Debug, Clone, Copy)]
pub struct Thrifty;

impl Voter for Thrifty {
    fn name(&self) -> &'static str {
        "thrifty"
    }

    fn vote(
        &self,
        _context: &RouteContext,
        pool: &[HarnessId],
        profile: &BehaviorProfile,
    ) -> Result<Ballot, NoBallot> {
        let cost = |id: &HarnessId| {
            let stats = profile.stats(id, ClusterScope::All, Given::Anything);
            let tokens = stats.mean_tokens().filter(|_| stats.successes > 0)?;
            Some((tokens, id.clone()))
        };
        let mut costs: Vec<(f64, HarnessId)> = pool.iter().filter_map(cost).collect();
        if costs.is_empty() {
            return Err(NoBallot::Empty);
        }
        // Ties go to the smaller id, so the order in which the pool is listed does not matter.
        costs.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        Ok(Ballot::new(costs.into_iter().map(|(_, id)| id).collect()))
    }
}

/// Chooses the siblings with the fewest attempts so far; ties are broken by the context's seed.
#[derive(Debug, Clone, PartialEq)]
pub struct LeastTried {
    pool: SiblingPool,
    /// Counts each rollout once however often it is told.
    profile: BehaviorProfile,
}

impl LeastTried {
    /// A selector that has seen nothing.
    ///
    /// # Errors
    /// Never: the half-life is the default.
    pub fn new(pool: SiblingPool) -> Result<Self, ProfileError> {
        let config = ProfileConfig::default();
        let profile = BehaviorProfile::from_rows([], PolicyVersion(0), config)?;
        Ok(Self { pool, profile })
    }
}

impl SelectSiblings for LeastTried {
    fn select(&mut self, context: &RouteContext, k: usize) -> Result<Decision, SelectError> {
        let tried = |id: &HarnessId| {
            self.profile
                .stats(id, ClusterScope::All, Given::Anything)
                .attempts
        };
        let draw = |id: &HarnessId| context.seed.derive(id.as_str(), &[]).value();
        let mut chosen = self.pool.ids().to_vec();
        chosen.sort_by_key(|id| (tried(id), draw(id)));
        chosen.truncate(k);
        Ok(Decision {
            chosen,
            ..Decision::default()
        })
    }

    fn observe(&mut self, evidence: &RescueEvidence) -> Result<(), SelectError> {
        evidence.check_in(&self.pool)?;
        Ok(self.profile.insert(evidence.rows.iter().cloned())?)
    }

    fn reanchor(&mut self, probe: &mut dyn Probe) -> Result<(), SelectError> {
        Ok(self.profile.insert(probe.probe_all(self.pool.ids())?)?)
    }
}
