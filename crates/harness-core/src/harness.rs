//! A harness as data: the base, and the typed overlay that makes a sibling of it.
//!
//! Nothing in a harness is executed: conditions and effects are a closed set, sizes are bounded, so an
//! overlay from a stranger is safe to load. What runs them is in [`crate::rules`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::environment::Fact;
use crate::ids::HarnessId;

/// Longest text of a rule or note, in characters.
pub const MAX_TEXT_CHARS: usize = 900;
/// Most rules in an overlay.
pub const MAX_RULES: usize = 12;
/// Deepest nesting of a condition.
pub const MAX_DEPTH: usize = 8;
/// Most parts in one `all` or `any`, and most counters that one rule adds to.
pub const MAX_BRANCHES: usize = 16;
/// Most parts of a whole condition, branches included.
pub const MAX_CONDITION_PARTS: usize = 128;
/// Longest template of a base, in characters.
pub const MAX_TEMPLATE_CHARS: usize = 100_000;
/// Most tools in a list.
pub const MAX_TOOLS: usize = 1000;
/// Most turns that limits may allow.
pub const MAX_TURNS: usize = 10_000;
/// Most tokens in one reply that limits may allow.
pub const MAX_REPLY_TOKENS: usize = 1_000_000;

/// A whole harness: a base and what a sibling lays over it.
///
/// # Example
/// ```
/// use harness_core::{BaseHarness, HarnessSpec};
/// let base = HarnessSpec::base(BaseHarness::default());
/// assert!(base.is_base());
/// assert_eq!(base.id(), HarnessSpec::base(BaseHarness::default()).id());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HarnessSpec {
    /// Who drives the episode.
    #[serde(default)]
    pub kind: HarnessKind,
    /// What base and siblings share.
    pub base: BaseHarness,
    /// What a sibling adds; empty for the base itself.
    #[serde(default)]
    pub overlay: Overlay,
}

/// Who drives an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HarnessKind {
    /// Our executor.
    #[default]
    Native,
    /// An agent of the user's that drives itself; an overlay acts on messages only and no trajectory can be
    /// projected. Reserved: the executor refuses it.
    External,
}

/// The harness in which the policy is trained and judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BaseHarness {
    /// Template of the system message (minijinja, strict undefined): `task.instruction`, and the variables
    /// that the environment's reset returned. Of tags there may be values, `if`, and `for` over one name: at
    /// most 500 of them, each of at most 300 bytes, and at most 1 MiB of text comes out.
    pub system: String,
    /// Template of the message that states the task.
    pub task: String,
    /// Names of the tools that the policy is told of.
    pub tools: Vec<String>,
    /// How observations are cut.
    pub observation: ObservationPolicy,
    /// How a reply becomes an action.
    pub action: ActionFormat,
    /// Where an episode ends.
    pub limits: Limits,
}

impl Default for BaseHarness {
    fn default() -> Self {
        Self {
            system: String::new(),
            task: "{{ task.instruction }}".into(),
            tools: Vec::new(),
            observation: ObservationPolicy::default(),
            action: ActionFormat::Text,
            limits: Limits::default(),
        }
    }
}

/// How observations are cut before the policy sees them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ObservationPolicy {
    /// Longest observation in characters; the rest is cut and `...` put in its place.
    pub max_chars: usize,
    /// How much of an error is shown.
    pub errors: ErrorView,
}

impl Default for ObservationPolicy {
    fn default() -> Self {
        Self {
            max_chars: 2000,
            errors: ErrorView::Full,
        }
    }
}

/// How much of an error is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorView {
    /// All of it.
    Full,
    /// From the last line that starts at the left margin and names an exception; traceback frames are left
    /// out.
    Message,
}

/// How a reply becomes an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ActionFormat {
    /// The whole reply is the action.
    Text,
    /// The first fenced code block of the reply, or the whole reply if there is none.
    FencedCode,
}

