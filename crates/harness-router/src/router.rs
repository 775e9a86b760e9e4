//! The router: votes, Top-k, and a profile that is kept up to date.

use std::collections::BTreeSet;
use std::fmt;

use harness_core::{HarnessId, PolicyVersion};
use harness_pool::{
    BallotRecord, BehaviorProfile, Cluster, ClusterScope, Decision, EvidenceRow, Given, Probe,
    RescueEvidence, RouteContext, SelectError, SelectSiblings, SiblingPool, Utility,
};

use crate::aggregate::Tally;
use crate::ballot::{Ballot, NoBallot};
use crate::config::{OnStale, RouterConfig};
use crate::rank1::{Rank1, rank1};
use crate::reanchor::{AnchorChange, ReanchorReport, unroutable_of};
use crate::voter::{Voter, embedded_voters, given, rescue_mean};

/// Selects siblings by the votes of several voters over behaviour profiles.
///
/// Candidates are ranked by points; ties go to the larger Beta mean in the task's cluster, then to the
/// smaller id (bug report V8). Before that, siblings that re-anchoring found unroutable in the cluster are
/// put behind all others: they are chosen only if there are not `min(k, n)` others, and a note says so.
///
/// # Source
/// arXiv 2611.04277, abstract: Top-k siblings by voting across several models over behaviour profiles, with
/// re-anchoring. Counting rule, quorum, tie order and exploration are ours.
pub struct Router {
    base: HarnessId,
    ids: Vec<HarnessId>,
    voters: Vec<Box<dyn Voter>>,
    stand_ins: Vec<Box<dyn Voter>>,
    config: RouterConfig,
    profile: BehaviorProfile,
    anchored_at: PolicyVersion,
    last_reanchor: Option<ReanchorReport>,
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.voters.iter().map(|voter| voter.name());
        f.debug_struct("Router")
            .field("ids", &self.ids)
            .field("voters", &names.collect::<Vec<_>>())
            .field("config", &self.config)
            .field("anchored_at", &self.anchored_at)
            .finish_non_exhaustive()
    }
}

/// One candidate with all that its place depends on.
struct Candidate<'a> {
    id: &'a HarnessId,
    is_unroutable: bool,
    points: u64,
    mean: f64,
}

/// The ballots that count, and the log of all.
struct Votes {
    counted: Vec<Ballot>,
    records: Vec<BallotRecord>,
    fallback: Option<String>,
}

impl Router {
    /// A router over a frozen pool, with nothing known yet.
    ///
    /// # Errors
    /// [`SelectError::Config`] if a setting is out of range or two voters share a name,
    /// [`SelectError::Profile`] if the half-life is.
    pub fn new(
        pool: &SiblingPool,
        voters: Vec<Box<dyn Voter>>,
        config: RouterConfig,
    ) -> Result<Self, SelectError> {
        config.validate(voters.len())?;
        let mut names = BTreeSet::new();
        if let Some(voter) = voters
            .iter()
            .find(|voter| !names.insert(voter.name().to_owned()))
        {
            let name = voter.name();
            return Err(SelectError::Config(format!(
                "two voters have the same name: {name}"
            )));
        }
        Ok(Self {
            base: pool.base_id().clone(),
            ids: pool.ids().to_vec(),
            voters,
            stand_ins: embedded_voters(),
            config,
            profile: BehaviorProfile::from_rows([], PolicyVersion(0), config.profile)?,
            anchored_at: PolicyVersion(0),
            last_reanchor: None,
        })
    }

    /// The same router with a profile in place of its own, which keeps its own config; it counts as anchored
    /// at the profile's version.
    ///
    /// # Errors
    /// [`SelectError::UnknownHarness`] if a row is of a harness outside the pool.
    pub fn with_profile(mut self, profile: BehaviorProfile) -> Result<Self, SelectError> {
        let version = profile.policy_version();
        self.restore(profile, version)?;
        Ok(self)
    }

    /// Puts a profile and the version of its last re-anchoring in place of the router's own, as a resumed run
    /// does; the router then decides as the one did from which they come.
    ///
    /// # Errors
    /// [`SelectError::UnknownHarness`] if a row is of a harness outside the pool; nothing is changed then.
    pub fn restore(
        &mut self,
        profile: BehaviorProfile,
        anchored_at: PolicyVersion,
    ) -> Result<(), SelectError> {
        if let Some(stranger) = profile.harnesses().find(|id| !self.knows(id)) {
            return Err(SelectError::UnknownHarness(stranger.clone()));
        }
        self.anchored_at = anchored_at;
        self.profile = profile;
        self.last_reanchor = None;
        Ok(())
    }

    /// The same router with another version of the last re-anchoring: what a resumed run restores beside the
    /// profile.
    #[must_use]
    pub fn with_anchor(mut self, version: PolicyVersion) -> Self {
        self.anchored_at = version;
        self
    }

    /// What is known of base and siblings.
    pub fn profile(&self) -> &BehaviorProfile {
        &self.profile
    }

    /// The version of the policy at the last re-anchoring.
    pub fn anchored_at(&self) -> PolicyVersion {
        self.anchored_at
    }

