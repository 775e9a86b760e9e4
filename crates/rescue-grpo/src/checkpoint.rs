//! Checkpoints: one safetensors file with f32 weights, and in its metadata what they belong to.
//!
//! A checkpoint is only of use with the world and the tokenizer that it was trained on, so their hashes are
//! part of it and checked on loading. All content is hashed: a damaged file is refused, never half used.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use harness_core::PolicyVersion;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};

use crate::adamw::Moments;
use crate::model::ModelConfig;

/// The newest version of the file that this code reads. Files with the optimizer's memory are of version 2,
/// others of version 1, which older programs read too.
pub const CHECKPOINT_FORMAT: u32 = 2;
/// The largest checkpoint that is read, in bytes: a few hundred million weights with the optimizer's memory.
pub const MAX_CHECKPOINT_BYTES: u64 = 4 << 30;
/// Names of the optimizer's tensors.
const MOMENTS: [&str; 2] = ["optimizer.mean", "optimizer.square"];
/// The one metadata entry, so that the file's bytes do not depend on the order of a map.
const META_KEY: &str = "harness_s";

/// Why a checkpoint could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file could not be read or written.
    #[error("checkpoint {path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not what was written.
    #[error("checkpoint {path} is corrupt, rebuild it with `cargo xtask warm-start appworld`: {reason}", path = path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The file comes from a newer program.
    #[error("checkpoint {path} has format {found}, this program reads up to {supported}: update the program or rebuild it with `cargo xtask warm-start appworld`", path = path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The highest known one.
        supported: u32,
    },
    /// The checkpoint was trained on another world or with another tokenizer.
    #[error("checkpoint {path} was trained with {what} {found}, here it is {expected}: rebuild it with `cargo xtask warm-start appworld`", path = path.display())]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// `world` or `tokenizer`.
        what: &'static str,
        /// The hash here.
        expected: String,
        /// The hash in the file.
        found: String,
    },
}

/// Everything in a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// Sizes of the model.
    pub model: ModelConfig,
    /// Flat weights, as long as the layout of `model`.
    pub weights: Vec<f32>,
    /// Optimizer updates since the warm start.
    pub policy_version: PolicyVersion,
    /// Hash of the world that the weights were trained on.
    pub world_hash: String,
    /// Hash of the tokenizer.
    pub tokenizer_hash: String,
    /// The configuration that generated the weights.
    pub generator: serde_json::Value,
    /// The optimizer's memory, each moment as long as the weights, where training is to go on from here.
    pub moments: Option<Moments>,
}

/// What a checkpoint says about its weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct About {
    model: ModelConfig,
    policy_version: PolicyVersion,
    world_hash: String,
    tokenizer_hash: String,
    generator: serde_json::Value,
    /// Steps of the optimizer; there if its moments are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    optimizer_steps: Option<i32>,
}

/// The metadata entry.
#[derive(Debug, Serialize, Deserialize)]
struct Meta {
    format_version: u32,
    content_hash: String,
    about: About,
}

/// The part of the entry that every version has.
#[derive(Debug, Deserialize)]
struct Head {
    format_version: u32,
}

impl Checkpoint {
    /// BLAKE3 of everything in the checkpoint, 64 hexadecimal digits.
    ///
    /// # Panics
    /// Never: plain data always serialises.
    pub fn content_hash(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let about = serde_json::to_vec(&self.about()).expect("plain data always serialises");
        hasher.update(&(about.len() as u64).to_le_bytes());
        hasher.update(&about);
        hasher.update(&bytes(&self.weights));
        if let Some(moments) = &self.moments {
            hasher.update(&bytes(&moments.mean));
            hasher.update(&bytes(&moments.square));
        }
        hasher.finalize().to_hex().to_string()
    }

