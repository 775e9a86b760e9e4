//! Puts a selector of your own in the router's place: `cargo run -p harness-router --example own_selector`.
//!
//! A trainer knows a router only through `SelectSiblings`. This one has no voters: it goes on with whatever
//! rescued last in the same failure cluster. The test at the end holds it against the invariants that the
//! feature `testing` exports.

use std::collections::{BTreeMap, BTreeSet};

use harness_core::{HarnessId, PolicyVersion, RolloutId, Seed, TaskId};
use harness_pool::{
    Cluster, Decision, EvidenceRow, Probe, RescueEvidence, RouteContext, SelectError,
    SelectSiblings, SiblingPool,
};
use harness_router::testing::pool_of;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Prefers the siblings that rescued last, latest first; the others follow in the order of their ids.
struct LastWinner {
    base: HarnessId,
    ids: Vec<HarnessId>,
    /// By cluster, the siblings that rescued, latest last.
    winners: BTreeMap<Cluster, Vec<HarnessId>>,
    /// Attempts that were counted: the same rows may be told twice.
    seen: BTreeSet<RolloutId>,
}

impl LastWinner {
    fn new(pool: &SiblingPool) -> Self {
        Self {
            base: pool.base_id().clone(),
            ids: pool.ids().to_vec(),
            winners: BTreeMap::new(),
            seen: BTreeSet::new(),
        }
    }

    fn take_in(&mut self, rows: &[EvidenceRow]) {
        for row in rows {
            let is_new = self.seen.insert(row.rollout.clone());
            if is_new && row.solved && row.harness != self.base {
                let winners = self.winners.entry(row.cluster.clone()).or_default();
                winners.retain(|id| *id != row.harness);
                winners.push(row.harness.clone());
            }
        }
    }
}

impl SelectSiblings for LastWinner {
    fn select(
        &mut self,
        context: &RouteContext,
        k: usize,
    ) -> std::result::Result<Decision, SelectError> {
        let winners = self
            .winners
            .get(&context.cluster())
            .map_or(&[][..], Vec::as_slice);
        let others = self.ids.iter().filter(|id| !winners.contains(id));
        let chosen = winners
            .iter()
            .rev()
            .chain(others)
            .take(k)
            .cloned()
            .collect();
        Ok(Decision {
            chosen,
            ..Decision::default()
        })
    }

    fn observe(&mut self, evidence: &RescueEvidence) -> std::result::Result<(), SelectError> {
        evidence.check()?;
        if evidence.harness != self.base && !self.ids.contains(&evidence.harness) {
            return Err(SelectError::UnknownHarness(evidence.harness.clone()));
        }
        self.take_in(&evidence.rows);
        Ok(())
    }

    fn reanchor(&mut self, probe: &mut dyn Probe) -> std::result::Result<(), SelectError> {
        // Every probe before any change: a probe that fails leaves the selector as it was.
        let mut rows = probe.probe(None)?;
        for id in &self.ids {
            rows.extend(probe.probe(Some(id))?);
        }
        if rows.is_empty() {
            return Err(SelectError::EmptyProbe);
        }
        self.winners.clear();
        self.take_in(&rows);
        Ok(())
    }
}

/// Stands for two attempts of your agent: the last sibling of the pool alone rescues.
fn run_agent(context: &RouteContext, id: &HarnessId, rescues: bool) -> Result<RescueEvidence> {
    let row = |n| -> Result<EvidenceRow> {
        Ok(EvidenceRow {
            rollout: RolloutId::new(format!("{}:{id}:{n}", context.task_id))?,
            harness: id.clone(),
            task: context.task_id.clone(),
            cluster: context.cluster(),
            solved: rescues,
            base_failed_all: true,
            is_selected: true,
            turns: 5,
            tokens: 800,
            policy_version: context.policy_version,
            fired: true,
            flags: vec![],
        })
    };
    let rows = (0..2).map(row).collect::<Result<Vec<_>>>()?;
    Ok(RescueEvidence::from_rows(context.clone(), id.clone(), rows))
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<()> {
    let pool = pool_of(4);
    let mut selector = LastWinner::new(&pool);
    for step in 0..3 {
        let context = RouteContext {
            task_id: TaskId::new(format!("task-{step}"))?,
            instruction: "Sum the amounts on all pages".into(),
            digest: None,
            policy_version: PolicyVersion(0),
            step,
            seed: Seed::new(7).derive("route", &[step]),
        };
        // The first step tries all of them, later ones the two that are thought best.
        let k = if step == 0 { pool.len() } else { 2 };
        for id in selector.select(&context, k)?.chosen {
            let evidence = run_agent(&context, &id, pool.ids().last() == Some(&id))?;
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
    use harness_router::testing::{check_repeatable, check_selection, contexts, rows};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_runs() {
        main().unwrap();
    }

    #[test]
    fn it_keeps_the_contract() {
        let pool = pool_of(4);
        proptest!(|(rows in rows(pool.ids()), context in contexts(), k in 0..6_usize)| {
            let mut selector = LastWinner::new(&pool);
            selector.take_in(&rows);
            check_selection(&selector.select(&context, k).unwrap(), &pool, k)?;
            check_repeatable(&mut selector, &context, k)?;
        });
    }
}
