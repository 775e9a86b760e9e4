//! Routes agents of your own with a voter of your own: `cargo run -p harness-router --example own_agents`.
//!
//! Three notes to the same agent are the siblings. The voter prefers those whose name stands in the task's text;
//! the three embedded voters vote beside it and learn from what is told back, so they come to see that the voter
//! is wrong about one of them.

use harness_core::{BaseHarness, HarnessEdit, HarnessId, HarnessSpec, RolloutId, Seed, TaskId};
use harness_pool::{
    BehaviorProfile, ClusterScope, Given, PoolBuilder, RescueEvidence, RouteContext,
    SelectSiblings, Sibling, SiblingPool,
};
use harness_router::{Ballot, NoBallot, Router, RouterConfig, Voter, embedded_voters};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Ranks the siblings whose name occurs in the task's text.
struct Keywords(SiblingPool);

impl Voter for Keywords {
    fn name(&self) -> &'static str {
        "keywords"
    }

    fn vote(
        &self,
        context: &RouteContext,
        pool: &[HarnessId],
        _profile: &BehaviorProfile,
    ) -> std::result::Result<Ballot, NoBallot> {
        let fits = |id: &&HarnessId| {
            let sibling = self.0.get(id);
            sibling.is_some_and(|sibling| context.instruction.contains(&sibling.name))
        };
        let mut ranking: Vec<HarnessId> = pool.iter().filter(fits).cloned().collect();
        ranking.sort();
        if ranking.is_empty() {
            return Err(NoBallot::Empty);
        }
        Ok(Ballot::new(ranking))
    }
}

fn pool() -> Result<SiblingPool> {
    let base = HarnessSpec::base(BaseHarness::default());
    let mut builder = PoolBuilder::new(base.clone(), "my-model".into(), "my-tasks".into());
    for (name, note) in [
        ("login", "Log in before you read private data."),
        ("pages", "Lists come in pages: read all of them."),
        ("amounts", "Convert all amounts to one unit."),
    ] {
        let edit = HarnessEdit::AddNote(note.into());
        builder.add(Sibling::by_hand(name, &base, vec![edit])?)?;
    }
    Ok(builder.freeze())
}

/// Stands for running your agent four times: only `pages` helps.
fn run_agent(context: &RouteContext, sibling: &Sibling) -> Result<RescueEvidence> {
    let attempt = |n| -> Result<_> {
        let rollout = RolloutId::new(format!("{}:{}:{n}", context.task_id, sibling.name))?;
        Ok((rollout, sibling.name == "pages" && n != 3))
    };
    let attempts = (0..4).map(attempt).collect::<Result<Vec<_>>>()?;
    Ok(RescueEvidence::from_solved(
        context,
        &sibling.id(),
        attempts,
    ))
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<()> {
    let pool = pool()?;
    let mut voters = embedded_voters();
    voters.push(Box::new(Keywords(pool.clone())));
    let mut router = Router::new(&pool, voters, RouterConfig::default())?;
    for step in 0..6 {
        let (id, seed) = (
            TaskId::new(format!("task-{step}"))?,
            Seed::new(7).derive("route", &[step]),
        );
        let context = RouteContext::new(id, "Sum the amounts on all pages", seed);
        let chosen = router.select(&context, 2)?.chosen;
        for sibling in chosen.iter().filter_map(|id| pool.get(id)) {
            let evidence = run_agent(&context, sibling)?;
            println!(
                "step {step}: {} solved {} of 4",
                sibling.name, evidence.solved
            );
            router.observe(&evidence)?;
        }
    }
    for sibling in pool.siblings() {
        let stats = router
            .profile()
            .stats(&sibling.id(), ClusterScope::All, Given::Anything);
        println!(
            "{}: {} of {} in all",
            sibling.name, stats.successes, stats.attempts
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use harness_core::PolicyVersion;
    use harness_pool::ProfileConfig;
    use harness_router::testing::{check_voter, contexts, rows};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_runs() {
        main().unwrap();
    }

    #[test]
    fn the_voter_keeps_the_contract() {
        let pool = pool().unwrap();
        proptest!(|(rows in rows(pool.ids()), context in contexts())| {
            let profile = BehaviorProfile::from_rows(rows, PolicyVersion(0), ProfileConfig::default()).unwrap();
            check_voter(&Keywords(pool.clone()), &context, pool.ids(), &profile)?;
        });
    }
}
