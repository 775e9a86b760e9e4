//! From ballots to points. Whole numbers throughout, so the order of ballots cannot change a sum.

use std::collections::BTreeMap;

use harness_core::HarnessId;
use serde::{Deserialize, Serialize};

use crate::ballot::Ballot;

/// How ballots are counted. All three are anonymous and monotone, and put a sibling first that every ballot
/// puts first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Aggregation {
    /// Of n candidates the first of a ballot gets n - 1 points, the next n - 2, and so on; candidates that
    /// a partial ballot leaves out share equally what is left, so every ballot gives the same sum. (Giving
    /// them 0 instead would reward voters for short ballots.)
    #[default]
    Borda,
    /// One point for the first of each ballot; the rest is ignored.
    Majority,
    /// For each pair, two points for the one that more ballots put before the other, one each if even; a
    /// ballot that leaves both out says nothing of the pair.
    Copeland,
}

/// The points of every candidate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally(BTreeMap<HarnessId, u64>);

impl Tally {
    /// Counts valid ballots over candidates. Ids on a ballot that are no candidates are skipped.
    ///
    /// # Example
    /// ```
    /// use harness_core::HarnessId;
    /// use harness_router::{Aggregation, Ballot, Tally};
    /// let [a, b, c] = ["a", "b", "c"].map(|id| HarnessId::new(id).unwrap());
    /// let pool = [a.clone(), b.clone(), c.clone()];
    /// let tally = Tally::count(Aggregation::Borda, &[Ballot::new(vec![a.clone()])], &pool);
    /// // Doubled points: 2 for `a`; `b` and `c` share 1 + 0.
    /// assert_eq!([&a, &b, &c].map(|id| tally.points(id)), [4, 1, 1]);
    /// ```
    pub fn count(rule: Aggregation, ballots: &[Ballot], candidates: &[HarnessId]) -> Self {
        let mut tally = Self(candidates.iter().map(|id| (id.clone(), 0)).collect());
        match rule {
            Aggregation::Borda => tally.add_borda(ballots),
            Aggregation::Majority => tally.add_firsts(ballots),
            Aggregation::Copeland => tally.add_pairs(ballots, candidates),
        }
        tally
    }

    /// The points of a candidate, 0 for others. Borda points are doubled, so that a shared half is whole.
    pub fn points(&self, id: &HarnessId) -> u64 {
        self.0.get(id).copied().unwrap_or_default()
    }

    fn add(&mut self, id: &HarnessId, points: u64) {
        if let Some(sum) = self.0.get_mut(id) {
            *sum += points;
        }
    }

    fn ranked<'a>(&self, ballot: &'a Ballot) -> Vec<&'a HarnessId> {
        let ranking = ballot.ranking.iter();
        ranking.filter(|id| self.0.contains_key(*id)).collect()
    }

    fn add_borda(&mut self, ballots: &[Ballot]) {
        for ballot in ballots {
            let ranked = self.ranked(ballot);
            let n_left = self.0.len() - ranked.len();
            // Twice the mean of 0, 1, .., n_left - 1.
            let shared = n_left.saturating_sub(1) as u64;
            for (id, points) in &mut self.0 {
                let place = ranked.iter().position(|ranked_id| *ranked_id == id);
                let above = |place| 2 * (n_left + ranked.len() - 1 - place) as u64;
                *points += place.map_or(shared, above);
            }
        }
    }

    fn add_firsts(&mut self, ballots: &[Ballot]) {
        for ballot in ballots {
            if let Some(first) = self.ranked(ballot).first() {
                self.add(first, 1);
            }
        }
    }

    fn add_pairs(&mut self, ballots: &[Ballot], candidates: &[HarnessId]) {
        for (i, a) in candidates.iter().enumerate() {
            for b in &candidates[i + 1..] {
                let lead: i64 = ballots.iter().map(|ballot| preference(ballot, a, b)).sum();
                let (a_points, b_points) = match lead {
                    1.. => (2, 0),
                    0 => (1, 1),
                    _ => (0, 2),
                };
                self.add(a, a_points);
                self.add(b, b_points);
            }
        }
    }
}

/// 1 if the ballot puts `a` before `b`, -1 if behind, 0 if it says nothing.
fn preference(ballot: &Ballot, a: &HarnessId, b: &HarnessId) -> i64 {
    let place = |id| ballot.ranking.iter().position(|other| other == id);
    match (place(a), place(b)) {
        (Some(a), Some(b)) => {
            if a < b {
                1
            } else {
                -1
            }
        }
        (Some(_), None) => 1,
        (None, Some(_)) => -1,
        (None, None) => 0,
    }
}
