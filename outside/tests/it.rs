//! The parts of this project, held against the contracts of the crates that they implement, and put together.

use std::sync::Arc;
use std::time::Duration;

use harness_core::testing::conformance::{
    check_chat_model, check_codec, check_environment, check_policy,
};
use harness_core::testing::json_schema::{check_agreement, check_strict};
use harness_core::{
    Action, Condition, Effect, GroupCheck, HarnessEdit, HarnessId, HarnessSpec, Moment, Outcome,
    PolicyVersion, RolloutGroup, Rule, Seed, Split, Task,
};
use harness_evolve::{Evolution, EvolveConfig, EvolveInput, Proposal, Slice, evolve};
use harness_pool::{
    AnchorProbe, BehaviorProfile, PoolBuilder, Probe, ProfileConfig, RecordError, RouteContext,
    SelectError, SelectSiblings, Sibling, SiblingPool,
};
use harness_router::testing::{
    check_failed_reanchor, check_repeatable, check_selection, check_told_twice, check_voter,
    contexts, pool_of, rows,
};
use harness_router::{LlmVoter, Router, RouterConfig, Voter, embedded_voters};
use outside::attempts;
use outside::chat::{AskForEdits, Canned};
use outside::choose::{LeastTried, Thrifty};
use outside::model::{CharCodec, Reader};
use outside::world::{base, boxes, task};
use proptest::prelude::*;

fn tasks(split: Split, n: u64) -> Vec<Arc<Task>> {
    (0..n)
        .map(|i| Arc::new(task(i, split).expect("printable")))
        .collect()
}

/// An edit that makes the policy open the box once it has met the lock.
fn hint() -> HarnessEdit {
    let when = Condition::Predicate("last_result_error".into());
    let say = Effect::Say("If a thing is locked, try to open it.".into());
    HarnessEdit::AddRule(Rule::new("locked", Moment::AfterStep, when, say))
}

fn idle() -> HarnessEdit {
    HarnessEdit::AddNote("Stay calm.".into())
}

fn canned(text: impl Into<String>) -> Canned {
    let text = text.into();
    Canned {
        text,
        ..Canned::default()
    }
}

/// Evolves the base with a proposer that asks a chat model.
fn evolve_with(proposer: &mut AskForEdits<Canned>) -> Evolution {
    let slice = |split| Slice::from(tasks(split, 20));
    let input = EvolveInput {
        base: base(),
        search: slice(Split::EvolutionSearch),
        confirm: slice(Split::EvolutionConfirm),
        secrets: vec![],
        policy_hash: "reader".into(),
        manifest_hash: "boxes".into(),
    };
    let config = EvolveConfig {
        min_directions: 1,
        ..EvolveConfig::default()
    };
    evolve(input, proposer, &mut attempts, &config, Seed::new(1)).expect("nothing breaks")
}

fn context(task: &Task) -> RouteContext {
    RouteContext::new(task.id.clone(), &task.instruction, Seed::new(4))
}

#[test]
fn world_codec_policy_and_chat_model_keep_their_contracts() {
    let solution = ["open", "read", "say word5"].map(|text| Action::Text(text.into()));
    check_environment(&boxes, &task(5, Split::Train).unwrap(), &solution);
    check_codec(&CharCodec, &["<assistant>", "\u{10ffff}"]);
    check_policy(&mut Reader::default(), &CharCodec);
    check_chat_model(&canned("{\"answer\": 1}"));
}

#[test]
fn the_voter_keeps_its_contract() {
    let pool = pool_of(4);
    proptest!(|(rows in rows(pool.ids()), context in contexts())| {
        let config = ProfileConfig::default();
        let profile = BehaviorProfile::from_rows(rows, PolicyVersion(50), config).unwrap();
        check_voter(&Thrifty, &context, pool.ids(), &profile)?;
    });
}

