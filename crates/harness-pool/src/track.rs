//! What one harness was seen to do: whole counts, and their discounted sums for one version of the policy.
//!
//! The counts are the truth. The sums are made of them when somebody asks, in one fixed order, and kept until
//! the counts or the version change; so asking costs the same however much evidence there is.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use harness_core::PolicyVersion;

use crate::cluster::Cluster;
use crate::evidence::EvidenceRow;
use crate::stats::{CellKey, ClusterScope, Counts, Given, Stats};

/// What evidence of each version weighs.
pub(crate) type Weights = BTreeMap<PolicyVersion, f64>;

/// Counts by policy version, so that discounts are applied to whole numbers in one fixed order.
type Cell = BTreeMap<CellKey, Counts>;

/// The evidence on one harness.
#[derive(Debug, Clone, Default)]
pub(crate) struct Track {
    cells: BTreeMap<Cluster, Cell>,
    /// By [`Given`].
    totals: [OnceLock<Totals>; Given::COUNT],
}

/// Discounted sums over rows of one [`Given`].
#[derive(Debug, Clone, Default)]
struct Totals {
    all: Stats,
    /// Ascending, those of all cells.
    clusters: Vec<(Cluster, Stats)>,
    verbs: Parts,
    error_kinds: Parts,
}

/// Sums by one part of the cluster's key, ascending by that part; each with some cluster that has it.
type Parts = Vec<(Cluster, Stats)>;

impl Track {
    pub(crate) fn count(&mut self, row: &EvidenceRow) {
        let cell = self.cells.entry(row.cluster.clone()).or_default();
        cell.entry(CellKey::of(row)).or_default().count(row);
        self.forget_totals();
    }

    /// To be called when weights change.
    pub(crate) fn forget_totals(&mut self) {
        self.totals = Default::default();
    }

    pub(crate) fn clusters(&self) -> impl Iterator<Item = &Cluster> {
        self.cells.keys()
    }

    /// The sums of every cluster, ascending.
    pub(crate) fn by_cluster(&self, given: Given, weights: &Weights) -> &[(Cluster, Stats)] {
        &self.totals(given, weights).clusters
    }

    pub(crate) fn stats(&self, scope: ClusterScope<'_>, given: Given, weights: &Weights) -> Stats {
        let totals = self.totals(given, weights);
        let found = match scope {
            ClusterScope::All => Some(&totals.all),
            ClusterScope::Cluster(cluster) => {
                find(&totals.clusters, Cluster::as_str, cluster.as_str())
            }
            ClusterScope::Verb(verb) => find(&totals.verbs, Cluster::verb, verb),
            ClusterScope::ErrorKind(kind) => find(&totals.error_kinds, Cluster::error_kind, kind),
        };
        found.copied().unwrap_or_default()
    }

    fn totals(&self, given: Given, weights: &Weights) -> &Totals {
        self.totals[given as usize].get_or_init(|| Totals::of(&self.cells, given, weights))
    }
}

impl Totals {
    /// Every sum takes its cells ascending by cluster and then by key, so that it is the same to the last bit
    /// whatever else is summed beside it.
    fn of(cells: &BTreeMap<Cluster, Cell>, given: Given, weights: &Weights) -> Self {
        let mut totals = Self::default();
        totals.clusters.reserve_exact(cells.len());
        for (cluster, cell) in cells {
            let mut of_cluster = Stats::default();
            let of_verb = entry(&mut totals.verbs, Cluster::verb, cluster);
            let of_kind = entry(&mut totals.error_kinds, Cluster::error_kind, cluster);
            for (key, counts) in cell.iter().filter(|(key, _)| given.holds(**key)) {
                let weight = weights[&key.version];
                for sum in [&mut totals.all, &mut of_cluster, of_verb, of_kind] {
                    sum.add(*key, counts, weight);
                }
            }
            totals.clusters.push((cluster.clone(), of_cluster));
        }
        totals
    }
}

/// A part of a cluster's key, or the whole.
type Part = fn(&Cluster) -> &str;

fn find<'a>(sums: &'a [(Cluster, Stats)], part: Part, name: &str) -> Option<&'a Stats> {
    let at = sums.binary_search_by(|(cluster, _)| part(cluster).cmp(name));
    at.ok().map(|at| &sums[at].1)
}

/// The sum of this cluster's part, which is made if it is missing.
fn entry<'a>(sums: &'a mut Parts, part: Part, cluster: &Cluster) -> &'a mut Stats {
    let at = sums.binary_search_by(|(other, _)| part(other).cmp(part(cluster)));
    let at = at.unwrap_or_else(|at| {
        sums.insert(at, (cluster.clone(), Stats::default()));
        at
    });
    &mut sums[at].1
}
