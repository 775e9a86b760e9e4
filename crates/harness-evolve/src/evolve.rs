//! The whole evolution: failures, directions, search, one confirmation each, Holm over all, frozen pool.

use harness_core::{HarnessId, HarnessSpec, Seed};
use harness_pool::{AcceptanceEvidence, PoolBuilder, Sibling, SiblingPool};

use crate::check::{Checker, content_key};
use crate::config::EvolveConfig;
use crate::confirm::{Measured, measure, pair};
use crate::direction::{RepairDirection, find_directions, undirected};
use crate::error::EvolveError;
use crate::label::UNDIRECTED;
use crate::leak::LeakIndex;
use crate::observed::{Observed, Slice, check_slices, observe};
use crate::proposal::Proposer;
use crate::report::{Admission, ConfirmationRecord, EvolutionReport, Regressions, Verdict};
use crate::rerun::{Rerun, Runner, Tally};
use crate::search::{Candidate, Search, SearchInput};
use crate::stats::holm;

/// What is evolved, on what.
#[derive(Debug, Clone)]
pub struct EvolveInput {
    /// The base harness, without overlay.
    pub base: HarnessSpec,
    /// Tasks of [`Split::EvolutionSearch`](harness_core::Split::EvolutionSearch).
    pub search: Slice,
    /// Tasks of [`Split::EvolutionConfirm`](harness_core::Split::EvolutionConfirm), of other scenarios.
    pub confirm: Slice,
    /// Answers that no edit may contain, where the caller knows them; see [`LeakIndex`].
    pub secrets: Vec<String>,
    /// Hash of the policy checkpoint, for the pool.
    pub policy_hash: String,
    /// Hash of the task manifest, for the pool.
    pub manifest_hash: String,
}

/// What an evolution gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Evolution {
    /// The frozen pool; empty if nothing was confirmed, which is a result too.
    pub pool: SiblingPool,
    /// Everything that was tried.
    pub report: EvolutionReport,
}

/// Evolves siblings of a base harness.
///
/// Failures of the base make packets, packets make directions. Along each direction candidates are ranked by
/// matched reruns on the search slice. The best candidate of a direction, if it beats the base there, is
/// confirmed *once* on the confirmation slice against an equal number of fresh base retries: exact one-sided
/// sign-flip, Holm over all confirmations. It enters the pool if it passes, and adds more coverage than a
/// re-run of the base. Without directions, or without confirmations, the pool is empty.
///
/// If two directions find the same content, the larger one keeps it and the other confirms its next best.
///
/// With [`EvolveConfig::undirected`] all failures are one group, which has the budget of all directions
/// together: see [`UndirectedBudget`](crate::report::UndirectedBudget).
///
/// # Errors
/// [`EvolveError`]: the configuration or the slices are unusable, the machinery or the proposer broke, or a
/// trajectory does not prove that it ran what was asked (bug report E7). A failed candidate is no error.
///
/// # Determinism
/// Everything random derives from `seed`; with a deterministic proposer and rerun, equal input gives an
/// equal pool and report.
///
/// # Source
/// arXiv 2611.04277, abstract (failures, directions, a frozen pool); packets, labels, tests and gates are
/// ours.
pub fn evolve(
    input: EvolveInput,
    proposer: &mut dyn Proposer,
    rerun: &mut dyn Rerun,
    config: &EvolveConfig,
    seed: Seed,
) -> Result<Evolution, EvolveError> {
    check_input(&input, config)?;
    let mut run = Run::start(input, rerun, config, seed)?;
    let directions = run.directions();
    let mut finalists = Vec::new();
    for (index, direction) in directions.iter().enumerate() {
        let candidates = run.search(index, direction, proposer)?;
        run.choose(index, candidates, &mut finalists);
    }
    run.report.rollouts.search = run.runner.take_count();
    let measured = run.confirm(&directions, &finalists)?;
    let admitted = run.admit(&finalists, &measured)?;
    run.freeze(&directions, admitted)
}

/// A candidate that is confirmed: the best of its direction, or one of the best of an undirected run.
struct Finalist {
    direction: usize,
    /// Its rank among the finalists of its direction, from 0.
    rank: usize,
    key: HarnessId,
    candidate: Candidate,
}

impl Finalist {
    /// A name for purposes: `d2`, and `d0-1` for the second of a direction.
    fn name(&self) -> String {
        match self.rank {
            0 => format!("d{}", self.direction),
            rank => format!("d{}-{rank}", self.direction),
        }
    }

    /// What its confirmation's seed is derived with.
    fn seed_key(&self) -> Vec<u64> {
        match self.rank {
            0 => vec![self.direction as u64],
            rank => vec![self.direction as u64, rank as u64],
        }
    }
}

