//! How rules are worded: one small grammar per skill and per distractor.
//!
//! A hash of the wording decides whether it belongs to the warm start or is held out for the edit catalogue,
//! so a policy that obeys a catalogue entry has understood words and not remembered a sentence.

use harness_core::Seed;
use rand::Rng;
use rand::seq::IndexedRandom as _;

/// What a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Topic {
    /// After a 401: passwords, login, token.
    Auth,
    /// A full page: read on until one is empty.
    Pages,
    /// An unknown API: search the documentation, read the parameters.
    Docs,
    /// A write: read it back, write again while it is missing.
    Verify,
    /// Distractor: count the supervisor's addresses first.
    Addresses,
    /// Distractor: look at the active task first.
    ActiveTask,
    /// Distractor: count the apps first.
    CountApps,
    /// Distractor: count the payment cards first.
    Cards,
}

impl Topic {
    /// Topics whose rules repair a family.
    pub const SKILLS: [Self; 4] = [Self::Auth, Self::Pages, Self::Docs, Self::Verify];
    /// Topics whose rules are obeyed and repair nothing.
    pub const DISTRACTORS: [Self; 4] = [
        Self::Addresses,
        Self::ActiveTask,
        Self::CountApps,
        Self::Cards,
    ];

    /// A short name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Pages => "pages",
            Self::Docs => "docs",
            Self::Verify => "verify",
            Self::Addresses => "addresses",
            Self::ActiveTask => "active-task",
            Self::CountApps => "count-apps",
            Self::Cards => "cards",
        }
    }

    /// The slots of its grammar; a wording takes one choice of each.
    const fn slots(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Auth => &[
                &["if", "when"],
                &[
                    "a call answers 401",
                    "an app says 401",
                    "a result shows 401",
                ],
                &[
                    "read the account passwords",
                    "ask supervisor for passwords",
                    "get the passwords",
                ],
                &["and log in", "then log in", "and then log in"],
                &[
                    "and use the token",
                    "and call again with the token",
                    "and repeat with the token",
                ],
            ],
            Self::Pages => &[
                &["if", "when"],
                &["a page is full", "a list is full", "a list shows five"],
                &[
                    "read the next page",
                    "get the next page",
                    "ask for more pages",
                ],
                &[
                    "until a page is empty",
                    "until it shows zero",
                    "until nothing comes",
                ],
                &[
                    "before you answer",
                    "and only then answer",
                    "and sum them all",
                ],
            ],
            Self::Docs => &[
                &["if", "when"],
                &[
                    "an api is unknown",
                    "no api has that name",
                    "a call is not found",
                ],
                &[
                    "search the api docs",
                    "look in the api docs",
                    "ask the api docs",
                ],
                &[
                    "and read the parameters",
                    "then read the parameters",
                    "and check the parameters",
                ],
                &["before you call", "and then call it", "before the call"],
            ],
            Self::Verify => &[
                &["after you write", "when you create", "once you write"],
                &["read it back", "look it up", "search for it"],
                &[
                    "and write again",
                    "and create again",
                    "and repeat the write",
                ],
                &[
                    "while it is missing",
                    "if it is missing",
                    "while nothing is there",
                ],
                &["until it is there", "until it shows", "before you finish"],
            ],
            Self::Addresses => &FIRST_ADDRESSES,
            Self::ActiveTask => &FIRST_TASK,
            Self::CountApps => &FIRST_APPS,
            Self::Cards => &FIRST_CARDS,
        }
    }

    /// Every wording, in a fixed order.
    pub fn wordings(self) -> Vec<String> {
        self.slots()
            .iter()
            .fold(vec![String::new()], |texts, slot| {
                texts
                    .iter()
                    .flat_map(|text| slot.iter().map(move |choice| join(text, choice)))
                    .collect()
            })
    }

    /// The wordings that only the edit catalogue may use.
    pub fn held_out_wordings(self) -> Vec<String> {
        let mut all = self.wordings();
        all.retain(|text| is_held_out(text));
        all
    }

    /// The wordings that only the warm start may use.
    pub fn warm_start_wordings(self) -> Vec<String> {
        let mut all = self.wordings();
        all.retain(|text| !is_held_out(text));
        all
    }

    /// A wording of the warm start.
    ///
    /// # Panics
    /// Never: every topic has wordings on both sides, which a test checks.
    pub fn draw(self, rng: &mut impl Rng) -> String {
        self.warm_start_wordings()
            .choose(rng)
            .expect("every topic has wordings for the warm start")
            .clone()
    }
}

const FIRST: &[&str] = &["first", "at the start", "before all else"];
const FIRST_ADDRESSES: [&[&str]; 3] = [
    FIRST,
    &["count", "look at", "show"],
    &[
        "the addresses of supervisor",
        "your home addresses",
        "all addresses",
    ],
];
const FIRST_TASK: [&[&str]; 3] = [
    FIRST,
    &["look at", "show", "check"],
    &[
        "the active task",
        "the state of the task",
        "the task status",
    ],
];
const FIRST_APPS: [&[&str]; 3] = [
    FIRST,
    &["count", "list", "look at"],
    &["the apps", "all the apps", "the known apps"],
];
const FIRST_CARDS: [&[&str]; 3] = [
    FIRST,
    &["count", "look at", "check"],
    &["the payment cards", "your cards", "all payment cards"],
];

fn join(text: &str, choice: &str) -> String {
    if text.is_empty() {
        choice.to_owned()
    } else {
        format!("{text} {choice}")
    }
}

/// Whether a wording is kept from the warm start; about a quarter are.
fn is_held_out(text: &str) -> bool {
    let sum: u64 = text.bytes().fold(0, |sum, byte| {
        sum.wrapping_mul(131).wrapping_add(u64::from(byte))
    });
    Seed::new(sum)
        .derive("held-out", &[])
        .value()
        .is_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_has_wordings_on_both_sides() {
        for topic in Topic::SKILLS.into_iter().chain(Topic::DISTRACTORS) {
            let (held, shown) = (topic.held_out_wordings(), topic.warm_start_wordings());
            assert!(held.len() >= 3, "{topic:?}: {}", held.len());
            assert!(shown.len() >= 12, "{topic:?}: {}", shown.len());
            assert!(held.iter().all(|text| !shown.contains(text)));
        }
    }
}
