//! One attempt as text that a person reads: what the policy read, what it wrote, what rules did.
//!
//! Segments of token ids are the truth. Without a tokenizer that fits, the texts that a turn keeps stand in for
//! them, and what has no text is a count of tokens.

use std::fmt::Write as _;

use harness_core::{
    Codec, Effect, Fact, Facts, HarnessSpec, Moment, RolloutRole, Rule, Scope, Segment,
    SegmentKind, Trajectory, Turn,
};

use super::harnesses::Known;

/// An attempt as text. `id` is its full id, `harness` what its pool says of its harness.
pub(super) fn text(
    id: &str,
    t: &Trajectory,
    harness: Option<Known<'_>>,
    codec: Option<&dyn Codec>,
    is_coloured: bool,
) -> String {
    let mut page = Page {
        out: String::new(),
        codec: codec.filter(|codec| fits(*codec, t)),
        spec: harness.map(|known| match known {
            Known::Base(spec) => spec,
            Known::Sibling(sibling) => &sibling.harness,
        }),
        is_coloured,
    };
    page.header(id, t, harness);
    page.legend(t, codec.is_some());
    page.line(Paint::Heading, "prompt");
    for segment in &t.prompt {
        page.context(segment, None);
    }
    let mut facts = Facts::new();
    for (i, turn) in t.turns.iter().enumerate() {
        page.turn(i + 1, turn, &mut facts);
    }
    page.end(t);
    page.out
}

/// Whether a tokenizer is that of the attempt: what was sampled reads as the actions. Attempts of which no text
/// can be compared fit any.
pub(super) fn fits(codec: &dyn Codec, t: &Trajectory) -> bool {
    t.turns
        .iter()
        .filter(|turn| !is_rewritten(turn))
        .all(|turn| {
            let sampled = turn
                .segments
                .iter()
                .find(|s| s.kind == SegmentKind::Sampled);
            sampled.is_none_or(|s| codec.decode(&s.ids).contains(&turn.action))
        })
}

/// Whether a rule put another action in place of what the policy wrote.
fn is_rewritten(turn: &Turn) -> bool {
    !turn.is_blocked && turn.segments.iter().any(|s| s.scope == Scope::BaseOnly)
}

/// The text without control characters, which could steer a terminal.
pub(super) fn plain(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let is_kept = !c.is_control() || matches!(c, '\n' | '\t');
            let kept = is_kept.then_some(c);
            let escaped = (!is_kept).then(|| c.escape_unicode());
            kept.into_iter().chain(escaped.into_iter().flatten())
        })
        .collect()
}

/// What a line is, for its colour.
#[derive(Clone, Copy)]
enum Paint {
    Plain,
    Heading,
    Sampled,
    Context,
    Rule,
    Bad,
}

impl Paint {
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Heading => "1",
            Self::Sampled => "32",
            Self::Context => "2",
            Self::Rule => "33",
            Self::Bad => "31",
        }
    }
}

struct Page<'a> {
    out: String,
    codec: Option<&'a dyn Codec>,
    spec: Option<&'a HarnessSpec>,
    is_coloured: bool,
}

