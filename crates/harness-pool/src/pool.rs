//! The sibling pool: built once, then frozen while a policy trains.
//!
//! ```compile_fail
//! use harness_core::{BaseHarness, HarnessSpec};
//! use harness_pool::PoolBuilder;
//! let base = HarnessSpec::base(BaseHarness::default());
//! let mut pool = PoolBuilder::new(base, "policy".into(), "tasks".into()).freeze();
//! pool.siblings_mut().clear(); // a frozen pool has no `&mut` access
//! ```

use std::path::Path;

use harness_core::{HarnessError, HarnessId, HarnessSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::{self, Format, RecordError};
use crate::sibling::Sibling;

/// The newest format of a pool file that this code reads, and the one that it writes.
pub const POOL_FORMAT_VERSION: u64 = 1;
/// Largest pool file that is read: 16 MiB.
pub const MAX_POOL_BYTES: u64 = 16 << 20;
/// Most siblings in a pool.
pub const MAX_SIBLINGS: usize = 256;
const MAX_NAME_CHARS: usize = 120;

const FORMAT: Format = Format {
    kind: "sibling_pool",
    version: POOL_FORMAT_VERSION,
    max_bytes: MAX_POOL_BYTES,
    is_pretty: true,
};

/// Why a sibling cannot enter a pool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The pool's base has an overlay.
    #[error("the base of a pool must have no overlay")]
    BaseHasOverlay,
    /// The pool's base breaks a bound.
    #[error("the base harness is not valid: {0}")]
    InvalidBase(#[source] HarnessError),
    /// The sibling's harness breaks a bound.
    #[error("sibling `{name}`: its harness is not valid: {source}")]
    InvalidHarness {
        /// The sibling.
        name: String,
        /// The bound.
        #[source]
        source: HarnessError,
    },
    /// The same content is there already (bug report E10).
    #[error("sibling `{name}` has the same content as `{existing}`: {id}")]
    DuplicateContent {
        /// The refused sibling.
        name: String,
        /// The one that is there.
        existing: String,
        /// The content's hash.
        id: HarnessId,
    },
    /// Another sibling has this name.
    #[error("two siblings have the same name: {0}")]
    DuplicateName(String),
    /// The sibling has no overlay, so it is the base.
    #[error("sibling `{0}` is the base harness itself")]
    IsBase(String),
    /// The sibling stands on another base.
    #[error("sibling `{name}` has another base than the pool, expected: {expected}, got: {got}")]
    OtherBase {
        /// The sibling.
        name: String,
        /// The pool's base.
        expected: HarnessId,
        /// The sibling's base.
        got: HarnessId,
    },
    /// The name is empty, too long, or holds a control character.
    #[error("a sibling's name must be 1 to 120 characters without control characters, got: {0:?}")]
    InvalidName(String),
    /// A number of the acceptance evidence cannot be.
    #[error("sibling `{name}`: a number of its evidence is out of range: {field}")]
    InvalidEvidence {
        /// The sibling.
        name: String,
        /// The field.
        field: &'static str,
    },
    /// The pool is full.
    #[error("a pool has at most {MAX_SIBLINGS} siblings")]
    Full,
}

/// A pool while it is put together.
#[derive(Debug, Clone)]
pub struct PoolBuilder {
    base: HarnessSpec,
    base_id: HarnessId,
    policy_hash: String,
    manifest_hash: String,
    siblings: Vec<(HarnessId, Sibling)>,
}

/// A base and its siblings, which never change: there is no `&mut` access.
///
/// Siblings stand in the order of their ids, so the order in which they were added does not reach any
/// result. An empty pool is allowed: it is what evolution gives when nothing was confirmed, and every
/// selection from it is empty.
#[derive(Debug, Clone, PartialEq)]
pub struct SiblingPool {
    content: PoolContent,
    base_id: HarnessId,
    ids: Vec<HarnessId>,
    hash: String,
}

/// The content of a pool file, beside `format_version`, `kind` and `hash`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PoolContent {
    /// Hash of the policy checkpoint that evolution ran with.
    policy_hash: String,
    /// Hash of the task manifest that evolution ran on.
    manifest_hash: String,
    /// The base harness.
    base: HarnessSpec,
    /// The siblings, in the order of their ids.
    siblings: Vec<Sibling>,
}

impl PoolBuilder {
    /// An empty pool over a base. `policy_hash` names the policy checkpoint and `manifest_hash` the task
    /// manifest with which its siblings are evolved; both are kept as they are. The base is checked when
    /// the first sibling is added and when a file is loaded.
    pub fn new(base: HarnessSpec, policy_hash: String, manifest_hash: String) -> Self {
        let base_id = base.id();
        Self {
            base,
            base_id,
            policy_hash,
            manifest_hash,
            siblings: Vec::new(),
        }
    }

    /// Adds a sibling.
    ///
    /// # Errors
    /// [`PoolError`] if the sibling is the base, stands on another base, breaks a bound, has the content or
    /// the name of one that is there, or states impossible evidence. The pool is then as it was.
    pub fn add(&mut self, sibling: Sibling) -> Result<(), PoolError> {
        self.check_base()?;
        self.check(&sibling)?;
        let id = sibling.id();
        for (existing_id, existing) in &self.siblings {
            if *existing_id == id {
                return Err(PoolError::DuplicateContent {
                    name: sibling.name,
                    existing: existing.name.clone(),
                    id,
                });
            }
            if existing.name == sibling.name {
                return Err(PoolError::DuplicateName(sibling.name));
            }
        }
        self.siblings.push((id, sibling));
        Ok(())
    }

