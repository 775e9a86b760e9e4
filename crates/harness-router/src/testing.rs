//! The router's invariants, as strategies and checks for voters and selectors of your own.
//!
//! The checks take a function that builds a selector of given voters (or of none, if yours has its own), so
//! they hold for any counting rule. All assume that the selector explores nothing (`epsilon = 0`), since a
//! random slot may break each of them, and a quorum of 1.
//!
//! *Ties.* Ties must be broken by something, and the router breaks the last of them by id, which no renaming
//! respects. [`check_neutral`] is therefore promised for ballots without ties and without evidence; filter
//! with [`has_tie`].
//!
//! A selector without voters of its own can be held against [`check_selection`], [`check_repeatable`],
//! [`check_told_twice`] and [`check_failed_reanchor`]; a voter against [`check_voter`]. The strategies are of
//! `proptest` 1, which must be a dependency of your tests.
//!
//! ```
//! use harness_router::testing::{ballots, check_selection, contexts, pool_of, voters};
//! use harness_router::{Router, RouterConfig};
//! use harness_pool::SelectSiblings;
//! use proptest::prelude::*;
//!
//! let pool = pool_of(4);
//! proptest!(|(ballots in ballots(pool.ids(), 1..4), context in contexts(), k in 0..6_usize)| {
//!     let config = RouterConfig { quorum: 1, ..RouterConfig::default() };
//!     let mut router = Router::new(&pool, voters(ballots), config).unwrap();
//!     check_selection(&router.select(&context, k).unwrap(), &pool, k)?;
//! });
//! ```

mod checks;

use std::collections::BTreeSet;
use std::ops::Range;

use harness_core::{
    BaseHarness, HarnessEdit, HarnessId, HarnessSpec, PolicyVersion, RolloutId, Seed, TaskId,
};
use harness_pool::{
    BehaviorProfile, Cluster, Digest, EvidenceRow, PoolBuilder, RouteContext, Sibling, SiblingPool,
};
use proptest::prelude::*;

pub use checks::{
    MakeSelector, check_anonymous, check_failed_reanchor, check_invalid_ignored, check_monotone,
    check_neutral, check_repeatable, check_selection, check_told_twice, check_unanimous,
    check_voter,
};

use crate::aggregate::{Aggregation, Tally};
use crate::ballot::{Ballot, NoBallot};
use crate::voter::Voter;

/// A voter that always says the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptedVoter {
    /// Its name.
    pub name: String,
    /// What it says.
    pub says: Result<Ballot, NoBallot>,
}

impl Voter for ScriptedVoter {
    fn name(&self) -> &str {
        &self.name
    }

    fn vote(
        &self,
        _context: &RouteContext,
        _pool: &[HarnessId],
        _profile: &BehaviorProfile,
    ) -> Result<Ballot, NoBallot> {
        self.says.clone()
    }
}

/// One scripted voter for each ballot.
pub fn voters(ballots: Vec<Ballot>) -> Vec<Box<dyn Voter>> {
    let says = ballots.into_iter().map(Ok);
    voters_saying(says.collect())
}

/// One scripted voter for each saying, valid or not.
pub fn voters_saying(says: Vec<Result<Ballot, NoBallot>>) -> Vec<Box<dyn Voter>> {
    let voter = |(n, says)| -> Box<dyn Voter> {
        let name = format!("voter-{n}");
        Box::new(ScriptedVoter { name, says })
    };
    says.into_iter().enumerate().map(voter).collect()
}

/// A pool of `n` siblings, at most 256, that differ in a note.
///
/// # Panics
/// If `n` is more than a pool holds.
pub fn pool_of(n: usize) -> SiblingPool {
    let base = HarnessSpec::base(BaseHarness::default());
    let mut builder = PoolBuilder::new(base.clone(), "policy".into(), "tasks".into());
    for i in 0..n {
        let edit = HarnessEdit::AddNote(format!("note {i}"));
        let sibling = Sibling::by_hand(format!("sibling-{i}"), &base, vec![edit])
            .expect("a short note is within bounds");
        builder
            .add(sibling)
            .expect("siblings differ and are at most 256");
    }
    builder.freeze()
}

