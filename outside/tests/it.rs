//! The parts of this project, put together and held against the contracts of the crates that they implement.

use std::sync::Arc;
use std::time::Duration;

use harness_core::{
    Codec, Condition, Deadline, Effect, GroupCheck, HarnessEdit, HarnessId, Message, Moment,
    Outcome, Policy, PolicyVersion, Request, Role, RolloutGroup, RolloutId, Rule, Sampling, Seed,
    Split, Task, TaskId,
};
use harness_evolve::{Evolution, EvolveConfig, EvolveInput, Proposal, Slice, evolve};
use harness_pool::{
    AcceptanceEvidence, BehaviorProfile, EvidenceRow, PoolBuilder, Probe, ProfileConfig,
    RecordError, RouteContext, SelectError, SelectSiblings, Sibling, SiblingPool,
};
use harness_router::testing::{
    check_failed_reanchor, check_repeatable, check_selection, check_told_twice, check_voter,
    contexts, pool_of, rows,
};
use harness_router::{LlmVoter, Router, RouterConfig, Voter, embedded_voters};
use outside::chat::{AskForEdits, Canned};
use outside::choose::{LeastTried, Thrifty};
use outside::model::{CharCodec, Reader};
use outside::runs::{Anchors, Executor, attempts};
use outside::world::{base, task};
use proptest::prelude::*;

fn tasks(split: Split, n: u64) -> Vec<Arc<Task>> {
    (0..n)
        .map(|i| Arc::new(task(i, split).expect("printable")))
        .collect()
}

/// An edit that makes the policy open the box once it has met the lock.
fn hint() -> HarnessEdit {
    HarnessEdit::AddRule(Rule {
        name: "locked".into(),
        moment: Moment::AfterStep,
        when: Condition::Predicate("last_result_error".into()),
        effect: Effect::Say("If a thing is locked, try to open it.".into()),
        max_fires: 1,
        count: vec![],
    })
}

fn idle() -> HarnessEdit {
    HarnessEdit::AddNote("Stay calm.".into())
}

/// Evolves the base with a proposer that asks a chat model.
fn evolve_with(proposer: &mut AskForEdits<Canned>) -> Evolution {
    let slice = |split| Slice {
        tasks: tasks(split, 20),
        attempts: vec![],
    };
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
    evolve(input, proposer, &mut Executor, &config, Seed::new(1)).expect("nothing breaks")
}

fn context(task: &Task) -> RouteContext {
    RouteContext {
        task_id: task.id.clone(),
        instruction: task.instruction.clone(),
        digest: None,
        policy_version: PolicyVersion(0),
        step: 0,
        seed: Seed::new(4),
    }
}

#[test]
fn control_tokens_in_a_text_stay_text() {
    let codec = CharCodec;
    let text = "<assistant> ü \u{10ffff}";
    for role in Role::ALL {
        let ids = codec.encode_message(&Message::new(role, text));
        assert_eq!(codec.decode(&ids), text);
        assert!(ids.iter().all(|id| (*id as usize) < codec.vocab_size()));
        let n_control = ids
            .iter()
            .filter(|id| char::from_u32(**id).is_none())
            .count();
        assert_eq!(n_control, if role == Role::Assistant { 2 } else { 1 });
    }
}

#[test]
fn the_policy_answers_in_the_order_of_its_requests() {
    let request = |n: u64, max_new_tokens| Request {
        rollout: RolloutId::new(format!("r{n}")).expect("printable"),
        new_ids: CharCodec.encode(&[Message::new(Role::Observation, format!("it reads w{n}"))]),
        sampling: Sampling {
            temperature: 1.0,
            max_new_tokens,
        },
        seed: Seed::new(n),
        deadline: Deadline::NEVER,
    };
    let mut empty = request(3, 9);
    empty.new_ids.clear();
    let got = Reader::default().generate_all(vec![request(1, 9), empty, request(2, 4)]);
    let said = |at: usize| {
        got[at]
            .as_ref()
            .map(|generation| CharCodec.decode(&generation.ids))
    };
    assert_eq!(said(0).unwrap(), "say w1");
    assert!(said(1).is_err());
    assert_eq!(said(2).unwrap(), "say ", "four tokens at most");
}

#[test]
fn a_task_that_the_base_fails_is_solved_under_a_sibling() {
    let tasks = tasks(Split::Train, 8);
    let made = attempts(&base(), &tasks, 4, Seed::new(0), "base").unwrap();
    let failed = made.chunks(4).find_map(|group| {
        let group = RolloutGroup::new(group.to_vec()).expect("four attempts at one task");
        match group.check(0.75) {
            GroupCheck::Failed(failed) => Some(failed),
            _ => None,
        }
    });
    let failed = failed.expect("the base fails most tasks");
    assert_eq!(failed.group().count(Outcome::Failed), 4);

    let sibling = base().apply(&hint()).unwrap();
    let task = tasks
        .into_iter()
        .find(|task| task.id == *failed.group().task_id());
    let task = [task.expect("the group is of one of the tasks")];
    let rescue = attempts(&sibling, &task, 4, Seed::new(1), "rescue").unwrap();
    for attempt in &rescue {
        assert_eq!(attempt.outcome, Outcome::Solved, "{:?}", attempt.error);
        let (own, seen) = (attempt.own_sequence(), attempt.base_sequence().unwrap());
        assert_eq!(
            own.mask.iter().filter(|is| **is).count(),
            attempt.n_sampled()
        );
        let was_told = attempt.turns.iter().any(|turn| !turn.fired.is_empty());
        assert_eq!(
            was_told,
            seen.ids.len() < own.ids.len(),
            "the base's context has no hint"
        );
    }
    let rescued = failed
        .replace_with(RolloutGroup::new(rescue).unwrap())
        .unwrap();
    assert!(rescued.is_rescued());
}

