//! Public bug reports about votes (cases.md), each by its id.

use std::sync::Arc;
use std::time::Duration;

use harness_core::{ChatError, ChatModel, ChatReply, ChatRequest, HarnessId, PolicyVersion};
use harness_pool::{RouteContext, SelectError, SelectSiblings};
use harness_router::{
    LlmVoter, NoBallot, OnStale, Router, RouterConfig, Voter, embedded_voters, parse_reply,
};
use proptest::prelude::*;

use crate::support::{context, pool, router, rows, says, silent};

fn siblings() -> Vec<(HarnessId, String)> {
    let pool = pool(3);
    pool.ids()
        .iter()
        .zip(pool.siblings())
        .map(|(id, s)| (id.clone(), s.name.clone()))
        .collect()
}

/// Reads a reply and gives the ranked names.
#[track_caller]
fn read(reply: &str) -> Result<Vec<String>, NoBallot> {
    let siblings = siblings();
    let name = |id: &HarnessId| siblings.iter().find(|(i, _)| i == id).unwrap().1.clone();
    parse_reply(reply, &siblings).map(|ballot| ballot.ranking.iter().map(name).collect())
}

#[test]
fn v1_a_cut_reply_is_no_ballot() {
    assert_eq!(
        read("{\"score\":"),
        Err(NoBallot::Unreadable("its last object is cut"))
    );
    let cut = "{\"ranking\":[\"harness-A\"]} then {\"ranking\":[\"harness-B\"";
    assert_eq!(
        read(cut),
        Err(NoBallot::Unreadable("its last object is cut"))
    );
    assert!(read("").is_err() && read("{}").is_err() && read("{\"ranking\":[1]}").is_err());
    assert_eq!(read("{\"ranking\":[]}"), Err(NoBallot::Empty));
    assert!(read(&"{\"a\":".repeat(9000)).is_err() && read(&"x".repeat(40_000)).is_err());
}

#[test]
fn v3_the_last_object_after_thinking() {
    let reply = "<think>{\"vote\":\"harness-A\"}</think>{\"vote\":\"harness-B\"}";
    assert_eq!(read(reply).unwrap(), ["harness-B"]);
    let twice =
        "{\"ranking\":[\"harness-A\"]} or rather {\"ranking\":[\"harness-C\",\"harness-A\"]}.";
    assert_eq!(read(twice).unwrap(), ["harness-C", "harness-A"]);
    let endless = "<think>{\"vote\":\"harness-A\"}";
    assert_eq!(
        read(endless),
        Err(NoBallot::Unreadable("it ends while thinking"))
    );
    assert_eq!(
        read("set {a, b}: {\"vote\":\"harness-A\"}").unwrap(),
        ["harness-A"]
    );
}

#[test]
fn v7_names_off_the_ballot_are_no_write_ins() {
    let stranger = read("{\"ranking\":[\"harness-A\",\"harness-X\"]}");
    assert_eq!(stranger, Err(NoBallot::Unknown("harness-X".into())));
    assert!(read("{\"vote\":\"harness-A or harness-B\"}").is_err());
    let twice = read("{\"ranking\":[\"harness-A\",\"harness-A\"]}");
    assert!(matches!(twice, Err(NoBallot::Duplicate(_))));
    assert_eq!(read("{\"vote\":\" HARNESS-b \"}").unwrap(), ["harness-B"]);
    let two = ["a", "A"].map(|name| (HarnessId::new(format!("id-{name}{name}")).unwrap(), name));
    assert_eq!(
        parse_reply("{\"vote\":\"a\"}", &two).unwrap().ranking[0],
        two[0].0
    );
    let close = [("x", "ab"), ("y", "aB")].map(|(id, n)| (HarnessId::new(id).unwrap(), n));
    let ambiguous = parse_reply("{\"vote\":\"AB\"}", &close);
    assert_eq!(ambiguous, Err(NoBallot::Ambiguous("AB".into())));
    let crossed = [("x", "y"), ("y", "z")].map(|(id, n)| (HarnessId::new(id).unwrap(), n));
    let ambiguous = parse_reply("{\"vote\":\"y\"}", &crossed);
    assert_eq!(ambiguous, Err(NoBallot::Ambiguous("y".into())));
    // The report's own words: a ballot of A and B.
    let two = ["A", "B"].map(|n| {
        (
            HarnessId::new(format!("id-{n}")).unwrap(),
            format!("harness-{n}"),
        )
    });
    for reply in [
        "harness-C",
        "A or B",
        "harness-A or harness-B",
        "harness",
        "",
    ] {
        let reply = format!("{{\"vote\":\"{reply}\"}}");
        assert!(
            matches!(parse_reply(&reply, &two), Err(NoBallot::Unknown(_))),
            "{reply}"
        );
    }
}

