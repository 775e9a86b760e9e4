//! Public bug reports (the ids of `cases.md`), each with the embedded catalogue proposer where it applies.

use std::cell::RefCell;

use harness_core::{
    Condition, Effect, HarnessEdit, HarnessId, Outcome, Rule, Seed, Split, Trajectory,
};
use harness_evolve::report::Verdict;
use harness_evolve::{
    CatalogueEntry, CatalogueProposer, CheckConfig, DirectionBrief, Evolution, EvolveConfig,
    EvolveInput, Fate, Proposal, ProposeError, Proposer, Rejection, Rerun, evolve,
};

use crate::toy::{Tampered, World, base, catalogue, config, input, proposer, say};

fn entry(name: &str, edits: Vec<HarnessEdit>) -> CatalogueEntry {
    CatalogueEntry {
        name: name.into(),
        edits,
        keywords: Vec::new(),
    }
}

fn run(input: EvolveInput, entries: Vec<CatalogueEntry>, rerun: &mut dyn Rerun) -> Evolution {
    let mut proposer = CatalogueProposer::new(entries, 0.5).expect("a sound catalogue");
    evolve(input, &mut proposer, rerun, &config(20), Seed::new(1)).expect("a toy runs")
}

fn verdicts(got: &Evolution) -> Vec<&Verdict> {
    got.report.candidates.iter().map(|c| &c.verdict).collect()
}

