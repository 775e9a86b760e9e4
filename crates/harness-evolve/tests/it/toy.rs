//! A toy world: each task has a hidden kind of failure; a rule whose text says `fix N` raises the success
//! rate on tasks of kind N, every other rule is obeyed and repairs nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use harness_core::{
    BaseHarness, Condition, Effect, Fact, GroupId, HarnessEdit, HarnessId, HarnessSpec, Moment,
    Outcome, RolloutId, RolloutRole, Rule, RunId, ScenarioId, Seed, Split, Task, TaskId,
    Trajectory, Turn,
};
use harness_evolve::{
    CatalogueEntry, CatalogueProposer, EvolveConfig, EvolveInput, Rerun, RerunError, Slice,
};
use rand::RngExt;

/// The truth of a toy world.
#[derive(Clone)]
pub(crate) struct World {
    /// Success rate of the base, by task (cycled).
    pub(crate) base_rates: Vec<f64>,
    /// What a fitting rule adds.
    pub(crate) effect: f64,
    /// The one kind of task that can be repaired; all of them if none is named.
    pub(crate) only: Option<u64>,
    /// Share of attempts that break.
    pub(crate) broken: f64,
    /// Calls made: purpose, tasks, attempts.
    pub(crate) calls: Vec<(String, usize, u32)>,
}

impl World {
    pub(crate) fn new(effect: f64) -> Self {
        Self {
            base_rates: vec![0.1, 0.2, 0.3],
            effect,
            only: None,
            broken: 0.0,
            calls: Vec::new(),
        }
    }

    fn is_solved_with(&self, said: &[&str], task: &Task, index: usize, draw: f64) -> bool {
        let fix = format!("fix {}", task.data);
        let is_repairable = self.only.is_none_or(|kind| task.data == kind);
        let helps = is_repairable && said.iter().any(|text| text.contains(&fix));
        let rate = self.base_rates[index % self.base_rates.len()];
        draw < rate + if helps { self.effect } else { 0.0 }
    }

    fn attempt(
        &self,
        (said, id): (&[&str], &HarnessId),
        task: &Task,
        attempt: u32,
        seed: Seed,
        purpose: &str,
    ) -> Trajectory {
        let index: usize = task.id.as_str()[1..]
            .parse()
            .expect("toy ids are a letter and a number");
        let own = seed.derive(task.id.as_str(), &[u64::from(attempt)]);
        let mut rng = own.rng();
        let outcome = if rng.random::<f64>() < self.broken {
            Outcome::InfraError
        } else if self.is_solved_with(said, task, index, rng.random()) {
            Outcome::Solved
        } else {
            Outcome::Failed
        };
        let kind = Fact::Text(format!("kind{}", task.data));
        let turn = Turn {
            action: format!("obeying: {}", said.join("; ")),
            observation: "nothing".into(),
            facts: BTreeMap::from([("error_kind".to_owned(), kind)]),
            ..Turn::default()
        };
        Trajectory {
            attempt,
            role: RolloutRole::Probe,
            turns: vec![turn],
            ..Trajectory::new(
                RunId::new("toy").expect("an id"),
                RolloutId::new(format!("{purpose}/{}/{attempt}", task.id)).expect("an id"),
                GroupId::new(format!("{purpose}/{}", task.id)).expect("an id"),
                task,
                id.clone(),
                outcome,
            )
        }
    }
}

impl Rerun for World {
    fn rerun(
        &mut self,
        harness: &HarnessSpec,
        tasks: &[Arc<Task>],
        attempts: u32,
        seed: Seed,
        purpose: &str,
    ) -> Result<Vec<Trajectory>, RerunError> {
        self.calls.push((purpose.to_owned(), tasks.len(), attempts));
        let (id, said) = (harness.id(), said(harness));
        // A policy's draws differ as soon as its context does, so the harness is part of the key. Without it
        // an idle rule would copy the base's outcomes, and no null candidate would ever look better.
        let seed = seed.derive(id.as_str(), &[]);
        let all = tasks
            .iter()
            .flat_map(|t| (0..attempts).map(move |a| (t, a)));
        Ok(all
            .map(|(t, a)| self.attempt((&said, &id), t, a, seed, purpose))
            .collect())
    }
}

