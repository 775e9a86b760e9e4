//! A training step on the embedded world, and where its time goes.

use serde_json::{Value, json};

use super::Options;
use super::measure::{median, sorted};
use crate::pipeline::timed::{TimedSteps, timed_steps};
use crate::say;

/// Steps in one timed window.
const N_STEPS: u64 = 6;

/// Rollouts a second, and the shares of sampling, environment, update and the rest (encoding, rules,
/// bookkeeping, threads that wait for the last), by the wall clock of all threads.
///
/// # Errors
/// If a step fails.
pub(super) fn pipeline(options: &Options) -> anyhow::Result<Value> {
    timed_steps(1, options.threads)?;
    let mut windows = Vec::new();
    for _ in 0..options.repeats {
        windows.push(timed_steps(N_STEPS, options.threads)?);
    }
    let threads = options.threads as f64;
    let of = |value: &dyn Fn(&TimedSteps) -> f64| sorted(windows.iter().map(value).collect());
    let rates = of(&|w| w.n_rollouts as f64 / w.wall_s);
    let update = median(&of(&|w| w.update_s / w.wall_s));
    let sampling = median(&of(&|w| w.sampling_s / (threads * w.wall_s)));
    let environment = median(&of(&|w| w.environment_s / (threads * w.wall_s)));
    let rest = 1.0 - update - sampling - environment;
    let (rate, low, high) = (median(&rates), rates[0], rates[rates.len() - 1]);
    say::out(format_args!(
        "pipeline: {rate:.0} rollouts/s [{low:.0}, {high:.0}]; sampling {:.0} %, environment {:.0} %, update {:.0} \
         %, rest {:.0} %",
        100.0 * sampling,
        100.0 * environment,
        100.0 * update,
        100.0 * rest
    ));
    Ok(json!({
        "rollouts_s": rate,
        "spread": [low, high],
        "shares": {"sampling": sampling, "environment": environment, "update": update, "rest": rest},
        "arm": "harness_s",
        "steps": N_STEPS,
        "rollouts": windows[0].n_rollouts,
    }))
}
