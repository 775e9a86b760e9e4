//! Fakes for this crate's tests: attempts, groups, a pool, a learner and a selector that keep what they see.

use std::sync::Arc;

use harness_core::testing::{ScriptedPolicy, toy_task};
use harness_core::{
    BaseHarness, Effect, GroupId, HarnessId, HarnessSpec, Limits, Moment, Outcome, Policy,
    PolicyVersion, RolloutGroup, RolloutId, Rule, RunId, Scope, Seed, Segment, SegmentKind,
    Sequence, Trajectory, Turn,
};
use harness_pool::{
    AcceptanceEvidence, Decision, PoolBuilder, Probe, RescueEvidence, RouteContext, SelectError,
    SelectSiblings, Sibling, SiblingPool,
};

use crate::learner::{Learner, LearnerError, UpdateBatch, UpdateStats};

/// What a fake policy says: from its context and the attempt's seed to a reply.
pub(crate) type Reply = dyn Fn(&str, Seed) -> String + Send + Sync;

/// An attempt under the harness `base`: a prompt of one id, one turn with two sampled ids. Its reward is 1
/// if solved, 0 if failed or truncated, else missing.
pub(crate) fn attempt(group: &str, number: u32, outcome: Outcome) -> Trajectory {
    let segment = |kind, ids: &[u32], logprobs: &[f32]| Segment {
        kind,
        scope: Scope::Both,
        ids: ids.to_vec(),
        logprobs: logprobs.to_vec(),
    };
    let valid = outcome.is_valid();
    let turn = Turn {
        segments: vec![segment(
            SegmentKind::Sampled,
            &[2, 3 + number],
            &[-0.25, -0.5],
        )],
        ..Turn::default()
    };
    Trajectory {
        policy_version: PolicyVersion(3),
        attempt: number,
        reward: valid.then(|| f32::from(u8::from(outcome == Outcome::Solved))),
        prompt: vec![segment(SegmentKind::Context, &[1], &[])],
        turns: vec![turn],
        ..Trajectory::new(
            RunId::new("run").unwrap(),
            RolloutId::new(format!("{group}-{number}")).unwrap(),
            GroupId::new(group).unwrap(),
            &toy_task(1, ""),
            HarnessId::new("base").unwrap(),
            outcome,
        )
    }
}

/// Group `id` with attempts that ended so.
pub(crate) fn group_of(id: &str, outcomes: &[Outcome]) -> RolloutGroup {
    let attempts = outcomes.iter().zip(0..).map(|(o, i)| attempt(id, i, *o));
    RolloutGroup::new(attempts.collect()).unwrap()
}

/// The attempt under another harness.
pub(crate) fn with_harness(mut trajectory: Trajectory, name: &str) -> Trajectory {
    trajectory.harness_id = HarnessId::new(name).unwrap();
    trajectory
}

/// A pool whose siblings add each its own name to the system text; episodes have two turns.
pub(crate) fn pool(names: &[&str]) -> SiblingPool {
    let base = HarnessSpec::base(BaseHarness {
        limits: Limits {
            max_turns: 2,
            max_reply_tokens: 16,
        },
        ..BaseHarness::default()
    });
    let mut builder = PoolBuilder::new(base.clone(), "policy".into(), "tasks".into());
    for name in names {
        let mut harness = base.clone();
        harness.overlay.rules.push(Rule {
            name: "hint".into(),
            moment: Moment::OnStart,
            when: harness_core::Condition::Always,
            effect: Effect::Say((*name).to_owned()),
            max_fires: 1,
            count: Vec::new(),
        });
        let sibling = Sibling {
            name: (*name).to_owned(),
            harness,
            direction: "toy".into(),
            lineage: Vec::new(),
            evidence: AcceptanceEvidence::default(),
        };
        builder.add(sibling).unwrap();
    }
    builder.freeze()
}

/// A learner that keeps every batch and changes its version only.
pub(crate) struct FakeLearner {
    reply: Arc<Reply>,
    logprob: f32,
    version: PolicyVersion,
    /// How far the snapshots lag behind.
    pub(crate) lag: u64,
    pub(crate) batches: Vec<UpdateBatch>,
}

impl FakeLearner {
    /// Its snapshots say what `reply` says.
    pub(crate) fn new(reply: impl Fn(&str, Seed) -> String + Send + Sync + 'static) -> Self {
        Self {
            reply: Arc::new(reply),
            logprob: -1.0,
            version: PolicyVersion(5),
            lag: 0,
            batches: Vec::new(),
        }
    }

    /// Every masked id has this log-prob.
    pub(crate) fn with_logprob(logprob: f32) -> Self {
        Self {
            logprob,
            ..Self::new(|_, _| String::new())
        }
    }
}

impl Learner for FakeLearner {
    fn snapshot(&self) -> Box<dyn Policy> {
        let reply = Arc::clone(&self.reply);
        let mut policy = ScriptedPolicy::new(move |context, seed| reply(context, seed));
        policy.version = PolicyVersion(self.version.0 - self.lag);
        Box::new(policy)
    }

    fn logprobs(&self, rows: &[Sequence]) -> Result<Vec<Vec<f32>>, LearnerError> {
        let of = |masked: &bool| if *masked { self.logprob } else { 0.0 };
        let rows = rows.iter().map(|row| row.mask.iter().map(of).collect());
        Ok(rows.collect())
    }

    fn update(&mut self, batch: &UpdateBatch) -> Result<UpdateStats, LearnerError> {
        self.batches.push(batch.clone());
        self.version.0 += 1;
        Ok(UpdateStats {
            loss: 0.5,
            negative_loss: 0.75,
            ..UpdateStats::default()
        })
    }

    fn version(&self) -> PolicyVersion {
        self.version
    }
}

/// Always chooses the first siblings of the pool, and keeps what it is told.
#[derive(Default)]
pub(crate) struct FakeSelector {
    pub(crate) ids: Vec<HarnessId>,
    pub(crate) contexts: Vec<RouteContext>,
    pub(crate) evidence: Vec<RescueEvidence>,
    /// What is chosen in place of the first siblings.
    pub(crate) forced: Option<Vec<HarnessId>>,
}

impl FakeSelector {
    pub(crate) fn of(pool: &SiblingPool) -> Self {
        Self {
            ids: pool.ids().to_vec(),
            ..Self::default()
        }
    }
}

impl SelectSiblings for FakeSelector {
    fn select(&mut self, context: &RouteContext, k: usize) -> Result<Decision, SelectError> {
        self.contexts.push(context.clone());
        let first = self.ids.iter().take(k).cloned().collect();
        Ok(Decision {
            chosen: self.forced.clone().unwrap_or(first),
            ..Decision::default()
        })
    }

    fn observe(&mut self, evidence: &RescueEvidence) -> Result<(), SelectError> {
        evidence.check()?;
        self.evidence.push(evidence.clone());
        Ok(())
    }

    fn reanchor(&mut self, _probe: &mut dyn Probe) -> Result<(), SelectError> {
        Ok(())
    }
}