    /// Writes the file aside, syncs and renames it: a reader sees the old file or the new one.
    ///
    /// # Errors
    /// [`CheckpointError::Io`].
    ///
    /// # Panics
    /// If weights or moments are not as long as the layout of the sizes.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), CheckpointError> {
        let path = path.as_ref();
        write_aside(path, &self.to_bytes()).map_err(|source| CheckpointError::Io {
            path: path.to_owned(),
            source,
        })?;
        let policy_version = self.policy_version.0;
        tracing::info!(path = %path.display(), policy_version, "checkpoint written");
        Ok(())
    }

    /// Reads a file and checks that it is whole; whom it belongs to is for the caller to check.
    ///
    /// # Errors
    /// [`CheckpointError::Io`], [`CheckpointError::Corrupt`] and [`CheckpointError::Newer`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, CheckpointError> {
        let path = path.as_ref();
        let data = read_bounded(path, MAX_CHECKPOINT_BYTES);
        let data = data.map_err(|source| CheckpointError::Io {
            path: path.to_owned(),
            source,
        })?;
        Self::from_bytes(&data).map_err(|problem| match problem {
            Problem::Corrupt(reason) => CheckpointError::Corrupt {
                path: path.to_owned(),
                reason,
            },
            Problem::Newer(found) => CheckpointError::Newer {
                path: path.to_owned(),
                found,
                supported: CHECKPOINT_FORMAT,
            },
        })
    }

    /// [`Checkpoint::load`] for one world and one tokenizer.
    ///
    /// # Errors
    /// As there, and [`CheckpointError::Mismatch`].
    pub fn load_for(
        path: impl AsRef<Path>,
        world_hash: &str,
        tokenizer_hash: &str,
    ) -> Result<Self, CheckpointError> {
        let path = path.as_ref();
        let read = Self::load(path)?;
        let pairs = [
            ("world", world_hash, &read.world_hash),
            ("tokenizer", tokenizer_hash, &read.tokenizer_hash),
        ];
        match pairs.iter().find(|(_, expected, found)| expected != found) {
            Some((what, expected, found)) => Err(CheckpointError::Mismatch {
                path: path.to_owned(),
                what,
                expected: (*expected).to_owned(),
                found: (*found).clone(),
            }),
            None => Ok(read),
        }
    }

    fn about(&self) -> About {
        About {
            model: self.model.clone(),
            policy_version: self.policy_version,
            world_hash: self.world_hash.clone(),
            tokenizer_hash: self.tokenizer_hash.clone(),
            generator: self.generator.clone(),
            optimizer_steps: self.moments.as_ref().map(|m| m.steps),
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let meta = Meta {
            format_version: if self.moments.is_some() { 2 } else { 1 },
            content_hash: self.content_hash(),
            about: self.about(),
        };
        let meta = serde_json::to_string(&meta).expect("plain data always serialises");
        let data = bytes(&self.weights);
        let mut rest = data.as_slice();
        let mut views = Vec::new();
        for spec in self.model.layout() {
            let (head, tail) = rest.split_at(4 * spec.len());
            let view = TensorView::new(Dtype::F32, spec.shape, head);
            views.push((spec.name, view.expect("the slice has the shape's length")));
            rest = tail;
        }
        let empty = Moments::default();
        let moments = self.moments.as_ref().unwrap_or(&empty);
        let moments = [bytes(&moments.mean), bytes(&moments.square)];
        if self.moments.is_some() {
            for (name, data) in MOMENTS.into_iter().zip(&moments) {
                let view = TensorView::new(Dtype::F32, vec![self.model.n_params()], data);
                views.push((name.to_owned(), view.expect("as long as the weights")));
            }
        }
        let meta = HashMap::from([(META_KEY.to_owned(), meta)]);
        safetensors::serialize(views, Some(meta)).expect("names are unique and shapes fit")
    }

    fn from_bytes(data: &[u8]) -> Result<Self, Problem> {
        let (_, header) = SafeTensors::read_metadata(data)?;
        let entries = header.metadata().as_ref();
        let meta = entries.and_then(|m| m.get(META_KEY));
        let meta = meta.ok_or_else(|| Problem::Corrupt(format!("no entry {META_KEY:?}")))?;
        let head: Head = serde_json::from_str(meta)?;
        if head.format_version > CHECKPOINT_FORMAT {
            return Err(Problem::Newer(head.format_version));
        }
        let meta: Meta = serde_json::from_str(meta)?;
        let about = meta.about;
        about
            .model
            .validate()
            .map_err(|e| Problem::Corrupt(e.to_string()))?;
        let file = SafeTensors::deserialize(data)?;
        let flat = weights(&about.model, &file)?;
        let moments = match about.optimizer_steps {
            Some(steps) => Some(moments(&file, flat.len(), steps)?),
            None => None,
        };
        let read = Self {
            weights: flat,
            moments,
            model: about.model,
            policy_version: about.policy_version,
            world_hash: about.world_hash,
            tokenizer_hash: about.tokenizer_hash,
            generator: about.generator,
        };
        let found = read.content_hash();
        if found == meta.content_hash {
            Ok(read)
        } else {
            Err(Problem::Corrupt(format!("its content hashes to {found}")))
        }
    }
}

