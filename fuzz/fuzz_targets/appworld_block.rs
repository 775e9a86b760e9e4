//! Any text as an agent's code blocks in the embedded world, which must stay usable afterwards.
//!
//! The first byte chooses the family of the task; NUL separates blocks.
#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use env_appworld::expert::run_agent;
use env_appworld::{AppWorldEnv, WorldLimits, expert_actions, tasks};
use harness_core::{Action, Deadline, Environment as _, Part, Seed, Split, Task};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

/// One task of each family.
static TASKS: LazyLock<Vec<Task>> = LazyLock::new(|| tasks(Split::Train, 1, Seed::new(7)));

fn limits() -> WorldLimits {
    let mut limits = WorldLimits::default();
    limits.block.time = Duration::from_millis(100);
    limits.block.max_calls = 200;
    limits
}

fuzz_target!(
    init: {
        // A panic of the virtual machine is caught by the interpreter and costs the session alone; the
        // fuzzer's own hook would end the process. Panics that reach the target still do.
        std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    },
    |data: &[u8]| {
        let Some((family, code)) = data.split_first() else {
            return;
        };
        let task = &TASKS[usize::from(*family) % TASKS.len()];
        let mut env = AppWorldEnv::new(limits());
        env.reset(task, Deadline::NEVER).expect("a task of this world");
        let n_facts = env.predicates().len();
        for block in String::from_utf8_lossy(code).split('\0').take(4) {
            assert!(!step(&mut env, block).is_empty());
            assert_eq!(env.predicates().len(), n_facts);
        }
        // Names may be bound anew by the agent, a literal may not. A busy machine may need several tries.
        let is_usable = (0..50).any(|_| step(&mut env, "0") == "Execution successful.");
        assert!(is_usable, "the session still runs a block");
        env.evaluate(Deadline::NEVER).expect("every end is judged");
        if data.len().is_multiple_of(16) {
            let mut patient = WorldLimits::default();
            patient.block.time = Duration::from_secs(8);
            let mut env = AppWorldEnv::new(patient);
            let (verdict, _) = run_agent(&mut env, task, &mut expert_actions(task))
                .expect("the world can be built anew");
            assert!(verdict.solved, "nothing of one episode reaches the next");
        }
    }
);

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    harness_s_fuzz::repeat(data, size, max_size, seed)
});

fn step(env: &mut AppWorldEnv, block: &str) -> String {
    let result = env.step(&Action::Text(block.into()), Deadline::NEVER);
    let result = result.expect("nothing an agent writes breaks the world");
    result.observation.iter().map(Part::text).collect()
}