impl Page<'_> {
    fn line(&mut self, paint: Paint, text: &str) {
        let (text, code) = (plain(text), paint.code());
        let _ = if self.is_coloured && !code.is_empty() {
            writeln!(self.out, "\x1b[{code}m{text}\x1b[0m")
        } else {
            writeln!(self.out, "{text}")
        };
    }

    /// Every line of a text behind a mark.
    fn marked(&mut self, paint: Paint, mark: &str, text: &str) {
        for line in text.trim_end_matches('\n').split('\n') {
            self.line(paint, format!("  {mark:<2} {line}").trim_end());
        }
    }

    fn field(&mut self, name: &str, text: &str) {
        self.line(Paint::Plain, &format!("  {name:<9} {text}"));
    }

    fn header(&mut self, id: &str, t: &Trajectory, harness: Option<Known<'_>>) {
        self.line(Paint::Heading, id);
        let task = t.task_id.as_str();
        let split = serde_json::to_value(t.split).unwrap_or_default();
        let split = split.as_str().unwrap_or("unknown").to_owned();
        self.field("task", &format!("{task}, of {}, split {split}", t.env));
        let hash = t.harness_id.as_str();
        let harness = match harness {
            Some(Known::Base(_)) => format!("base ({hash})"),
            Some(Known::Sibling(sibling)) => {
                let (name, direction) = (&sibling.name, &sibling.direction);
                format!("{name}, a sibling that repairs {direction} ({hash})")
            }
            None => format!("{hash}, in no pool of this run"),
        };
        self.field("harness", &harness);
        let group = t.group_id.as_str();
        self.field("group", &format!("{group}, attempt {}", t.attempt));
        let why = match t.role {
            RolloutRole::Base => "an attempt of training under the base",
            RolloutRole::Rescue => "a further attempt, since the base failed the whole group",
            RolloutRole::Probe => "an attempt that evolution or the router looked at",
            RolloutRole::Eval => "an evaluation",
            _ => "unknown",
        };
        self.field("role", &format!("{}: {why}", t.role.as_str()));
        let reward = match t.reward {
            Some(reward) => format!("reward {reward}"),
            None => "no reward, which is not zero".into(),
        };
        let paint = match t.error {
            Some(_) => Paint::Bad,
            None => Paint::Plain,
        };
        let outcome = t.outcome.as_str();
        self.line(paint, &format!("  {:<9} {outcome}, {reward}", "outcome"));
        if let Some(error) = &t.error {
            self.line(Paint::Bad, &format!("  {:<9} {error}", "error"));
        }
        self.field(
            "policy",
            &format!(
                "version {}, temperature {}",
                t.policy_version.0, t.sampling.temperature
            ),
        );
        let n_read = t.n_tokens() - t.n_sampled();
        self.field(
            "tokens",
            &format!("{} written, {n_read} only read", t.n_sampled()),
        );
        if let Some(reason) = &t.unprojectable {
            self.field("base view", &format!("none: {reason}"));
        }
        if t.rule_errors > 0 {
            let n = t.rule_errors;
            self.line(
                Paint::Bad,
                &format!("  {:<9} {n} evaluations failed and were skipped", "rules"),
            );
        }
        self.out.push('\n');
    }

    fn legend(&mut self, t: &Trajectory, has_codec: bool) {
        let scopes: Vec<Scope> = t.segments().map(|s| s.scope).collect();
        let mut legend = vec![
            "  |  the policy wrote it: sampled, loss mask 1",
            "  :  the policy read it: context, loss mask 0",
        ];
        if scopes.contains(&Scope::SiblingOnly) {
            legend.push("   s stands under this sibling only: seen under the base it is left out");
        }
        if scopes.contains(&Scope::BaseOnly) {
            legend.push(
                "   b seen under the base it stands there instead; the policy did not read it",
            );
        }
        if self.codec.is_none() {
            legend.push(if has_codec {
                "  (n tokens): the tokenizer at hand is not that of this attempt"
            } else {
                "  (n tokens): no tokenizer at hand (without feature `train`, or of a --policy from elsewhere)"
            });
        }
        for line in legend {
            self.line(Paint::Context, line);
        }
        self.out.push('\n');
    }

    /// A segment that the policy read; `view` is its text if the turn keeps it.
    fn context(&mut self, segment: &Segment, view: Option<&str>) {
        let text = match (self.codec, view) {
            (Some(codec), _) => codec.decode(&segment.ids),
            (None, Some(view)) => view.to_owned(),
            (None, None) => tokens(segment),
        };
        // The opening of a reply has no text.
        if !text.trim().is_empty() {
            self.marked(Paint::Context, mark(segment), &text);
        }
    }

    fn turn(&mut self, number: usize, turn: &Turn, facts: &mut Facts) {
        let sampled = turn
            .segments
            .iter()
            .find(|s| s.kind == SegmentKind::Sampled);
        self.out.push('\n');
        let mut heading = format!("turn {number}");
        if let Some(segment) = sampled.filter(|s| !s.logprobs.is_empty()) {
            let n = segment.logprobs.len();
            let sum: f64 = segment.logprobs.iter().map(|p| f64::from(*p)).sum();
            let _ = write!(
                heading,
                ": {n} tokens, mean log-prob {:.3} nats",
                sum / n as f64
            );
        }
        self.line(Paint::Heading, &heading);
        let mut is_after = false;
        let mut is_seen = false;
        for segment in &turn.segments {
            if segment.kind == SegmentKind::Sampled {
                is_after = true;
                self.sampled(segment, turn);
                continue;
            }
            // Before the reply stand hints and its opening, after it what came back.
            let is_answer = is_after && !is_seen && segment.scope != Scope::BaseOnly;
            let is_answer = is_answer && (segment.scope == Scope::Both || turn.is_blocked);
            let is_opening = !is_after && segment.scope != Scope::SiblingOnly;
            let is_opening = is_opening || (!is_after && segment.ids.len() == 1);
            is_seen |= is_answer;
            match segment.scope {
                _ if is_answer => self.context(segment, Some(&turn.observation)),
                _ if is_opening => self.context(segment, Some("")),
                Scope::BaseOnly => self.context(segment, Some(&turn.action)),
                _ => self.context(segment, None),
            }
        }
        if !is_seen && !turn.observation.is_empty() {
            let text = format!(
                "{} (the attempt ended here: the policy did not read it)",
                turn.observation.trim_end()
            );
            self.marked(Paint::Plain, "", &text);
        }
        self.deeds(turn);
        self.changes(turn, facts);
    }

    fn sampled(&mut self, segment: &Segment, turn: &Turn) {
        let text = match self.codec {
            Some(codec) => codec.decode(&segment.ids),
            None if is_rewritten(turn) => tokens(segment),
            None => turn.action.clone(),
        };
        self.marked(Paint::Sampled, mark(segment), &text);
    }

    /// What rules did in the turn.
    fn deeds(&mut self, turn: &Turn) {
        for name in &turn.fired {
            let rules = self.spec.map_or(&[][..], |spec| &spec.overlay.rules);
            let deed = rules.iter().find(|rule| rule.name == *name).map(deed);
            let deed = deed.map_or(String::new(), |deed| format!(": {deed}"));
            self.marked(Paint::Rule, "", &format!("* rule {name}{deed}"));
        }
        if turn.is_blocked {
            self.marked(
                Paint::Rule,
                "",
                "* blocked: the environment never saw this action",
            );
        }
        if is_rewritten(turn) {
            let text = format!("* rewritten: the environment ran instead: {}", turn.action);
            self.marked(Paint::Rule, "", &text);
        }
        if turn.is_unsupported {
            let text = "* the interpreter has a gap here: no fault of the policy";
            self.marked(Paint::Bad, "", text);
        }
    }

    /// Facts of the environment that are other than before; a blocked turn has none.
    fn changes(&mut self, turn: &Turn, facts: &mut Facts) {
        let changed: Vec<String> = turn
            .facts
            .iter()
            .filter_map(|(name, new)| {
                let old = facts.get(name).map_or_else(|| blank(new), value);
                let new = value(new);
                (old != new).then(|| format!("{name} {old} -> {new}"))
            })
            .collect();
        if !changed.is_empty() {
            self.marked(Paint::Plain, "", &format!("= {}", changed.join(", ")));
            facts.extend(turn.facts.clone());
        }
    }

    fn end(&mut self, t: &Trajectory) {
        let text = format!("{} after {} turns", t.outcome.as_str(), t.turns.len());
        self.out.push('\n');
        self.line(Paint::Heading, &text);
    }
}