/// Where an episode ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Most turns; reaching it is a failure.
    pub max_turns: usize,
    /// Most tokens in one reply.
    pub max_reply_tokens: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_turns: 16,
            max_reply_tokens: 64,
        }
    }
}

/// What a sibling lays over its base.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Overlay {
    /// Rules, at most [`MAX_RULES`]; the first that matches at a moment acts.
    pub rules: Vec<Rule>,
    /// Typed overrides.
    pub overrides: Overrides,
}

/// Typed overrides of a base's parts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Overrides {
    /// Another way of cutting observations. A trajectory cannot be projected once a cut differs from the
    /// base's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observation: Option<ObservationPolicy>,
    /// Another list of tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Other limits. Turns past the base's limit make a trajectory unprojectable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Memory notes shown at the start, each at most [`MAX_TEXT_CHARS`] characters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The moments to which rules are bound.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Before the first turn; here alone every matching rule acts, since each adds a text.
    OnStart,
    /// Before the policy speaks.
    BeforeTurn,
    /// After the policy spoke and before the environment acts.
    BeforeAction,
    /// After an observation.
    AfterStep,
}

/// One rule of an overlay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The rule's name, unique in its overlay.
    pub name: String,
    /// When it is looked at.
    pub moment: Moment,
    /// Whether it acts.
    #[serde(default)]
    pub when: Condition,
    /// What it does.
    pub effect: Effect,
    /// Most times that it acts in one episode, 1 to 100.
    #[serde(default = "one")]
    pub max_fires: u32,
    /// Counters that it adds to when it acts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub count: Vec<CounterUpdate>,
}

impl Rule {
    /// A rule that acts at most once in an episode and counts nothing. Its bounds are checked where it is applied.
    pub fn new(name: impl Into<String>, moment: Moment, when: Condition, effect: Effect) -> Self {
        Self {
            name: name.into(),
            moment,
            when,
            effect,
            max_fires: one(),
            count: Vec::new(),
        }
    }
}

const fn one() -> u32 {
    1
}

/// Adds to a per-episode counter, which starts at 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CounterUpdate {
    /// The counter's name.
    pub counter: String,
    /// What is added.
    pub add: i64,
}

/// A condition tree.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Condition {
    /// Holds always.
    #[default]
    Always,
    /// Holds if every part does.
    All(Vec<Condition>),
    /// Holds if some part does.
    Any(Vec<Condition>),
    /// Holds if the part does not.
    Not(Box<Condition>),
    /// Compares two values.
    Compare {
        /// Left side.
        left: Operand,
        /// Comparison.
        op: Comparison,
        /// Right side.
        right: Operand,
    },
    /// Holds if the text of the value contains the given text.
    Contains {
        /// Where to look.
        value: Operand,
        /// What to look for.
        text: String,
    },
    /// Holds if the environment's fact of this name is `true`; a missing fact or one of another type is an
    /// evaluation error, which skips the rule and is counted.
    Predicate(String),
}

/// A value in a condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Operand {
    /// A fact of the environment.
    Fact(String),
    /// A counter of the overlay.
    Counter(String),
    /// Turns taken so far.
    Turn,
    /// Turns left until the limit.
    TurnsLeft,
    /// The action at hand; only at `before_action` and `after_step`.
    Action,
    /// The last observation as the policy saw it; only at `after_step` and later.
    Observation,
    /// The task's instruction.
    Instruction,
    /// A literal.
    Literal(Fact),
}

/// How two values are compared. Ordering comparisons need two whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
}

/// What a rule does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Effect {
    /// Says a text: added to the system text at `on_start`, a message before the turn at `before_turn`, a
    /// hint after the observation at `after_step`. Not at `before_action`.
    Say(String),
    /// Keeps the action from the environment and answers with a message. Only at `before_action`.
    Block(String),
    /// Puts another action in place of the policy's. Only at `before_action`.
    Rewrite {
        /// The part of the action that is replaced, first occurrence; the whole action if empty.
        find: String,
        /// What stands in its place.
        replace: String,
    },
}

