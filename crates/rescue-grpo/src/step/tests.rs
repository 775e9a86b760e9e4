//! The step on a toy world with scripted policies: what it makes, replaces, trains on and reports.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use harness_core::Outcome::{Failed, Solved};
use harness_core::testing::{ByteCodec, ToyMaker, toy_task};
use harness_core::{
    EnvError, Environment, ExecOptions, GroupCheck, HarnessId, MakeEnvironment, Outcome, RunId,
    Seed, Trajectory,
};
use proptest::prelude::*;

use super::*;
use crate::fakes::{FakeLearner, FakeSelector, group_of, pool};
use crate::metrics::{OutcomeCounts, RescueCounts};

/// Everything a step is given.
struct World {
    learner: FakeLearner,
    pool: SiblingPool,
    selector: FakeSelector,
    tasks: Vec<Arc<Task>>,
    config: GrpoConfig,
    n_threads: usize,
    seed: Seed,
}

/// A policy that says the secret `x` where its context holds `hint`, and on even seeds only; else `no`.
fn hinted(hint: &'static str) -> FakeLearner {
    FakeLearner::new(move |context, seed| {
        let knows = context.contains(hint) && seed.value().is_multiple_of(2);
        if knows { "x".into() } else { "no".into() }
    })
}

impl World {
    fn new(learner: FakeLearner, n_tasks: u64) -> Self {
        let pool = pool(&["good", "other"]);
        Self {
            learner,
            selector: FakeSelector::of(&pool),
            pool,
            tasks: (0..n_tasks).map(|i| Arc::new(toy_task(i, "x"))).collect(),
            config: GrpoConfig {
                group_size: 4,
                ..GrpoConfig::default()
            },
            n_threads: 1,
            seed: Seed::new(11),
        }
    }

    fn mode(mut self, rescue: RescueMode) -> Self {
        self.config.rescue = rescue;
        self
    }

    fn step(&mut self) -> Result<(StepReport, Vec<Trajectory>), StepError> {
        self.step_in(&ToyMaker::default())
    }

    fn step_in(
        &mut self,
        envs: &dyn MakeEnvironment,
    ) -> Result<(StepReport, Vec<Trajectory>), StepError> {
        let mut seen = Vec::new();
        let mut keep = |t: &Trajectory| {
            seen.push(t.clone());
            Ok(())
        };
        let report = self.step_into(envs, &mut keep)?;
        Ok((report, seen))
    }

    fn step_into(
        &mut self,
        envs: &dyn MakeEnvironment,
        sink: &mut dyn FnMut(&Trajectory) -> std::io::Result<()>,
    ) -> Result<StepReport, StepError> {
        let exec = ExecOptions {
            temperature: 0.0,
            rollout_timeout: Duration::from_mins(1),
            retries: 0,
            ..ExecOptions::new(RunId::new("run").unwrap())
        };
        let mut runtime = Runtime {
            codec: &ByteCodec,
            envs,
            exec: &exec,
            n_threads: self.n_threads,
            seed: self.seed,
            step: 3,
            sink,
        };
        step(
            &mut self.learner,
            &self.tasks,
            &mut runtime,
            &self.pool,
            &mut self.selector,
            &self.config,
        )
    }
}

fn always_failing() -> FakeLearner {
    FakeLearner::new(|_, _| "no".into())
}

#[test]
fn policy_only_never_rescues() {
    let mut world = World::new(hinted("good"), 3).mode(RescueMode::Off);
    let (report, seen) = world.step().unwrap();
    assert_eq!((report.groups.all_failed, report.n_rollouts()), (3, 12));
    assert_eq!((report.zero_spread.all_failed, report.update), (3, None));
    assert!(world.selector.contexts.is_empty() && world.learner.batches.is_empty());
    assert!(seen.iter().all(|t| t.sampling.temperature == 1.0));
    assert_eq!(report.mean_reward, Some(0.0));
}

