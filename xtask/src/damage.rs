//! Damage to files, for tests: what a disk, a cut copy or a mix-up makes of them.

use harness_core::Seed;
use rand::Rng as _;

/// How many damaged files a test looks at.
pub(crate) const N: u64 = 200;

/// Damaged forms of a file: bits flipped, ends cut off, stretches of zeros, and another file in its place.
///
/// # Determinism
/// A function of its arguments.
pub(crate) fn damaged<'a>(good: &'a [u8], other: &'a [u8]) -> impl Iterator<Item = Vec<u8>> + 'a {
    let mut rng = Seed::new(good.len() as u64).derive("damage", &[]).rng();
    (0..N).map(move |round| {
        let mut bad = good.to_vec();
        let at = rng.next_u64() as usize % bad.len();
        match round % 8 {
            0..5 => bad[at] ^= 1 << (rng.next_u64() % 8),
            5 => bad.truncate(at),
            6 => {
                let end = bad.len().min(at + 512);
                bad[at..end].fill(0);
            }
            _ if round == 7 => bad = other.to_vec(),
            _ => {
                let end = other.len().min(bad.len());
                let at = at.min(end);
                bad[at..end].copy_from_slice(&other[at..end]);
            }
        }
        bad
    })
}
