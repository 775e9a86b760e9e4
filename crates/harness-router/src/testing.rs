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

use std::collections::BTreeSet;
use std::ops::Range;

use harness_core::{
    BaseHarness, HarnessEdit, HarnessId, HarnessSpec, PolicyVersion, RolloutId, Seed, TaskId,
};
use harness_pool::{
    AcceptanceEvidence, BehaviorProfile, Cluster, Decision, Digest, EvidenceRow, PoolBuilder,
    RouteContext, SelectSiblings, Sibling, SiblingPool,
};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

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

/// Builds the selector under test of voters.
pub type MakeSelector<'a> = &'a dyn Fn(Vec<Box<dyn Voter>>) -> Box<dyn SelectSiblings>;

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
        let sibling = Sibling {
            name: format!("sibling-{i}"),
            harness: base.apply(&edit).expect("a short note is within bounds"),
            direction: format!("direction {i}"),
            lineage: vec![edit],
            evidence: AcceptanceEvidence::default(),
        };
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
        RouteContext {
            task_id: TaskId::new("task").expect("printable"),
            instruction,
            digest: has_digest.then_some(digest),
            policy_version: PolicyVersion(0),
            step: 0,
            seed: Seed::new(seed),
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

fn holds(claim: bool, message: impl FnOnce() -> String) -> Result<(), TestCaseError> {
    if claim {
        Ok(())
    } else {
        Err(TestCaseError::fail(message()))
    }
}

fn chosen(
    make: MakeSelector<'_>,
    voters: Vec<Box<dyn Voter>>,
    context: &RouteContext,
    k: usize,
) -> Result<Vec<HarnessId>, TestCaseError> {
    let decision = make(voters).select(context, k);
    let decision = decision.map_err(|error| TestCaseError::fail(error.to_string()))?;
    Ok(decision.chosen)
}

/// Chosen siblings are of the pool, none twice, never the base, and `min(k, n)` of them.
///
/// # Errors
/// A failed test case if not.
pub fn check_selection(
    decision: &Decision,
    pool: &SiblingPool,
    k: usize,
) -> Result<(), TestCaseError> {
    let ids: BTreeSet<&HarnessId> = decision.chosen.iter().collect();
    holds(ids.len() == decision.chosen.len(), || {
        "a sibling is chosen twice".into()
    })?;
    holds(!ids.contains(pool.base_id()), || {
        "the base is chosen".into()
    })?;
    holds(ids.iter().all(|id| pool.get(id).is_some()), || {
        "a stranger is chosen".into()
    })?;
    let wanted = k.min(pool.len());
    holds(ids.len() == wanted, || {
        format!("{} chosen, not {wanted}", ids.len())
    })
}

/// The same context gives the same decision until the selector is told something.
///
/// # Errors
/// A failed test case if not.
pub fn check_repeatable(
    selector: &mut dyn SelectSiblings,
    context: &RouteContext,
    k: usize,
) -> Result<(), TestCaseError> {
    let mut select = || {
        selector
            .select(context, k)
            .map_err(|e| TestCaseError::fail(e.to_string()))
    };
    let (first, second) = (select()?, select()?);
    holds(first == second, || {
        format!("{first:?} is followed by {second:?}")
    })
}

/// The order of voters does not matter: `shuffled` holds the same ballots as `ballots`.
///
/// # Errors
/// A failed test case if it does.
pub fn check_anonymous(
    make: MakeSelector<'_>,
    ballots: Vec<Ballot>,
    shuffled: Vec<Ballot>,
    context: &RouteContext,
    k: usize,
) -> Result<(), TestCaseError> {
    let one = chosen(make, voters(ballots), context, k)?;
    let other = chosen(make, voters(shuffled), context, k)?;
    holds(one == other, || format!("{one:?} becomes {other:?}"))
}

/// Renaming harnesses on all ballots renames the result: `pool[i]` becomes `renamed[i]`. Promised without
/// ties and without evidence.
///
/// # Errors
/// A failed test case if it does not.
pub fn check_neutral(
    make: MakeSelector<'_>,
    ballots: &[Ballot],
    (pool, renamed): (&[HarnessId], &[HarnessId]),
    context: &RouteContext,
    k: usize,
) -> Result<(), TestCaseError> {
    let rename = |id: &HarnessId| {
        let at = pool.iter().position(|other| other == id);
        at.map_or_else(|| id.clone(), |at| renamed[at].clone())
    };
    let rename_all = |ids: &[HarnessId]| ids.iter().map(rename).collect::<Vec<_>>();
    let after = ballots.iter().map(|b| Ballot::new(rename_all(&b.ranking)));
    let expect = rename_all(&chosen(make, voters(ballots.to_vec()), context, k)?);
    let got = chosen(make, voters(after.collect()), context, k)?;
    holds(expect == got, || {
        format!("{expect:?} expected, {got:?} chosen")
    })
}

/// A sibling that every ballot puts first is chosen first. The ballots are changed to put `first` there.
///
/// # Errors
/// A failed test case if it is not.
pub fn check_unanimous(
    make: MakeSelector<'_>,
    ballots: Vec<Ballot>,
    first: &HarnessId,
    context: &RouteContext,
) -> Result<(), TestCaseError> {
    let lift = |mut ballot: Ballot| {
        ballot.ranking.retain(|id| id != first);
        ballot.ranking.insert(0, first.clone());
        ballot
    };
    let ballots = ballots.into_iter().map(lift).collect();
    let got = chosen(make, voters(ballots), context, 1)?;
    holds(got == [first.clone()], || {
        format!("{first} is first on all ballots, {got:?} chosen")
    })
}

/// Raising a sibling by one place on one ballot never lowers it. A sibling that the ballot leaves out is
/// raised to its end. `n` is the size of the pool.
///
/// # Errors
/// A failed test case if it does.
pub fn check_monotone(
    make: MakeSelector<'_>,
    mut ballots: Vec<Ballot>,
    (ballot, raised): (usize, &HarnessId),
    context: &RouteContext,
    n: usize,
) -> Result<(), TestCaseError> {
    let place = |ids: &[HarnessId]| ids.iter().position(|id| id == raised);
    let before = place(&chosen(make, voters(ballots.clone()), context, n)?);
    let ranking = &mut ballots[ballot].ranking;
    match place(ranking) {
        Some(at) if at > 0 => ranking.swap(at - 1, at),
        Some(_) => {}
        None => ranking.push(raised.clone()),
    }
    let after = place(&chosen(make, voters(ballots), context, n)?);
    holds(after <= before, || {
        format!("{raised} falls from {before:?} to {after:?}")
    })
}

/// Sayings that are no ballots change nothing, as long as the valid ballots reach the quorum.
///
/// # Errors
/// A failed test case if they do.
pub fn check_invalid_ignored(
    make: MakeSelector<'_>,
    ballots: &[Ballot],
    invalid: Vec<Result<Ballot, NoBallot>>,
    context: &RouteContext,
    k: usize,
) -> Result<(), TestCaseError> {
    let expect = chosen(make, voters(ballots.to_vec()), context, k)?;
    let says: Vec<_> = invalid
        .into_iter()
        .chain(ballots.iter().cloned().map(Ok))
        .collect();
    let got = chosen(make, voters_saying(says), context, k)?;
    holds(expect == got, || format!("{expect:?} becomes {got:?}"))
}
