//! Whether both sides compute the same: a race between different things says nothing.

use std::fmt;
use std::path::Path;

use anyhow::{Context as _, ensure};
use harness_core::Sequence;
use rescue_grpo::learner::Learner as _;
use serde::Serialize;

use super::ours::FirstUpdate;
use super::work::{SampleWork, learner};

/// Largest difference of a log-prob, in nats. Both sides compute in f32, the twin with fast math.
const MAX_LOGPROB: f64 = 2e-4;
/// Largest difference of the gradient, its Euclidean norm relative to the gradient's.
const MAX_GRADIENT: f64 = 2e-4;

/// How far apart both sides are.
#[derive(Debug, Serialize)]
pub(super) struct Agreement {
    /// Largest difference of a log-prob, in nats.
    logprob_max: f64,
    /// Relative difference of the gradients; absent for sampling.
    gradient: Option<f64>,
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "log-probs to {:.1e} nats", self.logprob_max)?;
        match self.gradient {
            Some(gradient) => write!(f, ", gradients to {gradient:.1e} of their norm"),
            None => Ok(()),
        }
    }
}

/// Compares a first update.
///
/// # Errors
/// If they are further apart than the bounds, or a file of the twin's is missing or of another length.
pub(super) fn train(folder: &Path, ours: &FirstUpdate) -> anyhow::Result<Agreement> {
    let logprobs = floats(&folder.join("logprobs.f32"), ours.logprobs.len())?;
    let mean = floats(&folder.join("mean.f32"), ours.mean.len())?;
    checked(Agreement {
        logprob_max: farthest(&ours.logprobs, &logprobs),
        gradient: Some(relative(&ours.mean, &mean)),
    })
}

/// Compares the log-probs with which the twin drew with those that the learner gives the same ids.
///
/// # Errors
/// As [`train`].
pub(super) fn sample(folder: &Path, work: &SampleWork) -> anyhow::Result<Agreement> {
    let n = work.n_drawn();
    let theirs = floats(&folder.join("logprobs.f32"), n)?;
    let ids = words(&folder.join("ids.u32"), n, u32::from_le_bytes)?;
    let rows: Vec<Sequence> = ids
        .chunks(work.n_new)
        .enumerate()
        .map(|(row, drawn)| {
            let ids = [&work.prompts[row / work.copies][..], drawn].concat();
            let n_prompt = ids.len() - drawn.len();
            Sequence {
                mask: (0..ids.len()).map(|i| i >= n_prompt).collect(),
                logprobs: Vec::new(),
                ids,
            }
        })
        .collect();
    let ours = learner(&work.model, &work.weights, 1)?.logprobs(&rows)?;
    let ours: Vec<f32> = (ours.iter().zip(&rows))
        .flat_map(|(lps, row)| lps[row.ids.len() - work.n_new..].to_vec())
        .collect();
    checked(Agreement {
        logprob_max: farthest(&ours, &theirs),
        gradient: None,
    })
}

fn checked(found: Agreement) -> anyhow::Result<Agreement> {
    let is_close = found.logprob_max <= MAX_LOGPROB
        && found
            .gradient
            .is_none_or(|gradient| gradient <= MAX_GRADIENT);
    ensure!(
        is_close,
        "both sides compute different things ({found}), bounds are {MAX_LOGPROB:.0e} and {MAX_GRADIENT:.0e}: \
         compare bench/peers/jax_twin.py with rescue_grpo::model"
    );
    Ok(found)
}

/// Largest absolute difference; infinite if one is NaN.
fn farthest(a: &[f32], b: &[f32]) -> f64 {
    let differences = a.iter().zip(b).map(|(a, b)| f64::from(a - b).abs());
    differences.fold(0.0, |most, d| {
        if d.is_nan() {
            f64::INFINITY
        } else {
            most.max(d)
        }
    })
}

/// `|a - b| / |a|`.
fn relative(a: &[f32], b: &[f32]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let apart = norm(&mut a.iter().zip(b).map(|(a, b)| f64::from(*a) - f64::from(*b)));
    apart / norm(&mut a.iter().map(|a| f64::from(*a)))
}

fn floats(path: &Path, n: usize) -> anyhow::Result<Vec<f32>> {
    words(path, n, f32::from_le_bytes)
}

fn words<T>(path: &Path, n: usize, read: fn([u8; 4]) -> T) -> anyhow::Result<Vec<T>> {
    let bytes = std::fs::read(path).with_context(|| format!("reading `{}`", path.display()))?;
    let (words, _) = bytes.as_chunks::<4>();
    let got = words.len();
    ensure!(got == n, "`{}` holds {got} values, not {n}", path.display());
    Ok(words.iter().copied().map(read).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nan_is_infinitely_far() {
        assert!(farthest(&[1.0, f32::NAN], &[1.0, 2.0]).is_infinite());
    }

    #[test]
    fn other_gradients_are_refused() {
        let found = |gradient| Agreement {
            logprob_max: 1e-5,
            gradient: Some(gradient),
        };
        assert!(checked(found(1e-5)).is_ok());
        let error = checked(found(relative(&[3.0, 4.0], &[3.0, 4.1]))).unwrap_err();
        assert!(error.to_string().contains("different things"));
        assert!(checked(found(f64::NAN)).is_err());
    }
}
