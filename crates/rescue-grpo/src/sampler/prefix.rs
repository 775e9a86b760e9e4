//! Openings that several rollouts share: who reads them, who waits, who has them.

use std::collections::HashMap;
use std::sync::Arc;

/// What a fresh row does about its opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// It reads the opening itself.
    Reads,
    /// Another row is reading it.
    Waits,
    /// It takes the cache of this row.
    Copies(usize),
}

/// One opening; gone when no rollout that began with it is left.
#[derive(Debug)]
struct Prefix {
    /// Logits after it; empty until it was read.
    logits: Vec<f32>,
    /// Rows that began with it. Until it was read the first one reads and the others wait.
    members: Vec<usize>,
}

/// All openings of live rollouts.
#[derive(Debug, Default)]
pub(super) struct Prefixes(HashMap<Arc<[u32]>, Prefix>);

impl Prefixes {
    /// Adds a row.
    pub(super) fn join(&mut self, opening: Arc<[u32]>, slot: usize) -> Place {
        let prefix = self.0.entry(opening).or_insert_with(|| Prefix {
            logits: Vec::new(),
            members: Vec::new(),
        });
        prefix.members.push(slot);
        let first = prefix.members[0];
        if first == slot {
            Place::Reads
        } else if prefix.logits.is_empty() {
            Place::Waits
        } else {
            Place::Copies(first)
        }
    }

    /// Notes that `slot` has read the opening, and returns the rows that waited for it.
    pub(super) fn finish(&mut self, opening: &[u32], slot: usize, logits: &[f32]) -> Vec<usize> {
        match self.0.get_mut(opening) {
            Some(prefix) if prefix.logits.is_empty() => {
                prefix.logits.extend_from_slice(logits);
                let others = prefix.members.iter().copied();
                others.filter(|&member| member != slot).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Logits after an opening that was read.
    pub(super) fn logits(&self, opening: &[u32]) -> Option<&[f32]> {
        self.0.get(opening).map(|prefix| prefix.logits.as_slice())
    }

    /// Removes a row. If it was reading the opening, returns the row that has to read it now.
    pub(super) fn leave(&mut self, opening: &[u32], slot: usize) -> Option<usize> {
        let prefix = self.0.get_mut(opening)?;
        let was_first = prefix.members.first() == Some(&slot);
        prefix.members.retain(|&member| member != slot);
        if prefix.members.is_empty() {
            self.0.remove(opening);
            return None;
        }
        let is_unread = prefix.logits.is_empty();
        prefix
            .members
            .first()
            .copied()
            .filter(|_| was_first && is_unread)
    }
}
