//! What a profile says of one harness, as plain numbers and as one line of prose.
//!
//! It judges nothing: no sibling is ranked here, and no row is left out for being unfavourable.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use harness_core::{HarnessId, PolicyVersion, TaskId};
use serde::{Deserialize, Serialize};

use crate::evidence::EvidenceRow;
use crate::profile::{BehaviorProfile, Examples, is_harm};
use crate::stats::{ClusterScope, Given, Stats, Utility};

/// Attempts of which something holds, of all that were looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Attempts of which it holds, at most `of`.
    pub n: u64,
    /// All attempts.
    pub of: u64,
}

/// How often a harness solves its task, by counts and by Beta(1 + s, 1 + f) over discounted counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Attempts, raw.
    pub attempts: u64,
    /// Attempts that solved their task, raw.
    pub successes: u64,
    /// Attempts discounted by age: the effective sample size of the interval.
    pub effective_n: f64,
    /// Beta mean, in `(0, 1)`; 0.5 without evidence.
    pub mean: f64,
    /// Lower end of the central 95 % interval, in `[0, 1]`.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The environment's fact that a sibling changes most.
///
/// A *proxy* of adherence: an environment does not know what a rule asks for, so this is what the attempts
/// were seen to do, not whether they obeyed. It overstates: the fact is picked after looking, so of pure
/// noise the largest rise is above zero, and a fact may rise because the task got solved rather than because
/// a rule was followed. Ours; the abstract of arXiv 2611.04277 is silent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adherence {
    /// The fact whose rate rises most; ties go to the first in the alphabet.
    pub flag: String,
    /// How often it holds at the end under the sibling, in `[0, 1]`: mean over tasks.
    pub rate: f64,
    /// How often under the base, on the same tasks.
    pub base_rate: f64,
}

/// A sibling against the base on tasks that both were probed at, by the same version of the policy, both
/// after the base had failed or both not. Every task counts alike, however many attempts it had.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgainstBase {
    /// Tasks (with version and condition) that were compared, at least 1.
    pub pairs: u64,
    /// Change in mean turns; positive is longer.
    pub turns: f64,
    /// Change in mean tokens of the whole context; positive is dearer.
    pub tokens: f64,
    /// What the sibling changes in behaviour; `None` if no compared attempt has a flag. A rise of 0 or less
    /// is reported as it is: nothing that the environment sees was done more often.
    pub adherence: Option<Adherence>,
}

/// How old and how much the evidence is (bug report V9). There is no date: nothing here reads a clock.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stamp {
    /// The version of the policy that the profile speaks of.
    pub policy_version: PolicyVersion,
    /// The newest version among the rows in scope; `None` without rows.
    pub newest_row: Option<PolicyVersion>,
    /// All rows in scope, discounted by age.
    pub effective_n: f64,
}

/// All that a profile says of one harness in one scope: a pure function of (set of rows, policy version,
/// config).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileSummary {
    /// The harness; the base may be asked for as well.
    pub harness: HarnessId,
    /// The scope, as [`ClusterScope`] is written.
    pub scope: String,
    /// Attempts, of whatever origin.
    pub attempts: u64,
    /// Attempts that solved a task which the base had failed in all attempts, of whatever origin.
    pub rescues: u64,
    /// P(solved | base failed all), by probes.
    pub rescue: Rate,
    /// The same for fresh base retries.
    pub base_rescue: Rate,
    /// P(solved | base failed all) minus that of the base, with its interval.
    pub utility: Utility,
    /// P(solved), by probes, whatever the base did.
    pub unconditional: Rate,
    /// The same for the base.
    pub base_unconditional: Rate,
    /// Rescues by a router's choice: how many of them solved their task. Not a fair sample, so no interval.
    pub routed: Share,
    /// Probes that failed, of those on tasks that the base had not failed throughout.
    pub regressions: Share,
    /// The same for the base, which fails some of its own tasks too.
    pub base_regressions: Share,
    /// Attempts in which a rule acted in a turn, of all.
    pub fires: Share,
    /// Turns, tokens and behaviour against the base; `None` for the base itself, and if no task was probed
    /// under both.
    pub against_base: Option<AgainstBase>,
    /// Tasks that show what the harness does.
    pub examples: Examples,
    /// How old and how much the evidence is.
    pub stamp: Stamp,
}

