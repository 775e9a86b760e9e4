//! The router's settings.

use harness_pool::{ProfileConfig, SelectError};
use serde::{Deserialize, Serialize};

use crate::aggregate::Aggregation;

/// What happens to a decision by a stale profile (bug report V9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnStale {
    /// It is made, and carries a note.
    #[default]
    Warn,
    /// It is refused with [`SelectError::StaleProfile`], before any voter is asked.
    Refuse,
}

/// The router's settings. All defaults are ours: the abstract of arXiv 2611.04277 gives none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RouterConfig {
    /// Valid ballots that must come in, at least 1 and at most the number of voters; below it the embedded
    /// voters decide. Default 2.
    pub quorum: usize,
    /// Chance, in `[0, 1]`, that the last slot goes to a sibling drawn at random from those not chosen.
    /// Default 0.1.
    pub epsilon: f64,
    /// How ballots are counted. Default Borda.
    pub aggregation: Aggregation,
    /// Whether a sibling stands behind all others in clusters where re-anchoring found it worse than fresh
    /// base retries. Default true.
    pub demote_unroutable: bool,
    /// Policy updates after the last re-anchoring beyond which the profile is stale; `None` is never.
    /// Default 40, two re-anchorings missed.
    pub stale_after: Option<u64>,
    /// What happens to a decision by a stale profile. Default: a note.
    pub on_stale: OnStale,
    /// How evidence is weighed.
    pub profile: ProfileConfig,
}

impl Default for RouterConfig {
    fn default() -> Self {
        Self {
            quorum: 2,
            epsilon: 0.1,
            aggregation: Aggregation::Borda,
            demote_unroutable: true,
            stale_after: Some(40),
            on_stale: OnStale::Warn,
            profile: ProfileConfig::default(),
        }
    }
}

impl RouterConfig {
    /// Checks the settings against the number of voters.
    ///
    /// # Errors
    /// [`SelectError::Config`] if the quorum can never or always be reached, epsilon is no chance, or stale
    /// profiles are refused though none is ever stale.
    pub fn validate(&self, n_voters: usize) -> Result<(), SelectError> {
        if !(1..=n_voters).contains(&self.quorum) {
            return Err(SelectError::Config(format!(
                "quorum must be 1 to the number of voters ({n_voters}), got: {}",
                self.quorum
            )));
        }
        if !(0.0..=1.0).contains(&self.epsilon) {
            return Err(SelectError::Config(format!(
                "epsilon must be 0 to 1, got: {}",
                self.epsilon
            )));
        }
        if self.on_stale == OnStale::Refuse && self.stale_after.is_none() {
            return Err(SelectError::Config(
                "stale profiles are to be refused, but `stale_after` is not set".into(),
            ));
        }
        Ok(())
    }
}
