//! A proposer that needs no LLM: it searches a catalogue of edits that the environment publishes.
//!
//! It ranks entries by words that they share with the failures, and explores the others by chance. It knows
//! nothing about which entry helps: half of a catalogue may be distractors, and reruns tell them apart.

use std::collections::{BTreeMap, BTreeSet};

use harness_core::{HarnessEdit, Moment, Seed};
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use crate::edit_text;
use crate::error::ConfigError;
use crate::proposal::{DirectionBrief, Proposal, ProposeError, Proposer, apply_all};
use crate::text::words;

/// How much more a shared word of the label counts than one of a packet.
const LABEL_WEIGHT: f64 = 3.0;
/// What an entry bound to the direction's moment gains.
const MOMENT_BONUS: f64 = 1.0;

/// One entry of an edit catalogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueEntry {
    /// Its name, unique in the catalogue.
    pub name: String,
    /// The edits, applied together; not empty.
    pub edits: Vec<HarnessEdit>,
    /// Words by which it may be found, beside its texts.
    #[serde(default)]
    pub keywords: Vec<String>,
}

/// Searches a catalogue by lexical relevance, with seeded exploration.
#[derive(Debug, Clone)]
pub struct CatalogueProposer {
    entries: Vec<CatalogueEntry>,
    words: Vec<BTreeSet<String>>,
    rarity: BTreeMap<String, f64>,
    explore: f64,
}

/// Why a catalogue cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogueError {
    /// An entry has no edits.
    #[error("catalogue entry has no edits: {0}")]
    NoEdits(String),
    /// Two entries have one name.
    #[error("two catalogue entries have the same name: {0}")]
    DuplicateName(String),
    /// The share of exploration is out of range.
    #[error(transparent)]
    Explore(#[from] ConfigError),
}

impl CatalogueProposer {
    /// Takes a catalogue. `explore`, in \[0, 1\], is the share of each call's proposals that are drawn at
    /// random from the entries not yet tried; 1/3 is a fair start (ours).
    ///
    /// # Errors
    /// [`CatalogueError`] if an entry has no edits, a name occurs twice, or `explore` is out of range.
    pub fn new(entries: Vec<CatalogueEntry>, explore: f64) -> Result<Self, CatalogueError> {
        ConfigError::check("explore", "in [0, 1]", (0.0..=1.0).contains(&explore))?;
        let mut names = BTreeSet::new();
        for entry in &entries {
            if entry.edits.is_empty() {
                return Err(CatalogueError::NoEdits(entry.name.clone()));
            }
            if !names.insert(&entry.name) {
                return Err(CatalogueError::DuplicateName(entry.name.clone()));
            }
        }
        let words: Vec<BTreeSet<String>> = entries.iter().map(entry_words).collect();
        let rarity = rarity(&words);
        Ok(Self {
            entries,
            words,
            rarity,
            explore,
        })
    }

    /// Relevance of every entry to a brief, in the order of the catalogue: the rarity of each shared word,
    /// words of the label counted thrice, divided by the square root of the entry's number of words; and a
    /// bonus if the entry acts at the direction's moment. An undirected brief has neither label nor moment.
    pub fn relevance(&self, brief: &DirectionBrief<'_>) -> Vec<f64> {
        let is_directed = !brief.label.is_undirected();
        let label: BTreeSet<String> = words(&brief.label.to_string())
            .filter(|_| is_directed)
            .collect();
        let seen: BTreeSet<String> = brief
            .packets
            .iter()
            .flat_map(|p| words(&p.text()).collect::<Vec<_>>())
            .collect();
        let weight = |word: &String| {
            let in_label = if label.contains(word) {
                LABEL_WEIGHT
            } else {
                0.0
            };
            in_label + f64::from(u8::from(seen.contains(word)))
        };
        let score = |(entry, words): (&CatalogueEntry, &BTreeSet<String>)| {
            let shared: f64 = words.iter().map(|w| weight(w) * self.rarity[w]).sum();
            let bonus = if is_directed && acts_at(entry, brief.moment) {
                MOMENT_BONUS
            } else {
                0.0
            };
            bonus + shared / (words.len().max(1) as f64).sqrt()
        };
        self.entries.iter().zip(&self.words).map(score).collect()
    }

    /// Entries that can still be tried on the parent, most relevant first; ties in seeded order, so that
    /// where an entry stands in the catalogue tells nothing.
    fn open_entries(&self, brief: &DirectionBrief<'_>, seed: Seed) -> Vec<usize> {
        let relevance = self.relevance(brief);
        let mut open: Vec<usize> = (0..self.entries.len())
            .filter(|i| {
                let edits = &self.entries[*i].edits;
                let was_tried = brief.tried.iter().any(|t| t.edits == *edits);
                !was_tried && apply_all(brief.parent, edits).is_ok()
            })
            .collect();
        open.shuffle(&mut seed.derive("ties", &[]).rng());
        open.sort_by(|a, b| relevance[*b].total_cmp(&relevance[*a]));
        open
    }
}

