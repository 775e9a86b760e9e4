//! Routes agents of your own with a voter of your own: `cargo run -p harness-router --example own_agents`.
//!
//! Three ways of prompting the same agent are the siblings. The voter prefers those whose direction is named
//! in the task; the three embedded voters vote beside it, and results are told back.

use harness_core::{
    BaseHarness, HarnessEdit, HarnessId, HarnessSpec, PolicyVersion, RolloutId, Seed, TaskId,
};
use harness_pool::{
    AcceptanceEvidence, BehaviorProfile, EvidenceRow, PoolBuilder, RescueEvidence, RouteContext,
    SelectSiblings, Sibling, SiblingPool,
};
use harness_router::{Ballot, NoBallot, Router, RouterConfig, Voter, embedded_voters};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Ranks the siblings whose direction occurs in the task's text.
struct Keywords(Vec<(HarnessId, String)>);

impl Voter for Keywords {
    fn name(&self) -> &'static str {
        "keywords"
    }

    fn vote(
        &self,
        context: &RouteContext,
        _pool: &[HarnessId],
        _profile: &BehaviorProfile,
    ) -> std::result::Result<Ballot, NoBallot> {
        let text = context.instruction.to_lowercase();
        let fits = self
            .0
            .iter()
            .filter(|(_, direction)| text.contains(direction));
        let ranking: Vec<HarnessId> = fits.map(|(id, _)| id.clone()).collect();
        if ranking.is_empty() {
            return Err(NoBallot::Empty);
        }
        Ok(Ballot::new(ranking))
    }
}

fn pool() -> Result<SiblingPool> {
    let base = HarnessSpec::base(BaseHarness {
        system: "You are a helpful agent.".into(),
        ..BaseHarness::default()
    });
    let mut builder = PoolBuilder::new(base.clone(), "my-model".into(), "my-tasks".into());
    let notes = [
        ("login", "Log in before you read private data."),
        ("pages", "Lists come in pages: read all of them."),
        ("units", "Convert all amounts to one unit."),
    ];
    for (direction, note) in notes {
        let edit = HarnessEdit::AddNote(note.into());
        builder.add(Sibling {
            name: direction.into(),
            harness: base.apply(&edit)?,
            direction: direction.into(),
            lineage: vec![edit],
            evidence: AcceptanceEvidence::default(),
        })?;
    }
    Ok(builder.freeze())
}

/// Stands for running your agent four times: only `pages` helps.
fn run_agent(context: &RouteContext, sibling: &Sibling) -> Result<Vec<EvidenceRow>> {
    let row = |n| -> Result<EvidenceRow> {
        Ok(EvidenceRow {
            rollout: RolloutId::new(format!("{}:{}:{n}", context.task_id, sibling.name))?,
            harness: sibling.id(),
            task: context.task_id.clone(),
            cluster: context.cluster(),
            solved: sibling.name == "pages" && n != 3,
            base_failed_all: true,
            is_selected: true,
            turns: 5,
            tokens: 800,
            policy_version: context.policy_version,
            fired: true,
            flags: vec![],
        })
    };
    (0..4).map(row).collect()
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<()> {
    let pool = pool()?;
    let directions = pool.ids().iter().cloned();
    let directions = directions.zip(pool.siblings().iter().map(|s| s.direction.clone()));
    let mut voters = embedded_voters();
    voters.push(Box::new(Keywords(directions.collect())));
    let mut router = Router::new(&pool, voters, RouterConfig::default())?;

    for step in 0..6 {
        let context = RouteContext {
            task_id: TaskId::new(format!("task-{step}"))?,
            instruction: "Sum the amounts on all pages".into(),
            digest: None,
            policy_version: PolicyVersion(0),
            step,
            seed: Seed::new(7).derive("route", &[step]),
        };
        let decision = router.select(&context, 2)?;
        for id in &decision.chosen {
            let Some(sibling) = pool.get(id) else {
                continue;
            };
            let rows = run_agent(&context, sibling)?;
            let solved = rows.iter().filter(|row| row.solved).count();
            println!(
                "step {step}: {} solved {solved} of {}",
                sibling.name,
                rows.len()
            );
            router.observe(&RescueEvidence::from_rows(
                context.clone(),
                id.clone(),
                rows,
            ))?;
        }
    }
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
