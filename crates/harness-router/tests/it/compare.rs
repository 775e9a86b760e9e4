//! Selectors to compare a router with, and the ways of counting.

use harness_core::{HarnessId, Seed};
use harness_pool::SelectSiblings;
use harness_router::{Aggregation, Ballot, FixedSelector, RandomSelector, Tally};

use crate::support::{context, pool};

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
