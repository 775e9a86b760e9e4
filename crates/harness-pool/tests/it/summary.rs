//! Summaries of profiles: every number that design.md asks for, and that they depend on rows alone.

use harness_core::PolicyVersion;
use harness_pool::{
    AgainstBase, BehaviorProfile, Cluster, ClusterScope, EvidenceRow, ProfileConfig, Share, beta,
};
use proptest::prelude::*;

use crate::support::{id, profile, row, rows_strategy};

fn with_flags(row: EvidenceRow, flags: &[&str]) -> EvidenceRow {
    EvidenceRow {
        flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
        ..row
    }
}

fn against_base(rows: Vec<EvidenceRow>) -> Option<AgainstBase> {
    let summary = profile(rows).summary(&id("a"), &id("base"), ClusterScope::All);
    summary.against_base
}

#[track_caller]
fn check_near(got: f64, expect: f64) {
    assert!((got - expect).abs() < 1e-12, "{got} is not {expect}");
}

#[test]
fn rates_are_conditional_on_failure_and_unconditional() {
    let easy = |harness: &str, n, solved| EvidenceRow {
        base_failed_all: false,
        ..row(harness, "easy", n, solved)
    };
    let routed = |n, solved| EvidenceRow {
        is_selected: true,
        ..row("a", "routed", n, solved)
    };
    let rows = vec![
        row("a", "hard", 0, true),
        row("a", "hard", 1, false),
        row("a", "hard", 2, false),
        row("base", "hard", 0, false),
        easy("a", 0, true),
        easy("a", 1, false),
        easy("base", 0, true),
        easy("base", 1, true),
        easy("base", 2, false),
        routed(0, true),
        routed(1, true),
    ];
    let summary = profile(rows).summary(&id("a"), &id("base"), ClusterScope::All);
    assert_eq!((summary.attempts, summary.rescues), (7, 3));
    assert_eq!((summary.rescue.attempts, summary.rescue.successes), (3, 1));
    check_near(summary.rescue.mean, beta::mean(1.0, 2.0));
    let interval = (summary.rescue.low, summary.rescue.high);
    assert_eq!(interval, beta::interval95(1.0, 2.0));
    assert_eq!(summary.base_rescue.attempts, 1);
    check_near(summary.unconditional.mean, beta::mean(2.0, 3.0));
    check_near(summary.base_unconditional.mean, beta::mean(2.0, 2.0));
    assert_eq!(summary.routed, Share { n: 2, of: 2 });
    assert_eq!(summary.regressions, Share { n: 1, of: 2 });
    assert_eq!(summary.base_regressions, Share { n: 1, of: 3 });
    assert_eq!(summary.fires, Share { n: 7, of: 7 });
    assert_eq!(summary.examples.rescued.len(), 2);
    assert_eq!(summary.examples.harmed[0].as_str(), "easy");
    check_near(summary.stamp.effective_n, 7.0);
    check_near(summary.utility.mean, 0.4 - 1.0 / 3.0);
}

#[test]
fn a_scope_holds_back_everything_outside_it() {
    let elsewhere = |n| EvidenceRow {
        cluster: Cluster::of("send mail", "page"),
        base_failed_all: false,
        ..row("a", "other", n, false)
    };
    let rows = vec![row("a", "t", 0, true), elsewhere(0), elsewhere(1)];
    let profile = profile(rows);
    let of = |scope| profile.summary(&id("a"), &id("base"), scope);
    let here = of(ClusterScope::Verb("play"));
    assert_eq!((here.scope.as_str(), here.attempts), ("verb play", 1));
    assert_eq!(here.regressions, Share::default());
    assert!(here.examples.harmed.is_empty());
    let there = of(ClusterScope::ErrorKind("page"));
    assert_eq!(
        (there.scope.as_str(), there.attempts),
        ("error kind page", 2)
    );
    assert!(there.examples.rescued.is_empty());
    assert_eq!(of(ClusterScope::All).attempts, 3);
}

#[test]
fn adherence_is_the_flag_that_rises_most_on_the_same_tasks() {
    let mut rows = Vec::new();
    for n in 0..4 {
        // `late` rises from 0 to 1/2, `logged_in` from 1/4 to 1, `tidy` falls.
        let own: &[&str] = if n < 2 {
            &["late", "logged_in"]
        } else {
            &["logged_in"]
        };
        rows.push(with_flags(row("a", "t", n, true), own));
        let of_base: &[&str] = if n == 0 {
            &["logged_in", "tidy"]
        } else {
            &["tidy"]
        };
        rows.push(with_flags(row("base", "t", n, false), of_base));
    }
    // Another task, another version, and a routed rescue cannot be compared.
    rows.push(with_flags(row("a", "alone", 0, true), &["elsewhere"]));
    rows.push(EvidenceRow {
        policy_version: PolicyVersion(1),
        ..with_flags(row("a", "t", 9, true), &["elsewhere"])
    });
    rows.push(EvidenceRow {
        is_selected: true,
        ..with_flags(row("a", "t", 8, true), &["elsewhere"])
    });
    let got = against_base(rows).unwrap();
    assert_eq!(got.pairs, 1);
    let adherence = got.adherence.unwrap();
    assert_eq!(adherence.flag, "logged_in");
    check_near(adherence.rate, 1.0);
    check_near(adherence.base_rate, 0.25);
}

