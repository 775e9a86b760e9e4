//! What happened in an attempt, token ids in and token ids out.
//!
//! A trajectory is a list of [`Segment`]s. Text is kept beside them as a view and never encoded again.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::environment::Fact;
use crate::ids::{GroupId, HarnessId, PolicyVersion, RolloutId, RunId, TaskId};
use crate::message::Scope;
use crate::outcome::Outcome;
use crate::policy::Sampling;
use crate::task::{Split, Task};

/// The version of the record that this code writes.
pub const TRAJECTORY_SCHEMA_VERSION: u32 = 1;

/// Why an attempt was made.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RolloutRole {
    /// Training under the base harness.
    Base,
    /// A rescue under a sibling (or under the base again, in the matched control).
    Rescue,
    /// A probe of evolution, profiling or re-anchoring.
    Probe,
    /// An evaluation.
    Eval,
}

impl RolloutRole {
    /// Every role, in the order in which a training meets them.
    pub const ALL: [Self; 4] = [Self::Base, Self::Rescue, Self::Probe, Self::Eval];

    /// The name used in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Rescue => "rescue",
            Self::Probe => "probe",
            Self::Eval => "eval",
        }
    }
}

/// What a run of token ids is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SegmentKind {
    /// A message of the harness or the environment; loss mask 0.
    Context,
    /// Sampled by the policy; loss mask 1.
    Sampled,
}

/// A run of token ids of one kind and scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// Sampled or not.
    pub kind: SegmentKind,
    /// In which contexts it stands.
    pub scope: Scope,
    /// Token ids.
    pub ids: Vec<u32>,
    /// Log-probabilities in nats at temperature 1, as long as `ids` if sampled, else empty. One that the engine
    /// did not give is NaN, `null` in files (bug report G24): see [`Trajectory::n_missing_logprobs`].
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_nan"
    )]
    #[schemars(with = "Vec<Option<f32>>")]
    pub logprobs: Vec<f32>,
}

fn null_as_nan<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f32>, D::Error> {
    let given = Vec::<Option<f32>>::deserialize(from)?;
    Ok(given.into_iter().map(|p| p.unwrap_or(f32::NAN)).collect())
}

/// One turn: what the policy wrote and what came back.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Messages before the turn, the policy's opening and words, and what came back, in context order.
    pub segments: Vec<Segment>,
    /// The action's text as the environment saw it, or as the policy wrote it if it was blocked.
    pub action: String,
    /// What the policy was shown.
    pub observation: String,
    /// Whether a rule kept the action from the environment.
    #[serde(default)]
    pub is_blocked: bool,
    /// Whether the embedded interpreter met a gap.
    #[serde(default)]
    pub is_unsupported: bool,
    /// Names of rules that acted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fired: Vec<String>,
    /// The environment's facts after the turn.
    #[serde(default)]
    pub facts: crate::environment::Facts,
}

/// One attempt, as it is kept: one JSON object a line. An unknown field is an error, since a misspelt one
/// would else be read as missing; `hash` belongs to the line and is read by
/// [`TrajectoryReader`](crate::TrajectoryReader).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trajectory {
    /// [`TRAJECTORY_SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The run.
    pub run_id: RunId,
    /// The attempt.
    pub rollout_id: RolloutId,
    /// The group whose rewards are compared.
    pub group_id: GroupId,
    /// The task.
    pub task_id: TaskId,
    /// The environment.
    pub env: String,
    /// The task's split.
    pub split: Split,
    /// The hash of the harness that really ran (bug report E7).
    pub harness_id: HarnessId,
    /// The policy's version.
    pub policy_version: PolicyVersion,
    /// Number of the attempt in its group, from 0.
    pub attempt: u32,
    /// Why it was made.
    pub role: RolloutRole,
    /// How it ended.
    pub outcome: Outcome,
    /// Reward; missing is not zero.
    pub reward: Option<f32>,
    /// The prompt, before the first turn.
    pub prompt: Vec<Segment>,
    /// The turns.
    pub turns: Vec<Turn>,
    /// What broke, if anything.
    pub error: Option<String>,
    /// Rule evaluations that failed and were skipped.
    #[serde(default)]
    pub rule_errors: u32,
    /// Why the attempt cannot be seen under the base harness, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unprojectable: Option<String>,
    /// How tokens were drawn.
    pub sampling: Sampling,
    /// When it started, if a clock was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// When it ended, if a clock was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// Token ids with mask and log-probs in one context: what a trainer eats.