struct Run<'a> {
    config: &'a EvolveConfig,
    seed: Seed,
    runner: Runner<'a>,
    leaks: LeakIndex,
    base: HarnessSpec,
    hashes: (String, String),
    search: Observed,
    confirm: Observed,
    report: EvolutionReport,
}

impl<'a> Run<'a> {
    fn start(
        input: EvolveInput,
        rerun: &'a mut dyn Rerun,
        config: &'a EvolveConfig,
        seed: Seed,
    ) -> Result<Self, EvolveError> {
        let tasks = input.search.tasks.iter().chain(&input.confirm.tasks);
        let check = &config.check;
        let leaks = LeakIndex::new(tasks, &input.secrets, check.ngram_words, check.ngram_chars);
        let mut runner = Runner::new(rerun);
        let base = input.base;
        let mut observe = |slice: Slice, what: &str| {
            let seed = seed.derive(what, &[]);
            observe(&mut runner, &base, slice, config, seed, what)
        };
        let search = observe(input.search, "base/search")?;
        let confirm = observe(input.confirm, "base/confirm")?;
        let mut report = EvolutionReport::new(base.id());
        report.rollouts.base = runner.take_count();
        let hashes = (input.policy_hash, input.manifest_hash);
        Ok(Self {
            config,
            seed,
            runner,
            leaks,
            base,
            hashes,
            search,
            confirm,
            report,
        })
    }

    fn directions(&mut self) -> Vec<RepairDirection> {
        let (search, confirm) = (&self.search.failures, &self.confirm.failures);
        let (directions, groups) = find_directions(search, confirm, self.config, self.seed);
        self.report.groups = groups;
        let directions = if self.config.undirected {
            let one = undirected(search, confirm, &directions, self.config, self.seed);
            let (one, budget) = one.unzip();
            self.report.undirected = budget;
            one.into_iter().collect()
        } else {
            directions
        };
        self.report.directions.clone_from(&directions);
        directions
    }

    /// How many directions' budget each direction has.
    fn breadth(&self) -> usize {
        self.report.undirected.map_or(1, |b| b.n_directions)
    }

    fn search(
        &mut self,
        index: usize,
        direction: &RepairDirection,
        proposer: &mut dyn Proposer,
    ) -> Result<Vec<Candidate>, EvolveError> {
        let seed = self.seed.derive("search", &[index as u64]);
        let input = SearchInput {
            index,
            direction,
            base: &self.base,
            tasks: self.search.pick(&direction.search_tasks),
            packets: self.search.packets(direction, self.config),
            config: self.config,
            breadth: self.breadth(),
            seed,
        };
        let search = Search {
            input,
            checker: Checker::new(&self.base, &self.config.check, &self.leaks),
            proposer,
            runner: &mut self.runner,
            report: &mut self.report,
        };
        search.run()
    }

    /// Adds the best candidate that beats the base and that no earlier direction has chosen; in an
    /// undirected run, as many of the best as there would be directions.
    fn choose(
        &mut self,
        direction: usize,
        candidates: Vec<Candidate>,
        finalists: &mut Vec<Finalist>,
    ) {
        let mut rank = 0;
        for candidate in candidates.into_iter().filter(|c| c.score.value > 0.0) {
            let key = content_key(&candidate.harness);
            if rank == self.breadth() {
                break;
            }
            if finalists.iter().all(|f| f.key != key) {
                let verdict = Verdict::Finalist(candidate.score);
                self.report.candidates[candidate.record].verdict = verdict;
                finalists.push(Finalist {
                    direction,
                    rank,
                    key,
                    candidate,
                });
                rank += 1;
            }
        }
    }

    /// Runs both arms of every confirmation, with seeds of their own.
    fn confirm(
        &mut self,
        directions: &[RepairDirection],
        finalists: &[Finalist],
    ) -> Result<Vec<Measured>, EvolveError> {
        let mut measured = Vec::with_capacity(finalists.len());
        for finalist in finalists {
            let index = finalist.direction;
            let tasks = self.confirm.pick(&directions[index].confirm_tasks);
            let seed = self.seed.derive("confirm", &finalist.seed_key());
            let mut arm = |harness: &HarnessSpec, name: &str| {
                let purpose = format!("{}/confirm/{name}", finalist.name());
                let seed = seed.derive(name, &[]);
                let attempts = self.config.confirm_attempts;
                self.runner.run(harness, &tasks, attempts, seed, &purpose)
            };
            let sibling = arm(&finalist.candidate.harness, "sibling")?;
            let retry = arm(&self.base, "base")?;
            measured.push(measure(&pair(&self.confirm.attempts, &sibling, &retry)));
        }
        self.report.rollouts.confirm = self.runner.take_count();
        Ok(measured)
    }

