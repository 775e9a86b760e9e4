//! A voter, and a selector that could stand in the router's place.

use std::collections::{BTreeMap, BTreeSet};

use harness_core::{HarnessId, RolloutId};
use harness_pool::{
    BehaviorProfile, Decision, EvidenceRow, Given, Probe, RescueEvidence, RouteContext, Scope,
    SelectError, SelectSiblings, SiblingPool,
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
        let mut costs: Vec<(f64, &HarnessId)> = Vec::new();
        for id in pool {
            let stats = profile.stats(id, Scope::All, Given::Anything);
            if let Some(tokens) = stats.mean_tokens().filter(|_| stats.successes > 0) {
                costs.push((tokens, id));
            }
        }
        if costs.is_empty() {
            return Err(NoBallot::Empty);
        }
        // Ties go to the smaller id, so the order in which the pool is listed does not matter.
        costs.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(b.1)));
        Ok(Ballot::new(
            costs.into_iter().map(|(_, id)| id.clone()).collect(),
        ))
    }
}

/// Chooses the siblings with the fewest attempts so far; ties are broken by the context's seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeastTried {
    base: HarnessId,
    n_tried: BTreeMap<HarnessId, u64>,
    seen: BTreeSet<RolloutId>,
}

impl LeastTried {
    /// A selector that has seen nothing.
    pub fn new(pool: &SiblingPool) -> Self {
        Self {
            base: pool.base_id().clone(),
            n_tried: pool.ids().iter().map(|id| (id.clone(), 0)).collect(),
            seen: BTreeSet::new(),
        }
    }

    /// Counts rows of siblings, each rollout once however often it is told.
    fn count<'a>(&mut self, rows: impl IntoIterator<Item = &'a EvidenceRow>) {
        for row in rows {
            if let Some(n) = self.n_tried.get_mut(&row.harness) {
                *n += u64::from(self.seen.insert(row.rollout.clone()));
            }
        }
    }
}

impl SelectSiblings for LeastTried {
    fn select(&mut self, context: &RouteContext, k: usize) -> Result<Decision, SelectError> {
        let key = |at: usize| context.seed.derive("least-tried", &[at as u64]).value();
        let order = self.n_tried.iter().enumerate();
        let mut order: Vec<_> = order.map(|(at, (id, n))| (*n, key(at), id)).collect();
        order.sort();
        let chosen = order.into_iter().take(k);
        Ok(Decision {
            chosen: chosen.map(|(_, _, id)| id.clone()).collect(),
            ..Decision::default()
        })
    }

    fn observe(&mut self, evidence: &RescueEvidence) -> Result<(), SelectError> {
        evidence.check()?;
        if evidence.harness != self.base && !self.n_tried.contains_key(&evidence.harness) {
            return Err(SelectError::UnknownHarness(evidence.harness.clone()));
        }
        self.count(&evidence.rows);
        Ok(())
    }

    fn reanchor(&mut self, probe: &mut dyn Probe) -> Result<(), SelectError> {
        // Every probe comes before the first change, so a failure changes nothing.
        let mut rows = probe.probe(None)?;
        for id in self.n_tried.keys() {
            rows.extend(probe.probe(Some(id))?);
        }
        if rows.is_empty() {
            return Err(SelectError::EmptyProbe);
        }
        self.count(&rows);
        Ok(())
    }
}