impl Proposer for CatalogueProposer {
    /// Proposes entries not yet tried on this parent; an empty list once none is left.
    fn propose(
        &mut self,
        brief: &DirectionBrief<'_>,
        n: usize,
        seed: Seed,
    ) -> Result<Vec<Proposal>, ProposeError> {
        let mut open = self.open_entries(brief, seed);
        let n = n.min(open.len());
        let n_explored = (self.explore * n as f64).floor() as usize;
        let rest = &mut open[n - n_explored..];
        rest.shuffle(&mut seed.derive("explore", &[]).rng());
        open.truncate(n);
        let how = |rank| {
            if rank < n - n_explored {
                "relevance"
            } else {
                "exploration"
            }
        };
        let proposals = open.iter().enumerate().map(|(rank, at)| Proposal {
            edits: self.entries[*at].edits.clone(),
            why: format!("{} by {}", self.entries[*at].name, how(rank)),
        });
        Ok(proposals.collect())
    }
}

fn entry_words(entry: &CatalogueEntry) -> BTreeSet<String> {
    let texts = entry.edits.iter().flat_map(edit_text::all);
    let keywords = entry.keywords.iter().map(String::as_str);
    texts
        .chain(keywords)
        .chain([entry.name.as_str()])
        .flat_map(words)
        .collect()
}

/// ln(1 + N / n) of every word, n being the number of the N entries that have it.
fn rarity(entries: &[BTreeSet<String>]) -> BTreeMap<String, f64> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for word in entries.iter().flatten() {
        *counts.entry(word.clone()).or_insert(0) += 1;
    }
    let n_entries = entries.len() as f64;
    let rarity = |n: usize| (n_entries / n as f64).ln_1p();
    counts
        .into_iter()
        .map(|(word, n)| (word, rarity(n)))
        .collect()
}

fn acts_at(entry: &CatalogueEntry, moment: Moment) -> bool {
    entry.edits.iter().any(|edit| match edit {
        HarnessEdit::AddRule(rule) | HarnessEdit::ReplaceRule(rule) => rule.moment == moment,
        HarnessEdit::AddNote(_) => moment == Moment::OnStart,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::proposal::{Tried, TriedResult};
    use harness_core::HarnessSpec;

    fn entry(name: &str, text: &str) -> CatalogueEntry {
        CatalogueEntry {
            name: name.into(),
            edits: vec![fixture::say(name, text)],
            keywords: Vec::new(),
        }
    }

    fn proposer(explore: f64) -> CatalogueProposer {
        let entries = vec![
            entry("dates", "write dates as numbers"),
            entry(
                "pages",
                "a full list page may be cut, ask for the next page",
            ),
            entry("login", "log in first"),
            entry("calm", "stay calm"),
        ];
        CatalogueProposer::new(entries, explore).unwrap()
    }

    #[track_caller]
    fn names(
        proposer: &mut CatalogueProposer,
        parent: &HarnessSpec,
        tried: &[Tried],
        n: usize,
    ) -> Vec<String> {
        let failure = fixture::failure("t", "list_page");
        let brief = DirectionBrief {
            label: &failure.label,
            moment: Moment::AfterStep,
            packets: std::slice::from_ref(&failure.packet),
            parent,
            tried,
        };
        let got = proposer.propose(&brief, n, Seed::new(1)).unwrap();
        got.iter()
            .map(|p| p.why.split(' ').next().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn relevant_entries_come_first() {
        let base = fixture::base();
        assert_eq!(names(&mut proposer(0.0), &base, &[], 1), ["pages"]);
        assert_eq!(names(&mut proposer(0.0), &base, &[], 9).len(), 4);
        let explored = names(&mut proposer(1.0), &base, &[], 4);
        assert_eq!(explored.iter().collect::<BTreeSet<_>>().len(), 4);
    }

    #[test]
    fn place_in_the_catalogue_tells_nothing() {
        let entries = (0..8)
            .map(|i| entry(&format!("idle {i}"), "unrelated"))
            .collect();
        let mut proposer = CatalogueProposer::new(entries, 0.0).unwrap();
        let failure = fixture::failure("t", "list_page");
        let base = fixture::base();
        let brief = DirectionBrief {
            label: &failure.label,
            moment: Moment::BeforeTurn,
            packets: std::slice::from_ref(&failure.packet),
            parent: &base,
            tried: &[],
        };
        let mut first = |seed| {
            let got = proposer.propose(&brief, 1, Seed::new(seed)).unwrap();
            got[0].why.clone()
        };
        let distinct: BTreeSet<String> = (0..64).map(&mut first).collect();
        assert_eq!(distinct.len(), 8);
        assert_eq!(first(3), first(3));
    }

    #[test]
    fn nothing_is_tried_twice() {
        let base = fixture::base();
        let mut proposer = proposer(0.5);
        let tried: Vec<Tried> = proposer.entries[..3]
            .iter()
            .map(|e| Tried {
                edits: e.edits.clone(),
                result: TriedResult::Gain(0.0),
            })
            .collect();
        assert_eq!(names(&mut proposer, &base, &tried, 4), ["calm"]);
        let stacked = base.apply(&proposer.entries[3].edits[0]).unwrap();
        assert_eq!(names(&mut proposer, &stacked, &tried, 4), [""; 0]);
    }

    #[test]
    fn bad_catalogues_are_refused() {
        let twice = vec![entry("a", "x"), entry("a", "y")];
        assert_eq!(
            CatalogueProposer::new(twice, 0.0).unwrap_err(),
            CatalogueError::DuplicateName("a".into())
        );
        let empty = CatalogueEntry {
            edits: Vec::new(),
            ..entry("a", "x")
        };
        assert_eq!(
            CatalogueProposer::new(vec![empty], 0.0).unwrap_err(),
            CatalogueError::NoEdits("a".into())
        );
        assert!(CatalogueProposer::new(Vec::new(), 1.5).is_err());
    }
}