impl Effect {
    /// Its texts, each with the name of its field.
    fn texts(&self) -> Vec<(&'static str, &str)> {
        match self {
            Self::Say(text) => vec![("effect.say", text)],
            Self::Block(text) => vec![("effect.block", text)],
            Self::Rewrite { find, replace } => {
                vec![
                    ("effect.rewrite.find", find),
                    ("effect.rewrite.replace", replace),
                ]
            }
        }
    }
}

/// One typed change of an overlay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HarnessEdit {
    /// Adds a rule after the others.
    AddRule(Rule),
    /// Removes the rule of this name.
    RemoveRule(String),
    /// Replaces the rule that has the same name.
    ReplaceRule(Rule),
    /// Overrides how observations are cut.
    SetObservation(ObservationPolicy),
    /// Overrides the limits.
    SetLimits(Limits),
    /// Adds a memory note.
    AddNote(String),
}

/// What is wrong with a harness or an edit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HarnessError {
    /// A list is longer than it may be.
    #[error("`{at}` has at most {max} entries, got: {got}")]
    TooMany {
        /// The field.
        at: String,
        /// The most that it may hold.
        max: usize,
        /// How many there are.
        got: usize,
    },
    /// A text is longer than it may be.
    #[error("`{at}` has at most {max} characters, got: {got}")]
    TextTooLong {
        /// The field, for instance `overlay.rules[2].effect.say`.
        at: String,
        /// The most that it may have.
        max: usize,
        /// Its length in characters.
        got: usize,
    },
    /// A condition nests deeper than [`MAX_DEPTH`], branches wider than [`MAX_BRANCHES`], has more than
    /// [`MAX_CONDITION_PARTS`] parts or a text of more than [`MAX_TEXT_CHARS`] characters.
    #[error(
        "`when` of rule `{rule}` is too large: at most {MAX_DEPTH} deep, {MAX_BRANCHES} wide, \
         {MAX_CONDITION_PARTS} parts and {MAX_TEXT_CHARS} characters a text"
    )]
    ConditionTooLarge {
        /// The rule's name.
        rule: String,
    },
    /// An effect stands at a moment where it has no meaning.
    #[error("`effect` of rule `{rule}` cannot act at moment {moment:?}")]
    EffectAtMoment {
        /// The rule's name.
        rule: String,
        /// The moment.
        moment: Moment,
    },
    /// `max_fires` is outside 1 to 100.
    #[error("`max_fires` of rule `{rule}` must be 1 to 100, got: {got}")]
    MaxFires {
        /// The rule's name.
        rule: String,
        /// The value.
        got: u32,
    },
    /// Two rules have one name.
    #[error("two rules have the same name: {0}")]
    DuplicateRule(String),
    /// An edit names a rule that is not there.
    #[error("there is no rule of this name: {0}")]
    NoSuchRule(String),
    /// A limit is zero, or more than [`MAX_TURNS`] or [`MAX_REPLY_TOKENS`].
    #[error("`{at}` must be 1 to {max}, got: {got}")]
    Limit {
        /// The field.
        at: String,
        /// The largest value.
        max: usize,
        /// The value.
        got: usize,
    },
    /// A template cannot be parsed or rendered.
    #[error("template of the {which} message: {reason}")]
    Template {
        /// `system` or `task`.
        which: &'static str,
        /// What the template engine said.
        reason: String,
    },
    /// The executor cannot run this kind of harness.
    #[error("external harnesses drive themselves and cannot be run here")]
    External,
}

impl HarnessSpec {
    /// A base without overlay.
    pub fn base(base: BaseHarness) -> Self {
        Self {
            kind: HarnessKind::Native,
            base,
            overlay: Overlay::default(),
        }
    }

    /// The base of this harness, without the overlay.
    #[must_use]
    pub fn without_overlay(&self) -> Self {
        Self {
            kind: self.kind,
            base: self.base.clone(),
            overlay: Overlay::default(),
        }
    }

    /// Whether there is no overlay.
    pub fn is_base(&self) -> bool {
        self.overlay == Overlay::default()
    }

