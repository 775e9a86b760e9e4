//! Selectors to compare a router with.

use harness_core::HarnessId;
use harness_pool::{
    Decision, Probe, RescueEvidence, RouteContext, SelectError, SelectSiblings, SiblingPool,
};

/// Draws siblings uniformly, without repetition, by the context's seed. It learns nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RandomSelector {
    ids: Vec<HarnessId>,
}

/// Always the same siblings in the same order. It learns nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedSelector {
    order: Vec<HarnessId>,
}

impl RandomSelector {
    /// A selector over a pool.
    pub fn new(pool: &SiblingPool) -> Self {
        Self {
            ids: pool.ids().to_vec(),
        }
    }
}

impl FixedSelector {
    /// A selector that prefers these siblings, in this order; the pool's others follow in the order of
    /// their ids.
    ///
    /// # Errors
    /// [`SelectError::UnknownHarness`] if one is not in the pool, [`SelectError::Config`] if one is named
    /// twice.
    pub fn new(pool: &SiblingPool, first: &[HarnessId]) -> Result<Self, SelectError> {
        let mut order: Vec<HarnessId> = Vec::new();
        for id in first {
            if pool.get(id).is_none() {
                return Err(SelectError::UnknownHarness(id.clone()));
            }
            if order.contains(id) {
                return Err(SelectError::Config(format!(
                    "a sibling is named twice: {id}"
                )));
            }
            order.push(id.clone());
        }
        let rest = pool.ids().iter().filter(|id| !first.contains(id));
        order.extend(rest.cloned());
        Ok(Self { order })
    }
}

impl SelectSiblings for RandomSelector {
    fn select(&mut self, context: &RouteContext, k: usize) -> Result<Decision, SelectError> {
        // Sorting by keys drawn one for each sibling is a uniform shuffle.
        let key = |at: usize| context.seed.derive("random-sibling", &[at as u64]).value();
        let mut drawn: Vec<(u64, &HarnessId)> = self
            .ids
            .iter()
            .enumerate()
            .map(|(at, id)| (key(at), id))
            .collect();
        drawn.sort();
        Ok(Decision {
            chosen: drawn
                .into_iter()
                .take(k)
                .map(|(_, id)| id.clone())
                .collect(),
            ..Decision::default()
        })
    }

    fn observe(&mut self, evidence: &RescueEvidence) -> Result<(), SelectError> {
        evidence.check()
    }

    fn reanchor(&mut self, _probe: &mut dyn Probe) -> Result<(), SelectError> {
        Ok(())
    }
}

impl SelectSiblings for FixedSelector {
    fn select(&mut self, _context: &RouteContext, k: usize) -> Result<Decision, SelectError> {
        Ok(Decision {
            chosen: self.order.iter().take(k).cloned().collect(),
            ..Decision::default()
        })
    }

    fn observe(&mut self, evidence: &RescueEvidence) -> Result<(), SelectError> {
        evidence.check()
    }

    fn reanchor(&mut self, _probe: &mut dyn Probe) -> Result<(), SelectError> {
        Ok(())
    }
}
