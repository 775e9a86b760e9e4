//! Answers of agents before the embedded world's judge, and answers of the real server.
#![no_main]

use std::fmt::Write as _;
use std::sync::LazyLock;

use env_appworld::expert::run_agent;
use env_appworld::server::classify;
use env_appworld::{AppWorldEnv, expert_actions, tasks};
use harness_core::{Action, Deadline, EnvError, Environment as _, Seed, Split, Task};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use serde_json::Value;

/// A task that asks for a number, and its answer.
static ASKED: LazyLock<(Task, String)> = LazyLock::new(|| {
    let task = tasks(Split::Train, 1, Seed::new(7)).remove(0);
    let mut env = AppWorldEnv::default();
    let (verdict, turns) =
        run_agent(&mut env, &task, &mut expert_actions(&task)).expect("the expert's turns");
    assert!(verdict.solved);
    let (last, _) = turns.last().expect("the expert acts");
    let answer = last
        .split_once("answer=")
        .expect("it ends with an answer")
        .1;
    let answer = answer.trim_end_matches(')').trim_matches(['\'', '"']);
    (task, answer.to_owned())
});

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    for status in [200, 400, 404, 422, 500, 503] {
        if let Err(error) = classify(status, &text) {
            assert!(matches!(EnvError::from(error), EnvError::Infra(_)));
        }
    }
    let Ok(answer) = serde_json::from_str::<Value>(&text) else {
        return;
    };
    let (task, expected) = &*ASKED;
    let mut code = "apis.supervisor.complete_task(answer=".to_owned();
    python(&answer, &mut code);
    code.push(')');
    let mut env = AppWorldEnv::default();
    env.reset(task, Deadline::NEVER)
        .expect("a task of this world");
    let action = Action::Text(code);
    env.step(&action, Deadline::NEVER)
        .expect("an answer breaks nothing");
    let verdict = env.evaluate(Deadline::NEVER).expect("every end is judged");
    let said: String = answer.to_string().to_lowercase();
    let said: String = said.chars().filter(|c| c.is_alphanumeric()).collect();
    if verdict.solved {
        assert!(
            said.starts_with(&expected.to_lowercase()),
            "a wrong answer was taken: {answer}"
        );
    }
    if answer.as_str() == Some(expected) {
        assert!(verdict.solved, "the right answer was refused");
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    harness_s_fuzz::mutate(data, size, max_size, seed, harness_s_fuzz::unsealed)
});

/// The value as a Python literal.
fn python(value: &Value, code: &mut String) {
    match value {
        Value::Null => code.push_str("None"),
        Value::Bool(true) => code.push_str("True"),
        Value::Bool(false) => code.push_str("False"),
        Value::Array(items) => {
            code.push('[');
            for item in items {
                python(item, code);
                code.push(',');
            }
            code.push(']');
        }
        Value::Object(map) => {
            code.push('{');
            for (key, value) in map {
                python(&Value::String(key.clone()), code);
                code.push(':');
                python(value, code);
                code.push(',');
            }
            code.push('}');
        }
        Value::String(text) => {
            code.push('\'');
            for c in text.chars() {
                // Writing to a `String` cannot fail.
                let _ = write!(code, "\\U{:08x}", u32::from(c));
            }
            code.push('\'');
        }
        Value::Number(number) => {
            let _ = write!(code, "{number}");
        }
    }
}