#[test]
fn evolution_keeps_the_edit_that_helps_and_its_pool_survives_a_file() {
    let proposal = |edit| Proposal {
        edits: vec![edit],
        why: "it may help".into(),
    };
    let proposals = vec![proposal(hint()), proposal(idle())];
    let mut proposer = AskForEdits {
        model: Canned::new(serde_json::to_string(&proposals).unwrap()),
        max_tokens: 4096,
    };
    let Evolution { pool, report } = evolve_with(&mut proposer);
    assert_eq!(pool.len(), 1, "{:#?}", report.confirmations);
    let sibling = &pool.siblings()[0];
    assert_eq!(sibling.lineage, [hint()]);
    assert_eq!(sibling.replay(pool.base()).unwrap(), sibling.harness);

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
fn a_cut_or_broken_reply_is_recorded_and_stops_nothing() {
    for (text, max_tokens) in [("[]", 1), ("none", 9)] {
        let model = Canned::new(text);
        let mut proposer = AskForEdits { model, max_tokens };
        let got = evolve_with(&mut proposer);
        assert!(got.pool.is_empty() && !got.report.unusable.is_empty());
        let asked = proposer.model.asked.lock().unwrap();
        assert!(
            asked[0].contains("locked") && !asked[0].contains("confirm"),
            "{}",
            asked[0]
        );
    }
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
    let make = || -> Box<dyn SelectSiblings> { Box::new(LeastTried::new(&pool)) };
    proptest!(|(rows in rows(pool.ids()), context in contexts(), k in 0..6_usize)| {
        let mut selector = LeastTried::new(&pool);
        check_selection(&selector.select(&context, k).unwrap(), &pool, k)?;
        check_repeatable(&mut selector, &context, k)?;
        check_told_twice(&make, &rows, &context, k)?;
        check_failed_reanchor(&mut selector, &rows, &context, k)?;
    });
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
        let sibling = Sibling {
            name: name.into(),
            harness: base().apply(&edit).unwrap(),
            direction: "locked".into(),
            lineage: vec![edit],
            evidence: AcceptanceEvidence::default(),
        };
        builder.add(sibling).unwrap();
    }
    let pool = builder.freeze();
    let helps = base().apply(&hint()).unwrap().id();

    let anchors = tasks(Split::Anchor, 12);
    let mut probe = Anchors::new(&pool, anchors.clone(), 4, Seed::new(9)).unwrap();
    let mut voters = embedded_voters();
    voters.push(Box::new(Thrifty));
    let mut router = router_over(&pool, voters);
    router.reanchor(&mut probe).unwrap();
    let decision = router.select(&context(&anchors[0]), 2).unwrap();
    assert_eq!(decision.chosen[0], helps, "{decision:#?}");
    assert_eq!(decision.ballots.len(), 4);

    let mut selector = LeastTried::new(&pool);
    selector.reanchor(&mut probe).unwrap();
    let stranger = HarnessId::new("stranger").unwrap();
    let error = probe.probe(Some(&stranger)).unwrap_err();
    assert!(matches!(error, SelectError::UnknownHarness(_)), "{error}");
    let rows: Vec<EvidenceRow> = probe.probe(Some(&helps)).unwrap();
    assert_eq!(rows.len(), 48);
}

#[test]
fn a_chat_model_votes() {
    let pool = pool_of(3);
    let name = &pool.siblings()[2].name;
    let model = Arc::new(Canned::new(format!("{{\"ranking\": [\"{name}\"]}}")));
    let timeout = Duration::from_mins(1);
    let voter = |n| -> Box<dyn Voter> {
        Box::new(LlmVoter::new(
            format!("llm-{n}"),
            model.clone(),
            &pool,
            n,
            timeout,
        ))
    };
    let mut router = router_over(&pool, (0..3).map(voter).collect());
    let task = task(0, Split::Train).unwrap();
    let decision = router.select(&context(&task), 1).unwrap();
    assert_eq!(decision.chosen, [pool.ids()[2].clone()]);
    assert_eq!(decision.fallback, None);
    assert_eq!(model.asked.lock().unwrap().len(), 3);
    let other = RouteContext {
        task_id: TaskId::new("other").unwrap(),
        ..context(&task)
    };
    check_repeatable(&mut router, &other, 2).unwrap();
}