    /// The content hash (blake3 of the canonical JSON, 32 hex digits).
    ///
    /// # Panics
    /// Never: a harness is plain data that always serialises.
    pub fn id(&self) -> HarnessId {
        let json = serde_json::to_vec(self).expect("a harness is plain data");
        let hex = blake3::hash(&json).to_hex();
        HarnessId::new(&hex.as_str()[..32]).expect("hex digits are an id")
    }

    /// The limits in force.
    pub fn limits(&self) -> Limits {
        self.overlay.overrides.limits.unwrap_or(self.base.limits)
    }

    /// The observation policy in force.
    pub fn observation(&self) -> &ObservationPolicy {
        self.overlay
            .overrides
            .observation
            .as_ref()
            .unwrap_or(&self.base.observation)
    }

    /// The tools in force.
    pub fn tools(&self) -> &[String] {
        self.overlay
            .overrides
            .tools
            .as_ref()
            .unwrap_or(&self.base.tools)
    }

    /// Checks every bound.
    ///
    /// # Errors
    /// [`HarnessError`] for the first bound that is broken.
    pub fn validate(&self) -> Result<(), HarnessError> {
        self.base.validate()?;
        self.overlay.validate()
    }

    /// Applies an edit and returns the changed harness; `self` stays as it is.
    ///
    /// # Errors
    /// [`HarnessError`] if the edit names a rule that is not there or its result breaks a bound.
    pub fn apply(&self, edit: &HarnessEdit) -> Result<Self, HarnessError> {
        let mut next = self.clone();
        let overlay = &mut next.overlay;
        let find = |rules: &[Rule], name: &str| {
            rules
                .iter()
                .position(|r| r.name == name)
                .ok_or_else(|| HarnessError::NoSuchRule(name.to_owned()))
        };
        match edit {
            HarnessEdit::AddRule(rule) => overlay.rules.push(rule.clone()),
            HarnessEdit::RemoveRule(name) => {
                let at = find(&overlay.rules, name)?;
                overlay.rules.remove(at);
            }
            HarnessEdit::ReplaceRule(rule) => {
                let at = find(&overlay.rules, &rule.name)?;
                overlay.rules[at] = rule.clone();
            }
            HarnessEdit::SetObservation(policy) => {
                overlay.overrides.observation = Some(policy.clone());
            }
            HarnessEdit::SetLimits(limits) => overlay.overrides.limits = Some(*limits),
            HarnessEdit::AddNote(note) => overlay.overrides.notes.push(note.clone()),
        }
        next.validate()?;
        Ok(next)
    }
}

impl BaseHarness {
    fn validate(&self) -> Result<(), HarnessError> {
        check_text("base.system", &self.system, MAX_TEMPLATE_CHARS)?;
        check_text("base.task", &self.task, MAX_TEMPLATE_CHARS)?;
        check_tools("base.tools", &self.tools)?;
        self.limits.validate("base.limits")?;
        crate::rules::check_templates(self)
    }
}

impl Limits {
    fn validate(&self, at: &str) -> Result<(), HarnessError> {
        let fields = [
            ("max_turns", MAX_TURNS, self.max_turns),
            ("max_reply_tokens", MAX_REPLY_TOKENS, self.max_reply_tokens),
        ];
        for (name, max, got) in fields {
            if !(1..=max).contains(&got) {
                let at = format!("{at}.{name}");
                return Err(HarnessError::Limit { at, max, got });
            }
        }
        Ok(())
    }
}

