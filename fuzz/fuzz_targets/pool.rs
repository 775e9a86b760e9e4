//! Pool files, with a hash that fits most of the time.
#![no_main]

use harness_pool::SiblingPool;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_target!(|data: &[u8]| {
    let Ok(pool) = SiblingPool::from_slice(data, "pool.json") else {
        return;
    };
    assert!(pool.base().is_base());
    assert!(pool.ids().is_sorted() && pool.ids().len() == pool.siblings().len());
    for (id, sibling) in pool.ids().iter().zip(pool.siblings()) {
        assert_eq!(pool.get(id), Some(sibling));
        assert_eq!(sibling.harness.validate(), Ok(()));
        // Whether the lineage leads to the harness is not promised; that it can be tried is.
        let _ = sibling.replay(pool.base());
    }
    let text = pool.to_vec();
    let again = SiblingPool::from_slice(&text, "pool.json").expect("its own file");
    assert_eq!(again.siblings(), pool.siblings());
    assert_eq!(again.base(), pool.base());
    assert_eq!(again.to_vec(), text);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    harness_s_fuzz::mutate(data, size, max_size, seed, harness_s_fuzz::seal_record)
});
