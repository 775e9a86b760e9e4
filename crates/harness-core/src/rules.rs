//! Runs an overlay's rules: a small interpreter over facts, counters and texts, and the views that a
//! harness gives of prompts and observations.
//!
//! It executes nothing: conditions are evaluated, effects are returned as values. An evaluation error skips
//! the rule and is counted.

use std::collections::BTreeMap;

use minijinja::{Value, context};

use crate::environment::{Fact, Facts, Part};
use crate::harness::{
    BaseHarness, Comparison, Condition, Effect, ErrorView, HarnessError, HarnessSpec, Moment,
    ObservationPolicy, Operand, Overlay, Rule,
};
use crate::message::{Message, Role, Scope};
use crate::template;

/// What a condition can see at a moment.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The environment's facts.
    pub facts: &'a Facts,
    /// Turns taken so far.
    pub turn: usize,
    /// Turns left until the limit.
    pub turns_left: usize,
    /// The action at hand, where there is one.
    pub action: Option<&'a str>,
    /// The last observation as the policy saw it, where there is one.
    pub observation: Option<&'a str>,
    /// The task's instruction.
    pub instruction: &'a str,
}

/// A rule that acted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fired {
    /// The rule's name.
    pub rule: String,
    /// What it does.
    pub effect: Effect,
}

/// The state of an overlay's rules in one episode: how often each acted, the counters, the errors.
#[derive(Debug, Clone)]
pub struct RuleRun<'a> {
    overlay: &'a Overlay,
    fires: Vec<u32>,
    counters: BTreeMap<String, i64>,
    errors: u32,
}

/// Why a condition has no value.
enum EvalError {
    Missing,
    Type,
}

impl<'a> RuleRun<'a> {
    /// A fresh state.
    pub fn new(overlay: &'a Overlay) -> Self {
        Self {
            overlay,
            fires: vec![0; overlay.rules.len()],
            counters: BTreeMap::new(),
            errors: 0,
        }
    }

    /// Evaluations that failed and were skipped so far.
    pub fn errors(&self) -> u32 {
        self.errors
    }

    /// Every rule that acts at the start, in order.
    pub fn on_start(&mut self, scene: Scene<'_>) -> Vec<Fired> {
        (0..self.overlay.rules.len())
            .filter_map(|i| self.try_rule(i, Moment::OnStart, scene))
            .collect()
    }

    /// The first rule that acts at a moment.
    pub fn fire(&mut self, moment: Moment, scene: Scene<'_>) -> Option<Fired> {
        (0..self.overlay.rules.len()).find_map(|i| self.try_rule(i, moment, scene))
    }

    fn try_rule(&mut self, index: usize, moment: Moment, scene: Scene<'_>) -> Option<Fired> {
        let rule = &self.overlay.rules[index];
        if rule.moment != moment || self.fires[index] >= rule.max_fires {
            return None;
        }
        match self.holds(&rule.when, scene) {
            Ok(true) => Some(self.act(index, rule)),
            Ok(false) => None,
            Err(_) => {
                self.errors += 1;
                None
            }
        }
    }

    fn act(&mut self, index: usize, rule: &Rule) -> Fired {
        self.fires[index] += 1;
        for update in &rule.count {
            let value = self.counters.entry(update.counter.clone()).or_default();
            *value = value.saturating_add(update.add);
        }
        Fired {
            rule: rule.name.clone(),
            effect: rule.effect.clone(),
        }
    }