fn tokens(segment: &Segment) -> String {
    format!("({} tokens)", segment.ids.len())
}

/// The mark of who wrote a segment and where it stands.
const fn mark(segment: &Segment) -> &'static str {
    match (segment.kind, segment.scope) {
        (SegmentKind::Sampled, Scope::Both) => "|",
        (SegmentKind::Sampled, Scope::SiblingOnly) => "|s",
        (SegmentKind::Sampled, Scope::BaseOnly) => "|b",
        (SegmentKind::Context, Scope::Both) => ":",
        (SegmentKind::Context, Scope::SiblingOnly) => ":s",
        (SegmentKind::Context, Scope::BaseOnly) => ":b",
    }
}

fn deed(rule: &Rule) -> String {
    let moment = match rule.moment {
        Moment::OnStart => "at the start",
        Moment::BeforeTurn => "before the turn",
        Moment::BeforeAction => "before the action",
        Moment::AfterStep => "after the step",
    };
    match &rule.effect {
        Effect::Say(text) => format!("said {moment}: {text}"),
        Effect::Block(text) => format!("kept the action back and said: {text}"),
        Effect::Rewrite { find, replace } if find.is_empty() => {
            format!("put in place of the action: {replace}")
        }
        Effect::Rewrite { find, replace } => format!("replaced `{find}` by `{replace}`"),
    }
}

/// A fact before anything happened.
fn blank(fact: &Fact) -> String {
    value(&match fact {
        Fact::Bool(_) => Fact::Bool(false),
        Fact::Int(_) => Fact::Int(0),
        Fact::Text(_) => Fact::Text(String::new()),
    })
}

