//! Selectors to compare a router with. They learn nothing and probe nothing, so re-anchoring them is free.

use std::fmt;

use harness_core::HarnessId;
use harness_pool::{
    BallotRecord, Decision, Probe, RescueEvidence, RouteContext, SelectError, SelectSiblings,
    SiblingPool,
};

/// Draws siblings uniformly, without repetition, by the context's seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RandomSelector {
    ids: Ids,
}

/// Always the same siblings in the same order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedSelector {
    ids: Ids,
    order: Vec<HarnessId>,
}

/// Whatever a caller who knows the truth would choose: an upper bound on what any router can do, never a
/// result of one. Every decision logs the ranking as the ballot of a voter named `oracle`.
pub struct OracleSelector {
    ids: Ids,
    rank: Box<Ranking>,
}

impl fmt::Debug for OracleSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OracleSelector")
            .field("ids", &self.ids)
            .finish_non_exhaustive()
    }
}

/// The best siblings for a task, best first; those left out follow in the order of their ids.
type Ranking = dyn Fn(&RouteContext) -> Vec<HarnessId> + Send + Sync;

/// The ids of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ids {
    base: HarnessId,
    siblings: Vec<HarnessId>,
}

impl Ids {
    fn of(pool: &SiblingPool) -> Self {
        Self {
            base: pool.base_id().clone(),
            siblings: pool.ids().to_vec(),
        }
    }

    /// `first`, then the others in the order of their ids.
    ///
    /// # Errors
    /// [`SelectError::UnknownHarness`] if one is no sibling of the pool, [`SelectError::Config`] if one is
    /// named twice.
    fn completed(&self, first: &[HarnessId]) -> Result<Vec<HarnessId>, SelectError> {
        let mut order: Vec<HarnessId> = Vec::new();
        for id in first {
            if !self.siblings.contains(id) {
                return Err(SelectError::UnknownHarness(id.clone()));
            }
            if order.contains(id) {
                return Err(SelectError::Config(format!(
                    "a sibling is named twice: {id}"
                )));
            }
            order.push(id.clone());
        }
        let rest = self.siblings.iter().filter(|id| !first.contains(id));
        order.extend(rest.cloned());
        Ok(order)
    }

    /// Checks evidence that is then forgotten.
    fn check(&self, evidence: &RescueEvidence) -> Result<(), SelectError> {
        let harness = &evidence.harness;
        if *harness != self.base && !self.siblings.contains(harness) {
            return Err(SelectError::UnknownHarness(harness.clone()));
        }
        evidence.check()
    }
}

impl RandomSelector {
    /// A selector over a pool.
    pub fn new(pool: &SiblingPool) -> Self {
        Self { ids: Ids::of(pool) }
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
        let ids = Ids::of(pool);
        let order = ids.completed(first)?;
        Ok(Self { ids, order })
    }
}

impl OracleSelector {
    /// A selector that ranks by `rank`, which must give the same for the same context. Siblings that it
    /// leaves out follow in the order of their ids. If it names a harness that is no sibling of the pool, or
    /// one twice, `select` fails as [`FixedSelector::new`] does.
    ///
    /// # Example
    /// ```
    /// use std::collections::BTreeMap;
    /// use harness_core::{BaseHarness, HarnessId, HarnessSpec, TaskId};
    /// use harness_pool::{PoolBuilder, RouteContext};
    /// use harness_router::OracleSelector;
    ///
    /// let base = HarnessSpec::base(BaseHarness::default());
    /// let pool = PoolBuilder::new(base, "policy".into(), "tasks".into()).freeze();
    /// // Measured elsewhere, on other attempts than those that are to be compared.
    /// let best: BTreeMap<TaskId, HarnessId> = BTreeMap::new();
    /// let rank = move |context: &RouteContext| best.get(&context.task_id).cloned().into_iter().collect();
    /// let oracle = OracleSelector::new(&pool, rank);
    /// ```
    pub fn new(
        pool: &SiblingPool,
        rank: impl Fn(&RouteContext) -> Vec<HarnessId> + Send + Sync + 'static,
    ) -> Self {
        Self {
            ids: Ids::of(pool),
            rank: Box::new(rank),
        }
    }
}

impl SelectSiblings for RandomSelector {
    fn select(&mut self, context: &RouteContext, k: usize) -> Result<Decision, SelectError> {
        // Sorting by keys drawn one for each sibling is a uniform shuffle.
        let key = |at: usize| context.seed.derive("random-sibling", &[at as u64]).value();
        let ids = self.ids.siblings.iter().enumerate();
        let mut drawn: Vec<(u64, &HarnessId)> = ids.map(|(at, id)| (key(at), id)).collect();
        drawn.sort();
        let chosen = drawn.into_iter().take(k);
        Ok(Decision {
            chosen: chosen.map(|(_, id)| id.clone()).collect(),
            ..Decision::default()
        })
    }

    fn observe(&mut self, evidence: &RescueEvidence) -> Result<(), SelectError> {
        self.ids.check(evidence)
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
        self.ids.check(evidence)
    }

    fn reanchor(&mut self, _probe: &mut dyn Probe) -> Result<(), SelectError> {
        Ok(())
    }
}

impl SelectSiblings for OracleSelector {
    fn select(&mut self, context: &RouteContext, k: usize) -> Result<Decision, SelectError> {
        let ranking = (self.rank)(context);
        let order = self.ids.completed(&ranking)?;
        Ok(Decision {
            chosen: order.into_iter().take(k).collect(),
            ballots: vec![BallotRecord {
                voter: "oracle".into(),
                ranking,
                rejected: None,
                is_stand_in: false,
            }],
            ..Decision::default()
        })
    }

    fn observe(&mut self, evidence: &RescueEvidence) -> Result<(), SelectError> {
        self.ids.check(evidence)
    }

    fn reanchor(&mut self, _probe: &mut dyn Probe) -> Result<(), SelectError> {
        Ok(())
    }
}
