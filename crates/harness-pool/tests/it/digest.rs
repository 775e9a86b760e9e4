//! Digests and clusters of failed attempts.

use harness_core::testing::toy_task;
use harness_core::{
    Fact, GroupId, HarnessId, Outcome, PolicyVersion, RolloutId, RunId, Trajectory, Turn,
};
use harness_pool::{Cluster, Digest, EvidenceRow};

/// An attempt whose turns had these error kinds; `""` for a turn without the fact.
fn attempt(n: u32, outcome: Outcome, kinds: &[&str]) -> Trajectory {
    let turn = |kind: &&str| {
        let mut turn = Turn::default();
        if !kind.is_empty() {
            turn.facts
                .insert("error_kind".into(), Fact::Text((*kind).into()));
        }
        turn
    };
    Trajectory {
        policy_version: PolicyVersion(3),
        attempt: n,
        turns: kinds.iter().map(turn).collect(),
        ..Trajectory::new(
            RunId::new("r").unwrap(),
            RolloutId::new(format!("a{n}")).unwrap(),
            GroupId::new("g").unwrap(),
            &toy_task(1, ""),
            HarnessId::new("base").unwrap(),
            outcome,
        )
    }
}

fn failed(n: u32, kinds: &[&str]) -> Trajectory {
    attempt(n, Outcome::Failed, kinds)
}

#[track_caller]
fn check_kind(attempts: &[&[&str]], expect: &str) {
    let attempts: Vec<Trajectory> = attempts
        .iter()
        .enumerate()
        .map(|(n, kinds)| failed(n as u32, kinds))
        .collect();
    let mut reversed = attempts.clone();
    reversed.reverse();
    for attempts in [attempts, reversed] {
        assert_eq!(
            Digest::from_attempts("Play it", &attempts).error_kind,
            expect
        );
    }
}

#[test]
fn error_kinds() {
    check_kind(&[], "none");
    check_kind(&[&["", "none"]], "none");
    check_kind(&[&["login", "page", "none"]], "page");
    check_kind(&[&["login"], &["login"], &["page"]], "login");
    check_kind(&[&["login"], &["page"]], "login");
    check_kind(&[&["none"], &["page"]], "page");
    check_kind(&[&["none"], &["none"], &["page"]], "none");
}

#[test]
fn faults_are_left_out() {
    let fault = attempt(0, Outcome::InfraError, &["boom"]);
    let digest = Digest::from_attempts("Play it", &[fault.clone(), failed(1, &["login"])]);
    assert_eq!(
        (digest.error_kind.as_str(), digest.n_attempts),
        ("login", 1)
    );
    let cluster = digest.cluster();
    assert_eq!(
        EvidenceRow::from_trajectory(&fault, cluster.clone(), true, false),
        None
    );
    let row = EvidenceRow::from_trajectory(&failed(1, &["login"]), cluster, true, false).unwrap();
    assert!(!row.solved && row.turns == 1 && row.policy_version == PolicyVersion(3));
}

#[test]
fn rows_carry_the_facts_that_hold_at_the_end() {
    let mut attempt = failed(0, &["login", "none"]);
    attempt.turns[0]
        .facts
        .insert("only_first".into(), Fact::Bool(true));
    for (name, fact) in [
        ("logged_in", Fact::Bool(true)),
        ("confirmed", Fact::Bool(true)),
        ("paid", Fact::Bool(false)),
        ("turns_left", Fact::Int(1)),
    ] {
        attempt.turns[1].facts.insert(name.into(), fact);
    }
    let cluster = Cluster::unseen("Play it");
    let row = EvidenceRow::from_trajectory(&attempt, cluster.clone(), true, false).unwrap();
    assert_eq!(row.flags, ["confirmed", "logged_in"]);
    let silent = EvidenceRow::from_trajectory(&failed(0, &[]), cluster, true, false).unwrap();
    assert!(silent.flags.is_empty());
}

/// A text shown at the start is no rule that acted: it stands in no turn.
#[test]
fn fired_means_that_a_rule_acted_in_a_turn() {
    let fired = |names: &[&str]| {
        let mut attempt = failed(0, &["none"]);
        attempt.turns[0].fired = names.iter().map(|name| (*name).to_owned()).collect();
        let cluster = Cluster::unseen("Play it");
        EvidenceRow::from_trajectory(&attempt, cluster, true, false)
            .unwrap()
            .fired
    };
    assert!(!fired(&[]) && fired(&["login"]));
}

#[test]
fn ends_of_attempts() {
    let within = |kinds: &[&str], limit| {
        let digest = Digest::from_attempts_within("Play it", &[failed(0, kinds)], limit);
        (digest.hit_turn_limit, digest.gave_up)
    };
    assert_eq!(within(&["login", "none"], 2), (true, false));
    assert_eq!(within(&["login", "none"], 3), (false, true));
    assert_eq!(within(&["login", "login"], 3), (false, false));
    let mut by_fact = failed(0, &["none"]);
    by_fact.turns[0]
        .facts
        .insert("turns_left".into(), Fact::Int(0));
    assert!(Digest::from_attempts("Play it", &[by_fact]).hit_turn_limit);
}

#[track_caller]
fn check_cluster(instruction: &str, kind: &str, expect: &str) {
    let cluster = Cluster::of(instruction, kind);
    assert_eq!(cluster.as_str(), expect);
    assert_eq!(Cluster::try_from(expect.to_owned()).unwrap(), cluster);
}

#[test]
fn clusters() {
    check_cluster("Play the song", "", "play/none");
    check_cluster("  please SEND it", "a/b c", "send/a_b_c");
    check_cluster("How many songs?", "unseen", "how_many/unseen");
    check_cluster("", "x", "any/x");
    check_cluster(
        "\u{c9}coute",
        &"k".repeat(99),
        &format!("_coute/{}", "k".repeat(40)),
    );
    for bad in ["", "a", "a/", "/b", "a/b/c", "a b/c"] {
        assert!(Cluster::try_from(bad.to_owned()).is_err(), "{bad:?}");
    }
    let parts = Cluster::unseen("Play it");
    assert_eq!((parts.verb(), parts.error_kind()), ("play", "unseen"));
}