#[test]
fn adherence_is_none_without_flags_and_nothing_is_compared_without_the_base() {
    let both = vec![row("a", "t", 0, true), row("base", "t", 0, false)];
    assert_eq!(against_base(both).unwrap().adherence, None);
    let alone = vec![with_flags(row("a", "t", 0, true), &["x"])];
    assert_eq!(against_base(alone), None);
    // Of equal rises the first in the alphabet, even if nothing rises.
    let tie = vec![
        with_flags(row("a", "t", 0, true), &["x", "y"]),
        with_flags(row("base", "t", 0, true), &["x", "y"]),
    ];
    assert_eq!(against_base(tie).unwrap().adherence.unwrap().flag, "x");
}

#[test]
fn turns_and_tokens_are_compared_task_by_task() {
    let sized = |row: EvidenceRow, turns, tokens| EvidenceRow {
        turns,
        tokens,
        ..row
    };
    // Pooled over attempts the sibling would look shorter, since it was tried more often on the short task.
    let rows = vec![
        sized(row("a", "short", 0, true), 3, 30),
        sized(row("a", "short", 1, true), 3, 30),
        sized(row("a", "short", 2, true), 3, 30),
        sized(row("base", "short", 0, false), 2, 20),
        sized(row("a", "long", 0, true), 11, 110),
        sized(row("base", "long", 0, false), 10, 100),
        sized(row("base", "long", 1, false), 10, 100),
        sized(row("base", "long", 2, false), 10, 100),
    ];
    let got = against_base(rows).unwrap();
    assert_eq!(got.pairs, 2);
    check_near(got.turns, 1.0);
    check_near(got.tokens, 10.0);
}

#[test]
fn the_base_is_a_row_and_is_not_compared_with_itself() {
    let profile = profile(vec![row("a", "t", 0, true), row("base", "t", 0, false)]);
    let all = profile.summaries(&id("base"), ClusterScope::All);
    let names: Vec<&str> = all.iter().map(|s| s.harness.as_str()).collect();
    assert_eq!(names, ["a", "base"]);
    assert_eq!(all[1].against_base, None);
    assert_eq!(all[1].rescue, all[1].base_rescue);
    assert!(all[0].against_base.is_some());
}

#[test]
fn v9_a_summary_carries_its_stamp() {
    let config = ProfileConfig {
        half_life: Some(10.0),
    };
    let rows = [row("a", "t", 0, true), row("a", "t", 1, true)];
    let profile = BehaviorProfile::from_rows(rows, PolicyVersion(20), config).unwrap();
    let stamp = profile
        .summary(&id("a"), &id("base"), ClusterScope::All)
        .stamp;
    assert_eq!(stamp.policy_version, PolicyVersion(20));
    assert_eq!(stamp.newest_row, Some(PolicyVersion(0)));
    check_near(stamp.effective_n, 0.5);
}

#[test]
fn prose_is_made_of_the_numbers() {
    let mut rows = vec![
        with_flags(row("a", "t", 0, true), &["logged_in"]),
        with_flags(row("a", "t", 1, false), &["logged_in"]),
        row("base", "t", 0, false),
    ];
    rows[2].turns = 5;
    rows.push(EvidenceRow {
        is_selected: true,
        ..row("a", "u", 0, true)
    });
    let summary = profile(rows).summary(&id("a"), &id("base"), ClusterScope::All);
    assert_eq!(
        summary.describe_rescue(),
        "1 of 2 solved (95 %: 0.09 to 0.91), chosen 1 times before (1 solved)"
    );
    assert_eq!(
        summary.describe(),
        "1 of 2 solved (95 %: 0.09 to 0.91), chosen 1 times before (1 solved); base retries 0 of 1 \
         solved (95 %: 0.01 to 0.84); a rule acts in 100 %; -2.0 turns and +0 tokens against the base; \
         `logged_in` 1.00 instead of 0.00"
    );
    let nothing = profile(vec![]).summary(&id("a"), &id("base"), ClusterScope::All);
    assert_eq!(nothing.describe(), "not tried");
}

proptest! {
    #[test]
    fn a_summary_is_a_function_of_the_set_of_rows(
        (rows, shuffled) in rows_strategy()
            .prop_flat_map(|r| (Just(r.clone()), Just(r).prop_shuffle())),
    ) {
        let twice: Vec<_> = shuffled.iter().chain(&rows).cloned().collect();
        let of = |rows: Vec<EvidenceRow>| {
            let config = ProfileConfig::default();
            let made = BehaviorProfile::from_rows(rows, PolicyVersion(30), config).unwrap();
            let summaries = made.summaries(&id("base"), ClusterScope::Verb("play"));
            // As text, so that floats are compared to the last bit.
            serde_json::to_string(&summaries).unwrap()
        };
        prop_assert_eq!(of(rows), of(twice));
    }

    #[test]
    fn a_summary_agrees_with_the_statistics_and_survives_its_file(rows in rows_strategy()) {
        let config = ProfileConfig::default();
        let made = BehaviorProfile::from_rows(rows, PolicyVersion(30), config).unwrap();
        for summary in made.summaries(&id("base"), ClusterScope::All) {
            prop_assert_eq!(summary.regressions.n, made.regressions(&summary.harness));
            prop_assert_eq!(&summary.examples, &made.examples(&summary.harness));
            prop_assert_eq!(summary.rescue.successes + summary.routed.n, summary.rescues);
            prop_assert!(summary.rescue.effective_n <= summary.stamp.effective_n + 1e-9);
            let text = serde_json::to_string(&summary).unwrap();
            prop_assert_eq!(serde_json::from_str::<harness_pool::ProfileSummary>(&text).unwrap(), summary);
        }
    }
}
