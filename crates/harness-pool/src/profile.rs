//! Behaviour profiles: what each harness does for the current policy, as a pure function of evidence rows
//! and the policy's version.

use std::collections::BTreeMap;
use std::path::Path;

use harness_core::{HarnessId, PolicyVersion, RolloutId, TaskId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::Cluster;
use crate::evidence::EvidenceRow;
use crate::record::{self, Format, RecordError};
use crate::stats::{ClusterScope, Given, Stats, Utility};
use crate::track::{Track, Weights};
use crate::tried::Tried;

/// The newest format of a profile file that this code reads, and the one that it writes. Format 2 has
/// [`EvidenceRow::flags`]; in files of format 1 no row has them.
pub const PROFILE_FORMAT_VERSION: u64 = 2;
/// Largest profile file that is read: 32 MiB, some 100,000 rows. A file made to hurt takes up to a hundred times its
/// size in memory before it is refused, hence no more.
pub const MAX_PROFILE_BYTES: u64 = 32 << 20;

const FORMAT: Format = Format {
    kind: "behavior_profile",
    version: PROFILE_FORMAT_VERSION,
    max_bytes: MAX_PROFILE_BYTES,
    is_pretty: false,
};

/// How evidence is weighed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProfileConfig {
    /// Policy updates after which evidence counts half, `> 0` and finite; `None` never discounts. A row of
    /// version `r` weighs `0.5 ^ ((version - r) / half_life)`; one newer than the profile weighs 1. Default 20,
    /// the distance of two re-anchorings (ours).
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
    /// The half-life is not a positive, finite number.
    #[error("the half-life of evidence must be positive and finite, got: {0}")]
    HalfLife(f64),
}

/// Tasks that show what a sibling does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Examples {
    /// At most two tasks that the base failed and the sibling solved.
    pub rescued: Vec<TaskId>,
    /// At most one task that the base had not failed throughout and the sibling failed.
    pub harmed: Vec<TaskId>,
}

/// What is known of every harness, the base among them.
///
/// A pure function of (set of rows, policy version, config): the order of rows and repetitions do not
/// matter, to the last bit.
///
/// What rows say together is kept beside them, so that neither [`BehaviorProfile::insert`] nor asking grows
/// with the rows that are there. The first question about a harness after its evidence or the version changed
/// sums up its clusters and versions once.
#[derive(Debug, Clone)]
pub struct BehaviorProfile {
    policy_version: PolicyVersion,
    config: ProfileConfig,
    rows: BTreeMap<RolloutId, EvidenceRow>,
    // All below follows from the above.
    tracks: BTreeMap<HarnessId, Track>,
    tried: Tried,
    weights: Weights,
}

impl PartialEq for BehaviorProfile {
    fn eq(&self, other: &Self) -> bool {
        let of = |profile: &Self| (profile.policy_version, profile.config);
        of(self) == of(other) && self.rows == other.rows
    }
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
    /// half-life is not positive and finite.
    pub fn from_rows(
        rows: impl IntoIterator<Item = EvidenceRow>,
        policy_version: PolicyVersion,
        config: ProfileConfig,
    ) -> Result<Self, ProfileError> {
        match config.half_life {
            // JSON has no infinity: it would be read again as `None`.
            Some(half_life) if !half_life.is_finite() || half_life <= 0.0 => {
                return Err(ProfileError::HalfLife(half_life));
            }
            _ => {}
        }
        let mut profile = Self {
            policy_version,
            config,
            rows: BTreeMap::new(),
            tracks: BTreeMap::new(),
            tried: Tried::default(),
            weights: Weights::new(),
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
        // Not `append`, which makes the whole map anew.
        self.rows.extend(fresh);
        Ok(())
    }

    /// Moves the profile to another version of the policy; all evidence is weighed anew.
    pub fn set_policy_version(&mut self, version: PolicyVersion) {
        if version == self.policy_version {
            return;
        }
        self.policy_version = version;
        let of_row = std::mem::take(&mut self.weights).into_keys();
        self.weights = of_row.map(|row| (row, self.weight(row))).collect();
        self.tracks.values_mut().for_each(Track::forget_totals);
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
        self.tracks.keys()
    }

    /// The clusters in which a harness has evidence, ascending.
    pub fn clusters(&self, harness: &HarnessId) -> impl Iterator<Item = &Cluster> {
        self.tracks
            .get(harness)
            .into_iter()
            .flat_map(Track::clusters)
    }

    /// What the rows of a harness say; zeros without evidence.
    pub fn stats(&self, harness: &HarnessId, scope: ClusterScope<'_>, given: Given) -> Stats {
        let track = self.tracks.get(harness);
        track.map_or_else(Stats::default, |track| {
            track.stats(scope, given, &self.weights)
        })
    }

    /// What the rows of a harness say in each of its clusters, ascending; zeros where it has none of this kind.
    pub fn stats_by_cluster(&self, harness: &HarnessId, given: Given) -> &[(Cluster, Stats)] {
        let track = self.tracks.get(harness);
        track.map_or(&[], |track| track.by_cluster(given, &self.weights))
    }

    /// The clusters in which any harness has evidence, ascending.
    pub fn all_clusters(&self) -> impl Iterator<Item = &Cluster> {
        self.tried.clusters()
    }

    /// The tasks of a cluster of which a wanted harness has a row of this kind, ascending.
    pub fn tasks(
        &self,
        cluster: &Cluster,
        given: Given,
        is_wanted: impl Fn(&HarnessId) -> bool,
    ) -> impl Iterator<Item = &TaskId> {
        self.tried.tasks(cluster, given, is_wanted)
    }

    /// The gain of a sibling over fresh base retries, by probes on tasks that the base had failed.
    /// A sibling is unroutable where `high < 0`. Without evidence the interval is wide around 0.
    pub fn utility(
        &self,
        sibling: &HarnessId,
        base: &HarnessId,
        scope: ClusterScope<'_>,
    ) -> Utility {
        let of = |harness| self.stats(harness, scope, Given::BaseFailedAllProbed);
        Utility::between(&of(sibling), &of(base))
    }

    /// Probes of a harness that failed a task which the base had not failed throughout.
    pub fn regressions(&self, harness: &HarnessId) -> u64 {
        self.rows_of(harness).filter(|row| is_harm(row)).count() as u64
    }

    /// Tasks that show what a sibling does: the first by rollout id.
    pub fn examples(&self, harness: &HarnessId) -> Examples {
        Examples::of(self.rows_of(harness))
    }

    /// Writes the profile to a file, as a pool is.
    ///
    /// # Errors
    /// [`RecordError::Io`] if the folder is missing or cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), RecordError> {
        record::save(path.as_ref(), FORMAT, &self.content())
    }

