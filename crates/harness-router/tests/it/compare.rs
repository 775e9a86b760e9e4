//! Selectors to compare a router with, and the ways of counting.

use harness_core::{HarnessId, Seed};
use harness_pool::{RescueEvidence, RouteContext, SelectError, SelectSiblings};
use harness_router::{
    Aggregation, Ballot, FixedSelector, OracleSelector, RandomSelector, Router, RouterConfig, Tally,
};

use crate::support::{context, pool, router, rows, says};

#[test]
fn random_selection_is_even_and_repeats_by_seed() {
    let pool = pool(4);
    let mut selector = RandomSelector::new(&pool);
    let mut counts = [0; 4];
    for n in 0..2000 {
        let mut context = context(None);
        context.seed = Seed::new(n);
        let chosen = selector.select(&context, 2).unwrap().chosen;
        assert_eq!(chosen, selector.select(&context, 2).unwrap().chosen);
        assert_ne!(chosen[0], chosen[1]);
        for id in &chosen {
            counts[pool.ids().iter().position(|other| other == id).unwrap()] += 1;
        }
    }
    assert!(counts.iter().all(|n| (900..1100).contains(n)), "{counts:?}");
    assert_eq!(selector.select(&context(None), 9).unwrap().chosen.len(), 4);
}

#[test]
fn fixed_selection() {
    let pool = pool(3);
    let [a, b, c] = [0, 1, 2].map(|i| pool.ids()[i].clone());
    let mut selector = FixedSelector::new(&pool, std::slice::from_ref(&c)).unwrap();
    assert_eq!(
        selector.select(&context(None), 9).unwrap().chosen,
        [c.clone(), a, b]
    );
    assert!(FixedSelector::new(&pool, &[c.clone(), c]).is_err());
    assert!(FixedSelector::new(&pool, &[pool.base_id().clone()]).is_err());
}

#[track_caller]
fn check(rule: Aggregation, ballots: &[&str], expect: [u64; 3]) {
    let id = |c: char| HarnessId::new(c.to_string()).unwrap();
    let ballots: Vec<Ballot> = ballots
        .iter()
        .map(|text| Ballot::new(text.chars().map(id).collect()))
        .collect();
    let pool = ['a', 'b', 'c'].map(id);
    let tally = Tally::count(rule, &ballots, &pool);
    assert_eq!(pool.each_ref().map(|id| tally.points(id)), expect);
}

#[test]
fn ways_of_counting() {
    check(Aggregation::Borda, &["abc", "bca"], [4, 6, 2]);
    check(Aggregation::Borda, &["a", "ab"], [8, 3, 1]);
    check(Aggregation::Majority, &["abc", "bca", "b"], [1, 2, 0]);
    check(Aggregation::Copeland, &["abc", "bca", "cab"], [2, 2, 2]);
    check(Aggregation::Copeland, &["abc", "abc", "cba"], [4, 2, 0]);
    check(Aggregation::Copeland, &["a"], [4, 1, 1]);
    check(Aggregation::Borda, &[], [0, 0, 0]);
}

/// What the router chooses if voters give these ballots over siblings 0, 1 and 2.
fn chosen(rule: Aggregation, ballots: &[[usize; 3]]) -> usize {
    const NAMES: [&str; 7] = ["1", "2", "3", "4", "5", "6", "7"];
    let pool = pool(3);
    let voters = ballots.iter().zip(NAMES);
    let voters = voters.map(|(ballot, name)| says(name, &ballot.map(|i| &pool.ids()[i])));
    let config = RouterConfig {
        epsilon: 0.0,
        aggregation: rule,
        ..RouterConfig::default()
    };
    let mut router = Router::new(&pool, voters.collect(), config).unwrap();
    let decision = router.select(&context(None), 1).unwrap();
    assert_eq!(
        (decision.notes.len(), decision.fallback),
        (0, None),
        "no tie"
    );
    let best = &decision.chosen[0];
    pool.ids().iter().position(|id| id == best).unwrap()
}

