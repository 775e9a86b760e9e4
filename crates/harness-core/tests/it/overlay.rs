//! What overlays do to an episode, and what of it the base context holds.

use harness_core::testing::{ByteCodec, ScriptedPolicy, ToyMaker};
use harness_core::{
    BaseHarness, Comparison, Condition, CounterUpdate, Effect, Fact, HarnessEdit, HarnessError,
    HarnessSpec, Limits, Moment, ObservationPolicy, Operand, Outcome, Rule, Trajectory, run_jobs,
};
use proptest::prelude::*;

use crate::executor::{base, jobs, options};

fn rule(moment: Moment, when: Condition, effect: Effect) -> Rule {
    Rule {
        name: "r".into(),
        moment,
        when,
        effect,
        max_fires: 1,
        count: vec![],
    }
}

fn sibling(moment: Moment, when: Condition, effect: Effect) -> HarnessSpec {
    base()
        .apply(&HarnessEdit::AddRule(rule(moment, when, effect)))
        .expect("a valid rule")
}

fn run(harness: HarnessSpec, script: fn(&str) -> &'static str) -> Trajectory {
    let policy = ScriptedPolicy::new(move |context, _| script(context).into());
    let mut done = run_jobs(
        vec![Box::new(policy)],
        &ByteCodec,
        &ToyMaker::default(),
        jobs(harness, 1),
        &options(),
    );
    done.pop().expect("one job")
}

#[track_caller]
fn check(t: &Trajectory, own: &str, base: &str) {
    assert_eq!(t.outcome, Outcome::Solved);
    assert_eq!(ByteCodec::view(&t.own_sequence().ids), own);
    let projected = t.base_sequence().expect("projectable");
    assert_eq!(ByteCodec::view(&projected.ids), base);
    assert_eq!(projected.ids.len(), projected.mask.len());
    assert_eq!(projected.ids.len(), projected.logprobs.len());
}

const PLAIN: &str = "<system>you are in toy<user>say secret 1<assistant>";

/// E7: the trace names the harness that ran, and an edit changes behaviour.
#[test]
fn e7_the_sibling_really_runs() {
    let obey = |context: &str| {
        if context.contains("answer 7") {
            "7"
        } else {
            "hm"
        }
    };
    let sibling = sibling(
        Moment::OnStart,
        Condition::Always,
        Effect::Say("answer 7".into()),
    );
    let under_base = run(base(), obey);
    let under_sibling = run(sibling.clone(), obey);
    assert_eq!(under_base.outcome, Outcome::Failed);
    assert_eq!(under_base.harness_id, base().id());
    assert_eq!(under_sibling.harness_id, sibling.id());
    assert_ne!(under_sibling.harness_id, base().id());
    check(
        &under_sibling,
        "<system>you are in toy<system>answer 7<user>say secret 1<assistant>7<end>",
        &format!("{PLAIN}7<end>"),
    );
}

#[test]
fn hints_after_an_error_are_dropped_from_the_base_context() {
    let sibling = sibling(
        Moment::AfterStep,
        Condition::Predicate("last_result_error".into()),
        Effect::Say("try 7".into()),
    );
    let t = run(sibling, |c| if c.contains("try 7") { "7" } else { "hm" });
    check(
        &t,
        &format!("{PLAIN}hm<end><observation>Error: wrong<hint>try 7<assistant>7<end>"),
        &format!("{PLAIN}hm<end><observation>Error: wrong<assistant>7<end>"),
    );
    assert_eq!(t.turns[0].fired, ["r"]);
}

#[test]
fn blocked_turns_never_happened_for_the_base() {
    let sibling = sibling(
        Moment::BeforeAction,
        Condition::Always,
        Effect::Block("not yet, peek".into()),
    );
    let t = run(sibling, |c| {
        if c.contains("the secret is 7") {
            "7"
        } else if c.contains("not yet") {
            "peek"
        } else {
            "hm"
        }
    });
    check(
        &t,
        &format!(
            "{PLAIN}hm<end><hint>not yet, peek<assistant>peek<end><observation>the secret is 7<assistant>7<end>"
        ),
        &format!("{PLAIN}peek<end><observation>the secret is 7<assistant>7<end>"),
    );
}

#[test]
fn a_rewritten_action_stands_as_the_world_saw_it_with_mask_0() {
    let sibling = sibling(
        Moment::BeforeAction,
        Condition::Always,
        Effect::Rewrite {
            find: "hm".into(),
            replace: "7".into(),
        },
    );
    let t = run(sibling, |_| "hm");
    check(&t, &format!("{PLAIN}hm<end>"), &format!("{PLAIN}7<end>"));
    assert!(
        t.base_sequence()
            .expect("projectable")
            .mask
            .iter()
            .all(|m| !m)
    );
    assert!(t.own_sequence().mask.iter().any(|m| *m));
}

