//! Behaviour profiles: what each harness does for the current policy, as a pure function of evidence rows
//! and the policy's version.

use std::collections::BTreeMap;
use std::path::Path;

use harness_core::{HarnessId, PolicyVersion, RolloutId, TaskId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::beta;
use crate::cluster::Cluster;
use crate::evidence::EvidenceRow;
use crate::record::{self, Format, RecordError};

/// The newest format of a profile file that this code reads, and the one that it writes.
pub const PROFILE_FORMAT_VERSION: u64 = 1;
/// Largest profile file that is read: 256 MiB.
pub const MAX_PROFILE_BYTES: u64 = 256 << 20;

const FORMAT: Format = Format {
    kind: "behavior_profile",
    version: PROFILE_FORMAT_VERSION,
    max_bytes: MAX_PROFILE_BYTES,
};

/// How evidence is weighed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProfileConfig {
    /// Policy updates after which evidence counts half, `> 0`; `None` never discounts. A row of version `r`
    /// weighs `0.5 ^ ((version - r) / half_life)`; one newer than the profile weighs 1. Default 20, the
    /// distance of two re-anchorings (ours).
    pub half_life: Option<f64>,
}

impl Default for ProfileConfig {
    fn default() -> Self {
        Self {
            half_life: Some(20.0),
        }
    }
}

/// Why rows do not make a profile.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// One attempt is told in two ways; neither can be trusted.
    #[error("two different rows of evidence have the same rollout: {0}")]
    Conflict(RolloutId),
    /// The half-life is not a positive number.
    #[error("the half-life of evidence must be positive, got: {0}")]
    HalfLife(f64),
}

/// Which clusters a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope<'a> {
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
    /// All rows: for Rank-1, where no failed attempts are looked at.
    Anything,
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

/// Tasks that show what a sibling does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Examples {
    /// At most two tasks that the base failed and the sibling solved.
    pub rescued: Vec<TaskId>,
    /// At most one task that the base solved and the sibling failed.
    pub harmed: Vec<TaskId>,
}

/// What is known of every harness, the base among them.
///
/// A pure function of (set of rows, policy version, config): the order of rows and repetitions do not
/// matter, to the last bit.
#[derive(Debug, Clone, PartialEq)]
pub struct BehaviorProfile {
    policy_version: PolicyVersion,
    config: ProfileConfig,
    rows: BTreeMap<RolloutId, EvidenceRow>,
    cells: BTreeMap<HarnessId, BTreeMap<Cluster, Cell>>,
}

/// Counts by policy version, so that discounts are applied to whole numbers in one fixed order.
type Cell = BTreeMap<CellKey, Counts>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CellKey {
    version: PolicyVersion,
    base_failed_all: bool,
    is_selected: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counts {
    attempts: u64,
    successes: u64,
    fired: u64,
    turns: u64,
    tokens: u64,
}

/// The content of a profile file, beside `format_version`, `kind` and `hash`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ProfileContent {
    /// The version of the policy that the profile speaks of.
    policy_version: PolicyVersion,
    /// How evidence is weighed.
    config: ProfileConfig,
    /// The evidence, in the order of rollout ids.
    rows: Vec<EvidenceRow>,
}

impl BehaviorProfile {
    /// Makes a profile of rows. Equal rows of one rollout are counted once.
    ///
    /// # Errors
    /// [`ProfileError::Conflict`] if two rows of one rollout differ, [`ProfileError::HalfLife`] if the
    /// half-life is not positive.
    pub fn from_rows(
        rows: impl IntoIterator<Item = EvidenceRow>,
        policy_version: PolicyVersion,
        config: ProfileConfig,
    ) -> Result<Self, ProfileError> {
        match config.half_life {
            Some(half_life) if half_life.is_nan() || half_life <= 0.0 => {
                return Err(ProfileError::HalfLife(half_life));
            }
            _ => {}
        }
        let mut profile = Self {
            policy_version,
            config,
            rows: BTreeMap::new(),
            cells: BTreeMap::new(),
        };
        profile.insert(rows)?;
        Ok(profile)
    }

    /// Adds rows; the version stays. Rows that are there already change nothing.
    ///
    /// # Errors
    /// [`ProfileError::Conflict`] if a row differs from another of its rollout; no row is then added.
    pub fn insert(
        &mut self,
        rows: impl IntoIterator<Item = EvidenceRow>,
    ) -> Result<(), ProfileError> {
        let mut fresh: BTreeMap<RolloutId, EvidenceRow> = BTreeMap::new();
        for row in rows {
            match self
                .rows
                .get(&row.rollout)
                .or_else(|| fresh.get(&row.rollout))
            {
                Some(known) if *known != row => return Err(ProfileError::Conflict(row.rollout)),
                Some(_) => {}
                None => {
                    fresh.insert(row.rollout.clone(), row);
                }
            }
        }
        for row in fresh.values() {
            self.count(row);
        }
        self.rows.append(&mut fresh);
        Ok(())
    }

    /// Moves the profile to another version of the policy; all evidence is weighed anew.
    pub fn set_policy_version(&mut self, version: PolicyVersion) {
        self.policy_version = version;
    }

    /// The version of the policy that the profile speaks of.
    pub fn policy_version(&self) -> PolicyVersion {
        self.policy_version
    }

    /// How evidence is weighed.
    pub fn config(&self) -> ProfileConfig {
        self.config
    }