#[test]
fn the_switch_of_counting_reaches_the_decision() {
    use Aggregation::{Borda, Copeland, Majority};
    // 0 is first most often; 1 beats each of the others.
    let split = [
        [0, 1, 2],
        [0, 1, 2],
        [0, 1, 2],
        [1, 2, 0],
        [1, 2, 0],
        [2, 1, 0],
        [2, 1, 0],
    ];
    assert_eq!(
        [Borda, Majority, Copeland].map(|rule| chosen(rule, &split)),
        [1, 0, 1]
    );
    // 0 beats each of the others, and is last on few ballots; 1 is never last.
    let steady = [[0, 1, 2], [0, 1, 2], [0, 1, 2], [1, 2, 0], [1, 2, 0]];
    assert_eq!(
        [Borda, Majority, Copeland].map(|rule| chosen(rule, &steady)),
        [1, 0, 0]
    );
}

#[test]
fn a_single_voter_decides_alone() {
    let pool = pool(3);
    let [a, b, c] = [0, 1, 2].map(|i| &pool.ids()[i]);
    let mut router = router(&pool, vec![says("only", &[c, a, b])], 1);
    let decision = router.select(&context(None), 3).unwrap();
    assert_eq!(decision.chosen, [c.clone(), a.clone(), b.clone()]);
    assert_eq!((decision.ballots.len(), decision.fallback), (1, None));
}

/// An oracle that knows that one sibling solves each task.
fn oracle(ranking: Vec<HarnessId>) -> OracleSelector {
    let rank = move |context: &RouteContext| match context.task_id.as_str() {
        "t" => ranking.clone(),
        _ => vec![],
    };
    OracleSelector::new(&pool(3), rank)
}

#[test]
fn an_oracle_chooses_what_its_caller_knows() {
    let pool = pool(3);
    let [a, b, c] = [0, 1, 2].map(|i| pool.ids()[i].clone());
    let mut selector = oracle(vec![c.clone()]);
    let decision = selector.select(&context(None), 2).unwrap();
    assert_eq!(decision.chosen, [c.clone(), a.clone()]);
    assert_eq!(decision.ballots[0].voter, "oracle");
    assert_eq!(decision.ballots[0].ranking, std::slice::from_ref(&c));
    let mut other = context(None);
    other.task_id = harness_core::TaskId::new("other").unwrap();
    assert_eq!(
        selector.select(&other, 9).unwrap().chosen,
        [a.clone(), b, c]
    );
    let twice = oracle(vec![a.clone(), a]).select(&context(None), 1);
    assert!(matches!(twice, Err(SelectError::Config(_))));
    let base = oracle(vec![pool.base_id().clone()]).select(&context(None), 1);
    assert!(matches!(base, Err(SelectError::UnknownHarness(_))));
}

#[test]
fn selectors_that_learn_nothing_still_refuse_bad_evidence() {
    let pool = pool(2);
    let mut selectors: Vec<Box<dyn SelectSiblings>> = vec![
        Box::new(RandomSelector::new(&pool)),
        Box::new(FixedSelector::new(&pool, &[]).unwrap()),
        Box::new(OracleSelector::new(&pool, |_| vec![])),
    ];
    let evidence = |id: &HarnessId| {
        let rows = rows(id, "login", 1, 2);
        RescueEvidence::from_rows(context(Some("login")), id.clone(), rows)
    };
    for selector in &mut selectors {
        let before = selector.select(&context(None), 2).unwrap();
        selector.observe(&evidence(&pool.ids()[0])).unwrap();
        selector.observe(&evidence(pool.base_id())).unwrap();
        let stranger = selector.observe(&evidence(&HarnessId::new("stranger").unwrap()));
        assert!(matches!(stranger, Err(SelectError::UnknownHarness(_))));
        let mut wrong = evidence(&pool.ids()[0]);
        wrong.solved += 1;
        assert!(selector.observe(&wrong).is_err());
        assert_eq!(selector.select(&context(None), 2).unwrap(), before);
    }
}
