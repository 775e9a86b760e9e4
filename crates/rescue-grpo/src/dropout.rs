//! Word dropout in a sibling's texts, for [`crate::Context::SiblingDropout`].
//!
//! A policy that learns in the sibling's context may learn "rule text, then skill" and nothing that holds
//! without the text. Rollouts that saw only some of the words are a bridge between the two contexts, and each
//! is trained in exactly the context in which it was made.

use harness_core::{Effect, HarnessSpec, Seed};
use rand::RngExt as _;

/// The harness with each word of the overlay's texts (what rules say or answer, and notes) deleted with chance
/// `p`; one word of each text stays. Rewrites of actions are no texts and stay whole.
///
/// # Determinism
/// The same harness, chance and seed give the same words.
///
/// # Source
/// Ours.
pub(crate) fn drop_words(harness: &HarnessSpec, p: f64, seed: Seed) -> HarnessSpec {
    let mut thinned = harness.clone();
    let mut rng = seed.rng();
    let mut thin = |text: &mut String| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let kept: Vec<&str> = words
            .iter()
            .copied()
            .filter(|_| !rng.random_bool(p))
            .collect();
        let kept = match (kept.as_slice(), words.first()) {
            ([], Some(first)) => (*first).to_owned(),
            _ => kept.join(" "),
        };
        *text = kept;
    };
    for rule in &mut thinned.overlay.rules {
        match &mut rule.effect {
            Effect::Say(text) | Effect::Block(text) => thin(text),
            Effect::Rewrite { .. } => {}
        }
    }
    thinned.overlay.overrides.notes.iter_mut().for_each(thin);
    thinned
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::pool;

    fn text(harness: &HarnessSpec) -> &str {
        match &harness.overlay.rules[0].effect {
            Effect::Say(text) => text,
            other => panic!("another effect: {other:?}"),
        }
    }

    fn words(p: f64, seed: u64) -> HarnessSpec {
        let pool = pool(&["read the docs before you call an api"]);
        drop_words(&pool.siblings()[0].harness, p, Seed::new(seed))
    }

    #[test]
    fn words_go_and_their_order_stays() {
        let whole = "read the docs before you call an api";
        let thinned = words(0.5, 3);
        let kept: Vec<&str> = text(&thinned).split(' ').collect();
        assert!((1..8).contains(&kept.len()), "{kept:?}");
        let mut rest = whole.split(' ');
        assert!(kept.iter().all(|word| rest.any(|w| w == *word)));
        assert_eq!(words(0.5, 3), thinned);
        assert_ne!(words(0.5, 4), thinned);
    }

    #[test]
    fn none_or_all_but_one() {
        assert_eq!(text(&words(0.0, 1)), "read the docs before you call an api");
        assert_eq!(text(&words(1.0, 1)), "read");
    }
}
