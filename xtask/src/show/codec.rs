//! The tokenizer of an attempt, where one is at hand: of a warm start that the run keeps, of the shared cache,
//! or the shipped one.

use std::fs;
use std::path::{Path, PathBuf};

use harness_core::{Codec, Trajectory};
use rescue_grpo::BpeCodec;

use super::transcript::fits;
use crate::cli::CACHE_FOLDER;
use crate::pipeline::{SHIPPED, assets};
use crate::run_dir::RunDir;
use crate::tidy::workspace_root;

/// The first tokenizer that reads what the attempt sampled as its actions; any if none does, `None` if none can
/// be read.
pub(super) fn for_attempt(run: &RunDir, attempt: &Trajectory) -> Option<Box<dyn Codec>> {
    let mut folders = vec![assets()];
    folders.extend(warm_starts(&run.stages_path()));
    folders.extend(warm_starts(&workspace_root().join(CACHE_FOLDER)));
    let mut codecs: Vec<Box<dyn Codec>> = Vec::new();
    for folder in folders {
        if let Ok(codec) = BpeCodec::load(folder.join(SHIPPED[1])) {
            if fits(&codec, attempt) {
                return Some(Box::new(codec));
            }
            codecs.push(Box::new(codec));
        }
    }
    codecs.pop()
}

/// Folders of warm starts in a folder of stages, ascending.
fn warm_starts(stages: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(stages).into_iter().flatten().flatten();
    let is_warm_start = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("warm-start-"))
    };
    let mut folders: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(is_warm_start)
        .collect();
    folders.sort();
    folders
}