#[test]
fn a_failed_group_is_replaced_by_attempts_under_siblings() {
    let mut world = World::new(hinted("good"), 2);
    world.config.context = Context::Sibling;
    let (report, seen) = world.step().unwrap();
    assert_eq!(report.base.total() + report.rescue.total(), 16);
    assert_eq!(report.groups.all_failed, 2);
    assert!(report.groups.rescued > 0, "{report:?}");
    let ids: Vec<&str> = seen[..10].iter().map(|t| t.rollout_id.as_str()).collect();
    let expected = ["s3-t0-a0", "s3-t0-a1", "s3-t0-a2", "s3-t0-a3", "s3-t1-a0"];
    assert_eq!(ids[..5], expected);
    assert_eq!(ids[8..], ["s3-t0-r0", "s3-t0-r1"]);
    assert_eq!(seen[8].group_id.as_str(), "s3-t0-r");
    // Only replacements are trained on, in the context in which they were made.
    let batch = &world.learner.batches[0];
    assert!(!batch.rows.is_empty());
    let rescues: Vec<_> = seen[8..].iter().map(Trajectory::own_sequence).collect();
    assert!(batch.rows.iter().all(|row| rescues.contains(&row.sequence)));
    let sum: f32 = batch.rows.iter().map(|row| row.advantage).sum();
    assert!(sum.abs() < 1e-6);
    assert_eq!(report.update.unwrap().negative_share, 0.75);
    assert_eq!(
        report.n_sampled,
        seen.iter().map(|t| t.n_sampled() as u64).sum::<u64>()
    );
}

#[test]
fn the_selector_sees_the_failed_attempts_and_hears_of_each_sibling_once() {
    let mut world = World::new(hinted("good"), 1);
    let (report, _) = world.step().unwrap();
    let context = &world.selector.contexts[0];
    let digest = context.digest.as_ref().unwrap();
    assert_eq!(
        (digest.n_attempts, digest.error_kind.as_str()),
        (4, "wrong")
    );
    assert!(digest.hit_turn_limit);
    assert_eq!((context.step, context.task_id.as_str()), (3, "toy_0_1"));
    let told: Vec<_> = world
        .selector
        .evidence
        .iter()
        .map(|e| (&e.harness, e.attempts))
        .collect();
    assert_eq!(told, [(&world.pool.ids()[0], 2), (&world.pool.ids()[1], 2)]);
    let row = &world.selector.evidence[0].rows[0];
    assert!(row.base_failed_all && row.is_selected && row.fired);
    assert_eq!(report.decisions.len(), 1);
    assert_eq!(report.decisions[0].decision.chosen, world.pool.ids());
    let tallies: Vec<_> = report
        .harnesses
        .values()
        .map(|t| (t.chosen, t.attempts))
        .collect();
    assert_eq!(tallies, [(1, 2), (1, 2)]);
}

#[test]
fn g21_tasks_that_always_fail_end_after_one_rescue() {
    let mut world = World::new(always_failing(), 3);
    let (report, seen) = world.step().unwrap();
    let groups = RescueCounts {
        all_failed: 3,
        unsolved: 3,
        ..RescueCounts::default()
    };
    assert_eq!(report.groups, groups);
    assert_eq!(seen.len(), 24);
    assert_eq!((report.zero_spread.all_failed, report.update), (3, None));
    assert_eq!(world.learner.version(), PolicyVersion(5));
}

#[test]
fn g21_resampling_ends_when_rounds_or_tasks_run_out() {
    for (rounds, n_tasks) in [(2, 6), (9, 10)] {
        let mut world = World::new(always_failing(), 10);
        world.config.tasks_per_step = 2;
        world.config.resample_rounds = rounds;
        let (report, _) = world.step().unwrap();
        assert_eq!((report.n_tasks, report.update), (n_tasks, None));
        assert_eq!(report.groups.all_failed, n_tasks);
        assert_eq!(report.resampled, n_tasks / 2 - 1);
        assert!(report.warnings(2)[0].starts_with("dynamic sampling ended with 0 of 2"));
    }
}