    /// The text that [`BehaviorProfile::save`] writes.
    pub fn to_vec(&self) -> Vec<u8> {
        record::to_vec(FORMAT, &self.content())
    }

    fn content(&self) -> ProfileContent {
        ProfileContent {
            policy_version: self.policy_version,
            config: self.config,
            rows: self.rows.values().cloned().collect(),
        }
    }

    /// Reads a profile from a file and checks all of it.
    ///
    /// # Errors
    /// [`RecordError`] if the file is missing, too large, not JSON, of another kind, made by a newer
    /// version, changed since it was written, or contradicts itself.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, RecordError> {
        let path = path.as_ref();
        Self::from_content(record::load(path, FORMAT)?, path)
    }

    /// Reads a profile from the text of a file, with the checks of [`BehaviorProfile::load`]; `path` names it
    /// in errors and is not opened.
    ///
    /// # Errors
    /// [`RecordError`] as there, but for a missing file.
    pub fn from_slice(text: &[u8], path: impl AsRef<Path>) -> Result<Self, RecordError> {
        let path = path.as_ref();
        Self::from_content(record::from_slice(text, path, FORMAT)?, path)
    }

    fn from_content(
        (content, _): (ProfileContent, String),
        path: &Path,
    ) -> Result<Self, RecordError> {
        let made = Self::from_rows(content.rows, content.policy_version, content.config);
        made.map_err(|source| RecordError::Profile {
            path: path.to_owned(),
            source,
        })
    }

    /// The JSON Schema of a profile file. It says what the file looks like; that its hash fits its content, and
    /// that its content holds together, is checked when it is read.
    pub fn file_schema() -> schemars::Schema {
        record::file_schema::<ProfileContent>(FORMAT)
    }

    fn rows_of<'a>(&'a self, harness: &'a HarnessId) -> impl Iterator<Item = &'a EvidenceRow> {
        self.rows
            .values()
            .filter(move |row| row.harness == *harness)
    }

    fn count(&mut self, row: &EvidenceRow) {
        self.tracks
            .entry(row.harness.clone())
            .or_default()
            .count(row);
        self.tried.add(row);
        let weight = self.weight(row.policy_version);
        self.weights.insert(row.policy_version, weight);
    }

    fn weight(&self, version: PolicyVersion) -> f64 {
        let age = self.policy_version.0.saturating_sub(version.0);
        match self.config.half_life {
            Some(half_life) => 0.5_f64.powf(age as f64 / half_life),
            None => 1.0,
        }
    }
}

impl Examples {
    /// The first tasks of rows in the order of rollout ids.
    pub(crate) fn of<'a>(rows: impl IntoIterator<Item = &'a EvidenceRow>) -> Self {
        let mut examples = Self::default();
        for row in rows {
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
}

pub(crate) fn is_harm(row: &EvidenceRow) -> bool {
    !row.base_failed_all && !row.is_selected && !row.solved
}
