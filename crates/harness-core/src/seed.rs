//! Keyed seeds: every random choice derives its own seed from what it is for, never from call order,
//! so the number of threads and the order of work cannot change a result.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// A 64-bit seed from which others are derived.
///
/// # Example
/// ```
/// use harness_core::Seed;
/// let run = Seed::new(7);
/// assert_eq!(run.derive("rollout", &[3, 1]), run.derive("rollout", &[3, 1]));
/// assert_ne!(run.derive("rollout", &[3, 1]), run.derive("rollout", &[1, 3]));
/// assert_ne!(run.derive("rollout", &[3]), run.derive("router", &[3]));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(u64);

impl Seed {
    /// A root seed.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The raw value.
    pub const fn value(self) -> u64 {
        self.0
    }

    /// The seed for one purpose and its coordinates, for instance `("rollout", [step, task, attempt])`.
    #[must_use]
    pub fn derive(self, purpose: &str, parts: &[u64]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0.to_le_bytes());
        hasher.update(&(purpose.len() as u64).to_le_bytes());
        hasher.update(purpose.as_bytes());
        for part in parts {
            hasher.update(&part.to_le_bytes());
        }
        let mut head = [0; 8];
        head.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        Self(u64::from_le_bytes(head))
    }

    /// A generator started from this seed; the same on every platform. To draw from it you need `rand` 0.10 as
    /// a dependency of your own; for a single draw [`Seed::value`] is enough.
    pub fn rng(self) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(self.0)
    }
}