fn value(fact: &Fact) -> String {
    match fact {
        Fact::Bool(value) => value.to_string(),
        Fact::Int(value) => value.to_string(),
        Fact::Text(value) if value.is_empty() => "none".into(),
        Fact::Text(value) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use expect_test::{Expect, expect};
    use harness_core::testing::{ByteCodec, ScriptedPolicy, ToyMaker, toy_task};
    use harness_core::{
        BaseHarness, Condition, EnvError, ExecOptions, HarnessEdit, Job, Operand, RunId, Seed,
        run_jobs,
    };
    use harness_pool::{AcceptanceEvidence, Sibling};

    use super::*;

    fn rule(
        name: &str,
        moment: Moment,
        sees: Option<(Operand, &str)>,
        effect: Effect,
    ) -> HarnessEdit {
        let when = sees.map_or(Condition::Always, |(value, text)| Condition::Contains {
            value,
            text: text.into(),
        });
        HarnessEdit::AddRule(Rule {
            name: name.into(),
            moment,
            when,
            effect,
            max_fires: 9,
            count: Vec::new(),
        })
    }

    fn sibling() -> Sibling {
        let base = HarnessSpec::base(BaseHarness {
            system: "find the secret".into(),
            ..BaseHarness::default()
        });
        let action = |text| Some((Operand::Action, text));
        let lineage = vec![
            rule(
                "start",
                Moment::OnStart,
                None,
                Effect::Say("be quiet".into()),
            ),
            rule(
                "quiet",
                Moment::BeforeAction,
                action("LOUD"),
                Effect::Block("no shouting".into()),
            ),
            rule(
                "renew",
                Moment::BeforeAction,
                action("old"),
                Effect::Rewrite {
                    find: "old".into(),
                    replace: "new".into(),
                },
            ),
            rule(
                "hint",
                Moment::AfterStep,
                Some((Operand::Observation, "Error")),
                Effect::Say("peek first".into()),
            ),
        ];
        Sibling {
            name: "quiet".into(),
            harness: lineage
                .iter()
                .fold(base, |spec, edit| spec.apply(edit).unwrap()),
            direction: "shouts".into(),
            lineage,
            evidence: AcceptanceEvidence::default(),
        }
    }

    fn attempt(sibling: &Sibling, envs: &ToyMaker) -> Trajectory {
        let policy = ScriptedPolicy::new(|context, _| {
            let said = |text: &str| context.contains(text);
            let reply = match () {
                () if !said("no shouting") => "LOUD\nguess",
                () if !said("Error: wrong") => "old guess",
                () if !said("the secret is") => "peek",
                () => "swordfish",
            };
            reply.to_owned()
        });
        let job = Job {
            rollout_id: harness_core::RolloutId::new("s0-t0-r0").unwrap(),
            group_id: harness_core::GroupId::new("s0-t0-r").unwrap(),
            task: Arc::new(toy_task(1, "swordfish")),
            harness: Arc::new(sibling.harness.clone()),
            attempt: 0,
            role: RolloutRole::Rescue,
            seed: Seed::new(1),
        };
        let options = ExecOptions {
            max_in_flight: 1,
            retries: 0,
            ..ExecOptions::new(RunId::new("test").unwrap())
        };
        run_jobs(
            vec![Box::new(policy)],
            &ByteCodec,
            envs,
            vec![job],
            &options,
        )
        .remove(0)
    }

    #[track_caller]
    fn check(t: &Trajectory, known: Option<Known<'_>>, codec: Option<&dyn Codec>, expect: &Expect) {
        let text = text("harness_s-s1/s0-t0-r0", t, known, codec, false);
        expect.assert_eq(&text.replace(t.harness_id.as_str(), "HASH"));
    }

    #[test]
    fn an_attempt_with_every_kind_of_rule() {
        let sibling = sibling();
        let t = attempt(&sibling, &ToyMaker::default());
        check(
            &t,
            Some(Known::Sibling(&sibling)),
            Some(&ByteCodec),
            &expect![[r"
                harness_s-s1/s0-t0-r0
                  task      toy_1_1, of toy, split train
                  harness   quiet, a sibling that repairs shouts (HASH)
                  group     s0-t0-r, attempt 0
                  role      rescue: a further attempt, since the base failed the whole group
                  outcome   solved, reward 1
                  policy    version 0, temperature 1
                  tokens    36 written, 102 only read

                  |  the policy wrote it: sampled, loss mask 1
                  :  the policy read it: context, loss mask 0
                   s stands under this sibling only: seen under the base it is left out
                   b seen under the base it stands there instead; the policy did not read it

                prompt
                  :  find the secret
                  :s be quiet
                  :  say secret 1

                turn 1: 11 tokens, mean log-prob -1.000 nats
                  |s LOUD
                  |s guess
                  :s no shouting
                     * rule start: said at the start: be quiet
                     * rule quiet: kept the action back and said: no shouting
                     * blocked: the environment never saw this action

                turn 2: 10 tokens, mean log-prob -1.000 nats
                  |s old guess
                  :b new guess
                  :  Error: wrong
                  :s peek first
                     * rule renew: replaced `old` by `new`
                     * rule hint: said after the step: peek first
                     * rewritten: the environment ran instead: new guess
                     = error_kind none -> wrong, last_result_error false -> true

                turn 3: 5 tokens, mean log-prob -1.000 nats
                  |  peek
                  :  the secret is swordfish
                     = error_kind wrong -> none, last_result_error true -> false

                turn 4: 10 tokens, mean log-prob -1.000 nats
                  |  swordfish
                     right (the attempt ended here: the policy did not read it)

                solved after 4 turns
            "]],
        );
    }

    #[test]
    fn without_a_tokenizer_the_turns_texts_stand_in() {
        let sibling = sibling();
        let t = attempt(&sibling, &ToyMaker::default());
        check(
            &t,
            None,
            None,
            &expect![[r"
            harness_s-s1/s0-t0-r0
              task      toy_1_1, of toy, split train
              harness   HASH, in no pool of this run
              group     s0-t0-r, attempt 0
              role      rescue: a further attempt, since the base failed the whole group
              outcome   solved, reward 1
              policy    version 0, temperature 1
              tokens    36 written, 102 only read

              |  the policy wrote it: sampled, loss mask 1
              :  the policy read it: context, loss mask 0
               s stands under this sibling only: seen under the base it is left out
               b seen under the base it stands there instead; the policy did not read it
              (n tokens): no tokenizer at hand (without feature `train`, or of a --policy from elsewhere)

            prompt
              :  (16 tokens)
              :s (9 tokens)
              :  (13 tokens)

            turn 1: 11 tokens, mean log-prob -1.000 nats
              |s LOUD
              |s guess
              :s no shouting
                 * rule start
                 * rule quiet
                 * blocked: the environment never saw this action

            turn 2: 10 tokens, mean log-prob -1.000 nats
              |s (10 tokens)
              :b new guess
              :  Error: wrong
              :s (11 tokens)
                 * rule renew
                 * rule hint
                 * rewritten: the environment ran instead: new guess
                 = error_kind none -> wrong, last_result_error false -> true

            turn 3: 5 tokens, mean log-prob -1.000 nats
              |  peek
              :  the secret is swordfish
                 = error_kind wrong -> none, last_result_error true -> false

            turn 4: 10 tokens, mean log-prob -1.000 nats
              |  swordfish
                 right (the attempt ended here: the policy did not read it)

            solved after 4 turns
        "]],
        );
    }

    #[test]
    fn t1_another_tokenizer_is_not_believed() {
        let sibling = sibling();
        let mut t = attempt(&sibling, &ToyMaker::default());
        assert!(fits(&ByteCodec, &t));
        for segment in t.turns.iter_mut().flat_map(|turn| &mut turn.segments) {
            segment.ids.iter_mut().for_each(|id| *id = (*id + 1) % 256);
        }
        assert!(!fits(&ByteCodec, &t));
        let text = text("id", &t, None, Some(&ByteCodec), false);
        assert!(
            text.contains("is not that of this attempt") && text.contains("  |  peek"),
            "{text}"
        );
    }

    #[test]
    fn f1_a_broken_attempt_says_so() {
        let sibling = sibling();
        let t = attempt(
            &sibling,
            &ToyMaker::faulty(9, EnvError::Infra("gone".into())),
        );
        let text = text("id", &t, None, Some(&ByteCodec), true);
        assert!(
            text.contains("infra_error, no reward, which is not zero"),
            "{text}"
        );
        assert!(text.contains("environment failure: gone"), "{text}");
        assert!(text.contains("\x1b[31m"), "{text}");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(plain("a\x1b[2J\tb\n\u{9b}1m"), "a\\u{1b}[2J\tb\n\\u{9b}1m");
    }
}