#[test]
fn resampling_stops_at_enough_groups_that_teach() {
    let mut world = World::new(hinted(""), 10);
    world.config.tasks_per_step = 2;
    world.config.resample_rounds = 4;
    let (report, seen) = world.mode(RescueMode::Off).step().unwrap();
    let silent = report.zero_spread.all_failed + report.zero_spread.all_solved;
    assert!(
        report.n_tasks - silent >= 2 && report.n_tasks < 10,
        "{report:?}"
    );
    assert_eq!(seen.len() as u64, 4 * report.n_tasks);
    assert!(report.update.is_some() && report.warnings(2).is_empty());
}

/// A pool of siblings whose only rule never acts.
fn identity_pool() -> SiblingPool {
    let spoken = pool(&["good", "other"]);
    let base = spoken.base().clone();
    let mut builder = harness_pool::PoolBuilder::new(base, "p".into(), "t".into());
    for sibling in spoken.siblings() {
        let mut silent = sibling.clone();
        let always = Box::new(harness_core::Condition::Always);
        silent.harness.overlay.rules[0].when = harness_core::Condition::Not(always);
        builder.add(silent).unwrap();
    }
    builder.freeze()
}

#[test]
fn identity_siblings_are_the_matched_control_to_the_bit() {
    for context in [Context::Base, Context::Sibling, Context::BaseIs] {
        let luck = || {
            FakeLearner::new(|_, seed| {
                let knows = seed.value().is_multiple_of(7);
                if knows { "x".into() } else { "no".into() }
            })
        };
        let mut matched = World::new(luck(), 12).mode(RescueMode::BaseAgain);
        let (control, _) = matched.step().unwrap();
        let mut identity = World::new(luck(), 12);
        identity.pool = identity_pool();
        identity.selector = FakeSelector::of(&identity.pool);
        identity.config.context = context;
        let (report, _) = identity.step().unwrap();
        assert!(control.groups.rescued > 0, "{:?}", control.groups);
        assert_eq!(report.groups, control.groups);
        assert_eq!(identity.learner.batches, matched.learner.batches);
    }
}

#[test]
fn dropped_words_make_every_second_attempt_and_are_no_evidence() {
    let mut world = World::new(always_failing(), 1);
    world.pool = pool(&["good words that help here", "other hints for some tasks"]);
    world.selector = FakeSelector::of(&world.pool);
    world.config.context = Context::SiblingDropout;
    let (report, seen) = world.step().unwrap();
    let rescue = &seen[4..];
    let is_whole = |t: &Trajectory| world.pool.get(&t.harness_id).is_some();
    let whole: Vec<bool> = rescue.iter().map(is_whole).collect();
    assert_eq!(whole, [true, false, true, false]);
    let told: Vec<u32> = world.selector.evidence.iter().map(|e| e.attempts).collect();
    assert_eq!(told, [1, 1]);
    let tallies: Vec<_> = report
        .harnesses
        .values()
        .map(|t| (t.chosen, t.attempts))
        .collect();
    assert_eq!(tallies, [(1, 2), (1, 2)]);
    assert!(
        report
            .harnesses
            .keys()
            .all(|id| world.pool.get(id).is_some())
    );
}

#[test]
fn f1_three_faults_and_a_failure_are_no_rescue() {
    let mut world = World::new(always_failing(), 1);
    let envs = ToyMaker::faulty(3, EnvError::Infra("gone".into()));
    let (report, seen) = world.step_in(&envs).unwrap();
    let base = OutcomeCounts {
        failed: 1,
        infra_error: 3,
        ..OutcomeCounts::default()
    };
    assert_eq!((report.base, seen.len()), (base, 4));
    assert_eq!(report.groups, RescueCounts::default());
    assert_eq!((report.n_missing, report.mean_reward), (3, Some(0.0)));
    assert!(world.selector.contexts.is_empty());
}

