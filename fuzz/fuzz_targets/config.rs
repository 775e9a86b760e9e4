//! Settings as TOML, and settings of the command line.
//!
//! NUL separates the file from what stands after each `--set`.
#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use xtask::config::{Config, Scale};

/// What `--set` changes where the file is no configuration.
static BUILTIN: LazyLock<Config> =
    LazyLock::new(|| Config::builtin("appworld", Scale::Smoke).expect("a built-in file"));

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.split('\0');
    let read = Config::from_toml(parts.next().unwrap_or_default());
    if let Ok(config) = &read {
        check(config);
    }
    let read = read.unwrap_or_else(|_| BUILTIN.clone());
    let settings: Vec<&str> = parts.collect();
    if !settings.is_empty()
        && let Ok(config) = read.with_overrides(settings)
    {
        check(&config);
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    harness_s_fuzz::repeat(data, size, max_size, seed)
});

fn check(config: &Config) {
    assert_eq!(config.validate(), Ok(()));
    let text = config.to_toml().expect("what was read can be written");
    assert_eq!(Config::from_toml(&text).as_ref(), Ok(config));
    assert_eq!(config.essence().essence(), config.essence());
    assert!(Duration::try_from_secs_f64(config.run.rollout_timeout_s).is_ok());
}
