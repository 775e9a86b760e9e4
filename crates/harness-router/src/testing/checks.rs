//! The checks: each fails a test case if a selector breaks its invariant.

use std::collections::BTreeSet;

use harness_core::{HarnessId, TaskId};
use harness_pool::{
    BehaviorProfile, Decision, EvidenceRow, Probe, RescueEvidence, RouteContext, SelectError,
    SelectSiblings, SiblingPool,
};
use proptest::test_runner::TestCaseError;

use super::{voters, voters_saying};
use crate::ballot::{Ballot, NoBallot};
use crate::voter::Voter;

/// Builds the selector under test of voters.
pub type MakeSelector<'a> = &'a dyn Fn(Vec<Box<dyn Voter>>) -> Box<dyn SelectSiblings>;

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

/// Rows that are told twice count once: a selector that was told all of them twice decides as one that was
/// told them once. `rows` are of siblings of the pool, each rollout once.
///
/// # Errors
/// A failed test case if not, or if the selector refuses the rows.
pub fn check_told_twice(
    make: &dyn Fn() -> Box<dyn SelectSiblings>,
    rows: &[EvidenceRow],
    context: &RouteContext,
    k: usize,
) -> Result<(), TestCaseError> {
    let decide = |n_times: usize| {
        let mut selector = make();
        for _ in 0..n_times {
            for evidence in by_rescue(rows, context) {
                selector.observe(&evidence)?;
            }
        }
        selector.select(context, k)
    };
    let decide = |n| decide(n).map_err(|error| TestCaseError::fail(error.to_string()));
    let (once, twice) = (decide(1)?, decide(2)?);
    holds(once == twice, || {
        format!("{once:?} becomes {twice:?} when the same is told twice")
    })
}

/// A re-anchoring that fails is an error and changes nothing, at whichever probe it fails. `rows` are what
/// the probes before it say.
///
/// # Errors
/// A failed test case if not.
pub fn check_failed_reanchor(
    selector: &mut dyn SelectSiblings,
    rows: &[EvidenceRow],
    context: &RouteContext,
    k: usize,
) -> Result<(), TestCaseError> {
    for n_good in 0..2 {
        let mut probe = BreakingProbe { n_good, rows };
        let select = |selector: &mut dyn SelectSiblings| {
            let decision = selector.select(context, k);
            decision.map_err(|error| TestCaseError::fail(error.to_string()))
        };
        let before = select(selector)?;
        holds(selector.reanchor(&mut probe).is_err(), || {
            format!("probe {n_good} fails, re-anchoring does not")
        })?;
        let after = select(selector)?;
        holds(before == after, || {
            format!("{before:?} becomes {after:?} by a failed re-anchoring")
        })?;
    }
    Ok(())
}

/// Says the rows of the harness that is asked for, `n_good` times, and breaks.
struct BreakingProbe<'a> {
    n_good: usize,
    rows: &'a [EvidenceRow],
}

impl Probe for BreakingProbe<'_> {
    fn probe(&mut self, harness: Option<&HarnessId>) -> Result<Vec<EvidenceRow>, SelectError> {
        let Some(n_left) = self.n_good.checked_sub(1) else {
            return Err(SelectError::probe("no rollouts"));
        };
        self.n_good = n_left;
        let mut rows = self.rows.to_vec();
        rows.retain(|row| Some(&row.harness) == harness);
        for row in &mut rows {
            row.is_selected = false;
        }
        Ok(rows)
    }
}

/// The rows by sibling and task, each as one rescue.
fn by_rescue(rows: &[EvidenceRow], context: &RouteContext) -> Vec<RescueEvidence> {
    let keys: BTreeSet<(&HarnessId, &TaskId)> =
        rows.iter().map(|row| (&row.harness, &row.task)).collect();
    let evidence = |(harness, task): (&HarnessId, &TaskId)| {
        let of = |row: &&EvidenceRow| row.harness == *harness && row.task == *task;
        let context = RouteContext {
            task_id: task.clone(),
            ..context.clone()
        };
        let rows = rows.iter().filter(of).cloned().collect();
        RescueEvidence::from_rows(context, harness.clone(), rows)
    };
    keys.into_iter().map(evidence).collect()
}

/// A voter gives a valid ballot or none, the same for the same arguments, in whatever order the pool is
/// listed.
///
/// # Errors
/// A failed test case if not.
pub fn check_voter(
    voter: &dyn Voter,
    context: &RouteContext,
    pool: &[HarnessId],
    profile: &BehaviorProfile,
) -> Result<(), TestCaseError> {
    let says = voter.vote(context, pool, profile);
    if let Ok(ballot) = &says {
        let problem = ballot.check(pool).err();
        holds(problem.is_none(), || {
            format!("{}: {ballot:?}: {problem:?}", voter.name())
        })?;
    }
    let again = voter.vote(context, pool, profile);
    holds(says == again, || {
        format!("{says:?} is followed by {again:?}")
    })?;
    let reversed: Vec<HarnessId> = pool.iter().rev().cloned().collect();
    let other = voter.vote(context, &reversed, profile);
    holds(says == other, || {
        format!("{says:?} becomes {other:?} if the pool is listed backwards")
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