impl Overlay {
    /// Checks every bound of the overlay.
    ///
    /// # Errors
    /// [`HarnessError`] for the first bound that is broken.
    pub fn validate(&self) -> Result<(), HarnessError> {
        let (rules, overrides) = (&self.rules, &self.overrides);
        check_len("overlay.rules", rules.len(), MAX_RULES)?;
        check_len("overlay.overrides.notes", overrides.notes.len(), MAX_RULES)?;
        for (i, note) in overrides.notes.iter().enumerate() {
            check_text(
                &format!("overlay.overrides.notes[{i}]"),
                note,
                MAX_TEXT_CHARS,
            )?;
        }
        if let Some(tools) = &overrides.tools {
            check_tools("overlay.overrides.tools", tools)?;
        }
        if let Some(limits) = overrides.limits {
            limits.validate("overlay.overrides.limits")?;
        }
        for (i, rule) in rules.iter().enumerate() {
            if rules[..i].iter().any(|r| r.name == rule.name) {
                return Err(HarnessError::DuplicateRule(rule.name.clone()));
            }
            rule.validate(&format!("overlay.rules[{i}]"))?;
        }
        Ok(())
    }
}

impl Rule {
    fn validate(&self, at: &str) -> Result<(), HarnessError> {
        check_text(&format!("{at}.name"), &self.name, MAX_TEXT_CHARS)?;
        let rule = || self.name.clone();
        if !(1..=100).contains(&self.max_fires) {
            let got = self.max_fires;
            return Err(HarnessError::MaxFires { rule: rule(), got });
        }
        let says = matches!(self.effect, Effect::Say(_));
        if says == (self.moment == Moment::BeforeAction) {
            let moment = self.moment;
            return Err(HarnessError::EffectAtMoment {
                rule: rule(),
                moment,
            });
        }
        for (field, text) in self.effect.texts() {
            check_text(&format!("{at}.{field}"), text, MAX_TEXT_CHARS)?;
        }
        check_len(&format!("{at}.count"), self.count.len(), MAX_BRANCHES)?;
        for (i, update) in self.count.iter().enumerate() {
            let at = format!("{at}.count[{i}].counter");
            check_text(&at, &update.counter, MAX_TEXT_CHARS)?;
        }
        let mut n_left = MAX_CONDITION_PARTS;
        if self.when.fits(MAX_DEPTH, &mut n_left) {
            Ok(())
        } else {
            Err(HarnessError::ConditionTooLarge { rule: rule() })
        }
    }
}

impl Condition {
    /// Whether the tree is at most `depth` deep and its branches and texts are within bounds; `n_left` more
    /// parts may follow.
    fn fits(&self, depth: usize, n_left: &mut usize) -> bool {
        if depth == 0 || *n_left == 0 {
            return false;
        }
        *n_left -= 1;
        match self {
            Self::All(parts) | Self::Any(parts) => {
                parts.len() <= MAX_BRANCHES && parts.iter().all(|p| p.fits(depth - 1, n_left))
            }
            Self::Not(part) => part.fits(depth - 1, n_left),
            Self::Compare { left, right, .. } => left.fits() && right.fits(),
            Self::Contains { value, text } => value.fits() && is_short(text),
            Self::Predicate(name) => is_short(name),
            Self::Always => true,
        }
    }
}

impl Operand {
    fn fits(&self) -> bool {
        match self {
            Self::Fact(text) | Self::Counter(text) | Self::Literal(Fact::Text(text)) => {
                is_short(text)
            }
            _ => true,
        }
    }
}

fn is_short(text: &str) -> bool {
    text.chars().count() <= MAX_TEXT_CHARS
}

fn check_tools(at: &str, tools: &[String]) -> Result<(), HarnessError> {
    check_len(at, tools.len(), MAX_TOOLS)?;
    for (i, tool) in tools.iter().enumerate() {
        check_text(&format!("{at}[{i}]"), tool, MAX_TEXT_CHARS)?;
    }
    Ok(())
}

fn check_len(at: &str, got: usize, max: usize) -> Result<(), HarnessError> {
    if got <= max {
        return Ok(());
    }
    let at = at.to_owned();
    Err(HarnessError::TooMany { at, max, got })
}

fn check_text(at: &str, text: &str, max: usize) -> Result<(), HarnessError> {
    let got = text.chars().count();
    if got <= max {
        return Ok(());
    }
    let at = at.to_owned();
    Err(HarnessError::TextTooLong { at, max, got })
}