    /// What the last re-anchoring of this router found; `None` before the first, and after a resume.
    pub fn last_reanchor(&self) -> Option<&ReanchorReport> {
        self.last_reanchor.as_ref()
    }

    /// Checks that the profile is fit for a version of the policy, whatever `on_stale` says. Rank-1 does not
    /// check by itself.
    ///
    /// # Errors
    /// [`SelectError::StaleProfile`] if it is stale.
    pub fn check_fresh(&self, now: PolicyVersion) -> Result<(), SelectError> {
        let anchored_at = self.anchored_at;
        let limit = self.config.stale_after;
        let due = limit.map(|limit| PolicyVersion(anchored_at.0.saturating_add(limit)));
        match due {
            Some(due) if now > due => Err(SelectError::StaleProfile {
                anchored_at,
                due,
                now,
            }),
            _ => Ok(()),
        }
    }

    /// One harness for the task out of base and siblings, with no failed attempts to look at.
    pub fn rank1(&self, context: &RouteContext) -> Rank1 {
        rank1(&self.profile, &self.base, &self.ids, context)
    }

    /// Whether probes show a sibling to be worse than fresh base retries in the task's cluster.
    pub fn is_unroutable(&self, id: &HarnessId, context: &RouteContext) -> bool {
        self.unroutable_in(&context.cluster())(id)
    }

    /// Whether a sibling is to be demoted in a cluster; the base is looked up once for all.
    fn unroutable_in(&self, cluster: &Cluster) -> impl Fn(&HarnessId) -> bool {
        let of = move |id: &HarnessId| {
            let scope = ClusterScope::Cluster(cluster);
            self.profile.stats(id, scope, Given::BaseFailedAllProbed)
        };
        let base = of(&self.base);
        move |id| self.config.demote_unroutable && Utility::between(&of(id), &base).high < 0.0
    }

    fn knows(&self, id: &HarnessId) -> bool {
        *id == self.base || self.ids.contains(id)
    }

    fn ask(&self, voter: &dyn Voter, context: &RouteContext) -> (Ballot, Option<NoBallot>) {
        match voter.vote(context, &self.ids, &self.profile) {
            Ok(ballot) => {
                let problem = ballot.check(&self.ids).err();
                (ballot, problem)
            }
            Err(problem) => (Ballot::default(), Some(problem)),
        }
    }

    fn votes(&self, context: &RouteContext) -> Votes {
        let mut votes = self.votes_of(&self.voters, false, context);
        let (n_valid, n_voters, quorum) =
            (votes.counted.len(), self.voters.len(), self.config.quorum);
        if n_valid >= quorum {
            return votes;
        }
        for record in &mut votes.records {
            record
                .rejected
                .get_or_insert_with(|| "below the quorum".into());
        }
        let stand_ins = self.votes_of(&self.stand_ins, true, context);
        votes.records.extend(stand_ins.records);
        votes.counted = stand_ins.counted;
        tracing::warn!(
            task_id = %context.task_id,
            step = context.step,
            n_valid,
            n_voters,
            quorum,
            "quorum missed: the embedded voters decided"
        );
        votes.fallback = Some(format!(
            "quorum missed: {n_valid} valid ballots of {n_voters} voters, {quorum} needed; \
             the embedded voters decided"
        ));
        votes
    }

    fn votes_of(
        &self,
        voters: &[Box<dyn Voter>],
        is_stand_in: bool,
        context: &RouteContext,
    ) -> Votes {
        let (mut counted, mut records) = (Vec::new(), Vec::new());
        for voter in voters {
            let (ballot, problem) = self.ask(voter.as_ref(), context);
            records.push(BallotRecord {
                voter: voter.name().to_owned(),
                ranking: ballot.ranking.clone(),
                rejected: problem.as_ref().map(ToString::to_string),
                is_stand_in,
            });
            if problem.is_none() {
                counted.push(ballot);
            }
        }
        Votes {
            counted,
            records,
            fallback: None,
        }
    }