/// Attempts that may be compared: task, version of the policy, whether the base had failed.
type PairKey<'a> = (&'a TaskId, PolicyVersion, bool);
type Pairs<'a> = BTreeMap<PairKey<'a>, Vec<&'a EvidenceRow>>;

impl Share {
    /// The share, in `[0, 1]`; `None` of nothing, which is not zero.
    pub fn rate(&self) -> Option<f64> {
        (self.of > 0).then(|| self.n as f64 / self.of as f64)
    }

    pub(crate) fn of<'a>(
        rows: impl IntoIterator<Item = &'a EvidenceRow>,
        holds: impl Fn(&EvidenceRow) -> bool,
    ) -> Self {
        rows.into_iter().fold(Self::default(), |share, row| Self {
            n: share.n + u64::from(holds(row)),
            of: share.of + 1,
        })
    }
}

impl Rate {
    fn of(stats: &Stats) -> Self {
        let (low, high) = stats.interval95();
        Self {
            attempts: stats.attempts,
            successes: stats.successes,
            effective_n: stats.weight,
            mean: stats.mean(),
            low,
            high,
        }
    }

    /// Counts and interval in words; "not tried" without attempts.
    fn describe(&self) -> String {
        let Self {
            attempts,
            successes,
            low,
            high,
            ..
        } = self;
        if *attempts == 0 {
            return "not tried".into();
        }
        format!("{successes} of {attempts} solved (95 %: {low:.2} to {high:.2})")
    }
}

impl BehaviorProfile {
    /// Sums up what is known of a harness in a scope, beside the base. Without evidence all counts are zero
    /// and both rates are the prior's.
    ///
    /// # Example
    /// ```
    /// use harness_core::{HarnessId, PolicyVersion};
    /// use harness_pool::{BehaviorProfile, ProfileConfig, ClusterScope};
    /// let (sibling, base) = (HarnessId::new("a").unwrap(), HarnessId::new("base").unwrap());
    /// let profile = BehaviorProfile::from_rows([], PolicyVersion(3), ProfileConfig::default()).unwrap();
    /// let summary = profile.summary(&sibling, &base, ClusterScope::All);
    /// assert_eq!((summary.attempts, summary.rescue.mean, summary.against_base), (0, 0.5, None));
    /// ```
    pub fn summary(
        &self,
        harness: &HarnessId,
        base: &HarnessId,
        scope: ClusterScope<'_>,
    ) -> ProfileSummary {
        let own = self.rows_in(harness, scope);
        let of_base = self.rows_in(base, scope);
        let rate = |id, given| Rate::of(&self.stats(id, scope, given));
        let all = self.stats(harness, scope, Given::Anything);
        let is_routed = |row: &&EvidenceRow| row.is_selected && row.base_failed_all;
        let routed = own.iter().copied().filter(is_routed);
        ProfileSummary {
            harness: harness.clone(),
            scope: scope.to_string(),
            attempts: all.attempts,
            rescues: self.stats(harness, scope, Given::BaseFailedAll).successes,
            rescue: rate(harness, Given::BaseFailedAllProbed),
            base_rescue: rate(base, Given::BaseFailedAllProbed),
            utility: self.utility(harness, base, scope),
            unconditional: rate(harness, Given::Probed),
            base_unconditional: rate(base, Given::Probed),
            routed: Share::of(routed, |row| row.solved),
            regressions: regressions(&own),
            base_regressions: regressions(&of_base),
            fires: Share {
                n: all.fired,
                of: all.attempts,
            },
            against_base: (harness != base)
                .then(|| against_base(&own, &of_base))
                .flatten(),
            examples: Examples::of(own.iter().copied()),
            stamp: Stamp {
                policy_version: self.policy_version(),
                newest_row: own.iter().map(|row| row.policy_version).max(),
                effective_n: all.weight,
            },
        }
    }

    /// The summaries of every harness with evidence, the base among them, ascending by id.
    pub fn summaries(&self, base: &HarnessId, scope: ClusterScope<'_>) -> Vec<ProfileSummary> {
        let ids = self.harnesses();
        ids.map(|id| self.summary(id, base, scope)).collect()
    }

    /// The rows of a harness in a scope, in the order of rollout ids.
    fn rows_in(&self, harness: &HarnessId, scope: ClusterScope<'_>) -> Vec<&EvidenceRow> {
        let is_in = |row: &&EvidenceRow| row.harness == *harness && scope.holds(&row.cluster);
        self.rows().filter(is_in).collect()
    }
}

