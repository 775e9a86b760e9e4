//! A line of a trajectory file.
#![no_main]

use harness_core::Trajectory;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_target!(|data: &[u8]| {
    let Ok(trajectory) = serde_json::from_slice::<Trajectory>(data) else {
        return;
    };
    let text = serde_json::to_vec(&trajectory).expect("a trajectory is plain data");
    let read: Trajectory = serde_json::from_slice(&text).expect("its own output");
    assert_eq!(read, trajectory);
    let own = trajectory.own_sequence();
    assert_eq!(own.ids.len(), own.mask.len());
    let _ = trajectory.base_sequence();
    assert!(trajectory.n_sampled() <= trajectory.segments().map(|s| s.ids.len()).sum());
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    harness_s_fuzz::mutate(data, size, max_size, seed, harness_s_fuzz::unsealed)
});