    /// How many siblings were added.
    pub fn len(&self) -> usize {
        self.siblings.len()
    }

    /// Whether none was added.
    pub fn is_empty(&self) -> bool {
        self.siblings.is_empty()
    }

    /// Ends the building. Nothing can be changed afterwards.
    pub fn freeze(mut self) -> SiblingPool {
        self.siblings.sort_by(|a, b| a.0.cmp(&b.0));
        let (ids, siblings) = self.siblings.into_iter().unzip();
        let content = PoolContent {
            policy_hash: self.policy_hash,
            manifest_hash: self.manifest_hash,
            base: self.base,
            siblings,
        };
        SiblingPool {
            hash: record::content_hash(FORMAT, &content),
            base_id: self.base_id,
            content,
            ids,
        }
    }

    fn check_base(&self) -> Result<(), PoolError> {
        if !self.base.is_base() {
            return Err(PoolError::BaseHasOverlay);
        }
        self.base.validate().map_err(PoolError::InvalidBase)
    }

    fn check(&self, sibling: &Sibling) -> Result<(), PoolError> {
        let name = || sibling.name.clone();
        let n_chars = sibling.name.chars().count();
        if !(1..=MAX_NAME_CHARS).contains(&n_chars) || sibling.name.chars().any(char::is_control) {
            let head = sibling.name.chars().take(MAX_NAME_CHARS).collect();
            return Err(PoolError::InvalidName(head));
        }
        if self.siblings.len() >= MAX_SIBLINGS {
            return Err(PoolError::Full);
        }
        if sibling.harness.without_overlay() != self.base {
            return Err(PoolError::OtherBase {
                name: name(),
                expected: self.base_id.clone(),
                got: sibling.harness.without_overlay().id(),
            });
        }
        if sibling.harness.is_base() {
            return Err(PoolError::IsBase(name()));
        }
        if let Err(source) = sibling.harness.validate() {
            return Err(PoolError::InvalidHarness {
                name: name(),
                source,
            });
        }
        match sibling.evidence.bad_field() {
            Some(field) => Err(PoolError::InvalidEvidence {
                name: name(),
                field,
            }),
            None => Ok(()),
        }
    }
}

impl SiblingPool {
    /// The base harness.
    pub fn base(&self) -> &HarnessSpec {
        &self.content.base
    }

    /// The id of the base harness.
    pub fn base_id(&self) -> &HarnessId {
        &self.base_id
    }

    /// The siblings, in the order of their ids.
    pub fn siblings(&self) -> &[Sibling] {
        &self.content.siblings
    }

    /// The sibling of this id; `None` for the base and for strangers.
    pub fn get(&self, id: &HarnessId) -> Option<&Sibling> {
        let at = self.ids.binary_search(id).ok()?;
        self.content.siblings.get(at)
    }

    /// The ids of the siblings, ascending, as [`SiblingPool::siblings`] stands.
    pub fn ids(&self) -> &[HarnessId] {
        &self.ids
    }

    /// How many siblings there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is no sibling.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The content hash of the whole pool (blake3, 64 hex digits). For a loaded pool it is the hash that
    /// its file was written with.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The hash of the policy checkpoint that the siblings were evolved with.
    pub fn policy_hash(&self) -> &str {
        &self.content.policy_hash
    }

    /// The hash of the task manifest that the siblings were evolved on.
    pub fn manifest_hash(&self) -> &str {
        &self.content.manifest_hash
    }

    /// Writes the pool to a file: aside in the same folder, synced, renamed, the folder synced. A crash
    /// leaves the old file or the new one.
    ///
    /// # Errors
    /// [`RecordError::Io`] if the folder is missing or cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), RecordError> {
        record::save(path.as_ref(), FORMAT, &self.content)
    }

    /// Reads a pool from a file and checks all of it.
    ///
    /// # Errors
    /// [`RecordError`] if the file is missing, too large, not JSON, of another kind, made by a newer
    /// version, changed since it was written, or holds a harness that breaks a bound (which is named).
    pub fn load(path: impl AsRef<Path>) -> Result<Self, RecordError> {
        let path = path.as_ref();
        Self::from_content(record::load(path, FORMAT)?, path)
    }

    /// Reads a pool from the text of a file, with the checks of [`SiblingPool::load`]; `path` names it in
    /// errors and is not opened.
    ///
    /// # Errors
    /// [`RecordError`] as there, but for a missing file.
    pub fn from_slice(text: &[u8], path: impl AsRef<Path>) -> Result<Self, RecordError> {
        let path = path.as_ref();
        Self::from_content(record::from_slice(text, path, FORMAT)?, path)
    }

    /// The text that [`SiblingPool::save`] writes.
    pub fn to_vec(&self) -> Vec<u8> {
        record::to_vec(FORMAT, &self.content)
    }

    fn from_content(
        (content, hash): (PoolContent, String),
        path: &Path,
    ) -> Result<Self, RecordError> {
        let refuse = |source| RecordError::Pool {
            path: path.to_owned(),
            source,
        };
        let mut builder =
            PoolBuilder::new(content.base, content.policy_hash, content.manifest_hash);
        builder.check_base().map_err(refuse)?;
        for sibling in content.siblings {
            builder.add(sibling).map_err(refuse)?;
        }
        let mut pool = builder.freeze();
        pool.hash = hash;
        Ok(pool)
    }

    /// The JSON Schema of a pool file. It says what the file looks like; that its hash fits its content, and
    /// that its content holds together, is checked when it is read.
    pub fn file_schema() -> schemars::Schema {
        record::file_schema::<PoolContent>(FORMAT)
    }
}