impl ProfileSummary {
    /// The chance of a rescue in words: what a voter needs most.
    pub fn describe_rescue(&self) -> String {
        let mut text = self.rescue.describe();
        if self.routed.of > 0 {
            if self.rescue.attempts == 0 {
                text = "not probed".into();
            }
            let _ = write!(text, ", chosen {} times before", self.routed.of);
            let _ = write!(text, " ({} solved)", self.routed.n);
        }
        text
    }

    /// The summary in one line of words, for voters that read; nothing in it is not in the fields.
    pub fn describe(&self) -> String {
        // Writing to a `String` cannot fail.
        let mut text = self.describe_rescue();
        if self.base_rescue.attempts > 0 {
            let _ = write!(text, "; base retries {}", self.base_rescue.describe());
        }
        if self.regressions.of > 0 {
            let Share { n, of } = self.regressions;
            let _ = write!(
                text,
                "; failed {n} of {of} where the base had not failed throughout"
            );
        }
        if let Some(rate) = self.fires.rate() {
            let _ = write!(text, "; a rule acts in {:.0} %", 100.0 * rate);
        }
        if let Some(change) = &self.against_base {
            let _ = write!(
                text,
                "; {:+.1} turns and {:+.0} tokens against the base",
                change.turns, change.tokens
            );
            if let Some(adherence) = change.adherence.as_ref().filter(|a| a.rate > a.base_rate) {
                let Adherence {
                    flag,
                    rate,
                    base_rate,
                } = adherence;
                let _ = write!(text, "; `{flag}` {rate:.2} instead of {base_rate:.2}");
            }
        }
        text
    }
}

fn regressions(rows: &[&EvidenceRow]) -> Share {
    let is_kept = |row: &&EvidenceRow| !row.base_failed_all && !row.is_selected;
    Share::of(rows.iter().copied().filter(is_kept), is_harm)
}

fn against_base(own: &[&EvidenceRow], of_base: &[&EvidenceRow]) -> Option<AgainstBase> {
    let (own, of_base) = (pairs(own), pairs(of_base));
    let both: Vec<(&[&EvidenceRow], &[&EvidenceRow])> = own
        .iter()
        .filter_map(|(key, rows)| Some((rows.as_slice(), of_base.get(key)?.as_slice())))
        .collect();
    if both.is_empty() {
        return None;
    }
    let mean = |value: &dyn Fn(&[&EvidenceRow], &[&EvidenceRow]) -> f64| {
        both.iter().map(|(own, base)| value(own, base)).sum::<f64>() / both.len() as f64
    };
    let change = |value: &dyn Fn(&EvidenceRow) -> f64| {
        mean(&|own, base| mean_of(own, value) - mean_of(base, value))
    };
    let flags: BTreeSet<&str> = both
        .iter()
        .flat_map(|(own, base)| own.iter().chain(*base))
        .flat_map(|row| row.flags.iter().map(String::as_str))
        .collect();
    let adherence = flags.into_iter().map(|flag| {
        let holds = |row: &EvidenceRow| f64::from(row.flags.iter().any(|own| own == flag));
        Adherence {
            flag: flag.to_owned(),
            rate: mean(&|own, _| mean_of(own, &holds)),
            base_rate: mean(&|_, base| mean_of(base, &holds)),
        }
    });
    let rise = |a: &Adherence| a.rate - a.base_rate;
    Some(AgainstBase {
        pairs: both.len() as u64,
        turns: change(&|row| f64::from(row.turns)),
        tokens: change(&|row| row.tokens as f64),
        // Of equals the first is kept.
        adherence: adherence.reduce(|best, next| {
            if rise(&next) > rise(&best) {
                next
            } else {
                best
            }
        }),
    })
}

fn mean_of(rows: &[&EvidenceRow], value: &dyn Fn(&EvidenceRow) -> f64) -> f64 {
    rows.iter().map(|row| value(row)).sum::<f64>() / rows.len() as f64
}

fn pairs<'a>(rows: &[&'a EvidenceRow]) -> Pairs<'a> {
    let mut pairs = Pairs::new();
    for row in rows.iter().filter(|row| !row.is_selected) {
        let key = (&row.task, row.policy_version, row.base_failed_all);
        pairs.entry(key).or_default().push(row);
    }
    pairs
}
