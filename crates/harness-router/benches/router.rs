//! A router's decision with the embedded voters: `cargo bench -p harness-router`.

use divan::{Bencher, black_box};
use harness_core::{
    BaseHarness, HarnessEdit, HarnessId, HarnessSpec, PolicyVersion, RolloutId, Seed, TaskId,
};
use harness_pool::{
    BehaviorProfile, Cluster, Digest, EvidenceRow, PoolBuilder, ProfileConfig, RouteContext,
    SelectSiblings as _, Sibling, SiblingPool,
};
use harness_router::{Router, RouterConfig, embedded_voters};

fn main() {
    divan::main();
}

const INSTRUCTIONS: [&str; 4] = [
    "Which song in my library has the highest rating?",
    "Send a note to Ada Stone about the meeting.",
    "How many unread messages do I have?",
    "Add every song of the album to my playlist.",
];
const KINDS: [&str; 4] = ["401", "no_api", "none", "guard"];

const PROFILE: ProfileConfig = ProfileConfig {
    half_life: Some(20.0),
};

fn pool(n: usize) -> SiblingPool {
    let base = HarnessSpec::base(BaseHarness::default());
    let mut builder = PoolBuilder::new(base.clone(), "policy".into(), "tasks".into());
    for i in 0..n {
        let edits = vec![HarnessEdit::AddNote(format!("note {i}"))];
        let sibling = Sibling::by_hand(format!("sibling-{i}"), &base, edits);
        let sibling = sibling.expect("a short note is within bounds");
        builder.add(sibling).expect("siblings differ");
    }
    builder.freeze()
}

/// Attempt `n` of a harness: 64 of each, over 16 clusters, as after two re-anchorings and some rescues.
fn row(harness: &HarnessId, n: usize) -> EvidenceRow {
    EvidenceRow {
        rollout: RolloutId::new(format!("{harness}-{n}")).expect("letters and digits are an id"),
        harness: harness.clone(),
        task: TaskId::new(format!("t{}", n % 16)).expect("letters and digits are an id"),
        cluster: Cluster::of(INSTRUCTIONS[n % 4], KINDS[n / 4 % 4]),
        solved: n.is_multiple_of(3),
        base_failed_all: true,
        is_selected: n > 32,
        turns: 5,
        tokens: 120,
        policy_version: PolicyVersion(n as u64 / 32 * 20),
        fired: true,
        flags: vec!["logged_in".into()],
    }
}

fn knowledge(pool: &SiblingPool) -> BehaviorProfile {
    let all = pool.ids().iter().chain([pool.base_id()]);
    let rows = all.flat_map(|id| (0..64).map(|n| row(id, n)));
    let known = BehaviorProfile::from_rows(rows, PolicyVersion(30), PROFILE);
    known.expect("the half-life is in range")
}

fn router(pool: &SiblingPool, known: BehaviorProfile) -> Router {
    let config = RouterConfig {
        profile: PROFILE,
        ..RouterConfig::default()
    };
    let router = Router::new(pool, embedded_voters(), config).expect("the settings are in range");
    router
        .with_profile(known)
        .expect("all rows are of the pool")
}

fn context() -> RouteContext {
    let mut digest = Digest::from_attempts(INSTRUCTIONS[0], &[]);
    digest.error_kind = KINDS[0].into();
    RouteContext {
        task_id: TaskId::new("t").expect("a letter is an id"),
        instruction: INSTRUCTIONS[0].into(),
        digest: Some(digest),
        policy_version: PolicyVersion(30),
        step: 3,
        seed: Seed::new(1),
    }
}

/// The two siblings for a task whose base attempts failed.
#[divan::bench(name = "decision", args = [8, 64])]
fn decide(bencher: Bencher, n_siblings: usize) {
    let pool = pool(n_siblings);
    let mut router = router(&pool, knowledge(&pool));
    let context = context();
    // The first is another bench. Under `--test` this is the first and one more.
    let _ = router.select(&context, 2);
    bencher.bench_local(|| router.select(black_box(&context), 2));
}

/// The same with a profile that nobody asked yet, as after an update of the policy: all evidence is weighed.
#[divan::bench(name = "first_decision", args = [8, 64], sample_count = 50, sample_size = 1)]
fn decide_first(bencher: Bencher, n_siblings: usize) {
    let pool = pool(n_siblings);
    let known = knowledge(&pool);
    let context = context();
    bencher
        .with_inputs(|| router(&pool, known.clone()))
        .bench_local_values(|mut router| (router.select(black_box(&context), 2), router));
}