    fn holds(&self, condition: &Condition, scene: Scene<'_>) -> Result<bool, EvalError> {
        match condition {
            Condition::Always => Ok(true),
            Condition::All(parts) => {
                for part in parts {
                    if !self.holds(part, scene)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Condition::Any(parts) => {
                for part in parts {
                    if self.holds(part, scene)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Condition::Not(part) => self.holds(part, scene).map(|b| !b),
            Condition::Compare { left, op, right } => {
                compare(&self.value(left, scene)?, *op, &self.value(right, scene)?)
            }
            Condition::Contains { value, text } => match self.value(value, scene)? {
                Fact::Text(whole) => Ok(whole.contains(text.as_str())),
                _ => Err(EvalError::Type),
            },
            Condition::Predicate(name) => match scene.facts.get(name) {
                Some(Fact::Bool(is)) => Ok(*is),
                Some(_) => Err(EvalError::Type),
                None => Err(EvalError::Missing),
            },
        }
    }

    fn value(&self, operand: &Operand, scene: Scene<'_>) -> Result<Fact, EvalError> {
        let text = |t: Option<&str>| {
            t.map(|t| Fact::Text(t.to_owned()))
                .ok_or(EvalError::Missing)
        };
        match operand {
            Operand::Fact(name) => scene.facts.get(name).cloned().ok_or(EvalError::Missing),
            Operand::Counter(name) => Ok(Fact::Int(self.counters.get(name).copied().unwrap_or(0))),
            Operand::Turn => Ok(Fact::Int(scene.turn as i64)),
            Operand::TurnsLeft => Ok(Fact::Int(scene.turns_left as i64)),
            Operand::Action => text(scene.action),
            Operand::Observation => text(scene.observation),
            Operand::Instruction => text(Some(scene.instruction)),
            Operand::Literal(fact) => Ok(fact.clone()),
        }
    }
}

fn compare(left: &Fact, op: Comparison, right: &Fact) -> Result<bool, EvalError> {
    let order = match (left, right) {
        (Fact::Int(a), Fact::Int(b)) => a.cmp(b),
        (Fact::Bool(a), Fact::Bool(b)) if is_equality(op) => a.cmp(b),
        (Fact::Text(a), Fact::Text(b)) if is_equality(op) => a.cmp(b),
        _ => return Err(EvalError::Type),
    };
    Ok(match op {
        Comparison::Eq => order.is_eq(),
        Comparison::Ne => order.is_ne(),
        Comparison::Lt => order.is_lt(),
        Comparison::Le => order.is_le(),
        Comparison::Gt => order.is_gt(),
        Comparison::Ge => order.is_ge(),
    })
}

const fn is_equality(op: Comparison) -> bool {
    matches!(op, Comparison::Eq | Comparison::Ne)
}

/// Checks that both templates of a base parse and are safe to render.
pub(crate) fn check_templates(base: &BaseHarness) -> Result<(), HarnessError> {
    for (which, source) in [("system", &base.system), ("task", &base.task)] {
        template::check(source).map_err(|reason| HarnessError::Template { which, reason })?;
    }
    Ok(())
}

fn render(
    which: &'static str,
    source: &str,
    instruction: &str,
    tools: &[String],
    facts: &Facts,
) -> Result<String, HarnessError> {
    let tools: Vec<Value> = tools.iter().map(|t| Value::from(t.as_str())).collect();
    let facts = Value::from_pairs(
        facts
            .iter()
            .map(|(name, fact)| (name.as_str(), value_of(fact))),
    );
    let values = context! { task => context! { instruction }, tools, ..facts };
    template::render(source, values).map_err(|reason| HarnessError::Template { which, reason })
}

fn value_of(fact: &Fact) -> Value {
    match fact {
        Fact::Bool(is) => Value::from(*is),
        Fact::Int(n) => Value::from(*n),
        Fact::Text(text) => Value::from(text.as_str()),
    }
}

/// A message and the contexts that it belongs to.
pub type Scoped = (Message, Scope);

/// The messages before the first turn: system text, what start rules and notes add, the task.
///
/// # Errors
/// [`HarnessError::Template`] if a template fails, for instance on an undefined variable;
/// [`HarnessError::External`] for a harness that drives itself.
pub fn opening(
    spec: &HarnessSpec,
    rules: &mut RuleRun<'_>,
    scene: Scene<'_>,
) -> Result<(Vec<Scoped>, Vec<String>), HarnessError> {
    if spec.kind == crate::harness::HarnessKind::External {
        return Err(HarnessError::External);
    }
    let render_system = |tools: &[String]| {
        render(
            "system",
            &spec.base.system,
            scene.instruction,
            tools,
            scene.facts,
        )
    };
    let base_text = render_system(&spec.base.tools)?;
    let own_text = render_system(spec.tools())?;
    let mut messages = Vec::new();
    let mut push = |role, text: String, scope| {
        if !text.is_empty() {
            messages.push((Message::new(role, text), scope));
        }
    };
    if base_text == own_text {
        push(Role::System, base_text, Scope::Both);
    } else {
        push(Role::System, base_text, Scope::BaseOnly);
        push(Role::System, own_text, Scope::SiblingOnly);
    }
    for note in &spec.overlay.overrides.notes {
        push(Role::System, note.clone(), Scope::SiblingOnly);
    }
    let mut fired = Vec::new();
    for Fired { rule, effect } in rules.on_start(scene) {
        if let Effect::Say(text) = effect {
            push(Role::System, text, Scope::SiblingOnly);
            fired.push(rule);
        }
    }
    let task = render(
        "task",
        &spec.base.task,
        scene.instruction,
        spec.tools(),
        scene.facts,
    )?;
    push(Role::User, task, Scope::Both);
    Ok((messages, fired))
}

/// What the policy is shown of an observation.
///
/// Parts are joined by line breaks, errors reduced as [`ErrorView`] says, and the whole cut at
/// `max_chars` characters with `...` at the cut.
pub fn observe(policy: &ObservationPolicy, parts: &[Part]) -> String {
    let texts: Vec<&str> = parts
        .iter()
        .map(|part| match (part, policy.errors) {
            (Part::Error(text), ErrorView::Message) => message_of(text),
            _ => part.text(),
        })
        .collect();
    let whole = texts.join("\n");
    match whole.char_indices().nth(policy.max_chars) {
        Some((at, _)) => format!("{}...", &whole[..at]),
        None => whole,
    }
}

/// The part of an error text from the last line that names an exception; all of it if none does.
fn message_of(text: &str) -> &str {
    let names_exception = |line: &str| {
        line.split_once(':').is_some_and(|(name, _)| {
            name.starts_with(|c: char| c.is_ascii_uppercase())
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "_.".contains(c))
        })
    };
    let mut at = 0;
    let mut found = None;
    for line in text.split_inclusive('\n') {
        if names_exception(line) {
            found = Some(at);
        }
        at += line.len();
    }
    found.map_or(text, |start| &text[start..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::CounterUpdate;

    fn scene(facts: &Facts) -> Scene<'_> {
        Scene {
            facts,
            turn: 2,
            turns_left: 3,
            action: Some("look"),
            observation: Some("nothing here"),
            instruction: "find it",
        }
    }

    fn rule(name: &str, moment: Moment, when: Condition, effect: Effect) -> Rule {
        Rule {
            name: name.into(),
            moment,
            when,
            effect,
            max_fires: 1,
            count: vec![],
        }
    }

    fn facts() -> Facts {
        [
            ("error".to_owned(), Fact::Bool(true)),
            ("kind".to_owned(), Fact::Text("401".into())),
            ("n".to_owned(), Fact::Int(4)),
        ]
        .into()
    }

    #[track_caller]
    fn check(when: Condition, expect: Option<bool>) {
        let overlay = Overlay {
            rules: vec![rule("r", Moment::AfterStep, when, Effect::Say("x".into()))],
            ..Overlay::default()
        };
        let facts = facts();
        let mut run = RuleRun::new(&overlay);
        let fired = run.fire(Moment::AfterStep, scene(&facts)).is_some();
        let got = if run.errors() > 0 { None } else { Some(fired) };
        assert_eq!(got, expect);
    }

    fn compare(left: Operand, op: Comparison, right: Fact) -> Condition {
        Condition::Compare {
            left,
            op,
            right: Operand::Literal(right),
        }
    }

    #[test]
    fn conditions() {
        check(Condition::Always, Some(true));
        check(Condition::Predicate("error".into()), Some(true));
        check(Condition::Predicate("missing".into()), None);
        check(Condition::Predicate("n".into()), None);
        check(
            compare(
                Operand::Fact("kind".into()),
                Comparison::Eq,
                Fact::Text("401".into()),
            ),
            Some(true),
        );
        check(
            compare(Operand::Fact("n".into()), Comparison::Lt, Fact::Int(4)),
            Some(false),
        );
        check(
            compare(
                Operand::Fact("kind".into()),
                Comparison::Lt,
                Fact::Text("9".into()),
            ),
            None,
        );
        check(
            compare(Operand::TurnsLeft, Comparison::Le, Fact::Int(3)),
            Some(true),
        );
        check(
            Condition::Contains {
                value: Operand::Observation,
                text: "here".into(),
            },
            Some(true),
        );
        check(
            Condition::Not(Box::new(Condition::Any(vec![
                Condition::Predicate("error".into()),
                Condition::Predicate("missing".into()),
            ]))),
            Some(false),
        );
    }

    #[test]
    fn first_match_wins_and_fires_are_capped_and_counted() {
        let mut first = rule(
            "first",
            Moment::AfterStep,
            Condition::Always,
            Effect::Say("a".into()),
        );
        first.max_fires = 2;
        first.count = vec![CounterUpdate {
            counter: "c".into(),
            add: 5,
        }];
        let second = rule(
            "second",
            Moment::AfterStep,
            compare(Operand::Counter("c".into()), Comparison::Eq, Fact::Int(10)),
            Effect::Say("b".into()),
        );
        let overlay = Overlay {
            rules: vec![first, second],
            ..Overlay::default()
        };
        let facts = facts();
        let mut run = RuleRun::new(&overlay);
        let names: Vec<_> = (0..4)
            .map(|_| run.fire(Moment::AfterStep, scene(&facts)).map(|f| f.rule))
            .collect();
        assert_eq!(
            names,
            [
                Some("first".into()),
                Some("first".into()),
                Some("second".into()),
                None
            ]
        );
    }

    #[test]
    fn observations_are_cut_and_errors_reduced() {
        let full = ObservationPolicy {
            max_chars: 5,
            errors: ErrorView::Full,
        };
        assert_eq!(observe(&full, &[Part::Text("abcde".into())]), "abcde");
        assert_eq!(observe(&full, &[Part::Text("äbcdef".into())]), "äbcde...");
        let brief = ObservationPolicy {
            max_chars: 100,
            errors: ErrorView::Message,
        };
        let error = "Execution failed. Traceback:\n  File \"x\", line 1\n    f()\nException: Response status code is 401:\n{\"message\":\"no\"}";
        assert_eq!(
            observe(&brief, &[Part::Error(error.into())]),
            "Exception: Response status code is 401:\n{\"message\":\"no\"}"
        );
        assert_eq!(observe(&brief, &[Part::Error("odd".into())]), "odd");
    }

    #[test]
    fn undefined_variables_are_errors() {
        let spec = HarnessSpec::base(BaseHarness {
            system: "{{ nope }}".into(),
            ..BaseHarness::default()
        });
        let facts = Facts::new();
        let error = opening(&spec, &mut RuleRun::new(&spec.overlay), scene(&facts));
        assert!(matches!(
            error,
            Err(HarnessError::Template {
                which: "system",
                ..
            })
        ));
    }
}