#[test]
fn v7_silence_counts_against_the_quorum() {
    let pool = pool(3);
    let voters = vec![
        says("one", &[&pool.ids()[2]]),
        silent("two"),
        silent("three"),
    ];
    let decision = router(&pool, voters, 2).select(&context(None), 1).unwrap();
    let fallback = decision.fallback.unwrap();
    assert!(fallback.starts_with("quorum missed: 1 valid ballots of 3 voters, 2 needed"));
    assert_eq!(
        decision.ballots[0].rejected.as_deref(),
        Some("below the quorum")
    );
    let stand_ins: Vec<&str> = decision
        .ballots
        .iter()
        .filter(|b| b.is_stand_in)
        .map(|b| b.voter.as_str())
        .collect();
    assert_eq!(
        stand_ins,
        ["beta_by_cluster", "error_kind_rate", "nearest_failures"]
    );
    assert_eq!(
        decision.chosen,
        [pool.ids()[0].clone()],
        "the lone ballot does not decide"
    );
}

#[test]
fn v5_one_bad_reply_of_three_changes_nothing() {
    let pool = pool(3);
    let [a, b, c] = [0, 1, 2].map(|i| &pool.ids()[i]);
    let voters = vec![
        says("one", &[c, b, a]),
        silent("bad"),
        says("two", &[c, a, b]),
    ];
    let decision = router(&pool, voters, 2).select(&context(None), 2).unwrap();
    assert_eq!(decision.chosen[0], *c);
    assert_eq!(decision.fallback, None);
    let rejected: Vec<bool> = decision
        .ballots
        .iter()
        .map(|b| b.rejected.is_some())
        .collect();
    assert_eq!(rejected, [false, true, false]);
}

#[test]
fn v8_ties_go_to_the_profile_then_to_the_id_and_are_recorded() {
    let pool = pool(2);
    let [a, b] = [0, 1].map(|i| &pool.ids()[i]);
    let voters = |turn: usize| {
        let mut voters = vec![
            says("1", &[a]),
            says("2", &[a]),
            says("3", &[b]),
            says("4", &[b]),
            silent("5"),
        ];
        voters.rotate_left(turn);
        voters
    };
    for turn in 0..5 {
        let by_id = router(&pool, voters(turn), 2)
            .select(&context(Some("login")), 1)
            .unwrap();
        assert_eq!((by_id.chosen, by_id.fallback), (vec![a.clone()], None));
        assert_eq!(by_id.notes, ["a tie at place 1 was broken by id"]);
        let mut known = router(&pool, voters(turn), 2);
        let profile = harness_pool::BehaviorProfile::from_rows(
            rows(b, "login", 3, 4),
            PolicyVersion(0),
            harness_pool::ProfileConfig::default(),
        );
        known = known.with_profile(profile.unwrap()).unwrap();
        let by_mean = known.select(&context(Some("login")), 1).unwrap();
        assert_eq!(by_mean.chosen, std::slice::from_ref(b));
        assert_eq!(by_mean.notes, ["a tie at place 1 was broken by Beta mean"]);
    }
}

/// The electorate of a tie with abstentions, in every order.
#[test]
fn v8_the_order_of_voters_changes_nothing_but_the_order_of_the_log() {
    let pool = pool(3);
    let [a, b, c] = [0, 1, 2].map(|i| &pool.ids()[i]);
    let decide = |order: &[usize]| {
        let voter = |n: &usize| match n {
            0 => says("0", &[a, b]),
            1 => says("1", &[b, a]),
            2 => says("2", &[c]),
            _ => silent("3"),
        };
        let voters = order.iter().map(voter).collect();
        let mut decision = router(&pool, voters, 2).select(&context(None), 2).unwrap();
        decision.ballots.sort_by(|x, y| x.voter.cmp(&y.voter));
        decision
    };
    let expect = decide(&[0, 1, 2, 3]);
    assert_eq!(expect.chosen, [a.clone(), b.clone()]);
    for order in [[3, 2, 1, 0], [1, 0, 3, 2], [2, 3, 0, 1]] {
        assert_eq!(decide(&order), expect);
    }
}

