//! Which entities a split may use.

use std::sync::OnceLock;

use harness_core::{Seed, Split};

use crate::names::{FIRST, SECOND};

/// Shares of the splits, in the order of [`Split::ALL`]; their sum is the number of buckets.
const SHARES: [u64; 7] = [6, 10, 4, 3, 3, 3, 3];

/// The entities of a split, in a fixed order.
pub(crate) fn entities(split: Split) -> &'static [String] {
    static ALL: OnceLock<Vec<Vec<String>>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let mut lists = vec![Vec::new(); Split::ALL.len()];
        for (i, first) in FIRST.iter().enumerate() {
            for (j, second) in SECOND.iter().enumerate() {
                lists[bucket(i, j)].push(format!("{first} {second}"));
            }
        }
        lists
    });
    &all[split_index(split)]
}

/// The place of a split in [`Split::ALL`].
pub(super) fn split_index(split: Split) -> usize {
    let place = Split::ALL.iter().position(|s| *s == split);
    place.expect("every split is in the list of all")
}

/// The split, as an index of [`Split::ALL`], that owns a pair of words.
fn bucket(first: usize, second: usize) -> usize {
    let hash = Seed::new(0).derive("appworld-entity", &[first as u64, second as u64]);
    let mut rest = hash.value() % SHARES.iter().sum::<u64>();
    for (place, share) in SHARES.iter().enumerate() {
        if rest < *share {
            return place;
        }
        rest -= share;
    }
    0
}
