//! The invariants of design.md section 4, for every way of counting.

use harness_core::PolicyVersion;
use harness_pool::{BehaviorProfile, ProfileConfig, SelectSiblings, SiblingPool};
use harness_router::testing::{
    ballots, check_anonymous, check_failed_reanchor, check_invalid_ignored, check_monotone,
    check_neutral, check_repeatable, check_selection, check_told_twice, check_unanimous, contexts,
    has_tie, invalid_sayings, pool_of, rows, voters,
};
use harness_router::{
    Aggregation, Ballot, FixedSelector, OracleSelector, RandomSelector, Router, RouterConfig,
    Voter, embedded_voters,
};
use proptest::prelude::*;

fn rules() -> impl Strategy<Value = Aggregation> {
    prop::sample::select(vec![
        Aggregation::Borda,
        Aggregation::Majority,
        Aggregation::Copeland,
    ])
}

fn pools() -> impl Strategy<Value = SiblingPool> {
    (1..6_usize).prop_map(pool_of)
}

/// A pool with 1 to 5 ballots over it.
fn votes() -> impl Strategy<Value = (SiblingPool, Vec<Ballot>)> {
    pools().prop_flat_map(|pool| {
        let ballots = ballots(pool.ids(), 1..6);
        (Just(pool), ballots)
    })
}

fn known(pool: &SiblingPool) -> impl Strategy<Value = BehaviorProfile> + use<> {
    let harnesses: Vec<_> = pool.ids().iter().chain([pool.base_id()]).cloned().collect();
    rows(&harnesses).prop_map(|rows| {
        BehaviorProfile::from_rows(rows, PolicyVersion(40), ProfileConfig::default()).unwrap()
    })
}

/// A pool, ballots, and a profile with evidence.
fn known_votes() -> impl Strategy<Value = (SiblingPool, Vec<Ballot>, BehaviorProfile)> {
    votes().prop_flat_map(|(pool, ballots)| {
        let profile = known(&pool);
        (Just(pool), Just(ballots), profile)
    })
}

fn make(
    pool: &SiblingPool,
    aggregation: Aggregation,
    profile: Option<&BehaviorProfile>,
) -> impl Fn(Vec<Box<dyn Voter>>) -> Box<dyn SelectSiblings> {
    move |voters| {
        let config = RouterConfig {
            quorum: 1,
            epsilon: 0.0,
            aggregation,
            demote_unroutable: false,
            ..RouterConfig::default()
        };
        let router = Router::new(pool, voters, config).unwrap();
        Box::new(match profile {
            Some(profile) => router.with_profile(profile.clone()).unwrap(),
            None => router,
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_selector_chooses_from_the_pool(
        (pool, ballots, profile) in known_votes(),
        context in contexts(),
        k in 0..8_usize,
        epsilon in 0.0..=1.0,
    ) {
        // Exploration and demotion on: these hold whatever the settings.
        let config = RouterConfig { quorum: 1, epsilon, ..RouterConfig::default() };
        let known = |voters| {
            Router::new(&pool, voters, config).unwrap().with_profile(profile.clone()).unwrap()
        };
        let mut selectors: Vec<Box<dyn SelectSiblings>> = vec![
            Box::new(known(voters(ballots))),
            Box::new(known(embedded_voters())),
            Box::new(RandomSelector::new(&pool)),
            Box::new(FixedSelector::new(&pool, &pool.ids()[..1]).unwrap()),
            Box::new(OracleSelector::new(&pool, {
                let known = pool.ids().to_vec();
                move |context| known.iter().rev().take(context.instruction.len() % 3).cloned().collect()
            })),
        ];
        for selector in &mut selectors {
            check_selection(&selector.select(&context, k).unwrap(), &pool, k)?;
            check_repeatable(selector.as_mut(), &context, k)?;
        }
    }

    #[test]
    fn anonymity(
        ((pool, ballots, profile), shuffled) in known_votes().prop_flat_map(|votes| {
            let shuffled = Just(votes.1.clone()).prop_shuffle();
            (Just(votes), shuffled)
        }),
        rule in rules(),
        context in contexts(),
        k in 0..6_usize,
    ) {
        check_anonymous(&make(&pool, rule, Some(&profile)), ballots, shuffled, &context, k)?;
    }

    #[test]
    fn neutrality_without_ties(
        ((pool, ballots), renamed) in votes().prop_flat_map(|votes| {
            let renamed = Just(votes.0.ids().to_vec()).prop_shuffle();
            (Just(votes), renamed)
        }),
        rule in rules(),
        context in contexts(),
        k in 0..6_usize,
    ) {
        prop_assume!(!has_tie(rule, &ballots, pool.ids()));
        let names = (pool.ids(), renamed.as_slice());
        check_neutral(&make(&pool, rule, None), &ballots, names, &context, k)?;
    }

    #[test]
    fn unanimous_first_is_first(
        (pool, ballots, profile) in known_votes(),
        at in any::<prop::sample::Index>(),
        rule in rules(),
        context in contexts(),
    ) {
        let first = at.get(pool.ids());
        check_unanimous(&make(&pool, rule, Some(&profile)), ballots, first, &context)?;
    }

    #[test]
    fn monotonicity(
        (pool, ballots, profile) in known_votes(),
        (ballot, sibling) in any::<(prop::sample::Index, prop::sample::Index)>(),
        rule in rules(),
        context in contexts(),
    ) {
        let raised = (ballot.index(ballots.len()), sibling.get(pool.ids()));
        check_monotone(&make(&pool, rule, Some(&profile)), ballots, raised, &context, pool.len())?;
    }

    #[test]
    fn invalid_ballots_change_nothing(
        ((pool, ballots), invalid) in votes().prop_flat_map(|votes| {
            let invalid = prop::collection::vec(invalid_sayings(votes.0.ids()), 0..4);
            (Just(votes), invalid)
        }),
        rule in rules(),
        context in contexts(),
        k in 0..6_usize,
    ) {
        check_invalid_ignored(&make(&pool, rule, None), &ballots, invalid, &context, k)?;
    }
}

#[test]
fn told_twice_is_told_once_and_a_failed_reanchoring_changes_nothing() {
    let pool = pool_of(4);
    let make = || -> Box<dyn SelectSiblings> {
        Box::new(Router::new(&pool, embedded_voters(), RouterConfig::default()).unwrap())
    };
    proptest!(|(rows in rows(pool.ids()), context in contexts(), k in 0..6_usize)| {
        check_told_twice(&make, &rows, &context, k)?;
        check_failed_reanchor(make().as_mut(), &rows, &context, k)?;
    });
}
