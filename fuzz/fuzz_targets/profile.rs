//! Behaviour profile files, with a hash that fits most of the time, and all that is computed from them.
#![no_main]

use harness_pool::{BehaviorProfile, ClusterScope, Given};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_target!(|data: &[u8]| {
    let Ok(profile) = BehaviorProfile::from_slice(data, "profile.json") else {
        return;
    };
    let harnesses: Vec<_> = profile.harnesses().cloned().collect();
    let Some(base) = harnesses.first() else {
        return;
    };
    for harness in &harnesses {
        for cluster in profile.clusters(harness) {
            for scope in [ClusterScope::Cluster(cluster), ClusterScope::All] {
                let stats = profile.stats(harness, scope, Given::Anything);
                let (low, high) = stats.interval95();
                assert!(0.0 <= low && low <= stats.mean() && stats.mean() <= high && high <= 1.0);
                let utility = profile.utility(harness, base, scope);
                assert!(utility.low <= utility.high);
                let summary = profile.summary(harness, base, scope);
                assert!(!summary.describe().is_empty() && !summary.describe_rescue().is_empty());
            }
        }
        profile.examples(harness);
    }
    let text = profile.to_vec();
    let again = BehaviorProfile::from_slice(&text, "profile.json").expect("its own file");
    assert_eq!(again, profile);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    harness_s_fuzz::mutate(data, size, max_size, seed, harness_s_fuzz::seal_record)
});