/// Worlds that break from number `first` on.
fn breaking_from(first: usize) -> impl Fn() -> Result<Box<dyn Environment>, EnvError> + Sync {
    let n_made = AtomicUsize::new(0);
    move || {
        if n_made.fetch_add(1, Ordering::SeqCst) < first {
            ToyMaker::default().make()
        } else {
            Err(EnvError::Infra("gone".into()))
        }
    }
}

#[test]
fn f1_a_rescue_with_too_few_valid_attempts_replaces_nothing() {
    // Four attempts under the base, then two of the rescue; the other two are lost.
    let mut world = World::new(hinted("good"), 1);
    let (report, _) = world.step_in(&breaking_from(6)).unwrap();
    let groups = RescueCounts {
        all_failed: 1,
        too_few_valid: 1,
        ..RescueCounts::default()
    };
    assert_eq!((report.groups, report.update), (groups, None));
    assert_eq!(
        (report.rescue.infra_error, report.zero_spread.all_failed),
        (2, 1)
    );
    // What was seen of the siblings is still told, and only that.
    let attempts: u32 = world.selector.evidence.iter().map(|e| e.attempts).sum();
    assert_eq!(attempts, 2);
}

#[test]
fn base_again_replaces_with_fresh_attempts_under_the_base() {
    // An attempt succeeds on one seed in four.
    let lucky = FakeLearner::new(|_, seed| {
        let hits = seed.value().is_multiple_of(4);
        if hits { "x".into() } else { "no".into() }
    });
    let mut world = World::new(lucky, 12).mode(RescueMode::BaseAgain);
    let (report, seen) = world.step().unwrap();
    assert!(
        report.groups.all_failed > 0 && report.groups.rescued > 0,
        "{report:?}"
    );
    assert!(seen.iter().all(|t| t.harness_id == *world.pool.base_id()));
    let n_rescue = seen
        .iter()
        .filter(|t| t.role == RolloutRole::Rescue)
        .count();
    assert_eq!(n_rescue as u64, 4 * report.groups.all_failed);
    assert!(world.selector.contexts.is_empty() && world.selector.evidence.is_empty());
    // In their own context, so the sampler is corrected for.
    assert!(
        world.learner.batches[0]
            .rows
            .iter()
            .all(|row| row.corrects_sampler)
    );
}

#[test]
fn always_runs_siblings_without_a_look_at_the_base() {
    let mut world = World::new(hinted("good"), 2).mode(RescueMode::Always);
    let (report, seen) = world.step().unwrap();
    assert_eq!(
        (report.base.total(), report.rescue.total(), seen.len()),
        (0, 8, 8)
    );
    assert!(world.selector.contexts.iter().all(|c| c.digest.is_none()));
    let rows = world.selector.evidence.iter().flat_map(|e| &e.rows);
    assert!(rows.clone().count() == 8 && rows.clone().all(|row| !row.base_failed_all));
    assert_eq!(report.groups, RescueCounts::default());
}

#[test]
fn contexts_of_the_base_leave_the_siblings_words_out() {
    for context in [Context::Base, Context::BasePositive, Context::BaseIs] {
        let mut world = World::new(hinted("good"), 3);
        world.config.context = context;
        world.step().unwrap();
        let batch = &world.learner.batches[0];
        let texts = batch
            .rows
            .iter()
            .map(|row| ByteCodec::view(&row.sequence.ids));
        assert!(
            texts
                .into_iter()
                .all(|text| !text.contains("good") && !text.contains("other"))
        );
        let is_weighed = batch.rows.iter().all(|row| row.corrects_sampler);
        assert_eq!(is_weighed, context == Context::BaseIs);
        let has_negative = batch.rows.iter().any(|row| row.advantage < 0.0);
        assert_eq!(has_negative, context != Context::BasePositive);
    }
}