    /// Applies Holm and the gates, records every confirmation, and returns those that passed.
    fn admit<'f>(
        &mut self,
        finalists: &'f [Finalist],
        measured: &[Measured],
    ) -> Result<Vec<(&'f Finalist, ConfirmationRecord)>, EvolveError> {
        let p_values: Vec<f64> = measured.iter().map(|m| m.p_value).collect();
        let steps = holm(&p_values, self.config.alpha);
        let mut retry = None;
        let mut admitted = Vec::new();
        for ((finalist, measured), step) in finalists.iter().zip(measured).zip(steps) {
            let mut record = ConfirmationRecord {
                direction: finalist.direction,
                harness: finalist.candidate.harness.id(),
                measured: *measured,
                threshold: step.threshold,
                regressions: None,
                admission: self.gate(measured, step.is_rejected),
            };
            if record.admission == Admission::Admitted {
                record.regressions = self.regressions(finalist, &mut retry)?;
                let is_worse = record.regressions.is_some_and(|r| r.sibling > r.retry);
                if self.config.seesaw_gate && is_worse {
                    record.admission = Admission::Regresses;
                }
            }
            self.report.confirmations.push(record.clone());
            if record.admission == Admission::Admitted {
                admitted.push((finalist, record));
            }
        }
        self.report.rollouts.regression = self.runner.take_count();
        Ok(admitted)
    }

    /// What a confirmation alone decides.
    fn gate(&self, measured: &Measured, is_rejected: bool) -> Admission {
        if !is_rejected {
            Admission::NotSignificant
        } else if self.config.require_union_gain && !measured.has_union_gain() {
            Admission::NoUnionGain
        } else {
            Admission::Admitted
        }
    }

    /// Counts regressions on base-solved confirmation tasks; the base arm runs once for all siblings.
    fn regressions(
        &mut self,
        finalist: &Finalist,
        retry: &mut Option<u32>,
    ) -> Result<Option<Regressions>, EvolveError> {
        let solved = self.confirm.always_solved();
        let tasks: Vec<_> = solved
            .into_iter()
            .take(self.config.regression_tasks)
            .collect();
        if tasks.is_empty() {
            return Ok(None);
        }
        let mut n_failed = |harness: &HarnessSpec, name: &str| {
            let seed = self.seed.derive("regress", &[]).derive(name, &[]);
            let purpose = format!("regress/{name}");
            let got = self.runner.run(harness, &tasks, 1, seed, &purpose)?;
            let failed = got.values().map(Tally::of).filter(|t| t.valid > t.solved);
            Ok::<u32, EvolveError>(failed.count() as u32)
        };
        let sibling = n_failed(&finalist.candidate.harness, &finalist.name())?;
        let retry = match *retry {
            Some(n) => n,
            None => *retry.insert(n_failed(&self.base, "base")?),
        };
        let n_tasks = tasks.len() as u32;
        Ok(Some(Regressions {
            n_tasks,
            sibling,
            retry,
        }))
    }

    fn freeze(
        self,
        directions: &[RepairDirection],
        admitted: Vec<(&Finalist, ConfirmationRecord)>,
    ) -> Result<Evolution, EvolveError> {
        let (policy_hash, manifest_hash) = self.hashes;
        let mut builder = PoolBuilder::new(self.base, policy_hash, manifest_hash);
        for (finalist, record) in admitted {
            let label = &directions[finalist.direction].label;
            let kind = if label.is_undirected() {
                UNDIRECTED
            } else {
                label.behaviour.as_str()
            };
            builder.add(Sibling {
                name: format!("{kind}-{}", &record.harness.as_str()[..8]),
                harness: finalist.candidate.harness.clone(),
                direction: label.to_string(),
                lineage: finalist.candidate.lineage.clone(),
                evidence: evidence(&record),
            })?;
        }
        Ok(Evolution {
            pool: builder.freeze(),
            report: self.report,
        })
    }
}

fn check_input(input: &EvolveInput, config: &EvolveConfig) -> Result<(), EvolveError> {
    config.validate()?;
    if !input.base.is_base() {
        return Err(EvolveError::NotABase(input.base.id()));
    }
    input.base.validate().map_err(EvolveError::InvalidBase)?;
    check_slices(&input.search, &input.confirm)
}

fn evidence(record: &ConfirmationRecord) -> AcceptanceEvidence {
    let measured = &record.measured;
    AcceptanceEvidence {
        n_tasks: measured.n_tasks,
        n_attempts: measured.n_attempts,
        sibling_solved: measured.sibling_solved,
        retry_solved: measured.retry_solved,
        p_value: measured.p_value,
        threshold: record.threshold,
        union_gain: measured.union_gain,
        retry_gain: measured.retry_gain,
        regressions: record.regressions.map(|r| r.sibling),
    }
}