/// A router whose re-anchoring is due by version 50.
fn due_at_50(on_stale: OnStale) -> Router {
    let config = RouterConfig {
        stale_after: Some(50),
        on_stale,
        ..RouterConfig::default()
    };
    Router::new(&pool(2), embedded_voters(), config).unwrap()
}

fn at_version(version: u64) -> RouteContext {
    RouteContext {
        policy_version: PolicyVersion(version),
        ..context(None)
    }
}

#[test]
fn v9_a_stale_profile_is_noted() {
    let mut router = due_at_50(OnStale::Warn);
    let notes =
        |router: &mut Router, version| router.select(&at_version(version), 1).unwrap().notes;
    let is_stale = |note: &String| note.contains("stale");
    assert!(!notes(&mut router, 50).iter().any(is_stale));
    let late = notes(&mut router, 60);
    let wanted = "the behaviour profile is stale: anchored at v0, due again by v50, now v60";
    assert!(late.iter().any(|note| note == wanted), "{late:?}");
}

#[test]
fn v9_a_stale_profile_is_refused_if_so_set_until_it_is_anchored_again() {
    let mut router = due_at_50(OnStale::Refuse);
    assert!(router.select(&at_version(50), 1).is_ok());
    let error = router.select(&at_version(60), 1).unwrap_err();
    assert!(matches!(
        error,
        SelectError::StaleProfile {
            anchored_at: PolicyVersion(0),
            due: PolicyVersion(50),
            now: PolicyVersion(60),
        }
    ));
    assert!(router.check_fresh(PolicyVersion(60)).is_err());
    router = router.with_anchor(PolicyVersion(60));
    assert!(
        router.select(&at_version(60), 1).is_ok() && router.select(&at_version(111), 1).is_err()
    );
    assert_eq!(router.profile().policy_version(), PolicyVersion(0));
}

#[test]
fn v9_refusing_what_is_never_stale_is_a_mistake() {
    let config = RouterConfig {
        stale_after: None,
        on_stale: OnStale::Refuse,
        ..RouterConfig::default()
    };
    let error = Router::new(&pool(2), embedded_voters(), config)
        .err()
        .unwrap();
    assert!(matches!(error, SelectError::Config(_)), "{error}");
    let old: RouterConfig = serde_json::from_str("{\"stale_after\": 7}").unwrap();
    assert_eq!((old.stale_after, old.on_stale), (Some(7), OnStale::Warn));
}

/// A voter that is asked in vain: names off the ballot, the base among them, void the whole ballot.
#[test]
fn v7_strangers_and_the_base_on_a_ballot_are_logged_and_not_counted() {
    let pool = pool(2);
    let [a, b] = [0, 1].map(|i| &pool.ids()[i]);
    let stranger = HarnessId::new("harness-C").unwrap();
    let voters = vec![
        says("write-in", &[b, &stranger]),
        says("base", &[b, pool.base_id()]),
        says("twice", &[b, b]),
        says("empty", &[]),
        says("valid", &[a, b]),
        says("valid too", &[a, b]),
    ];
    let decision = router(&pool, voters, 2).select(&context(None), 1).unwrap();
    assert_eq!(
        (decision.chosen, decision.fallback),
        (vec![a.clone()], None)
    );
    let why: Vec<Option<&str>> = decision
        .ballots
        .iter()
        .map(|ballot| ballot.rejected.as_deref())
        .collect();
    assert_eq!(why[0], Some("not a sibling of the pool: \"harness-C\""));
    assert!(why[1].unwrap().starts_with("not a sibling of the pool"));
    assert!(why[2].unwrap().starts_with("ranked twice"));
    assert_eq!(&why[3..], [Some("the ballot is empty"), None, None]);
    assert_eq!(
        decision.ballots[0].ranking,
        [b.clone(), stranger],
        "kept as said"
    );
}

