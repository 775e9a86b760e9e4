//! Blocks that never end, that want all memory, or that reach for the machine (bug reports F9 and D1).
//!
//! They stand in a process of their own, whose size is watched. What monty cannot bound is told in the interpreter's
//! documentation and is not run here.

use std::time::{Duration, Instant};

use env_appworld::{AppWorldEnv, WorldLimits, tasks};
use harness_core::{Action, Deadline, Environment as _, Fact, Part, Seed, Split};

/// Far above a block's limit, since tests share their machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// The most by which the process may grow, in kB: a block is stopped at 256 MiB and overruns that by as much at most;
/// weighing what a block left that ran out of time just before takes three times as much again, while the buffer of
/// the dump doubles; the rest is what an allocator keeps.
const MAX_GROWTH_KB: usize = 2_000_000;

/// Blocks that must fail, and leave the variables of earlier blocks.
const HOSTILE: &[&str] = &[
    "while True: pass",
    "while True:\n    try:\n        while True: pass\n    except BaseException:\n        pass",
    "def f(n):\n    return f(n + 1)\nf(0)",
    "def f(n):\n    try:\n        return f(n + 1)\n    except RecursionError:\n        return f(n)\nf(0)",
    "[0] * 10**10",
    "n = 10**10\n[0] * n",
    "'a' * 10**9",
    "n = 10**9\n'a' * n",
    "10**10**8",
    "n = 10**8\n10**n",
    "n = 10**9\n1 << n",
    "n = 10**9\n'x'.ljust(n)",
    "n = 10**9\nf'{1:{n}}'",
    "x = 3\nwhile True:\n    x = x * x",
    "pow(3, 10**4000, 10**4000 + 1)",
    "n = 10**12\njson.dumps([1], indent=n)",
    "json.dumps([1], indent=10**12)",
    "list(itertools.count())",
    "max(itertools.count())",
    "''.join(itertools.repeat('aaaaaaaaaa'))",
    "dict(zip(itertools.count(), itertools.count()))",
    "[[[[a for a in range(1000)] for b in range(1000)] for c in range(1000)] for d in range(1000)]",
    "x = [1]\nfor i in range(60):\n    x = x + x",
    "while True: print('x' * 1000)",
    "while True: print()",
    "print(*itertools.count())",
    "json.loads('[' * 90000)",
    "class A:\n    def __str__(self):\n        while True: pass\nprint(A())",
    "class A:\n    def __next__(self):\n        return 1\n    def __iter__(self):\n        return self\nlist(A())",
    "a = []\na.append(a)\nb = []\nb.append(b)\na == b",
    "raise SystemExit",
    "while True: apis.spotify.search_songs()",
    "open('/etc/passwd')",
    "o = open\no('/etc/passwd')",
    "exec('1')",
    "e = eval\ne('1')",
    "import sys",
    "import socket",
    "import os\nprint(os.listdir('/'))",
    "import os as o\no.system('ls')",
    "from pathlib import Path\nprint(list(Path('/').iterdir()))",
    "import time as t\nt.sleep(100)",
    "().__class__.__bases__[0].__subclasses__()",
];

/// Blocks that gather more than a session may hold, so that all variables may be lost.
const HOARDS: &[&str] = &[
    "items = []\nwhile True: items.append(bytes(900000))",
    "items = []\nwhile True: items.append(list(range(60000)))",
    "items = {}\nwhile True: items[len(items)] = str(len(items)) * 10",
];

fn session(block: Duration) -> AppWorldEnv {
    let mut limits = WorldLimits::default();
    limits.block.time = block;
    let mut env = AppWorldEnv::new(limits);
    let task = tasks(Split::Train, 1, Seed::new(7)).remove(0);
    env.reset(&task, Deadline::NEVER).unwrap();
    env
}

#[track_caller]
fn run(env: &mut AppWorldEnv, code: &str) -> String {
    let begun = Instant::now();
    let action = Action::Text(code.into());
    let result = env.step(&action, Deadline::NEVER).unwrap();
    assert!(begun.elapsed() < PATIENCE, "{code}");
    result.observation.iter().map(Part::text).collect()
}

/// The largest size that the process has had, in kB; `None` where the system does not tell.
fn peak_kb() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with("VmHWM"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn f9_no_block_takes_the_session_the_time_or_the_memory() {
    let start = peak_kb();
    let mut env = session(Duration::from_millis(200));
    run(&mut env, "kept = 5");
    for code in HOSTILE {
        let seen = run(&mut env, code);
        assert!(seen.starts_with("Execution failed"), "{code}: {seen:.200}");
        assert_eq!(env.predicates()["last_result_error"], Fact::Bool(true));
        assert_eq!(run(&mut env, "print(kept, 'ok')"), "5 ok\n", "{code}");
    }
    for code in HOARDS {
        let mut env = session(Duration::from_secs(1));
        for _ in 0..3 {
            assert!(run(&mut env, code).starts_with("Execution failed"));
            assert_eq!(run(&mut env, "print('ok')"), "ok\n", "{code}");
        }
    }
    if let (Some(start), Some(peak)) = (start, peak_kb()) {
        assert!(peak - start < MAX_GROWTH_KB, "grew by {} kB", peak - start);
    }
}

#[test]
fn d1_an_answer_is_data_and_is_never_evaluated() {
    for answer in [
        "__import__('os').system('ls')",
        "1 + 1",
        "kept",
        "print('x')",
        "{{ 7 * 7 }}",
    ] {
        let mut env = session(Duration::from_secs(1));
        run(&mut env, "kept = 5");
        let code = format!("apis.supervisor.complete_task(answer={answer:?})");
        assert!(!run(&mut env, &code).starts_with("Execution failed"));
        let verdict = env.evaluate(Deadline::NEVER).unwrap();
        assert_eq!(verdict.failures, ["the answer is right"], "{answer}");
        assert_eq!(run(&mut env, "print(kept)"), "5\n");
    }
}
