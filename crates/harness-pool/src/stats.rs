//! What rows of evidence say together: counts, a discounted rate with its interval, and a sibling's utility.

use std::fmt;

use harness_core::PolicyVersion;
use serde::{Deserialize, Serialize};

use crate::beta;
use crate::cluster::Cluster;
use crate::evidence::EvidenceRow;

/// Which clusters a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterScope<'a> {
    /// All of them.
    All,
    /// One cluster.
    Cluster(&'a Cluster),
    /// Clusters of this verb, whatever the error.
    Verb(&'a str),
    /// Clusters of this error kind, whatever the verb.
    ErrorKind(&'a str),
}

/// Which rows a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// All rows, of whatever origin.
    Anything,
    /// All rows but routed rescues: every harness on the same tasks, for Rank-1.
    Probed,
    /// Rows of tasks that the base had just failed in all attempts: for rescue.
    BaseFailedAll,
    /// The same, without routed rescues: unbiased by the router's own choices.
    BaseFailedAllProbed,
}

/// What rows say together. Counts are raw; `weight` and `weighted_successes` are discounted by age.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Stats {
    /// Attempts.
    pub attempts: u64,
    /// Attempts that solved their task.
    pub successes: u64,
    /// Attempts that a router chose.
    pub selected: u64,
    /// Attempts in which a rule acted.
    pub fired: u64,
    /// Turns over all attempts.
    pub turns: u64,
    /// Tokens over all attempts.
    pub tokens: u64,
    /// Discounted attempts: the effective sample size.
    pub weight: f64,
    /// Discounted successes, at most `weight`.
    pub weighted_successes: f64,
}

/// The gain of a sibling over fresh base retries, both on tasks that the base had failed; probes only.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Utility {
    /// Difference of the two Beta means, in `(-1, 1)`.
    pub mean: f64,
    /// Lower 95 % bound, by the normal approximation to the difference of two Betas.
    pub low: f64,
    /// Upper 95 % bound.
    pub high: f64,
    /// Attempts under the sibling.
    pub sibling_attempts: u64,
    /// Fresh base retries.
    pub base_attempts: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CellKey {
    pub(crate) version: PolicyVersion,
    base_failed_all: bool,
    is_selected: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    attempts: u64,
    successes: u64,
    fired: u64,
    turns: u64,
    tokens: u64,
}

impl CellKey {
    pub(crate) fn of(row: &EvidenceRow) -> Self {
        Self {
            version: row.policy_version,
            base_failed_all: row.base_failed_all,
            is_selected: row.is_selected,
        }
    }
}

impl Counts {
    pub(crate) fn count(&mut self, row: &EvidenceRow) {
        self.attempts += 1;
        self.successes += u64::from(row.solved);
        self.fired += u64::from(row.fired);
        self.turns += u64::from(row.turns);
        self.tokens = self.tokens.saturating_add(row.tokens);
    }
}

impl Utility {
    /// The gain of a sibling by what is known of it and of the base, both of
    /// [`Given::BaseFailedAllProbed`] in one scope.
    pub fn between(sibling: &Stats, base: &Stats) -> Self {
        let mean = sibling.mean() - base.mean();
        let half = 1.959_964 * (sibling.variance() + base.variance()).sqrt();
        Self {
            mean,
            low: mean - half,
            high: mean + half,
            sibling_attempts: sibling.attempts,
            base_attempts: base.attempts,
        }
    }
}

impl fmt::Display for ClusterScope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Cluster(cluster) => write!(f, "cluster {cluster}"),
            Self::Verb(verb) => write!(f, "verb {verb}"),
            Self::ErrorKind(kind) => write!(f, "error kind {kind}"),
        }
    }
}

impl ClusterScope<'_> {
    pub(crate) fn holds(self, cluster: &Cluster) -> bool {
        match self {
            Self::All => true,
            Self::Cluster(wanted) => cluster == wanted,
            Self::Verb(verb) => cluster.verb() == verb,
            Self::ErrorKind(kind) => cluster.error_kind() == kind,
        }
    }
}

impl Given {
    pub(crate) const COUNT: usize = 4;
    /// In the order of their numbers, which index what is kept by them.
    pub(crate) const ALL: [Self; Self::COUNT] = [
        Self::Anything,
        Self::Probed,
        Self::BaseFailedAll,
        Self::BaseFailedAllProbed,
    ];

    pub(crate) fn holds(self, key: CellKey) -> bool {
        match self {
            Self::Anything => true,
            Self::Probed => !key.is_selected,
            Self::BaseFailedAll => key.base_failed_all,
            Self::BaseFailedAllProbed => key.base_failed_all && !key.is_selected,
        }
    }
}

impl Stats {
    /// Mean of Beta(1 + s, 1 + f) over discounted counts, in `(0, 1)`; 0.5 without evidence.
    pub fn mean(&self) -> f64 {
        beta::mean(self.weighted_successes, self.weighted_failures())
    }

    /// Central 95 % interval of the same Beta.
    pub fn interval95(&self) -> (f64, f64) {
        beta::interval95(self.weighted_successes, self.weighted_failures())
    }

    /// Variance of the same Beta.
    pub fn variance(&self) -> f64 {
        beta::variance(self.weighted_successes, self.weighted_failures())
    }

    fn weighted_failures(&self) -> f64 {
        (self.weight - self.weighted_successes).max(0.0)
    }

    /// Mean number of turns; `None` without attempts.
    pub fn mean_turns(&self) -> Option<f64> {
        (self.attempts > 0).then(|| self.turns as f64 / self.attempts as f64)
    }

    /// Mean number of tokens; `None` without attempts.
    pub fn mean_tokens(&self) -> Option<f64> {
        (self.attempts > 0).then(|| self.tokens as f64 / self.attempts as f64)
    }

    /// Share of attempts in which a rule acted; `None` without attempts.
    pub fn fire_rate(&self) -> Option<f64> {
        (self.attempts > 0).then(|| self.fired as f64 / self.attempts as f64)
    }

    pub(crate) fn add(&mut self, key: CellKey, counts: &Counts, weight: f64) {
        self.attempts += counts.attempts;
        self.successes += counts.successes;
        self.selected += if key.is_selected { counts.attempts } else { 0 };
        self.fired += counts.fired;
        self.turns += counts.turns;
        self.tokens = self.tokens.saturating_add(counts.tokens);
        self.weight += weight * counts.attempts as f64;
        self.weighted_successes += weight * counts.successes as f64;
    }
}
