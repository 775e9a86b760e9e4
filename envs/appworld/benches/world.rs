//! The embedded world: `cargo bench -p env-appworld`.

use divan::Bencher;
use env_appworld::{AppWorldEnv, tasks};
use harness_core::{Action, Deadline, Environment as _, Seed, Split, Task};

fn main() {
    divan::main();
}

/// The first task, whatever its family.
fn task() -> Task {
    let mut all = tasks(Split::Train, 1, Seed::new(7));
    all.swap_remove(0)
}

/// A new world.
#[divan::bench(name = "world_reset")]
fn reset(bencher: Bencher) {
    let task = task();
    let mut env = AppWorldEnv::default();
    bencher.bench_local(|| {
        env.reset(&task, Deadline::NEVER)
            .expect("the task is its own")
    });
}

/// One block of code in a fresh world: a call of an API that prints, and a refused one.
#[divan::bench(
    name = "world_step",
    args = ["print(apis.supervisor.show_profile())", "import os"],
    sample_count = 200,
    sample_size = 1
)]
fn step(bencher: Bencher, code: &str) {
    let task = task();
    let action = Action::Text(code.to_owned());
    bencher
        .with_inputs(|| {
            let mut env = AppWorldEnv::default();
            env.reset(&task, Deadline::NEVER)
                .expect("the task is its own");
            env
        })
        .bench_local_values(|mut env| {
            let made = env.step(&action, Deadline::NEVER);
            made.expect("a failure of the code is an observation");
            env
        });
}

/// The verdict on a world that nobody touched.
#[divan::bench(name = "world_evaluate")]
fn evaluate(bencher: Bencher) {
    let task = task();
    let mut env = AppWorldEnv::default();
    env.reset(&task, Deadline::NEVER)
        .expect("the task is its own");
    bencher.bench_local(|| env.evaluate(Deadline::NEVER).expect("the world is whole"));
}
