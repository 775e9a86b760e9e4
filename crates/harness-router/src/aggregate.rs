//! From ballots to points. Whole numbers throughout, so the order of ballots cannot change a sum.

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
pub struct Tally {
    /// Ascending.
    candidates: Vec<HarnessId>,
    /// `points[candidate]`.
    points: Vec<u64>,
}

/// A ballot's order of the candidates, by their number.
struct Places {
    /// `None` for candidates that the ballot leaves out; 0 is best.
    of: Vec<Option<usize>>,
    n_ranked: usize,
}

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
        let mut candidates = candidates.to_vec();
        candidates.sort();
        candidates.dedup();
        let points = vec![0; candidates.len()];
        let mut tally = Self { candidates, points };
        let places: Vec<Places> = ballots.iter().map(|ballot| tally.places(ballot)).collect();
        match rule {
            Aggregation::Borda => tally.add_borda(&places),
            Aggregation::Majority => tally.add_firsts(&places),
            Aggregation::Copeland => tally.add_pairs(&places),
        }
        tally
    }

    /// The points of a candidate, 0 for others. Borda points are doubled, so that a shared half is whole.
    pub fn points(&self, id: &HarnessId) -> u64 {
        self.find(id).map_or(0, |at| self.points[at])
    }

    fn find(&self, id: &HarnessId) -> Option<usize> {
        self.candidates.binary_search(id).ok()
    }

    fn places(&self, ballot: &Ballot) -> Places {
        let mut places = Places {
            of: vec![None; self.candidates.len()],
            n_ranked: 0,
        };
        for at in ballot.ranking.iter().filter_map(|id| self.find(id)) {
            if places.of[at].is_none() {
                places.of[at] = Some(places.n_ranked);
                places.n_ranked += 1;
            }
        }
        places
    }

    fn add_borda(&mut self, ballots: &[Places]) {
        let n = self.candidates.len();
        for ballot in ballots {
            // Twice the mean of 0, 1, .., n - n_ranked - 1.
            let shared = (n - ballot.n_ranked).saturating_sub(1) as u64;
            for (points, place) in self.points.iter_mut().zip(&ballot.of) {
                let above = |place| 2 * (n - 1 - place) as u64;
                *points += place.map_or(shared, above);
            }
        }
    }

    fn add_firsts(&mut self, ballots: &[Places]) {
        for ballot in ballots {
            for (points, place) in self.points.iter_mut().zip(&ballot.of) {
                *points += u64::from(*place == Some(0));
            }
        }
    }

    fn add_pairs(&mut self, ballots: &[Places]) {
        let n = self.candidates.len();
        for a in 0..n {
            for b in a + 1..n {
                let lead: i64 = ballots.iter().map(|ballot| ballot.preference(a, b)).sum();
                let (a_points, b_points) = match lead {
                    1.. => (2, 0),
                    0 => (1, 1),
                    _ => (0, 2),
                };
                self.points[a] += a_points;
                self.points[b] += b_points;
            }
        }
    }
}

impl Places {
    /// 1 if the ballot puts `a` before `b`, -1 if behind, 0 if it says nothing.
    fn preference(&self, a: usize, b: usize) -> i64 {
        match (self.of[a], self.of[b]) {
            (Some(a), Some(b)) if a < b => 1,
            (Some(_), None) => 1,
            (None, None) => 0,
            _ => -1,
        }
    }
}
