//! The search along one direction: rounds of candidates, ranked by matched reruns.

use std::collections::BTreeMap;
use std::sync::Arc;

use harness_core::{HarnessEdit, HarnessId, HarnessSpec, Seed, Task, TaskId};

use crate::check::Checker;
use crate::config::EvolveConfig;
use crate::direction::RepairDirection;
use crate::error::EvolveError;
use crate::packet::FailurePacket;
use crate::proposal::{DirectionBrief, Proposal, ProposeError, Proposer, Tried, TriedResult};
use crate::report::{CandidateRecord, EvolutionReport, SearchScore, UnusableReply, Verdict};
use crate::rerun::{ByTask, Runner, Tally};

/// A proposer is asked so often for one parent and round, while refusals leave places.
const MAX_ASKS: u64 = 2;

/// A harness that was run on the search slice.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) harness: HarnessSpec,
    pub(crate) lineage: Vec<HarnessEdit>,
    pub(crate) score: SearchScore,
    /// Where it stands in the report.
    pub(crate) record: usize,
}

/// What a search is given.
pub(crate) struct SearchInput<'a> {
    pub(crate) index: usize,
    pub(crate) direction: &'a RepairDirection,
    pub(crate) base: &'a HarnessSpec,
    pub(crate) tasks: Vec<Arc<Task>>,
    pub(crate) packets: Vec<FailurePacket>,
    pub(crate) config: &'a EvolveConfig,
    /// How many directions' candidates and parents it may have: 1 but in an undirected run.
    pub(crate) breadth: usize,
    pub(crate) seed: Seed,
}

/// A search under way.
pub(crate) struct Search<'a, 'r> {
    pub(crate) input: SearchInput<'a>,
    pub(crate) checker: Checker<'a>,
    pub(crate) proposer: &'a mut dyn Proposer,
    pub(crate) runner: &'a mut Runner<'r>,
    pub(crate) report: &'a mut EvolutionReport,
}

/// A parent and the edits that made it.
#[derive(Clone)]
struct Parent {
    harness: HarnessSpec,
    lineage: Vec<HarnessEdit>,
}

#[derive(Default)]
struct Found {
    candidates: Vec<Candidate>,
    tried: BTreeMap<HarnessId, Vec<Tried>>,
}

impl Search<'_, '_> {
    /// Runs all rounds and returns the candidates, best first.
    ///
    /// Every rerun of a direction has the same tasks, attempts and seed; the base runs once as the
    /// reference. Reruns only rank.
    pub(crate) fn run(mut self) -> Result<Vec<Candidate>, EvolveError> {
        let base = self.input.base.clone();
        let reference = tallies(&self.rerun(&base, "base")?);
        let mut found = Found::default();
        for round in 0..self.input.config.rounds {
            for (i, (parent, n)) in self.plan(round, &found.candidates).into_iter().enumerate() {
                let seed = self
                    .input
                    .seed
                    .derive("propose", &[u64::from(round), i as u64]);
                self.fill(round, &parent, n, &reference, &mut found, seed)?;
            }
            if self.input.breadth > 1 {
                self.fill_up(round, &reference, &mut found)?;
            }
        }
        rank(&mut found.candidates);
        Ok(found.candidates)
    }

    /// Which parents are edited in a round, and how many candidates each has: the base alone at first, and
    /// as long as nothing beats it. An undirected search edits as many of the best as there would be
    /// directions.
    fn plan(&self, round: u32, candidates: &[Candidate]) -> Vec<(Parent, usize)> {
        let per_direction = self.input.config.candidates_per_round;
        let n = per_direction * self.input.breadth;
        let n_stacked = (self.input.config.stack_share * per_direction as f64).ceil() as usize;
        let base = Parent {
            harness: self.input.base.clone(),
            lineage: Vec::new(),
        };
        let mut ranked = candidates.to_vec();
        rank(&mut ranked);
        let better = ranked
            .into_iter()
            .filter(|best| round > 0 && best.score.value > 0.0);
        let best = better.take(self.input.breadth).map(|best| {
            let parent = Parent {
                harness: best.harness,
                lineage: best.lineage,
            };
            (parent, n_stacked)
        });
        let mut plan: Vec<(Parent, usize)> = best.collect();
        let n_base = n - n_stacked * plan.len();
        plan.push((base, n_base));
        plan
    }

    /// Offers the places that are open after a round to the base and the best in even shares, so that a
    /// small catalogue, which one direction uses up sooner than many, costs an undirected search nothing.
    fn fill_up(
        &mut self,
        round: u32,
        reference: &Tallies,
        found: &mut Found,
    ) -> Result<(), EvolveError> {
        let n_round = self.input.config.candidates_per_round * self.input.breadth;
        let end = n_round * (round as usize + 1);
        let plan = self.plan(round, &found.candidates);
        let n_parents = plan.len();
        for (i, (parent, _)) in plan.into_iter().rev().enumerate() {
            let left = end.saturating_sub(found.candidates.len());
            let key = [u64::from(round), i as u64];
            let seed = self.input.seed.derive("fill-up", &key);
            let share = left.div_ceil(n_parents - i);
            self.fill(round, &parent, share, reference, found, seed)?;
        }
        Ok(())
    }