/// What is wrong with a file's bytes.
enum Problem {
    Corrupt(String),
    Newer(u32),
}

impl From<safetensors::SafeTensorError> for Problem {
    fn from(error: safetensors::SafeTensorError) -> Self {
        Self::Corrupt(error.to_string())
    }
}

impl From<serde_json::Error> for Problem {
    fn from(error: serde_json::Error) -> Self {
        Self::Corrupt(error.to_string())
    }
}

fn weights(model: &ModelConfig, file: &SafeTensors<'_>) -> Result<Vec<f32>, Problem> {
    let bad = |what: String| Err(Problem::Corrupt(what));
    // A damaged size must not make this ask for memory that the file cannot fill.
    if model.n_layers > file.len() {
        return bad(format!(
            "{} layers but {} tensors",
            model.n_layers,
            file.len()
        ));
    }
    let mut flat = Vec::new();
    for spec in model.layout() {
        let view = file.tensor(&spec.name)?;
        if view.dtype() != Dtype::F32 || view.shape() != spec.shape {
            let (dtype, shape) = (view.dtype(), view.shape());
            return bad(format!("{} is {dtype:?} {shape:?}", spec.name));
        }
        let values = view.data().as_chunks::<4>().0;
        flat.extend(values.iter().map(|b| f32::from_le_bytes(*b)));
        if flat.iter().rev().take(spec.len()).any(|w| !w.is_finite()) {
            return bad(format!("{} holds a weight that is not finite", spec.name));
        }
    }
    Ok(flat)
}

fn moments(file: &SafeTensors<'_>, n: usize, steps: i32) -> Result<Moments, Problem> {
    let read = |name: &str| {
        let view = file.tensor(name)?;
        if view.dtype() != Dtype::F32 || view.shape() != [n] {
            let (dtype, shape) = (view.dtype(), view.shape());
            return Err(Problem::Corrupt(format!("{name} is {dtype:?} {shape:?}")));
        }
        let values = view.data().as_chunks::<4>().0;
        Ok(values.iter().map(|b| f32::from_le_bytes(*b)).collect())
    };
    Ok(Moments {
        mean: read(MOMENTS[0])?,
        square: read(MOMENTS[1])?,
        steps,
    })
}

