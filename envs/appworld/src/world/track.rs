//! What happened in a world so far, for predicates. It never changes what an API answers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::args::Args;
use super::spec::{Api, App, Endpoint};

/// Counts and marks of an episode.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Track {
    pub(crate) n_calls: i64,
    pub(crate) n_writes: i64,
    pub(crate) last_call: String,
    pub(crate) last_result_empty: bool,
    pub(crate) last_page_full: bool,
    answered: BTreeSet<Endpoint>,
    unchecked: BTreeSet<App>,
    pages: BTreeMap<String, BTreeSet<i64>>,
}

impl Track {
    /// Whether such a call has succeeded.
    pub(crate) fn has_answered(&self, endpoint: Endpoint) -> bool {
        self.answered.contains(&endpoint)
    }

    /// Whether an app was written to and not read since.
    pub(crate) fn write_unchecked(&self) -> bool {
        !self.unchecked.is_empty()
    }

    /// Distinct pages read of the listing of which most were read.
    pub(crate) fn pages_read(&self) -> i64 {
        let most = self.pages.values().map(BTreeSet::len).max();
        most.unwrap_or_default() as i64
    }

    pub(super) fn called(&mut self, app: App, api: &str) {
        self.n_calls += 1;
        self.last_call = format!("{}.{api}", app.name());
    }

    pub(super) fn answered(&mut self, api: &Api, args: &Args, answer: &Value) {
        self.answered.insert(api.endpoint);
        if api.endpoint.writes() {
            self.n_writes += 1;
            self.unchecked.insert(api.app);
        }
        if api.endpoint.reads() {
            self.unchecked.remove(&api.app);
        }
        let items = answer.as_array();
        self.last_result_empty = items.is_some_and(Vec::is_empty);
        let paged = api.params.iter().any(|p| p.name == "page_index");
        if let Some(items) = items.filter(|_| paged) {
            let limit = usize::try_from(args.int("page_limit")).unwrap_or_default();
            self.last_page_full = items.len() == limit;
            let listing = format!("{} {}", api.name, args.key_without("page_index"));
            self.pages
                .entry(listing)
                .or_default()
                .insert(args.int("page_index"));
        }
    }
}