/// Contexts of tasks, with and without a digest, of few clusters.
///
/// # Panics
/// Never: the names are printable.
pub fn contexts() -> impl Strategy<Value = RouteContext> {
    let parts = (0..3_usize, 0..3_usize, any::<bool>(), any::<u64>());
    parts.prop_map(|(verb, kind, has_digest, seed)| {
        let instruction = format!("{} it", ["play", "send", "pay"][verb]);
        let mut digest = Digest::from_attempts(&instruction, &[]);
        digest.error_kind = ["none", "login", "page"][kind].into();
        let id = TaskId::new("task").expect("printable");
        RouteContext {
            digest: has_digest.then_some(digest),
            ..RouteContext::new(id, instruction, Seed::new(seed))
        }
    })
}

/// Rows of evidence on these harnesses in the clusters of [`contexts`].
///
/// # Panics
/// Never: the names are printable.
pub fn rows(harnesses: &[HarnessId]) -> impl Strategy<Value = Vec<EvidenceRow>> + use<> {
    let cell = (
        prop::sample::select(harnesses.to_vec()),
        0..9_usize,
        any::<[bool; 3]>(),
        0..50_u64,
    );
    prop::collection::vec(cell, 0..60).prop_map(|cells| {
        let row =
            |(n, (harness, at, flags, version)): (usize, (HarnessId, usize, [bool; 3], u64))| {
                EvidenceRow {
                    rollout: RolloutId::new(format!("rollout-{n}")).expect("printable"),
                    harness,
                    task: TaskId::new(format!("task-{}", n % 7)).expect("printable"),
                    cluster: Cluster::of(
                        ["play", "send", "pay"][at / 3],
                        ["none", "login", "page"][at % 3],
                    ),
                    solved: flags[0],
                    base_failed_all: flags[1],
                    is_selected: flags[2],
                    turns: 1,
                    tokens: 1,
                    policy_version: PolicyVersion(version),
                    fired: false,
                    flags: if flags[0] {
                        vec!["done".into()]
                    } else {
                        vec![]
                    },
                }
            };
        cells.into_iter().enumerate().map(row).collect()
    })
}

/// Valid ballots, full and partial, over a pool that is not empty.
pub fn ballots(pool: &[HarnessId], n: Range<usize>) -> impl Strategy<Value = Vec<Ballot>> + use<> {
    let ranking = (Just(pool.to_vec()).prop_shuffle(), 1..=pool.len());
    let ballot = ranking.prop_map(|(mut ranking, length)| {
        ranking.truncate(length);
        Ballot::new(ranking)
    });
    prop::collection::vec(ballot, n)
}

/// Sayings that are no ballots over a pool that is not empty: empty, a stranger, one twice, a failure.
///
/// # Panics
/// If the pool is empty.
pub fn invalid_sayings(
    pool: &[HarnessId],
) -> impl Strategy<Value = Result<Ballot, NoBallot>> + use<> {
    let first = pool[0].clone();
    let stranger = HarnessId::new("no-such-harness").expect("printable");
    prop::sample::select(vec![
        Ok(Ballot::default()),
        Ok(Ballot::new(vec![first.clone(), stranger])),
        Ok(Ballot::new(vec![first.clone(), first])),
        Err(NoBallot::Unreadable("its last object is cut")),
        Err(NoBallot::Failed("no server".into())),
    ])
}

/// Whether two candidates have the same points.
pub fn has_tie(rule: Aggregation, ballots: &[Ballot], pool: &[HarnessId]) -> bool {
    let tally = Tally::count(rule, ballots, pool);
    let points: BTreeSet<u64> = pool.iter().map(|id| tally.points(id)).collect();
    points.len() < pool.len()
}