fn bytes(weights: &[f32]) -> Vec<u8> {
    weights.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// A file's bytes, if it is a file of at most `max` bytes.
pub(crate) fn read_bounded(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    File::open(path)?.take(max + 1).read_to_end(&mut data)?;
    if data.len() as u64 > max {
        let text = format!("larger than {max} bytes, the most that is read: check the path");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(data)
}

/// Writes beside `path`, syncs, renames over it, and syncs the folder.
pub(crate) fn write_aside(path: &Path, data: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let aside = path.with_file_name(name);
    let write = || {
        let mut file = File::create(&aside)?;
        file.write_all(data)?;
        file.sync_all()?;
        std::fs::rename(&aside, path)
    };
    write().inspect_err(|_| {
        // The first error is the one to report; a part file left behind is harmless.
        let _ = std::fs::remove_file(&aside);
    })?;
    match path.parent() {
        Some(folder) if cfg!(unix) && folder != Path::new("") => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use harness_core::Seed;
    use rand::Rng;

    use super::*;

    fn checkpoint() -> Checkpoint {
        let mut model = ModelConfig::nano(16, 8);
        (model.d_model, model.d_ff, model.n_layers) = (8, 8, 1);
        Checkpoint {
            weights: model.init(Seed::new(3)),
            model,
            policy_version: PolicyVersion(7),
            world_hash: "w1".into(),
            tokenizer_hash: "t1".into(),
            generator: serde_json::json!({"steps": 1600, "rate": 0.002}),
            moments: None,
        }
    }

    /// The same with the optimizer's memory.
    fn unfinished() -> Checkpoint {
        let plain = checkpoint();
        let n = plain.weights.len();
        Checkpoint {
            moments: Some(Moments {
                mean: (0..n).map(|i| i as f32 * 0.5).collect(),
                square: vec![0.25; n],
                steps: 12,
            }),
            ..plain
        }
    }

    #[test]
    fn c2_the_optimizers_memory_survives_and_changes_the_hash() {
        let written = unfinished();
        let read = Checkpoint::from_bytes(&written.to_bytes());
        assert!(matches!(read, Ok(read) if read == written));
        assert_ne!(written.content_hash(), checkpoint().content_hash());
        let plain = checkpoint().to_bytes();
        let text = String::from_utf8_lossy(&plain);
        assert!(text.contains(r#"{\"format_version\":1"#));
    }

    #[test]
    fn a_checkpoint_survives_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.safetensors");
        let written = checkpoint();
        written.save(&path).unwrap();
        let read = Checkpoint::load_for(&path, "w1", "t1").unwrap();
        assert_eq!(read, written);
        assert_eq!(read.content_hash(), written.content_hash());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(written.to_bytes(), read.to_bytes());
    }

    #[test]
    fn a_weight_that_is_no_number_is_refused_by_its_tensors_name() {
        let mut poisoned = checkpoint();
        *poisoned.weights.last_mut().unwrap() = f32::NAN;
        let Err(Problem::Corrupt(reason)) = Checkpoint::from_bytes(&poisoned.to_bytes()) else {
            panic!("it was read");
        };
        assert_eq!(reason, "norm holds a weight that is not finite");
    }

    #[test]
    fn a_file_beyond_the_limit_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, [0; 9]).unwrap();
        assert_eq!(read_bounded(&path, 9).unwrap().len(), 9);
        let error = read_bounded(&path, 8).unwrap_err();
        assert!(error.to_string().contains("larger than 8 bytes"), "{error}");
    }

    #[test]
    fn another_world_or_tokenizer_is_refused_with_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.safetensors");
        checkpoint().save(&path).unwrap();
        for (world, tokenizer, what) in [("w2", "t1", "world w1"), ("w1", "t2", "tokenizer t1")] {
            let error = Checkpoint::load_for(&path, world, tokenizer).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(what) && text.contains("cargo xtask warm-start appworld"));
            assert!(matches!(error, CheckpointError::Mismatch { .. }));
        }
    }

    #[test]
    fn a_newer_file_is_told_apart() {
        let newer = unfinished().to_bytes();
        let text = br#"{\"format_version\":2"#;
        let at = newer.windows(text.len()).position(|w| w == text).unwrap();
        let mut newer = newer;
        newer[at + text.len() - 1] = b'3';
        assert!(matches!(
            Checkpoint::from_bytes(&newer),
            Err(Problem::Newer(3))
        ));
    }

    #[test]
    fn damage_is_always_an_error() {
        for good in [checkpoint().to_bytes(), unfinished().to_bytes()] {
            damage(&good);
        }
    }

    fn damage(good: &[u8]) {
        let mut rng = Seed::new(1).rng();
        for round in 0..300 {
            let mut bad = good.to_vec();
            let at = rng.next_u64() as usize % bad.len();
            match round % 3 {
                0 => bad[at] ^= 1 << (rng.next_u64() % 8),
                1 => bad.truncate(at),
                _ => bad[at] = bad[at].wrapping_add(1),
            }
            assert!(
                Checkpoint::from_bytes(&bad).is_err(),
                "round {round} at {at}"
            );
        }
    }
}