///
/// All three have the same length. `mask[i]` is true exactly where the policy sampled `ids[i]` in this
/// attempt; `logprobs[i]` is 0 where it is false.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sequence {
    /// Token ids.
    pub ids: Vec<u32>,
    /// Loss mask.
    pub mask: Vec<bool>,
    /// Log-probabilities in nats under the context in which they were *sampled*.
    pub logprobs: Vec<f32>,
}

/// Why a trajectory cannot be seen in the base harness's context.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("trajectory {rollout} cannot be projected to the base: {reason}")]
pub struct Unprojectable {
    /// The attempt.
    pub rollout: RolloutId,
    /// Why.
    pub reason: String,
}

/// A field of a trajectory contradicts another or has a value that it may not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field `{field}` {problem}")]
pub struct InvalidTrajectory {
    /// The field, for instance `turns[2].segments[0].logprobs`.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Trajectory {
    /// A record that holds nothing but what it is about and how it ended: policy version and attempt 0, role
    /// [`RolloutRole::Base`], temperature 1, everything else empty. For agents that drive themselves; all
    /// fields are public.
    ///
    /// # Example
    /// ```
    /// # use harness_core::{BaseHarness, GroupId, HarnessSpec, Outcome, RolloutId, RolloutRole, RunId, Trajectory};
    /// # let task = harness_core::testing::toy_task(1, "7");
    /// let harness = HarnessSpec::base(BaseHarness::default());
    /// let mine = Trajectory {
    ///     role: RolloutRole::Eval,
    ///     reward: Some(1.0),
    ///     ..Trajectory::new(
    ///         RunId::new("monday")?,
    ///         RolloutId::new("r0")?,
    ///         GroupId::new("g0")?,
    ///         &task,
    ///         harness.id(),
    ///         Outcome::Solved,
    ///     )
    /// };
    /// assert!(mine.validate().is_ok());
    /// # Ok::<(), harness_core::IdError>(())
    /// ```
    pub fn new(
        run_id: RunId,
        rollout_id: RolloutId,
        group_id: GroupId,
        task: &Task,
        harness_id: HarnessId,
        outcome: Outcome,
    ) -> Self {
        Self {
            schema_version: TRAJECTORY_SCHEMA_VERSION,
            run_id,
            rollout_id,
            group_id,
            task_id: task.id.clone(),
            env: task.env.clone(),
            split: task.split,
            harness_id,
            policy_version: PolicyVersion::default(),
            attempt: 0,
            role: RolloutRole::Base,
            outcome,
            reward: None,
            prompt: Vec::new(),
            turns: Vec::new(),
            error: None,
            rule_errors: 0,
            unprojectable: None,
            sampling: Sampling {
                temperature: 1.0,
                max_new_tokens: 0,
            },
            started: None,
            ended: None,
        }
    }

    /// Checks what types cannot: that each sampled segment has as many log-probs as ids and no other has any,
    /// that numbers are finite, and that an attempt which says nothing about the policy has no reward (bug
    /// report F1). A missing log-prob is allowed.
    ///
    /// # Errors
    /// [`InvalidTrajectory`] for the first field that breaks this.
    pub fn validate(&self) -> Result<(), InvalidTrajectory> {
        let require = |holds: bool, field: &str, problem: String| {
            let field = field.to_owned();
            holds
                .then_some(())
                .ok_or(InvalidTrajectory { field, problem })
        };
        let is_known = (1..=TRAJECTORY_SCHEMA_VERSION).contains(&self.schema_version);
        let got = self.schema_version;
        require(is_known, "schema_version", format!("is no version: {got}"))?;
        let temperature = self.sampling.temperature;
        let is_usable = temperature >= 0.0 && temperature.is_finite();
        let problem = format!("must be finite and not negative, got: {temperature}");
        require(is_usable, "sampling.temperature", problem)?;
        if let Some(reward) = self.reward {
            let problem = format!("must be finite, got: {reward}");
            require(reward.is_finite(), "reward", problem)?;
            let problem = format!("must be null after `{}`", self.outcome.as_str());
            require(self.outcome.is_valid(), "reward", problem)?;
        }
        check_segments("prompt", &self.prompt)?;
        for (i, turn) in self.turns.iter().enumerate() {
            check_segments(&format!("turns[{i}].segments"), &turn.segments)?;
        }
        Ok(())
    }

