//! Evaluation of an overlay's rules: `cargo bench -p harness-core`.

use divan::{Bencher, black_box};
use harness_core::rules::{RuleRun, Scene};
use harness_core::{Comparison, Condition, Effect, Fact, Facts, Moment, Operand, Overlay, Rule};

fn main() {
    divan::main();
}

/// A rule of the usual kind, which looks at everything and does not act.
fn rule(i: usize) -> Rule {
    let few_turns = Condition::Compare {
        left: Operand::TurnsLeft,
        op: Comparison::Le,
        right: Operand::Literal(Fact::Int(2)),
    };
    let error_is = Condition::Compare {
        left: Operand::Fact("error_kind".into()),
        op: Comparison::Eq,
        right: Operand::Literal(Fact::Text("401".into())),
    };
    let names_login = Condition::Contains {
        value: Operand::Observation,
        text: format!("login {i}"),
    };
    Rule {
        name: format!("rule-{i}"),
        moment: Moment::AfterStep,
        when: Condition::Any(vec![few_turns, error_is, names_login]),
        effect: Effect::Say("Log in first.".into()),
        max_fires: 1,
        count: Vec::new(),
    }
}

fn facts() -> Facts {
    let mut facts: Facts = [
        "logged_in",
        "docs_searched",
        "last_page_full",
        "write_unchecked",
    ]
    .map(|name| (name.to_owned(), Fact::Bool(false)))
    .into();
    facts.insert("error_kind".into(), Fact::Text("none".into()));
    facts
}

/// All rules of an overlay at one moment, none of which acts; divide by their number.
#[divan::bench(name = "rules_at_a_moment", args = [1, 8])]
fn evaluate(bencher: Bencher, n_rules: usize) {
    let overlay = Overlay {
        rules: (0..n_rules).map(rule).collect(),
        ..Overlay::default()
    };
    let facts = facts();
    let mut run = RuleRun::new(&overlay);
    let scene = Scene {
        facts: &facts,
        turn: 3,
        turns_left: 9,
        action: Some("print(apis.spotify.show_library(page_index=0))"),
        observation: Some("[{'song_id': 12, 'title': 'Blue Harbor', 'rating': 4}]"),
        instruction: "Which song has the highest rating?",
    };
    bencher.bench_local(|| run.fire(Moment::AfterStep, black_box(scene)));
}
