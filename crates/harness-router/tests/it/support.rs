//! Values that several tests need.

use harness_core::{
    BaseHarness, HarnessEdit, HarnessId, HarnessSpec, PolicyVersion, RolloutId, Seed, TaskId,
};
use harness_pool::{
    AcceptanceEvidence, BehaviorProfile, Cluster, Digest, EvidenceRow, PoolBuilder, RouteContext,
    Sibling, SiblingPool,
};
use harness_router::{Ballot, NoBallot, Router, RouterConfig, Voter};

pub(crate) const INSTRUCTION: &str = "Play a song";

pub(crate) fn pool(n: usize) -> SiblingPool {
    let base = HarnessSpec::base(BaseHarness::default());
    let mut builder = PoolBuilder::new(base.clone(), "p".into(), "m".into());
    for i in 0..n {
        let sibling = Sibling {
            name: format!("harness-{}", ["A", "B", "C", "D", "E", "F"][i]),
            harness: base
                .apply(&HarnessEdit::AddNote(format!("note {i}")))
                .unwrap(),
            direction: "login".into(),
            lineage: vec![],
            evidence: AcceptanceEvidence::default(),
        };
        builder.add(sibling).unwrap();
    }
    builder.freeze()
}

pub(crate) fn context(kind: Option<&str>) -> RouteContext {
    let digest = kind.map(|kind| {
        let mut digest = Digest::from_attempts(INSTRUCTION, &[]);
        digest.error_kind = kind.into();
        digest
    });
    RouteContext {
        task_id: TaskId::new("t").unwrap(),
        instruction: INSTRUCTION.into(),
        digest,
        policy_version: PolicyVersion(0),
        step: 0,
        seed: Seed::new(1),
    }
}

/// `solved` of `attempts` probes of a harness on tasks with this error kind.
pub(crate) fn rows(id: &HarnessId, kind: &str, solved: u32, attempts: u32) -> Vec<EvidenceRow> {
    let row = |n| EvidenceRow {
        rollout: RolloutId::new(format!("{id}:{kind}:{n}")).unwrap(),
        harness: id.clone(),
        task: TaskId::new("t").unwrap(),
        cluster: Cluster::of(INSTRUCTION, kind),
        solved: n < solved,
        base_failed_all: true,
        is_selected: false,
        turns: 1,
        tokens: 1,
        policy_version: PolicyVersion(0),
        fired: false,
        flags: vec![],
    };
    (0..attempts).map(row).collect()
}

/// A voter that always says the same.
pub(crate) struct Says(
    pub(crate) &'static str,
    pub(crate) Result<Vec<HarnessId>, NoBallot>,
);

impl Voter for Says {
    fn name(&self) -> &str {
        self.0
    }

    fn vote(
        &self,
        _: &RouteContext,
        _: &[HarnessId],
        _: &BehaviorProfile,
    ) -> Result<Ballot, NoBallot> {
        self.1.clone().map(Ballot::new)
    }
}

pub(crate) fn says(name: &'static str, ranking: &[&HarnessId]) -> Box<dyn Voter> {
    Box::new(Says(
        name,
        Ok(ranking.iter().map(|id| (*id).clone()).collect()),
    ))
}

pub(crate) fn silent(name: &'static str) -> Box<dyn Voter> {
    Box::new(Says(
        name,
        Err(NoBallot::Unreadable("there is no JSON object")),
    ))
}

pub(crate) fn router(pool: &SiblingPool, voters: Vec<Box<dyn Voter>>, quorum: usize) -> Router {
    let config = RouterConfig {
        quorum,
        epsilon: 0.0,
        ..RouterConfig::default()
    };
    Router::new(pool, voters, config).unwrap()
}
