//! Puts a selector of your own in the router's place: `cargo run -p harness-router --example own_selector`.
//!
//! A trainer knows a router only through `SelectSiblings`. This one has no voters: it goes on with whatever
//! rescued last in the same failure cluster. The tests at the end hold it against the invariants that the
//! feature `testing` exports.

use std::collections::{BTreeMap, BTreeSet};

use harness_core::{HarnessId, RolloutId, Seed, TaskId};
use harness_pool::{
    Cluster, Decision, EvidenceRow, Probe, RescueEvidence, RouteContext, SelectError,
    SelectSiblings, SiblingPool,
};
use harness_router::testing::pool_of;

/// Prefers the siblings that rescued last, latest first; the others follow in the order of their ids.
struct LastWinner {
    pool: SiblingPool,
    /// By cluster, the siblings that rescued, latest last.
    winners: BTreeMap<Cluster, Vec<HarnessId>>,
    /// Attempts that were counted: the same rows may be told twice.
    seen: BTreeSet<RolloutId>,
}

impl LastWinner {
    fn new(pool: SiblingPool) -> Self {
        let (winners, seen) = Default::default();
        Self {
            pool,
            winners,
            seen,
        }
    }

    fn take_in(&mut self, rows: &[EvidenceRow]) {
        for row in rows {
            let is_new = self.seen.insert(row.rollout.clone());
            if is_new && row.solved && self.pool.get(&row.harness).is_some() {
                let winners = self.winners.entry(row.cluster.clone()).or_default();
                winners.retain(|id| *id != row.harness);
                winners.push(row.harness.clone());
            }
        }
    }
}

impl SelectSiblings for LastWinner {
    fn select(&mut self, context: &RouteContext, k: usize) -> Result<Decision, SelectError> {
        let winners = self
            .winners
            .get(&context.cluster())
            .map_or(&[][..], Vec::as_slice);
        let others = self.pool.ids().iter().filter(|id| !winners.contains(id));
        Ok(Decision {
            chosen: winners
                .iter()
                .rev()
                .chain(others)
                .take(k)
                .cloned()
                .collect(),
            ..Decision::default()
        })
    }

    fn observe(&mut self, evidence: &RescueEvidence) -> Result<(), SelectError> {
        evidence.check_in(&self.pool)?;
        self.take_in(&evidence.rows);
        Ok(())
    }

    fn reanchor(&mut self, probe: &mut dyn Probe) -> Result<(), SelectError> {
        // Every probe before any change: a probe that fails leaves the selector as it was.
        let rows = probe.probe_all(self.pool.ids())?;
        self.winners.clear();
        self.take_in(&rows);
        Ok(())
    }
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = pool_of(4);
    let mut selector = LastWinner::new(pool.clone());
    for step in 0..3 {
        let (id, seed) = (
            TaskId::new(format!("task-{step}"))?,
            Seed::new(7).derive("route", &[step]),
        );
        let context = RouteContext::new(id, "Sum the amounts on all pages", seed);
        // The first step tries all of them, later ones the two that are thought best.
        let k = if step == 0 { pool.len() } else { 2 };
        for id in selector.select(&context, k)?.chosen {
            // Stands for two attempts of your agent: the last sibling of the pool alone rescues.
            let rescues = pool.ids().last() == Some(&id);
            let rollouts = [0, 1].map(|n| RolloutId::new(format!("{}:{id}:{n}", context.task_id)));
            let attempts: Result<Vec<_>, _> = rollouts
                .into_iter()
                .map(|r| r.map(|r| (r, rescues)))
                .collect();
            let evidence = RescueEvidence::from_solved(&context, &id, attempts?);
            println!(
                "step {step}: {id} solved {} of {}",
                evidence.solved, evidence.attempts
            );
            selector.observe(&evidence)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use harness_router::testing::{
        check_failed_reanchor, check_repeatable, check_selection, check_told_twice, contexts, rows,
    };
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_runs() {
        main().unwrap();
    }

    #[test]
    fn it_keeps_the_contract() {
        let pool = pool_of(4);
        let make = || -> Box<dyn SelectSiblings> { Box::new(LastWinner::new(pool.clone())) };
        proptest!(|(rows in rows(pool.ids()), context in contexts(), k in 0..6_usize)| {
            let mut selector = make();
            check_selection(&selector.select(&context, k).unwrap(), &pool, k)?;
            check_repeatable(selector.as_mut(), &context, k)?;
            check_told_twice(&make, &rows, &context, k)?;
            check_failed_reanchor(selector.as_mut(), &rows, &context, k)?;
        });
    }
}