#[test]
fn the_selector_keeps_its_contract() {
    let pool = pool_of(4);
    let make = || -> Box<dyn SelectSiblings> { Box::new(LeastTried::new(pool.clone()).unwrap()) };
    proptest!(|(rows in rows(pool.ids()), context in contexts(), k in 0..6_usize)| {
        let mut selector = make();
        check_selection(&selector.select(&context, k).unwrap(), &pool, k)?;
        check_repeatable(selector.as_mut(), &context, k)?;
        check_told_twice(&make, &rows, &context, k)?;
        check_failed_reanchor(selector.as_mut(), &rows, &context, k)?;
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// What fits a schema is read, what does not is refused, what serde writes fits; and what is asked of a model in
    /// a strict mode can be read (bug report J1).
    #[test]
    fn schemas_say_what_is_read_and_written(seed in any::<u64>(), depth in 1..7_usize) {
        check_agreement::<HarnessSpec>(Seed::new(seed), depth);
        check_agreement::<Proposal>(Seed::new(seed), depth);
        check_strict::<Proposal>(Seed::new(seed), depth);
    }
}

#[test]
fn a_task_that_the_base_fails_is_solved_under_a_sibling() {
    let group = |harness: &HarnessSpec, task: &Arc<Task>, name| {
        let made = attempts(harness, std::slice::from_ref(task), 4, Seed::new(0), name).unwrap();
        RolloutGroup::new(made).unwrap()
    };
    let failed = |task: Arc<Task>| match group(&base(), &task, "base").check(0.75) {
        GroupCheck::Failed(failed) => Some((task, failed)),
        _ => None,
    };
    let (task, failed) = tasks(Split::Train, 8).into_iter().find_map(failed).unwrap();
    let rescue = group(&base().apply(&hint()).unwrap(), &task, "rescue");
    for attempt in rescue.attempts() {
        assert_eq!(attempt.outcome, Outcome::Solved, "{:?}", attempt.error);
        let was_told = attempt.turns.iter().any(|turn| !turn.fired.is_empty());
        let n_base = attempt.base_sequence().unwrap().ids.len();
        let is_shorter = n_base < attempt.own_sequence().ids.len();
        assert_eq!(was_told, is_shorter, "the base's context has no hint");
    }
    assert!(failed.replace_with(rescue).unwrap().is_rescued());
}

#[test]
fn evolution_keeps_the_edit_that_helps_and_its_pool_survives_a_file() {
    let proposal = |edit| Proposal {
        edits: vec![edit],
        why: "it may help".into(),
    };
    let answer = serde_json::json!({ "answer": [proposal(hint()), proposal(idle())] });
    let model = canned(answer.to_string());
    let Evolution { pool, report } = evolve_with(&mut AskForEdits {
        model,
        max_tokens: 4096,
    });
    assert_eq!(pool.len(), 1, "{:#?}", report.confirmations);
    assert_eq!(pool.siblings()[0].lineage, [hint()]);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool.json");
    pool.save(&path).unwrap();
    assert_eq!(SiblingPool::load(&path).unwrap(), pool);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("try to open it", "try to shake it")).unwrap();
    let error = SiblingPool::load(&path).unwrap_err();
    assert!(matches!(error, RecordError::HashMismatch { .. }), "{error}");
}

#[test]
fn e1_a_cut_or_broken_reply_is_recorded_and_stops_nothing() {
    for (text, max_tokens) in [("{\"answer\": []}", 1), ("none", 9)] {
        let mut proposer = AskForEdits {
            model: canned(text),
            max_tokens,
        };
        let got = evolve_with(&mut proposer);
        assert!(got.pool.is_empty() && !got.report.unusable.is_empty());
        let asked = proposer.model.asked.lock().unwrap();
        let text = &asked[0].messages[0].text;
        assert!(text.contains("locked"), "{text}");
    }
}

fn router_over(pool: &SiblingPool, voters: Vec<Box<dyn Voter>>) -> Router {
    let config = RouterConfig {
        epsilon: 0.0,
        ..RouterConfig::default()
    };
    Router::new(pool, voters, config).expect("a sound configuration")
}

#[test]
fn after_re_anchoring_a_router_and_a_selector_know_what_the_probes_showed() {
    let mut builder = PoolBuilder::new(base(), "reader".into(), "boxes".into());
    for (name, edit) in [("hint", hint()), ("idle", idle())] {
        let sibling = Sibling::by_hand(name, &base(), vec![edit]).unwrap();
        builder.add(sibling).unwrap();
    }
    let pool = builder.freeze();
    let helps = base().apply(&hint()).unwrap().id();

    let anchors = tasks(Split::Anchor, 12);
    let mut probe = AnchorProbe::new("anchor", &pool, anchors.clone(), 4, Seed::new(9), attempts);
    let mut voters = embedded_voters();
    voters.push(Box::new(Thrifty));
    let mut router = router_over(&pool, voters);
    router.reanchor(&mut probe).unwrap();
    let decision = router.select(&context(&anchors[0]), 2).unwrap();
    assert_eq!(decision.chosen[0], helps, "{decision:#?}");
    assert_eq!(decision.ballots.len(), 4);

    let mut selector = LeastTried::new(pool.clone()).unwrap();
    selector.reanchor(&mut probe).unwrap();
    let stranger = HarnessId::new("stranger").unwrap();
    let error = probe.probe(Some(&stranger)).unwrap_err();
    assert!(matches!(error, SelectError::UnknownHarness(_)), "{error}");
    assert_eq!(probe.probe(Some(&helps)).unwrap().len(), 48);
}

#[test]
fn a_chat_model_votes() {
    let pool = pool_of(3);
    let name = &pool.siblings()[2].name;
    let model = Arc::new(canned(format!("{{\"ranking\": [\"{name}\"]}}")));
    let voter = |n| -> Box<dyn Voter> {
        let (name, timeout) = (format!("llm-{n}"), Duration::from_mins(1));
        Box::new(LlmVoter::new(name, model.clone(), &pool, n, timeout))
    };
    let mut router = router_over(&pool, (0..3).map(voter).collect());
    let task = task(0, Split::Train).unwrap();
    let decision = router.select(&context(&task), 1).unwrap();
    assert_eq!(decision.chosen, [pool.ids()[2].clone()]);
    assert_eq!(decision.fallback, None);
}
