//! Ballots, and what makes a reply no ballot at all.

use std::mem;

use harness_core::HarnessId;
use serde::{Deserialize, Serialize};

/// A ranking of siblings, best first. It may be partial: those not named stand behind all that are, with no
/// order among themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ballot {
    /// The siblings, best first.
    pub ranking: Vec<HarnessId>,
}

/// Why there is no ballot. It is never turned into a value, and counts against the quorum (bug reports V1,
/// V5, V7).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoBallot {
    /// Nobody is ranked.
    #[error("the ballot is empty")]
    Empty,
    /// A name is not on the ballot; there are no write-ins.
    #[error("not a sibling of the pool: {0:?}")]
    Unknown(String),
    /// A name fits several siblings: exactly, or none exactly and several if case is ignored.
    #[error("the name fits more than one sibling: {0:?}")]
    Ambiguous(String),
    /// A sibling is ranked twice.
    #[error("ranked twice: {0}")]
    Duplicate(HarnessId),
    /// The reply holds no ranking.
    #[error("the reply holds no ranking: {0}")]
    Unreadable(&'static str),
    /// The voter could not be asked.
    #[error("the voter failed: {0}")]
    Failed(String),
}

impl Ballot {
    /// A ballot with this ranking.
    pub fn new(ranking: Vec<HarnessId>) -> Self {
        Self { ranking }
    }

    /// Checks the ballot against the pool's ids.
    ///
    /// # Errors
    /// [`NoBallot`] if it is empty, names a stranger (the base is one), or names a sibling twice. The whole
    /// ballot is then void: a voter that is wrong about one name cannot be trusted with the others.
    pub fn check(&self, pool: &[HarnessId]) -> Result<(), NoBallot> {
        if self.ranking.is_empty() {
            return Err(NoBallot::Empty);
        }
        let mut names: Vec<&HarnessId> = pool.iter().collect();
        names.sort();
        names.dedup();
        let mut is_ranked = vec![false; names.len()];
        for id in &self.ranking {
            let Ok(at) = names.binary_search(&id) else {
                return Err(NoBallot::Unknown(id.as_str().to_owned()));
            };
            if mem::replace(&mut is_ranked[at], true) {
                return Err(NoBallot::Duplicate(id.clone()));
            }
        }
        Ok(())
    }
}