/// Replays replies of a model: JSON of one proposal each.
struct Replies(Vec<&'static str>);

impl Proposer for Replies {
    fn propose(
        &mut self,
        _: &DirectionBrief<'_>,
        _: usize,
        _: Seed,
    ) -> Result<Vec<Proposal>, ProposeError> {
        let reply = self.0.pop().unwrap_or("");
        let proposal = serde_json::from_str(reply).map_err(|e| ProposeError::Unusable {
            reason: e.to_string(),
        })?;
        Ok(vec![proposal])
    }
}

#[test]
fn e1_a_cut_reply_gives_no_candidate() {
    let whole = r#"{"why": "w", "edits": [{"add_note": "fix 0"}]}"#;
    let (cut, empty) = (&whole[..35], r#"{"why": "w", "edits": []}"#);
    let thought = r#"{"why": "w", "edits": [{"add_note": "<think>fix 0"}]}"#;
    let fence = r#"{"why": "w", "edits": [{"add_note": "fix 0 so:\n```python\nx"}]}"#;
    let mut world = World::new(0.6);
    let mut replies = Replies(vec![cut, thought, fence, empty]);
    let got = evolve(
        input(1, 20),
        &mut replies,
        &mut world,
        &config(20),
        Seed::new(1),
    )
    .unwrap();
    assert_eq!(got.report.unusable.len(), 1, "{:?}", got.report.unusable);
    let refused: Vec<_> = got
        .report
        .candidates
        .iter()
        .map(|c| match &c.verdict {
            Verdict::Rejected(rejection) => rejection.kind(),
            other => panic!("adopted: {other:?}"),
        })
        .collect();
    assert_eq!(refused, ["empty", "cut_text", "cut_text"]);
    assert!(got.pool.is_empty() && got.report.confirmations.is_empty());
    let search = world.calls.iter().filter(|(p, ..)| p.starts_with("d0"));
    assert_eq!(search.count(), 1, "the reference of the base alone");

    let got = evolve(
        input(1, 20),
        &mut Replies(vec![whole, cut]),
        &mut World::new(0.6),
        &config(20),
        Seed::new(1),
    )
    .unwrap();
    assert_eq!(
        got.report.candidates.len(),
        1,
        "a whole reply is a candidate"
    );
}

#[test]
fn e1_a_catalogue_that_runs_dry_adopts_nothing() {
    let got = run(input(1, 20), Vec::new(), &mut World::new(0.6));
    assert!(got.pool.is_empty() && got.report.candidates.is_empty());
    assert_eq!(got.report.directions.len(), 1);
}

#[test]
fn e3_a_catalogue_entry_with_a_task_text_is_refused() {
    let leak = "Hint: please do the ERRAND number s3, and then report about it!";
    let entries = vec![
        entry("leak", vec![say("hint", leak)]),
        entry("name", vec![say("see s-c11", "fix 0")]),
        entry("clean", vec![say("hint", "fix 0")]),
    ];
    let mut world = World::new(0.6);
    let got = run(input(1, 30), entries, &mut world);
    for node in got.report.tree() {
        let leaks = node.edits.iter().any(|e| e.contains("ERRAND"));
        assert!(!leaks || (node.fate == Fate::Refused && node.reason.contains("gives away")));
    }
    let n_leaks = verdicts(&got)
        .iter()
        .filter(|v| matches!(v, Verdict::Rejected(Rejection::Leak(_))))
        .count();
    assert!(n_leaks >= 2, "{n_leaks}");
    let ran: Vec<_> = got
        .report
        .candidates
        .iter()
        .filter(|c| c.harness.is_some())
        .collect();
    assert_eq!(ran.len(), 1);
}

/// The same attempts, once made by evolution and once brought by the caller.
#[test]
fn e5_brought_attempts_are_used_and_not_made_again() {
    let made: RefCell<Vec<(String, Vec<Trajectory>)>> = RefCell::default();
    let keep = |purpose: &str, got: &mut Vec<Trajectory>| {
        if purpose.starts_with("base/") {
            made.borrow_mut().push((purpose.to_owned(), got.clone()));
        }
    };
    let mut first = Tampered(World::new(0.6), keep);
    let fresh = run(input(2, 20), catalogue(2), &mut first);
    assert_eq!(fresh.report.rollouts.base, 2 * 40 * 4);

    let mut again = input(2, 20);
    for (purpose, attempts) in made.take() {
        let slice = if purpose == "base/search" {
            &mut again.search
        } else {
            &mut again.confirm
        };
        slice.attempts = attempts;
    }
    let mut world = World::new(0.6);
    let mut resumed = run(again, catalogue(2), &mut world);
    let purposes: Vec<&str> = world.calls.iter().map(|(p, ..)| p.as_str()).collect();
    assert_eq!(
        purposes[0], "d0/search/base",
        "nothing before the first search"
    );
    assert!(purposes.iter().all(|p| !p.starts_with("base/")));
    assert_eq!(resumed.report.rollouts.base, 0);
    let spent = world
        .calls
        .iter()
        .map(|(_, n, a)| *n as u64 * u64::from(*a));
    assert_eq!(resumed.report.rollouts.total(), spent.sum::<u64>());
    resumed.report.rollouts.base = fresh.report.rollouts.base;
    assert_eq!(resumed, fresh);
}

#[test]
fn e6_an_omitted_confirmation_slice_is_not_replaced_by_the_search_slice() {
    let mut without = input(1, 20);
    without.confirm = harness_evolve::Slice::default();
    let mut world = World::new(0.6);
    let got = evolve(
        without,
        &mut proposer(1),
        &mut world,
        &config(20),
        Seed::new(1),
    );
    let error = got.expect_err("there is nothing to confirm on");
    assert!(
        error
            .to_string()
            .contains(&Split::EvolutionConfirm.to_string())
    );
    assert!(world.calls.is_empty());
}

/// The canary through a whole evolution: attempts of the candidate carry its hash and its words, those of
/// the base do not.
#[test]
fn e7_traces_record_the_harness_that_ran() {
    let canary = say("canary", "answer 7");
    let id = base().apply(&canary).unwrap().id();
    let seen: RefCell<Vec<(String, HarnessId, bool)>> = RefCell::default();
    let keep = |purpose: &str, got: &mut Vec<Trajectory>| {
        let attempts = got.iter().map(|t| {
            let says = t.turns[0].action.contains("answer 7");
            (purpose.to_owned(), t.harness_id.clone(), says)
        });
        seen.borrow_mut().extend(attempts);
    };
    let mut rerun = Tampered(World::new(0.0), keep);
    let got = run(
        input(1, 20),
        vec![entry("canary", vec![canary])],
        &mut rerun,
    );
    assert_eq!(got.report.candidates[0].harness.as_ref(), Some(&id));
    let seen = seen.take();
    let of_canary: Vec<_> = seen
        .iter()
        .filter(|(p, ..)| p == "d0/search/r0c0")
        .collect();
    assert!(!of_canary.is_empty());
    assert!(of_canary.iter().all(|(_, h, says)| *h == id && *says));
    let of_base = seen
        .iter()
        .filter(|(p, ..)| p.ends_with("base") || p.starts_with("base"));
    assert!(of_base.clone().count() > 0);
    assert!(
        of_base
            .into_iter()
            .all(|(_, h, says)| *h == base().id() && !says)
    );
}

/// Attempts that all broke are no evidence: no perfect score from nothing against nothing.
#[test]
fn e7_a_candidate_without_valid_attempts_gains_nothing() {
    let broken = |purpose: &str, got: &mut Vec<Trajectory>| {
        if purpose.starts_with("d0/search") {
            for attempt in got.iter_mut() {
                attempt.outcome = Outcome::InfraError;
            }
        }
    };
    let mut rerun = Tampered(World::new(0.6), broken);
    let got = run(input(1, 20), catalogue(1), &mut rerun);
    assert!(got.pool.is_empty() && got.report.confirmations.is_empty());
    let nodes = got.report.tree();
    assert!(!nodes.is_empty());
    assert!(nodes.iter().all(|n| n.search_gain == Some(0.0)));
}

#[test]
fn e9_misspelt_keys_of_catalogues_and_proposals_are_errors() {
    let entry = |json: &str| serde_json::from_str::<CatalogueEntry>(json).map(drop);
    let proposal = |json: &str| serde_json::from_str::<Proposal>(json).map(drop);
    assert!(entry(r#"{"name": "a", "edits": [{"add_note": "b"}], "keywords": []}"#).is_ok());
    assert!(entry(r#"{"name": "a", "edits": [{"add_note": "b"}], "keyword": []}"#).is_err());
    assert!(entry(r#"{"name": "a", "edits": [{"add_nota": "b"}]}"#).is_err());
    let rule = |key: &str| {
        format!(
            r#"{{"edits": [{{"add_rule": {{"name": "a", "moment": "after_step", "{key}": 2,
            "effect": {{"say": "b"}}}}}}], "why": ""}}"#
        )
    };
    assert!(proposal(&rule("max_fires")).is_ok());
    assert!(proposal(&rule("max_fire")).is_err());
    assert!(proposal(r#"{"edits": [], "wy": ""}"#).is_err());
}

#[test]
fn e10_one_content_under_two_names_is_run_once() {
    let twins = vec![
        entry("first", vec![say("one", "fix 0")]),
        entry("second", vec![say("two", "fix 0")]),
    ];
    let mut world = World::new(0.6);
    let got = run(input(1, 30), twins, &mut world);
    let ran = got.report.candidates.iter().filter(|c| c.harness.is_some());
    assert_eq!(ran.count(), 1);
    let twin = verdicts(&got)
        .iter()
        .filter(|v| matches!(v, Verdict::Rejected(Rejection::Duplicate { .. })))
        .count();
    assert!(twin >= 1);
    assert_eq!((got.report.confirmations.len(), got.pool.len()), (1, 1));
}

/// Rules that never fire behave as the base does, so each is the base under another name: whatever enters
/// does so by chance, in at most alpha of the evolutions. 200 of them; 7 were counted.
#[test]
fn e10_rules_that_never_fire_enter_at_most_alpha() {
    let never = |i: usize| {
        HarnessEdit::AddRule(Rule {
            when: Condition::Not(Box::new(Condition::Always)),
            effect: Effect::Say(format!("fix {i} now")),
            name: format!("never {i}"),
            moment: harness_core::Moment::AfterStep,
            max_fires: 1,
            count: Vec::new(),
        })
    };
    let entries: Vec<_> = (0..6)
        .map(|i| entry(&format!("never {i}"), vec![never(i)]))
        .collect();
    let (mut n_admitted, mut n_confirmed) = (0, 0);
    for i in 0..200 {
        let mut proposer = CatalogueProposer::new(entries.clone(), 0.5).unwrap();
        let seed = Seed::new(5).derive("no-op", &[i]);
        let got = evolve(
            input(2, 16),
            &mut proposer,
            &mut World::new(0.6),
            &config(16),
            seed,
        )
        .unwrap();
        n_admitted += u32::from(!got.pool.is_empty());
        n_confirmed += got.report.confirmations.len();
    }
    assert!(
        n_confirmed >= 200,
        "too few tests to judge by: {n_confirmed}"
    );
    assert!(n_admitted <= 10, "{n_admitted} of 200");
}

#[test]
fn e11_an_edit_that_doubles_the_prompt_is_refused() {
    let prompt = base().base.system.chars().count() + base().base.task.chars().count();
    let long = "calm ".repeat(prompt / 5 + 1);
    let entries = vec![
        entry("long", vec![say("long", &long)]),
        entry("short", vec![say("short", "fix 0")]),
    ];
    let config = EvolveConfig {
        check: CheckConfig {
            max_overlay_chars: prompt,
            ..CheckConfig::default()
        },
        ..config(30)
    };
    let mut proposer = CatalogueProposer::new(entries, 0.5).unwrap();
    let got = evolve(
        input(1, 30),
        &mut proposer,
        &mut World::new(0.6),
        &config,
        Seed::new(1),
    )
    .unwrap();
    let over = verdicts(&got)
        .iter()
        .filter(|v| matches!(v, Verdict::Rejected(Rejection::OverBudget { .. })))
        .count();
    assert!(over >= 1, "{:#?}", verdicts(&got));
    assert_eq!(got.pool.len(), 1);
}