#[test]
fn an_empty_pool_leaves_groups_failed() {
    let mut world = World::new(always_failing(), 2);
    world.pool = pool(&[]);
    world.selector = FakeSelector::of(&world.pool);
    let (report, seen) = world.step().unwrap();
    assert_eq!((report.groups.unrouted, seen.len()), (2, 8));
    let mut world = world.mode(RescueMode::Always);
    let (report, seen) = world.step().unwrap();
    assert_eq!((report.groups.unrouted, seen.len()), (2, 0));
}

#[test]
fn a_decision_that_breaks_the_contract_is_refused() {
    let refused = |forced: fn(&SiblingPool) -> Vec<HarnessId>| {
        let mut world = World::new(always_failing(), 1);
        world.selector.forced = Some(forced(&world.pool));
        world.config.k = 2;
        world.step().unwrap_err().to_string()
    };
    let prefix = "the selector's decision for task toy_0_1 cannot be: ";
    let base = refused(|pool| vec![pool.base_id().clone()]);
    assert_eq!(
        base,
        format!("{prefix}a harness is chosen that is no sibling of the pool")
    );
    let twice = refused(|pool| vec![pool.ids()[0].clone(); 2]);
    assert_eq!(twice, format!("{prefix}one sibling is chosen twice"));
    let many = refused(|pool| pool.ids().iter().chain(pool.ids()).cloned().collect());
    assert_eq!(many, format!("{prefix}more siblings than were asked for"));
}

#[test]
fn refusals_come_before_any_attempt_or_update() {
    let mut world = World::new(always_failing(), 1);
    world.config.group_size = 1;
    let error = world.step().unwrap_err().to_string();
    assert!(
        error.contains("group_size must be at least 2"),
        "g7: {error}"
    );
    let mut world = World::new(always_failing(), 0);
    assert!(matches!(world.step(), Err(StepError::NoTasks)));
    let mut world = World::new(hinted("good"), 1);
    world.learner.lag = 1;
    assert!(matches!(world.step(), Err(StepError::OtherVersion { .. })));
    let mut world = World::new(hinted("good"), 1);
    let full = |_: &Trajectory| Err(std::io::Error::other("disk full"));
    let error = world.step_into(&ToyMaker::default(), &mut { full });
    assert!(matches!(error, Err(StepError::Sink(_))));
    assert!(world.learner.batches.is_empty());
}

#[test]
fn g18_one_task_twice_in_a_step_makes_two_groups() {
    let mut world = World::new(always_failing(), 1).mode(RescueMode::Off);
    world.tasks.push(Arc::clone(&world.tasks[0]));
    let (report, seen) = world.step().unwrap();
    assert_eq!((report.n_tasks, report.zero_spread.all_failed), (2, 2));
    assert_ne!(seen[0].group_id, seen[4].group_id);
    assert_eq!(seen[0].task_id, seen[4].task_id);
}

#[test]
fn one_thread_equals_four() {
    let run = |n_threads| {
        let mut world = World::new(hinted("good"), 6);
        world.n_threads = n_threads;
        let (report, seen) = world.step().unwrap();
        (report, seen, world.learner.batches)
    };
    assert_eq!(run(1), run(4));
}

/// A policy that knows some tasks by itself, with chance 1/2, and all under the sibling `good`.
fn half_knowing() -> FakeLearner {
    FakeLearner::new(|context, seed| {
        let is_easy = ["secret 0", "secret 2", "secret 3"]
            .iter()
            .any(|s| context.contains(s));
        let knows = is_easy || context.contains("good");
        if knows && seed.value().is_multiple_of(2) {
            "x".into()
        } else {
            "no".into()
        }
    })
}

