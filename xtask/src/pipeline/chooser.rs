//! Who chooses siblings in an arm, and what it knows at the end.

use std::path::Path;

use anyhow::Context as _;
use harness_core::{HarnessId, PolicyVersion, Seed, Task};
use harness_pool::{
    BehaviorProfile, ClusterScope, ProfileConfig, ProfileSummary, Rate, RouteContext,
    SelectSiblings, SiblingPool,
};
use harness_router::{
    FixedSelector, RandomSelector, ReanchorReport, Router, RouterConfig, embedded_voters,
};

use super::arms::{NoSelector, Shared};
use crate::arm::Arm;
use crate::config::Config;
use crate::report::{AdherenceRow, ProfileRow};
use crate::stats::Estimate;

/// Who chooses siblings in an arm.
pub(super) enum Chooser {
    Nobody(NoSelector),
    Random(RandomSelector),
    Fixed(FixedSelector),
    Router(Box<Router>),
}

impl Chooser {
    /// The chooser of an arm. `best` is the sibling that `single_best` fixes.
    ///
    /// # Errors
    /// If the router's settings are refused.
    pub(super) fn new(
        config: &Config,
        pool: &SiblingPool,
        best: Option<&HarnessId>,
        arm: Arm,
    ) -> anyhow::Result<Self> {
        if !arm.uses_siblings() || pool.is_empty() {
            return Ok(Self::Nobody(NoSelector));
        }
        Ok(match arm {
            // Identity siblings are all the same; without probes this control repeats `policy_only_matched`
            // attempt for attempt, so any difference is a leak.
            Arm::RandomSibling | Arm::IdentitySiblings => Self::Random(RandomSelector::new(pool)),
            Arm::SingleBest => {
                Self::Fixed(FixedSelector::new(pool, &Vec::from_iter(best.cloned()))?)
            }
            _ => Self::router(config, pool)?,
        })
    }

    /// A router with the embedded voters.
    ///
    /// # Errors
    /// If its settings are refused.
    pub(super) fn router(config: &Config, pool: &SiblingPool) -> anyhow::Result<Self> {
        let settings = RouterConfig {
            epsilon: config.router.epsilon,
            profile: ProfileConfig {
                half_life: Some(config.router.half_life),
            },
            ..RouterConfig::default()
        };
        Ok(Self::Router(Box::new(Router::new(
            pool,
            embedded_voters(),
            settings,
        )?)))
    }

    pub(super) fn selector(&mut self) -> &mut dyn SelectSiblings {
        match self {
            Self::Nobody(selector) => selector,
            Self::Random(selector) => selector,
            Self::Fixed(selector) => selector,
            Self::Router(router) => router.as_mut(),
        }
    }

    /// Whether re-anchoring makes rollouts.
    pub(super) const fn is_probing(&self) -> bool {
        matches!(self, Self::Router(_))
    }

    /// How base and siblings changed at the last re-anchoring, if a router chooses.
    pub(super) fn last_reanchor(&self) -> Option<&ReanchorReport> {
        match self {
            Self::Router(router) => router.last_reanchor(),
            Self::Nobody(_) | Self::Random(_) | Self::Fixed(_) => None,
        }
    }

    /// What a router knows, and the version of the policy at its last re-anchoring.
    pub(super) fn knowledge(&self) -> Option<(BehaviorProfile, PolicyVersion)> {
        match self {
            Self::Router(router) => Some((router.profile().clone(), router.anchored_at())),
            Self::Nobody(_) | Self::Random(_) | Self::Fixed(_) => None,
        }
    }

    /// Gives a router what it knew; others know nothing.
    ///
    /// # Errors
    /// If the profile speaks of harnesses outside the pool.
    pub(super) fn restore(
        &mut self,
        knowledge: Option<(BehaviorProfile, PolicyVersion)>,
    ) -> anyhow::Result<()> {
        let (Some((profile, version)), Self::Router(router)) = (knowledge, &mut *self) else {
            return Ok(());
        };
        router.restore(profile, version)?;
        Ok(())
    }

    fn profile(&self) -> Option<&BehaviorProfile> {
        match self {
            Self::Router(router) => Some(router.profile()),
            Self::Nobody(_) | Self::Random(_) | Self::Fixed(_) => None,
        }
    }

    /// The text of the profile file, if a router chose.
    ///
    /// # Errors
    /// If no temporary file can be written.
    pub(super) fn profile_text(&self) -> anyhow::Result<Option<String>> {
        let profile = self.profile();
        profile.map(|p| file_text(|path| p.save(path))).transpose()
    }

    /// What the profile says of the base and of each sibling over all clusters; nothing without a router.
    pub(super) fn profile_rows(&self, shared: Shared<'_>, at: &str) -> Vec<ProfileRow> {
        let Some(profile) = self.profile() else {
            return Vec::new();
        };
        let base = shared.pool.base_id();
        let rows = shared.harnesses().map(|(name, harness)| {
            let summary = profile.summary(&harness.id(), base, ClusterScope::All);
            profile_row(name, at, &summary)
        });
        rows.collect()
    }

    /// The name of the harness that the router would use for a task with no failed attempts to look at; the
    /// base without a router.
    pub(super) fn rank1(&self, shared: Shared<'_>, task: &Task) -> String {
        let Self::Router(router) = self else {
            return super::arms::BASE.to_owned();
        };
        let context = RouteContext {
            task_id: task.id.clone(),
            instruction: task.instruction.clone(),
            digest: None,
            policy_version: router.profile().policy_version(),
            step: 0,
            seed: Seed::new(0),
        };
        shared.name_of(&router.rank1(&context).harness).to_owned()
    }
}

fn profile_row(name: &str, at: &str, summary: &ProfileSummary) -> ProfileRow {
    let estimate = |rate: Rate| {
        (rate.attempts > 0).then_some(Estimate {
            mean: rate.mean,
            ci95: [rate.low, rate.high],
            n: rate.attempts as usize,
        })
    };
    let against = summary.against_base.as_ref();
    ProfileRow {
        at: at.to_owned(),
        harness: name.to_owned(),
        attempts: summary.attempts,
        effective_n: summary.stamp.effective_n,
        rescue: estimate(summary.rescue),
        unconditional: estimate(summary.unconditional),
        fire_rate: summary.fires.rate(),
        adherence: against
            .and_then(|a| a.adherence.as_ref())
            .map(|a| AdherenceRow {
                behaviour: a.flag.clone(),
                sibling: a.rate,
                base: a.base_rate,
            }),
        turns_change: against.map(|a| a.turns),
        tokens_change: against.map(|a| a.tokens),
        regressions: summary.regressions.n,
    }
}

/// The bytes that a record's own `save` writes.
pub(super) fn file_text<E>(save: impl FnOnce(&Path) -> Result<(), E>) -> anyhow::Result<String>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let folder = tempfile::tempdir().context("making a temporary folder")?;
    let path = folder.path().join("record.json");
    save(&path)?;
    std::fs::read_to_string(&path).context("reading a record back")
}