    /// Sampled tokens whose log-prob the engine did not give (bug report G24): NaN here, `null` in files; an
    /// infinite one, which no file holds, counts as well. A trainer takes importance ratio 1 for them.
    pub fn n_missing_logprobs(&self) -> usize {
        let logprobs = self.segments().flat_map(|s| &s.logprobs);
        logprobs.filter(|p| !p.is_finite()).count()
    }

    /// Every segment in order.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.prompt
            .iter()
            .chain(self.turns.iter().flat_map(|t| &t.segments))
    }

    /// The tokens in the context in which they were generated.
    pub fn own_sequence(&self) -> Sequence {
        self.sequence(Scope::BaseOnly)
    }

    /// The tokens in the base harness's context: what only the sibling said is dropped, what only the base
    /// would have is put in (design.md section 4, context `base`; ours). For an attempt under the base
    /// itself it equals [`Trajectory::own_sequence`].
    ///
    /// # Errors
    /// [`Unprojectable`] if the base could not have shown or done what happened.
    pub fn base_sequence(&self) -> Result<Sequence, Unprojectable> {
        match &self.unprojectable {
            Some(reason) => Err(Unprojectable {
                rollout: self.rollout_id.clone(),
                reason: reason.clone(),
            }),
            None => Ok(self.sequence(Scope::SiblingOnly)),
        }
    }

    /// Names of the environment's boolean facts that hold after the last turn, ascending: what the attempt
    /// did, in the environment's own words. Empty without a turn.
    pub fn flags(&self) -> impl Iterator<Item = &str> {
        let facts = self.turns.last().into_iter().flat_map(|turn| &turn.facts);
        facts.filter_map(|(name, fact)| (*fact == Fact::Bool(true)).then_some(name.as_str()))
    }

    /// Tokens that the policy sampled (bug report G27).
    pub fn n_sampled(&self) -> usize {
        self.segments()
            .filter(|s| s.kind == SegmentKind::Sampled)
            .map(|s| s.ids.len())
            .sum()
    }

    /// All tokens of the context in which it ran.
    pub fn n_tokens(&self) -> usize {
        self.segments()
            .filter(|s| s.scope != Scope::BaseOnly)
            .map(|s| s.ids.len())
            .sum()
    }

    fn sequence(&self, left_out: Scope) -> Sequence {
        let mut out = Sequence::default();
        for segment in self.segments().filter(|s| s.scope != left_out) {
            let is_sampled = segment.kind == SegmentKind::Sampled;
            out.ids.extend(&segment.ids);
            out.mask
                .extend(std::iter::repeat_n(is_sampled, segment.ids.len()));
            if is_sampled {
                out.logprobs.extend(&segment.logprobs);
            } else {
                out.logprobs
                    .extend(std::iter::repeat_n(0.0, segment.ids.len()));
            }
        }
        out
    }
}

fn check_segments(at: &str, segments: &[Segment]) -> Result<(), InvalidTrajectory> {
    for (i, segment) in segments.iter().enumerate() {
        let (n_ids, got) = (segment.ids.len(), segment.logprobs.len());
        let expected = match segment.kind {
            SegmentKind::Sampled => n_ids,
            SegmentKind::Context => 0,
        };
        let problem = if got != expected {
            format!("must hold as many log-probs as sampled ids, expected {expected}, got: {got}")
        } else if segment.logprobs.iter().any(|p| p.is_infinite()) {
            "must be finite or null".into()
        } else {
            continue;
        };
        let field = format!("{at}[{i}].logprobs");
        return Err(InvalidTrajectory { field, problem });
    }
    Ok(())
}