#[test]
fn v8_an_impossible_quorum_is_refused() {
    let pool = pool(2);
    for quorum in [0, 4] {
        let config = RouterConfig {
            quorum,
            ..RouterConfig::default()
        };
        let error = Router::new(&pool, embedded_voters(), config).err().unwrap();
        assert!(error.to_string().contains("quorum must be 1 to"), "{error}");
    }
    let twins = vec![silent("same"), silent("same")];
    assert!(Router::new(&pool, twins, RouterConfig::default()).is_err());
}

/// Replies with a text, or fails.
struct Replies(Result<ChatReply, ChatError>);

impl ChatModel for Replies {
    fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ChatError> {
        assert!(request.messages[1].text.contains("harness-A"));
        self.0.clone()
    }
}

#[test]
fn v5_a_model_that_fails_or_is_cut_gives_no_ballot() {
    let pool = pool(3);
    let profile = router(&pool, vec![silent("x")], 1).profile().clone();
    let ask = |reply| {
        let model = Arc::new(Replies(reply));
        let voter = LlmVoter::new("llm", model, &pool, 1, Duration::from_secs(5));
        voter.vote(&context(Some("login")), pool.ids(), &profile)
    };
    let reply = |text: &str, is_cut| {
        Ok(ChatReply {
            text: text.into(),
            tokens: (1, 1),
            is_cut,
        })
    };
    let vote = "{\"ranking\":[\"harness-B\"]}";
    assert_eq!(ask(reply(vote, false)).unwrap().ranking.len(), 1);
    assert_eq!(
        ask(reply(vote, true)),
        Err(NoBallot::Unreadable("it is cut"))
    );
    let failed = ask(Err(ChatError::Backend("no server".into())));
    assert_eq!(
        failed,
        Err(NoBallot::Failed("the chat model failed: no server".into()))
    );
}

#[test]
fn prompts_show_the_siblings_in_another_order_to_each_voter() {
    let pool = pool(3);
    let id = &pool.ids()[0];
    let profile = harness_pool::BehaviorProfile::from_rows(
        rows(id, "login", 1, 4),
        PolicyVersion(0),
        harness_pool::ProfileConfig::default(),
    )
    .unwrap();
    let prompt = |rotation| {
        let model = Arc::new(Replies(Err(ChatError::Deadline)));
        let voter = LlmVoter::new("llm", model, &pool, rotation, Duration::from_secs(5));
        voter.prompt(&context(Some("login")), &profile)
    };
    assert_ne!(prompt(0), prompt(1));
    assert_eq!(prompt(0), prompt(3));
    assert!(
        prompt(0).contains("1 of 4 solved (95 %: 0.05 to 0.72)"),
        "{}",
        prompt(0)
    );
    assert!(prompt(0).contains("not tried") && prompt(0).contains("last error: login"));
}

/// Pieces that combine into replies, most of them broken.
fn reply() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "<think>",
        "</think>",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\\",
        "\"ranking\"",
        "\"vote\"",
        "\"harness-A\"",
        "\"HARNESS-b\"",
        "\"harness-X\"",
        "{\"ranking\":",
        "{\"vote\":",
        "{\"vote\":\"harness-C\"}",
        "{\"ranking\":[\"harness-B\",\"harness-A\"]}",
        "1",
        "null",
        " ",
        "```json\n",
        "\u{e9}",
        "x",
    ]);
    prop::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// V1, V3, V7: whatever a model writes, what comes out is a ballot of the pool or none.
    #[test]
    fn any_reply_is_a_valid_ballot_or_none(reply in prop_oneof![reply(), ".{0,80}"]) {
        let siblings = siblings();
        let parsed = parse_reply(&reply, &siblings);
        let thought = format!("<think>{{\"vote\":\"harness-B\"}}</think>{reply}");
        prop_assert_eq!(&parse_reply(&thought, &siblings), &parsed);
        if let Ok(ballot) = parsed {
            let ids: Vec<HarnessId> = siblings.iter().map(|(id, _)| id.clone()).collect();
            prop_assert_eq!(ballot.check(&ids), Ok(()));
            let said = serde_json::to_string(&ballot).unwrap();
            prop_assert_eq!(parse_reply(&said, &siblings), Ok(ballot));
        }
    }
}