    /// All siblings, best first.
    fn rank(&self, ballots: &[Ballot], context: &RouteContext) -> Vec<Candidate<'_>> {
        let tally = Tally::count(self.config.aggregation, ballots, &self.ids);
        let (cluster, given) = (context.cluster(), given(context));
        let is_unroutable = self.unroutable_in(&cluster);
        let candidate = |id| Candidate {
            id,
            is_unroutable: is_unroutable(id),
            points: tally.points(id),
            mean: rescue_mean(&self.profile, &cluster, given, id),
        };
        let mut ranked: Vec<Candidate<'_>> = self.ids.iter().map(candidate).collect();
        ranked.sort_by(|a, b| {
            a.is_unroutable
                .cmp(&b.is_unroutable)
                .then(b.points.cmp(&a.points))
                .then(b.mean.total_cmp(&a.mean))
                .then_with(|| a.id.cmp(b.id))
        });
        ranked
    }

    /// Swaps the last of the first `k` for one behind them, if this decision explores.
    fn explore(&self, ranked: &mut [Candidate<'_>], k: usize, context: &RouteContext) -> bool {
        let n_open = ranked.iter().filter(|c| !c.is_unroutable).count();
        let draw = context.seed.derive("router-explore", &[]).value();
        let is_exploring = ((draw >> 11) as f64) < self.config.epsilon * (1_u64 << 53) as f64;
        if k == 0 || n_open <= k || !is_exploring {
            return false;
        }
        let pick = context.seed.derive("router-explore-pick", &[]).value() as usize;
        ranked.swap(k - 1, k + pick % (n_open - k));
        true
    }

    fn notes(&self, ranked: &[Candidate<'_>], k: usize, context: &RouteContext) -> Vec<String> {
        let mut notes = Vec::new();
        if ranked.is_empty() {
            notes.push("the pool is empty".to_owned());
        }
        let (chosen, rest) = ranked.split_at(k);
        for candidate in chosen.iter().filter(|c| c.is_unroutable) {
            let id = candidate.id;
            notes.push(format!("unroutable here, chosen for want of others: {id}"));
        }
        if let (Some(last), Some(next)) = (chosen.last(), rest.first())
            && (last.is_unroutable, last.points) == (next.is_unroutable, next.points)
        {
            let by = if last.mean > next.mean {
                "Beta mean"
            } else {
                "id"
            };
            notes.push(format!("a tie at place {k} was broken by {by}"));
        }
        if let Err(stale) = self.check_fresh(context.policy_version) {
            notes.push(stale.to_string());
        }
        notes
    }

    fn take_in(&mut self, rows: Vec<EvidenceRow>, at: PolicyVersion) -> Result<(), SelectError> {
        self.profile.insert(rows)?;
        let version = self.profile.policy_version().max(at);
        self.profile.set_policy_version(version);
        Ok(())
    }
}

impl SelectSiblings for Router {
    fn select(&mut self, context: &RouteContext, k: usize) -> Result<Decision, SelectError> {
        if self.config.on_stale == OnStale::Refuse {
            self.check_fresh(context.policy_version)?;
        }
        let votes = self.votes(context);
        let mut ranked = self.rank(&votes.counted, context);
        let k = k.min(ranked.len());
        let notes = self.notes(&ranked, k, context);
        let explored = self.explore(&mut ranked, k, context);
        ranked.truncate(k);
        Ok(Decision {
            chosen: ranked
                .into_iter()
                .map(|candidate| candidate.id.clone())
                .collect(),
            ballots: votes.records,
            explored,
            fallback: votes.fallback,
            notes,
        })
    }

    /// Rows are counted as selected, whatever they say: a router's own choices are no fair sample.
    fn observe(&mut self, evidence: &RescueEvidence) -> Result<(), SelectError> {
        evidence.check()?;
        if !self.knows(&evidence.harness) {
            return Err(SelectError::UnknownHarness(evidence.harness.clone()));
        }
        let mut rows = evidence.rows.clone();
        for row in &mut rows {
            row.is_selected = true;
        }
        self.take_in(rows, evidence.context.policy_version)
    }

    fn reanchor(&mut self, probe: &mut dyn Probe) -> Result<(), SelectError> {
        let base = probed(probe, None, &self.base)?;
        let siblings = self.ids.iter().map(|id| probed(probe, Some(id), id));
        let siblings = siblings.collect::<Result<Vec<_>, _>>()?;
        let all = || siblings.iter().flatten().chain(&base);
        let Some(version) = all().map(|row| row.policy_version).max() else {
            return Err(SelectError::EmptyProbe);
        };
        let change = |id, rows: &Vec<_>| AnchorChange::of(&self.profile, id, rows);
        let mut report = ReanchorReport {
            from: self.anchored_at,
            to: version,
            base: change(&self.base, &base),
            siblings: self
                .ids
                .iter()
                .zip(&siblings)
                .map(|(id, rows)| change(id, rows))
                .collect(),
            unroutable: Vec::new(),
        };
        self.take_in(all().cloned().collect(), version)?;
        report.unroutable = unroutable_of(&self.profile, &self.base, &self.ids);
        self.anchored_at = self.anchored_at.max(version);
        tracing::info!(
            from = report.from.0,
            to = report.to.0,
            n_unroutable = report.unroutable.len(),
            base_solved = report.base.now.n,
            base_attempts = report.base.now.of,
            "re-anchored"
        );
        self.last_reanchor = Some(report);
        Ok(())
    }
}

/// Probes one harness and checks that it is the one that ran (bug report E7).
fn probed(
    probe: &mut dyn Probe,
    asked: Option<&HarnessId>,
    id: &HarnessId,
) -> Result<Vec<EvidenceRow>, SelectError> {
    let rows = probe.probe(asked)?;
    let inconsistent = |problem| SelectError::Inconsistent {
        harness: id.clone(),
        problem,
    };
    if rows.iter().any(|row| row.harness != *id) {
        return Err(inconsistent(
            "a probe ran another harness than was asked for",
        ));
    }
    if rows.iter().any(|row| row.is_selected) {
        return Err(inconsistent(
            "a probe's row is marked as selected by a router",
        ));
    }
    Ok(rows)
}