    fn fill(
        &mut self,
        round: u32,
        parent: &Parent,
        n: usize,
        reference: &Tallies,
        found: &mut Found,
        seed: Seed,
    ) -> Result<(), EvolveError> {
        let end = found.candidates.len() + n;
        for ask in 0..MAX_ASKS {
            let left = end - found.candidates.len();
            if left == 0 {
                break;
            }
            let tried = found
                .tried
                .get(&parent.harness.id())
                .map_or(&[][..], Vec::as_slice);
            let proposals = self.ask(round, parent, tried, left, seed.derive("ask", &[ask]))?;
            for proposal in proposals.into_iter().take(left) {
                self.try_one(round, parent, proposal, reference, found)?;
            }
        }
        Ok(())
    }

    fn ask(
        &mut self,
        round: u32,
        parent: &Parent,
        tried: &[Tried],
        n: usize,
        seed: Seed,
    ) -> Result<Vec<Proposal>, EvolveError> {
        let brief = DirectionBrief {
            label: &self.input.direction.label,
            moment: self.input.direction.moment,
            packets: &self.input.packets,
            parent: &parent.harness,
            tried,
        };
        match self.proposer.propose(&brief, n, seed) {
            Ok(proposals) => Ok(proposals),
            Err(ProposeError::Unusable { reason }) => {
                self.report.unusable.push(UnusableReply {
                    direction: self.input.index,
                    round,
                    reason,
                });
                Ok(Vec::new())
            }
            Err(error) => Err(EvolveError::Propose(error)),
        }
    }

    fn try_one(
        &mut self,
        round: u32,
        parent: &Parent,
        proposal: Proposal,
        reference: &Tallies,
        found: &mut Found,
    ) -> Result<(), EvolveError> {
        let checked = self.checker.check(&parent.harness, &proposal);
        let lineage = [parent.lineage.as_slice(), &proposal.edits].concat();
        let record = self.report.candidates.len();
        let (result, verdict) = match &checked {
            Err(rejection) => {
                let verdict = Verdict::Rejected(rejection.clone());
                (TriedResult::Rejected(rejection.kind()), verdict)
            }
            Ok(harness) => {
                let what = format!("r{round}c{}", found.candidates.len());
                let score = self.score(harness, &what, lineage.len(), reference)?;
                found.candidates.push(Candidate {
                    harness: harness.clone(),
                    lineage,
                    score,
                    record,
                });
                (TriedResult::Gain(score.gain), Verdict::Ranked(score))
            }
        };
        let tried = Tried {
            edits: proposal.edits.clone(),
            result,
        };
        found
            .tried
            .entry(parent.harness.id())
            .or_default()
            .push(tried);
        self.report.candidates.push(CandidateRecord {
            direction: self.input.index,
            round,
            parent: parent.harness.id(),
            harness: checked.ok().map(|h| h.id()),
            edits: proposal.edits,
            why: proposal.why,
            verdict,
        });
        Ok(())
    }

    fn score(
        &mut self,
        harness: &HarnessSpec,
        what: &str,
        n_edits: usize,
        reference: &Tallies,
    ) -> Result<SearchScore, EvolveError> {
        let got = tallies(&self.rerun(harness, what)?);
        let gains = reference.iter().filter_map(|(task, base)| {
            let rate = got.get(task)?.rate()?;
            Some(rate - base.rate()?)
        });
        let gains: Vec<f64> = gains.collect();
        let gain = gains.iter().sum::<f64>() / gains.len().max(1) as f64;
        let n_extra = n_edits.saturating_sub(1) as f64;
        Ok(SearchScore {
            n_tasks: gains.len() as u32,
            gain,
            value: gain - self.input.config.edit_cost * n_extra,
        })
    }

    fn rerun(&mut self, harness: &HarnessSpec, what: &str) -> Result<ByTask, EvolveError> {
        let input = &self.input;
        let purpose = format!("d{}/search/{what}", input.index);
        let seed = input.seed.derive("rerun", &[]);
        let attempts = input.config.search_attempts;
        self.runner
            .run(harness, &input.tasks, attempts, seed, &purpose)
    }
}

type Tallies = BTreeMap<TaskId, Tally>;

fn tallies(attempts: &ByTask) -> Tallies {
    attempts
        .iter()
        .map(|(task, list)| (task.clone(), Tally::of(list)))
        .collect()
}

/// Best value first; of equals the one with fewer edits, then the one found first.
fn rank(candidates: &mut [Candidate]) {
    candidates.sort_by(|a, b| {
        let by_value = b.score.value.total_cmp(&a.score.value);
        by_value
            .then(a.lineage.len().cmp(&b.lineage.len()))
            .then(a.record.cmp(&b.record))
    });
}