#[test]
fn more_turns_or_other_views_cannot_be_projected() {
    let long = base()
        .apply(&HarnessEdit::SetLimits(Limits {
            max_turns: 6,
            max_reply_tokens: 40,
        }))
        .expect("valid limits");
    assert!(run(long.clone(), |_| "hm").base_sequence().is_err());
    assert!(run(long, |_| "7").base_sequence().is_ok());
    let narrow = base()
        .apply(&HarnessEdit::SetObservation(ObservationPolicy {
            max_chars: 3,
            ..ObservationPolicy::default()
        }))
        .expect("a valid policy");
    assert!(run(narrow, |_| "peek").base_sequence().is_err());
}

#[test]
fn edits_are_pure_and_checked() {
    let plain = base();
    let before = plain.clone();
    let bad = rule(
        Moment::BeforeAction,
        Condition::Always,
        Effect::Say("x".into()),
    );
    assert!(matches!(
        plain.apply(&HarnessEdit::AddRule(bad)),
        Err(HarnessError::EffectAtMoment { .. })
    ));
    let long = rule(
        Moment::OnStart,
        Condition::Always,
        Effect::Say("x".repeat(901)),
    );
    assert!(matches!(
        plain.apply(&HarnessEdit::AddRule(long)),
        Err(HarnessError::TextTooLong { got: 901, .. })
    ));
    assert!(matches!(
        plain.apply(&HarnessEdit::RemoveRule("r".into())),
        Err(HarnessError::NoSuchRule(_))
    ));
    assert_eq!(plain, before);
}

#[test]
fn conditions_have_a_greatest_depth() {
    let mut when = Condition::Always;
    for _ in 0..8 {
        when = Condition::Not(Box::new(when));
    }
    let deep = rule(Moment::OnStart, when, Effect::Say("x".into()));
    assert!(matches!(
        base().apply(&HarnessEdit::AddRule(deep)),
        Err(HarnessError::ConditionTooLarge { .. })
    ));
}

proptest! {
    #[test]
    fn ids_follow_content(text in "[a-z ]{1,20}", other in "[a-z ]{1,20}") {
        let spec = |t: &str| HarnessSpec::base(BaseHarness { system: t.into(), ..BaseHarness::default() });
        prop_assert_eq!(spec(&text).id() == spec(&other).id(), text == other);
        let json = serde_json::to_string(&spec(&text)).expect("plain data");
        let back: HarnessSpec = serde_json::from_str(&json).expect("its own output");
        prop_assert_eq!(back.id(), spec(&text).id());
    }
}

/// What a stranger's harness may hold is bounded, and the message names the field.
#[test]
fn what_no_harness_needs_is_refused_by_name() {
    let check = |change: &dyn Fn(&mut HarnessSpec), wanted: &str| {
        let mut harness = base();
        change(&mut harness);
        let told = harness.validate().expect_err(wanted).to_string();
        assert!(told.contains(wanted), "{told:.300}");
        assert!(told.len() < 500, "a message stays short");
    };
    let long = || "x".repeat(100_001);
    let limits = |max_turns, max_reply_tokens| Limits {
        max_turns,
        max_reply_tokens,
    };
    check(
        &|h| h.overlay.overrides.limits = Some(limits(usize::MAX, 1)),
        "limits.max_turns` must be 1 to 10000",
    );
    check(
        &|h| h.base.limits = limits(1, usize::MAX),
        "limits.max_reply_tokens` must be 1 to 1000000",
    );
    check(
        &|h| h.base.system = long(),
        "`base.system` has at most 100000 characters",
    );
    check(
        &|h| h.base.tools = vec![String::new(); 1_001],
        "`base.tools` has at most 1000 entries",
    );
    check(
        &|h| h.overlay.overrides.tools = Some(vec![long()]),
        "tools[0]` has at most 900 characters",
    );
    let say = || Effect::Say("x".into());
    let ruled = |change: &dyn Fn(&mut Rule), wanted: &str| {
        check(
            &|h| {
                let mut rule = rule(Moment::BeforeTurn, Condition::Always, say());
                change(&mut rule);
                h.overlay.rules = vec![rule.clone(), rule];
            },
            wanted,
        );
    };
    ruled(&|r| r.name = long(), "has at most 900 characters");
    ruled(
        &|r| r.when = Condition::Predicate(long()),
        "`when` of rule `r` is too large",
    );
    ruled(
        &|r| {
            r.when = Condition::Compare {
                left: Operand::Turn,
                op: Comparison::Eq,
                right: Operand::Literal(Fact::Text(long())),
            };
        },
        "`when` of rule `r` is too large",
    );
    ruled(
        &|r| {
            let counter = "c".into();
            r.count = vec![CounterUpdate { counter, add: 1 }; 17];
        },
        "count` has at most 16 entries",
    );
}
