//! The harnesses of a run, by their hash: those of its pools.

use std::fs;
use std::path::PathBuf;

use harness_core::{HarnessId, HarnessSpec};
use harness_pool::{Sibling, SiblingPool};

use crate::run_dir::RunDir;

/// The pools of a run.
#[derive(Debug, Default)]
pub(super) struct Harnesses {
    pools: Vec<SiblingPool>,
}

/// One harness of a pool.
#[derive(Debug, Clone, Copy)]
pub(super) enum Known<'a> {
    /// The base.
    Base(&'a HarnessSpec),
    /// A sibling.
    Sibling(&'a Sibling),
}

impl Harnesses {
    /// Those that can be read; what is wrong with others is for [`pools`] to tell.
    pub(super) fn read(run: &RunDir) -> Self {
        let pools = pools(run).into_iter().filter_map(|(_, pool)| pool.ok());
        Self {
            pools: pools.collect(),
        }
    }

    pub(super) fn get(&self, id: &HarnessId) -> Option<Known<'_>> {
        self.pools.iter().find_map(|pool| {
            if id == pool.base_id() {
                return Some(Known::Base(pool.base()));
            }
            pool.get(id).map(Known::Sibling)
        })
    }

    /// `base`, a sibling's name, or the start of the hash.
    pub(super) fn name(&self, id: &HarnessId) -> String {
        match self.get(id) {
            Some(Known::Base(_)) => "base".into(),
            Some(Known::Sibling(sibling)) => sibling.name.clone(),
            None => id.as_str().chars().take(8).collect(),
        }
    }
}

/// The pool files of a run by name, ascending, read or with the reason why not.
pub(super) fn pools(run: &RunDir) -> Vec<(String, Result<SiblingPool, String>)> {
    let entries = fs::read_dir(run.root()).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let file_name = |path: &PathBuf| Some(path.file_name()?.to_str()?.to_owned());
    paths
        .iter()
        .filter_map(|path| file_name(path).map(|name| (path, name)))
        .filter(|(path, name)| {
            name.starts_with("pool") && path.extension().is_some_and(|ending| ending == "json")
        })
        .map(|(path, name)| (name, SiblingPool::load(path).map_err(|e| e.to_string())))
        .collect()
}
