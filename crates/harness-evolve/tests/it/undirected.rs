//! The undirected ablation: one group of all failures, with the budget of the directions together.

use harness_core::Seed;
use harness_evolve::{
    DirectionBrief, Evolution, EvolveConfig, Proposal, ProposeError, Proposer, evolve,
};

use crate::toy::{World, config, input, proposer};

const N_KINDS: usize = 3;
const PER_KIND: usize = 30;

fn undirected() -> EvolveConfig {
    EvolveConfig {
        undirected: true,
        ..config(PER_KIND)
    }
}

/// A run with a catalogue of `2 n` entries.
fn run(config: &EvolveConfig, n: usize, world: &mut World) -> Evolution {
    let input = input(N_KINDS, PER_KIND);
    evolve(input, &mut proposer(n), world, config, Seed::new(3)).expect("a toy runs")
}

#[test]
fn the_pool_is_made_without_labels_and_the_report_says_so() {
    let got = run(&undirected(), 6, &mut World::new(0.8));
    let report = &got.report;
    assert_eq!(report.directions.len(), 1);
    assert!(report.directions[0].label.is_undirected());
    assert!(!got.pool.is_empty() && got.pool.len() <= N_KINDS);
    for sibling in got.pool.siblings() {
        assert_eq!(sibling.direction, "undirected");
        assert!(sibling.name.starts_with("undirected-"), "{}", sibling.name);
        assert!(sibling.evidence.p_value <= sibling.evidence.threshold);
    }
    let budget = report.undirected.expect("an undirected run says so");
    assert_eq!(budget.n_directions, N_KINDS);
    assert!(report.tree().iter().all(|node| node.label == "undirected"));
    let json = serde_json::to_string(report).unwrap();
    assert!(json.contains(r#""undirected":{"n_directions":3"#));
    assert_eq!(
        serde_json::from_str::<harness_evolve::EvolutionReport>(&json).unwrap(),
        *report
    );

    let directed = run(&config(PER_KIND), 6, &mut World::new(0.8));
    assert_eq!(directed.report.undirected, None);
    assert!(
        !serde_json::to_string(&directed.report)
            .unwrap()
            .contains("undirected")
    );
    let old = serde_json::to_string(&directed.report).unwrap();
    assert!(serde_json::from_str::<harness_evolve::EvolutionReport>(&old).is_ok());
}

/// With a catalogue that neither run uses up, both spend what was planned.
#[test]
fn the_budget_is_that_of_the_directed_run() {
    let directed = run(&config(PER_KIND), 12, &mut World::new(0.8)).report;
    let one = run(&undirected(), 12, &mut World::new(0.8)).report;
    let ran = |report: &harness_evolve::EvolutionReport| {
        report
            .candidates
            .iter()
            .filter(|c| c.harness.is_some())
            .count()
    };
    let budget = one.undirected.unwrap();
    assert_eq!(ran(&one), budget.n_candidates);
    assert_eq!(ran(&one), ran(&directed));
    assert_eq!(one.confirmations.len(), directed.confirmations.len());
    assert_eq!(directed.rollouts.search, budget.directed_search);
    assert_eq!(one.rollouts.search, budget.search);
    assert_eq!(directed.rollouts.confirm, budget.directed_confirm);
    assert_eq!(one.rollouts.confirm, budget.confirm);
    let config = undirected();
    let half_a_task = u64::from(config.search_attempts) * (1 + budget.n_candidates as u64) / 2;
    assert!(budget.search.abs_diff(budget.directed_search) <= half_a_task);
    let half_a_task = u64::from(config.confirm_attempts) * N_KINDS as u64;
    assert!(budget.confirm.abs_diff(budget.directed_confirm) <= half_a_task);
}

/// A small catalogue is tried on the base at once; the places it leaves go to the best so far.
#[test]
fn a_small_catalogue_costs_the_undirected_run_nothing() {
    let got = run(&undirected(), 6, &mut World::new(0.8)).report;
    let budget = got.undirected.unwrap();
    let ran = got
        .candidates
        .iter()
        .filter(|c| c.harness.is_some())
        .count();
    assert_eq!((budget.n_candidates, ran), (36, 36));
    let on_base = got
        .candidates
        .iter()
        .filter(|c| c.parent == got.base)
        .count();
    assert_eq!(on_base, 12, "each entry once");
}

#[test]
fn every_confirmation_has_its_own_arms_on_one_slice() {
    let mut world = World::new(0.8);
    let got = run(&undirected(), 6, &mut world);
    let arms: Vec<_> = world
        .calls
        .iter()
        .filter(|(p, ..)| p.contains("/confirm/"))
        .collect();
    assert_eq!(arms.len(), 2 * got.report.confirmations.len());
    assert!(got.report.confirmations.len() > 1);
    assert!(arms.iter().all(|(_, n, a)| (*n, *a) == (arms[0].1, 4)));
    let mut purposes: Vec<_> = world.calls.iter().map(|(p, ..)| p).collect();
    let n = purposes.len();
    purposes.sort();
    purposes.dedup();
    assert_eq!(purposes.len(), n);
    let m = got.report.confirmations.len() as f64;
    let strictest = got.report.confirmations.iter().map(|c| c.threshold);
    let strictest = strictest.fold(1.0, f64::min);
    assert!(
        (strictest - 0.05 / m).abs() < 1e-12,
        "Holm over all of them"
    );
}

/// Sees what a proposer is told.
#[derive(Default)]
struct Watcher {
    n_calls: usize,
    kinds: std::collections::BTreeSet<String>,
}

impl Proposer for Watcher {
    fn propose(
        &mut self,
        brief: &DirectionBrief<'_>,
        _: usize,
        _: Seed,
    ) -> Result<Vec<Proposal>, ProposeError> {
        self.n_calls += 1;
        assert_eq!(brief.label.to_string(), "undirected");
        let kinds = brief
            .packets
            .iter()
            .flat_map(|p| p.signals.error_kinds.keys());
        self.kinds.extend(kinds.cloned());
        Ok(Vec::new())
    }
}

#[test]
fn a_proposer_is_told_no_label_and_shown_failures_of_all_kinds() {
    let mut watcher = Watcher::default();
    let mut world = World::new(0.8);
    let input = input(N_KINDS, PER_KIND);
    let got = evolve(input, &mut watcher, &mut world, &undirected(), Seed::new(3)).unwrap();
    assert!(got.pool.is_empty() && watcher.n_calls > 0);
    assert_eq!(watcher.kinds.len(), N_KINDS);
}

#[test]
fn without_directions_there_is_no_budget() {
    let mut world = World {
        base_rates: vec![1.0],
        ..World::new(0.0)
    };
    let got = run(&undirected(), 6, &mut world);
    assert!(got.pool.is_empty() && got.report.directions.is_empty());
    assert_eq!(
        (got.report.undirected, got.report.rollouts.search),
        (None, 0)
    );
}

#[test]
fn same_seed_same_bytes() {
    let run = || {
        let got = run(&undirected(), 6, &mut World::new(0.4));
        (
            serde_json::to_string(&got.report).unwrap(),
            got.pool.hash().to_owned(),
        )
    };
    assert_eq!(run(), run());
}
