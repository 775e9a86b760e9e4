//! Learns byte-pair merges, deterministically.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

type Pair = (u32, u32);

/// A piece as tokens, and how often it occurs.
struct Word {
    tokens: Vec<u32>,
    count: i64,
}

/// Where a pair occurs.
#[derive(Default)]
struct Occurrences {
    count: i64,
    words: BTreeSet<usize>,
}

struct Learner {
    words: Vec<Word>,
    pairs: BTreeMap<Pair, Occurrences>,
}

impl Learner {
    fn new(pieces: impl Iterator<Item = String>, alphabet: &[char]) -> Self {
        let ids: HashMap<char, u32> = alphabet.iter().copied().zip(0..).collect();
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        for piece in pieces {
            *counts.entry(piece).or_default() += 1;
        }
        let words = counts.into_iter().map(|(piece, count)| Word {
            tokens: piece.chars().filter_map(|c| ids.get(&c).copied()).collect(),
            count,
        });
        let mut learner = Self {
            words: words.collect(),
            pairs: BTreeMap::new(),
        };
        (0..learner.words.len()).for_each(|word| learner.count(word, 1));
        learner
    }

    /// Adds (`sign` 1) or takes back (-1) a word's pairs.
    fn count(&mut self, word: usize, sign: i64) {
        let Word { tokens, count } = &self.words[word];
        for pair in tokens.windows(2) {
            let entry = self.pairs.entry((pair[0], pair[1])).or_default();
            entry.count += sign * count;
            if sign > 0 {
                entry.words.insert(word);
            }
        }
    }

    /// The most frequent pair that occurs at least twice; the lowest ids win a tie.
    fn best(&self) -> Option<Pair> {
        let often = self.pairs.iter().filter(|(_, o)| o.count >= 2);
        let best = often.min_by_key(|(pair, o)| (Reverse(o.count), **pair));
        best.map(|(pair, _)| *pair)
    }

    /// Replaces a pair by `token` everywhere.
    fn merge(&mut self, pair: Pair, token: u32) {
        let Some(found) = self.pairs.remove(&pair) else {
            return;
        };
        for word in found.words {
            self.count(word, -1);
            let tokens = &mut self.words[word].tokens;
            let mut kept = Vec::with_capacity(tokens.len());
            let mut rest = tokens.as_slice();
            while let Some((&first, tail)) = rest.split_first() {
                if first == pair.0 && tail.first() == Some(&pair.1) {
                    kept.push(token);
                    rest = &tail[1..];
                } else {
                    kept.push(first);
                    rest = tail;
                }
            }
            *tokens = kept;
            self.count(word, 1);
        }
        self.pairs.retain(|_, o| o.count > 0);
    }
}

/// Merges that add at most `n_new` tokens to the alphabet, in order.
pub(super) fn learn_merges(
    pieces: impl Iterator<Item = String>,
    alphabet: &[char],
    n_new: usize,
) -> Vec<(String, String)> {
    let mut learner = Learner::new(pieces, alphabet);
    let mut texts: Vec<String> = alphabet.iter().map(char::to_string).collect();
    let mut known: HashMap<String, u32> = texts.iter().cloned().zip(0..).collect();
    let mut merges = Vec::new();
    while texts.len() < alphabet.len() + n_new {
        let Some(pair) = learner.best() else { break };
        let parts = (
            texts[pair.0 as usize].clone(),
            texts[pair.1 as usize].clone(),
        );
        let text = format!("{}{}", parts.0, parts.1);
        // Two pairs may spell the same token; it then has one id.
        let token = *known.entry(text.clone()).or_insert(texts.len() as u32);
        if token as usize == texts.len() {
            texts.push(text);
        }
        learner.merge(pair, token);
        merges.push(parts);
    }
    merges
}