    /// The evidence, in the order of rollout ids.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &EvidenceRow> {
        self.rows.values()
    }

    /// The harnesses with evidence, the base among them, ascending.
    pub fn harnesses(&self) -> impl Iterator<Item = &HarnessId> {
        self.cells.keys()
    }

    /// The clusters in which a harness has evidence, ascending.
    pub fn clusters(&self, harness: &HarnessId) -> impl Iterator<Item = &Cluster> {
        self.cells.get(harness).into_iter().flat_map(BTreeMap::keys)
    }

    /// What the rows of a harness say; zeros without evidence.
    pub fn stats(&self, harness: &HarnessId, scope: Scope<'_>, given: Given) -> Stats {
        let mut stats = Stats::default();
        for (cluster, cell) in self.cells.get(harness).into_iter().flatten() {
            if !scope.holds(cluster) {
                continue;
            }
            for (key, counts) in cell.iter().filter(|(key, _)| given.holds(**key)) {
                stats.add(*key, counts, self.weight(key.version));
            }
        }
        stats
    }

    /// The gain of a sibling over fresh base retries, by probes on tasks that the base had failed.
    /// A sibling is unroutable where `high < 0`. Without evidence the interval is wide around 0.
    pub fn utility(&self, sibling: &HarnessId, base: &HarnessId, scope: Scope<'_>) -> Utility {
        let of = |harness| self.stats(harness, scope, Given::BaseFailedAllProbed);
        let (sibling, base) = (of(sibling), of(base));
        let mean = sibling.mean() - base.mean();
        let half = 1.959_964 * (sibling.variance() + base.variance()).sqrt();
        Utility {
            mean,
            low: mean - half,
            high: mean + half,
            sibling_attempts: sibling.attempts,
            base_attempts: base.attempts,
        }
    }

    /// Attempts of a harness that failed a task which the base had solved.
    pub fn regressions(&self, harness: &HarnessId) -> u64 {
        self.rows_of(harness).filter(|row| is_harm(row)).count() as u64
    }

    /// Tasks that show what a sibling does: the first by rollout id.
    pub fn examples(&self, harness: &HarnessId) -> Examples {
        let mut examples = Examples::default();
        for row in self.rows_of(harness) {
            let (list, most) = if row.base_failed_all && row.solved {
                (&mut examples.rescued, 2)
            } else if is_harm(row) {
                (&mut examples.harmed, 1)
            } else {
                continue;
            };
            if list.len() < most && !list.contains(&row.task) {
                list.push(row.task.clone());
            }
        }
        examples
    }

    /// Writes the profile to a file, as a pool is.
    ///
    /// # Errors
    /// [`RecordError::Io`] if the folder is missing or cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), RecordError> {
        let content = ProfileContent {
            policy_version: self.policy_version,
            config: self.config,
            rows: self.rows.values().cloned().collect(),
        };
        record::save(path.as_ref(), FORMAT, &content)
    }

    /// Reads a profile from a file and checks all of it.
    ///
    /// # Errors
    /// [`RecordError`] if the file is missing, too large, not JSON, of another kind, made by a newer
    /// version, changed since it was written, or contradicts itself.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, RecordError> {
        let path = path.as_ref();
        let (content, _): (ProfileContent, String) = record::load(path, FORMAT)?;
        let made = Self::from_rows(content.rows, content.policy_version, content.config);
        made.map_err(|source| RecordError::Profile {
            path: path.to_owned(),
            source,
        })
    }

    /// The JSON Schema of a profile file's content, without `format_version`, `kind` and `hash`.
    pub fn content_schema() -> schemars::Schema {
        schemars::schema_for!(ProfileContent)
    }

    fn rows_of<'a>(&'a self, harness: &'a HarnessId) -> impl Iterator<Item = &'a EvidenceRow> {
        self.rows
            .values()
            .filter(move |row| row.harness == *harness)
    }

    fn count(&mut self, row: &EvidenceRow) {
        let key = CellKey {
            version: row.policy_version,
            base_failed_all: row.base_failed_all,
            is_selected: row.is_selected,
        };
        let cells = self.cells.entry(row.harness.clone()).or_default();
        let cell = cells.entry(row.cluster.clone()).or_default();
        let counts = cell.entry(key).or_default();
        counts.attempts += 1;
        counts.successes += u64::from(row.solved);
        counts.fired += u64::from(row.fired);
        counts.turns += u64::from(row.turns);
        counts.tokens = counts.tokens.saturating_add(row.tokens);
    }

    fn weight(&self, version: PolicyVersion) -> f64 {
        let age = self.policy_version.0.saturating_sub(version.0);
        match self.config.half_life {
            Some(half_life) => 0.5_f64.powf(age as f64 / half_life),
            None => 1.0,
        }
    }
}

fn is_harm(row: &EvidenceRow) -> bool {
    !row.base_failed_all && !row.is_selected && !row.solved
}

impl Scope<'_> {
    fn holds(self, cluster: &Cluster) -> bool {
        match self {
            Self::All => true,
            Self::Cluster(wanted) => cluster == wanted,
            Self::Verb(verb) => cluster.verb() == verb,
            Self::ErrorKind(kind) => cluster.error_kind() == kind,
        }
    }
}

impl Given {
    fn holds(self, key: CellKey) -> bool {
        match self {
            Self::Anything => true,
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

    fn add(&mut self, key: CellKey, counts: &Counts, weight: f64) {
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
