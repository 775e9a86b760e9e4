//! Profile updates and pool files: `cargo bench -p harness-pool`.

use divan::{Bencher, black_box};
use harness_core::{
    BaseHarness, HarnessEdit, HarnessId, HarnessSpec, PolicyVersion, RolloutId, TaskId,
};
use harness_pool::{
    BehaviorProfile, Cluster, EvidenceRow, PoolBuilder, ProfileConfig, Sibling, SiblingPool,
};

fn main() {
    divan::main();
}

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

/// Attempt `n` of many, over all siblings and four clusters.
fn row(ids: &[HarnessId], n: usize) -> EvidenceRow {
    EvidenceRow {
        rollout: RolloutId::new(format!("r{n}")).expect("letters and digits are an id"),
        harness: ids[n % ids.len()].clone(),
        task: TaskId::new(format!("t{}", n % 100)).expect("letters and digits are an id"),
        cluster: Cluster::of("play a song", ["401", "no_api", "none", "guard"][n % 4]),
        solved: n.is_multiple_of(3),
        base_failed_all: true,
        is_selected: n.is_multiple_of(2),
        turns: 5,
        tokens: 120,
        policy_version: PolicyVersion(n as u64 / 1000),
        fired: true,
        flags: vec!["logged_in".into()],
    }
}

/// One more group of eight rescue attempts in a profile that holds `n` rows of eight siblings.
#[divan::bench(name = "profile_update", args = [1_000, 10_000], sample_count = 50, sample_size = 1)]
fn update(bencher: Bencher, n: usize) {
    let pool = pool(8);
    let rows = (0..n).map(|i| row(pool.ids(), i));
    let config = ProfileConfig {
        half_life: Some(20.0),
    };
    let profile = BehaviorProfile::from_rows(rows, PolicyVersion(10), config);
    let profile = profile.expect("the half-life is in range");
    bencher
        .with_inputs(|| {
            let group: Vec<EvidenceRow> = (n..n + 8).map(|i| row(pool.ids(), i)).collect();
            (profile.clone(), group)
        })
        .bench_local_values(|(mut profile, group)| {
            profile.insert(group).expect("the rollouts are new");
            profile
        });
}

/// Reads and checks a pool file.
#[divan::bench(name = "pool_load", args = [8, 64])]
fn load(bencher: Bencher, n: usize) {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let path = folder.path().join("pool.json");
    pool(n).save(&path).expect("the folder can be written to");
    bencher.bench_local(|| SiblingPool::load(black_box(&path)).expect("it was just written"));
}
