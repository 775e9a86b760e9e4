//! Groups of attempts, and the check that alone may declare one failed.
//!
//! [`FailedGroup`] can only be built by [`RolloutGroup::check`], [`RescuedGroup`] only from a
//! [`FailedGroup`]: replacing half a group, or rescuing one that was never checked, does not compile.
//!
//! ```compile_fail
//! use harness_core::{FailedGroup, RolloutGroup};
//! fn cheat(group: RolloutGroup) -> FailedGroup { FailedGroup(group) }
//! ```

use std::collections::BTreeSet;

use crate::ids::{GroupId, PolicyVersion, RolloutId, TaskId};
use crate::outcome::Outcome;
use crate::trajectory::Trajectory;

/// Attempts at one task whose rewards are compared with each other.
#[derive(Debug, Clone, PartialEq)]
pub struct RolloutGroup {
    attempts: Vec<Trajectory>,
}

/// Why attempts do not form a group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// Fewer than two attempts: their advantage would be undefined (bug reports G7, G17).
    #[error("a group needs at least 2 attempts, got: {got}")]
    TooSmall {
        /// How many there are.
        got: usize,
    },
    /// Attempts of another group, task or policy version are among them.
    #[error("attempt {rollout} differs from its group in: {field}")]
    Mixed {
        /// The attempt.
        rollout: RolloutId,
        /// `group_id`, `task_id` or `policy_version`.
        field: &'static str,
    },
    /// One attempt occurs twice.
    #[error("attempt occurs twice: {0}")]
    Duplicate(RolloutId),
    /// Ids, masks and log-probs of an attempt do not fit together.
    #[error("attempt {0} has a sampled segment whose log-probs are not as many as its ids")]
    Ragged(RolloutId),
    /// The replacement is for another task.
    #[error("the replacement is for task {got}, the failed group for task {expected}")]
    OtherTask {
        /// The failed group's task.
        expected: TaskId,
        /// The replacement's task.
        got: TaskId,
    },
}

/// What [`RolloutGroup::check`] found.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupCheck {
    /// Every attempt that counts failed.
    Failed(FailedGroup),
    /// Some attempt solved the task.
    Solved(RolloutGroup),
    /// None solved it, but too few attempts are evidence of failure.
    TooFewValid(RolloutGroup),
}

/// A group in which enough attempts are valid and none solved the task.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedGroup(RolloutGroup);

/// A failed group together with the attempts that replace it, all of them or none (bug report G22).
#[derive(Debug, Clone, PartialEq)]
pub struct RescuedGroup {
    failed: FailedGroup,
    replacement: RolloutGroup,
}

impl RolloutGroup {
    /// Takes attempts as a group.
    ///
    /// # Errors
    /// [`GroupError`] if there are fewer than two, one occurs twice, or they differ in group, task or policy
    /// version.
    pub fn new(attempts: Vec<Trajectory>) -> Result<Self, GroupError> {
        if attempts.len() < 2 {
            return Err(GroupError::TooSmall {
                got: attempts.len(),
            });
        }
        let first = &attempts[0];
        let mut seen = BTreeSet::new();
        for t in &attempts {
            let rollout = || t.rollout_id.clone();
            let mixed = |field| GroupError::Mixed {
                rollout: rollout(),
                field,
            };
            if t.group_id != first.group_id {
                return Err(mixed("group_id"));
            }
            if t.task_id != first.task_id {
                return Err(mixed("task_id"));
            }
            if t.policy_version != first.policy_version {
                return Err(mixed("policy_version"));
            }
            if !seen.insert(&t.rollout_id) {
                return Err(GroupError::Duplicate(rollout()));
            }
            let is_ragged = t.segments().any(|s| {
                s.kind == crate::trajectory::SegmentKind::Sampled && s.ids.len() != s.logprobs.len()
            });
            if is_ragged {
                return Err(GroupError::Ragged(rollout()));
            }
        }
        Ok(Self { attempts })
    }

    /// The attempts, at least two.
    pub fn attempts(&self) -> &[Trajectory] {
        &self.attempts
    }

    /// The group's id.
    pub fn id(&self) -> &GroupId {
        &self.attempts[0].group_id
    }

    /// The group's task.
    pub fn task_id(&self) -> &TaskId {
        &self.attempts[0].task_id
    }

    /// The version of the policy that made all attempts.
    pub fn policy_version(&self) -> PolicyVersion {
        self.attempts[0].policy_version
    }

    /// How many attempts ended so.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.attempts
            .iter()
            .filter(|t| t.outcome == outcome)
            .count()
    }

    /// Decides, by outcome and never by spread of rewards (bug reports F1, G4), whether all attempts failed.
    ///
    /// The group is failed if none solved the task and at least `min_valid` (in `(0, 1]`) of its attempts
    /// are `failed`. A truncated attempt is no evidence of failure (bug report G30).
    pub fn check(self, min_valid: f64) -> GroupCheck {
        if self.count(Outcome::Solved) > 0 {
            return GroupCheck::Solved(self);
        }
        let needed = (min_valid * self.attempts.len() as f64).ceil().max(1.0);
        if self.count(Outcome::Failed) as f64 >= needed {
            GroupCheck::Failed(FailedGroup(self))
        } else {
            GroupCheck::TooFewValid(self)
        }
    }
}

impl FailedGroup {
    /// The failed attempts.
    pub fn group(&self) -> &RolloutGroup {
        &self.0
    }

    /// Gives the group back, not rescued.
    pub fn into_group(self) -> RolloutGroup {
        self.0
    }

    /// Puts fresh attempts in place of all failed ones. The replacement may have its own group id and any
    /// mix of harnesses, but only one task and one policy version.
    ///
    /// # Errors
    /// [`GroupError::OtherTask`] with nothing replaced; the failed group comes back beside it.
    pub fn replace_with(
        self,
        replacement: RolloutGroup,
    ) -> Result<RescuedGroup, Box<(Self, GroupError)>> {
        if self.0.task_id() == replacement.task_id() {
            return Ok(RescuedGroup {
                failed: self,
                replacement,
            });
        }
        let error = GroupError::OtherTask {
            expected: self.0.task_id().clone(),
            got: replacement.task_id().clone(),
        };
        Err(Box::new((self, error)))
    }
}

impl RescuedGroup {
    /// The attempts under the base that failed.
    pub fn failed(&self) -> &RolloutGroup {
        &self.failed.0
    }

    /// The attempts that take part in the update.
    pub fn replacement(&self) -> &RolloutGroup {
        &self.replacement
    }

    /// Whether a fresh attempt solved the task.
    pub fn is_rescued(&self) -> bool {
        self.replacement.count(Outcome::Solved) > 0
    }
}
