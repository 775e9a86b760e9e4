//! This side: the learner's update and the sampler, through their public interface.

use std::time::Duration;

use anyhow::Context as _;
use harness_core::{Deadline, Policy, Request, RolloutId, Sampling, Seed, Sequence};
use rescue_grpo::learner::Learner as _;
use rescue_grpo::{NanoLearner, NanoSampler};

use super::measure::{Side, Spent, timed};
use super::work::{SampleWork, TrainWork, learner};

/// Updates on the same rows again and again.
pub(super) struct OurTrain<'a> {
    work: &'a TrainWork,
    learner: NanoLearner,
}

/// What a first update found.
pub(super) struct FirstUpdate {
    /// Log-probs of the masked ids before it, row by row.
    pub(super) logprobs: Vec<f32>,
    /// The optimizer's mean gradient after it: a tenth of the clipped gradient.
    pub(super) mean: Vec<f32>,
}

impl<'a> OurTrain<'a> {
    pub(super) fn new(work: &'a TrainWork, n_threads: usize) -> anyhow::Result<Self> {
        let learner = learner(&work.model, &work.weights, n_threads)?;
        Ok(Self { work, learner })
    }

    /// The first update, to be compared with the twin's.
    ///
    /// # Errors
    /// If the rows are refused.
    pub(super) fn first(&mut self) -> anyhow::Result<FirstUpdate> {
        let rows = self.work.batch.rows.iter();
        let rows: Vec<Sequence> = rows.map(|row| row.sequence.clone()).collect();
        let all = self.learner.logprobs(&rows)?;
        let masked = self.work.masked();
        let logprobs = (all.iter().zip(masked))
            .flat_map(|(lps, at)| at.into_iter().map(|i| lps[i]))
            .collect();
        self.learner.update(&self.work.batch)?;
        let mean = self.learner.moments().mean;
        Ok(FirstUpdate { logprobs, mean })
    }
}

impl Side for OurTrain<'_> {
    fn go(&mut self, n: usize) -> anyhow::Result<Spent> {
        let mut done = Ok(());
        let update = |_| self.learner.update(&self.work.batch).map(drop);
        let spent = timed(|| done = (0..n).try_for_each(update));
        done?;
        Ok(spent)
    }
}

/// Generations from fresh contexts again and again, the groups dealt out to one sampler a thread.
pub(super) struct OurSample<'a> {
    work: &'a SampleWork,
    samplers: Vec<NanoSampler>,
    round: u64,
}

impl<'a> OurSample<'a> {
    pub(super) fn new(work: &'a SampleWork, n_threads: usize) -> anyhow::Result<Self> {
        let learner = learner(&work.model, &work.weights, n_threads)?;
        Ok(Self {
            work,
            samplers: (0..n_threads).map(|_| learner.sampler()).collect(),
            round: 0,
        })
    }

    fn round(&mut self) -> anyhow::Result<()> {
        self.round += 1;
        let (work, round, n) = (self.work, self.round, self.samplers.len());
        let mut samplers = self.samplers.iter_mut().enumerate();
        let first = samplers.next();
        std::thread::scope(|scope| {
            let others: Vec<_> = samplers
                .map(|(i, sampler)| scope.spawn(move || draw(work, sampler, round, i, n)))
                .collect();
            if let Some((i, sampler)) = first {
                draw(work, sampler, round, i, n)?;
            }
            for other in others {
                other.join().expect("a sampler does not panic")?;
            }
            Ok(())
        })
    }
}

/// Draws for every prompt whose number is `part` modulo `n_parts`.
fn draw(
    work: &SampleWork,
    sampler: &mut NanoSampler,
    round: u64,
    part: usize,
    n_parts: usize,
) -> anyhow::Result<()> {
    let mine = work.prompts.iter().enumerate();
    let mine = mine.filter(|(p, _)| p % n_parts == part);
    let mut open = Vec::new();
    for (p, prompt) in mine {
        for copy in 0..work.copies {
            let rollout = RolloutId::new(format!("{p}-{copy}"))?;
            sampler.submit(Request {
                rollout: rollout.clone(),
                new_ids: prompt.clone(),
                sampling: Sampling {
                    temperature: 1.0,
                    max_new_tokens: work.n_new,
                },
                seed: Seed::new(round).derive("bench", &[p as u64, copy as u64]),
                deadline: Deadline::NEVER,
            })?;
            open.push(rollout);
        }
    }
    let mut n_open = open.len();
    while n_open > 0 {
        for (rollout, answer) in sampler.poll(Duration::from_secs(1)) {
            let n = answer
                .with_context(|| format!("rollout {rollout}"))?
                .ids
                .len();
            anyhow::ensure!(
                n == work.n_new,
                "{rollout} drew {n} ids, not {}",
                work.n_new
            );
            n_open -= 1;
        }
    }
    for rollout in &open {
        sampler.release(rollout);
    }
    Ok(())
}

impl Side for OurSample<'_> {
    fn go(&mut self, n: usize) -> anyhow::Result<Spent> {
        let mut done = Ok(());
        let spent = timed(|| done = (0..n).try_for_each(|_| self.round()));
        done?;
        Ok(spent)
    }
}