/// Changes what a world returns.
pub(crate) struct Tampered<F>(pub(crate) World, pub(crate) F);

impl<F: FnMut(&str, &mut Vec<Trajectory>)> Rerun for Tampered<F> {
    fn rerun(
        &mut self,
        harness: &HarnessSpec,
        tasks: &[Arc<Task>],
        attempts: u32,
        seed: Seed,
        purpose: &str,
    ) -> Result<Vec<Trajectory>, RerunError> {
        let mut got = self.0.rerun(harness, tasks, attempts, seed, purpose)?;
        (self.1)(purpose, &mut got);
        Ok(got)
    }
}

/// Every text that a harness says, those of rules that never fire left out.
pub(crate) fn said(harness: &HarnessSpec) -> Vec<&str> {
    let rules = harness.overlay.rules.iter();
    let fires = |r: &&Rule| !matches!(&r.when, Condition::Not(c) if **c == Condition::Always);
    let texts = rules.filter(fires).filter_map(|r| match &r.effect {
        Effect::Say(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

pub(crate) fn say(name: &str, text: &str) -> HarnessEdit {
    HarnessEdit::AddRule(Rule {
        name: name.into(),
        moment: Moment::AfterStep,
        when: Condition::Always,
        effect: Effect::Say(text.into()),
        max_fires: 1,
        count: Vec::new(),
    })
}

/// `n_fixes` entries that repair one kind each, and as many distractors.
pub(crate) fn catalogue(n_fixes: usize) -> Vec<CatalogueEntry> {
    let entry = |name: String, text: &str| CatalogueEntry {
        edits: vec![say(&name, text)],
        name,
        keywords: Vec::new(),
    };
    let fixes = (0..n_fixes).map(|k| entry(format!("helper {k}"), &format!("fix {k} now")));
    let idle = (0..n_fixes).map(|k| entry(format!("idle {k}"), &format!("stay calm {k} now")));
    fixes.chain(idle).collect()
}

pub(crate) fn proposer(n_fixes: usize) -> CatalogueProposer {
    CatalogueProposer::new(catalogue(n_fixes), 0.5).expect("a sound catalogue")
}

pub(crate) fn base() -> HarnessSpec {
    HarnessSpec::base(BaseHarness::default())
}

/// Tasks of `n_kinds` kinds, `per_kind` of each in each split.
pub(crate) fn input(n_kinds: usize, per_kind: usize) -> EvolveInput {
    let slice = |letter: char, split: Split| {
        let task = |i: usize| Task {
            id: TaskId::new(format!("{letter}{i}")).expect("an id"),
            scenario: ScenarioId::new(format!("s-{letter}{i}")).expect("an id"),
            env: "toy".into(),
            family: "must not be read".into(),
            split,
            instruction: format!(
                "please do the errand number {letter}{i} and then report about it"
            ),
            seed: Seed::new(i as u64),
            data: (i % n_kinds).into(),
        };
        let tasks = (0..n_kinds * per_kind).map(|i| Arc::new(task(i))).collect();
        Slice {
            tasks,
            attempts: Vec::new(),
        }
    };
    EvolveInput {
        base: base(),
        search: slice('s', Split::EvolutionSearch),
        confirm: slice('c', Split::EvolutionConfirm),
        secrets: Vec::new(),
        policy_hash: "policy".into(),
        manifest_hash: "tasks".into(),
    }
}

/// A small configuration for `per_kind` tasks a direction.
pub(crate) fn config(per_kind: usize) -> EvolveConfig {
    EvolveConfig {
        min_directions: 1,
        max_search_tasks: per_kind.max(12),
        max_confirm_tasks: per_kind.max(12),
        ..EvolveConfig::default()
    }
}