#[test]
fn rows_stand_in_the_order_of_tasks_whichever_groups_failed() {
    let mut world = World::new(half_knowing(), 0);
    let numbers = [1, 0, 4, 2, 5, 3];
    world.tasks = numbers.map(|n| Arc::new(toy_task(n, "x"))).to_vec();
    let (report, _) = world.step().unwrap();
    assert_eq!(report.groups.all_failed, 3);
    let rows = &world.learner.batches[0].rows;
    let place = |ids: &[u32]| {
        let text = ByteCodec::view(ids);
        let is_of = |n: &u64| text.contains(&format!("secret {n}"));
        numbers.iter().position(is_of).unwrap()
    };
    let places: Vec<usize> = rows.iter().map(|r| place(&r.sequence.ids)).collect();
    assert!(places.is_sorted(), "{places:?}");
    // Both kinds of groups are among them: odd places have groups under the base.
    assert!(places.iter().any(|p| p % 2 == 0) && places.iter().any(|p| p % 2 == 1));
    let seeds: Vec<Seed> = world.selector.contexts.iter().map(|c| c.seed).collect();
    assert!(seeds.len() == 3 && seeds[0] != seeds[1] && seeds[1] != seeds[2]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn rescue_leaves_every_other_group_byte_identical(seed in any::<u64>()) {
        let run = |mode| {
            let mut world = World::new(half_knowing(), 5).mode(mode);
            world.config.context = Context::Sibling;
            world.seed = Seed::new(seed);
            let (_, seen) = world.step().unwrap();
            let rows = world.learner.batches.pop().map(|batch| batch.rows);
            (seen, rows.unwrap_or_default())
        };
        let ((plain, plain_rows), (rescued, rescued_rows)) = (run(RescueMode::Off), run(RescueMode::Siblings));
        prop_assert_eq!(&rescued[..plain.len()], &plain[..]);
        let replaced: Vec<_> = rescued[plain.len()..].iter().map(Trajectory::own_sequence).collect();
        let kept: Vec<_> = rescued_rows.into_iter().filter(|row| !replaced.contains(&row.sequence)).collect();
        prop_assert_eq!(kept, plain_rows);
    }

    #[test]
    fn a_step_is_bounded_by_one_rescue_a_task(seed in any::<u64>(), mode in 0_usize..4) {
        let modes = [RescueMode::Off, RescueMode::BaseAgain, RescueMode::Siblings, RescueMode::Always];
        let mut world = World::new(half_knowing(), 4).mode(modes[mode]);
        world.seed = Seed::new(seed);
        let (report, seen) = world.step().unwrap();
        prop_assert_eq!(report.n_rollouts(), seen.len() as u64);
        prop_assert!(seen.len() <= 2 * 4 * 4);
        let counts = report.groups;
        let ends = counts.rescued + counts.unsolved + counts.too_few_valid + counts.unrouted;
        prop_assert!(ends == counts.all_failed || modes[mode] == RescueMode::Off);
        let line = serde_json::to_string(&report).unwrap();
        prop_assert_eq!(serde_json::from_str::<StepReport>(&line).unwrap(), report);
    }

    #[test]
    fn g22_only_all_failed_groups_change(outcomes in proptest::collection::vec(any::<[bool; 4]>(), 1..6)) {
        let config = GrpoConfig { group_size: 4, ..GrpoConfig::default() };
        let outcome = |solved: bool| if solved { Solved } else { Failed };
        for (i, solved) in outcomes.iter().enumerate() {
            let group = group_of(&format!("g{i}"), &solved.map(outcome));
            let before = group_rows(&UpdateGroup::Base(group.clone()), &config);
            let is_failed = solved.iter().all(|s| !s);
            let after = match group.check(config.min_valid) {
                GroupCheck::Failed(failed) => {
                    let fresh = group_of("fresh", &[Solved, Failed, Failed, Solved]);
                    replace(failed, fresh, config.min_valid, &mut RescueCounts::default()).unwrap()
                }
                GroupCheck::Solved(group) | GroupCheck::TooFewValid(group) => UpdateGroup::Base(group),
            };
            prop_assert_eq!(group_rows(&after, &config) == before, !is_failed);
        }
    }
}

#[test]
fn outcomes_of_a_report_cover_every_kind() {
    let mut counts = OutcomeCounts::default();
    for outcome in Outcome::ALL {
        counts.add(outcome);
    }
    assert_eq!(counts.total(), 6);
}
