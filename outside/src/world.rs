//! The world: a locked box with a word in it. `open` opens it, `read` tells the word, `say WORD` ends.

use harness_core::{
    Action, BaseHarness, Deadline, EnvError, Environment, Fact, Facts, HarnessSpec, IdError,
    Limits, Part, ScenarioId, Seed, Split, StepResult, Task, TaskId, Verdict,
};

/// One box.
#[derive(Debug, Default)]
pub struct LockedBox {
    word: String,
    is_open: bool,
    said: Option<String>,
    error_kind: &'static str,
}

impl Environment for LockedBox {
    fn reset(&mut self, task: &Task, _deadline: Deadline) -> Result<Facts, EnvError> {
        let bad = || EnvError::Infra(format!("task {} has no text in `data.word`", task.id));
        // One value serves many episodes: nothing of the last one may stay.
        *self = Self {
            word: task.data["word"].as_str().ok_or_else(bad)?.into(),
            error_kind: "none",
            ..Self::default()
        };
        Ok([("colour".into(), Fact::Text(task.family.clone()))].into())
    }

    fn step(&mut self, action: &Action, _deadline: Deadline) -> Result<StepResult, EnvError> {
        // An action that this world cannot read is the agent's mistake, so it is an observation.
        let command = match action {
            Action::Text(text) => text.trim(),
            _ => "",
        };
        self.is_open |= command == "open";
        self.said = command.strip_prefix("say ").map(str::to_owned);
        let (text, error_kind) = match command {
            "open" => ("the box is open".into(), "none"),
            "read" if self.is_open => (format!("it reads {}", self.word), "none"),
            "read" => ("Error: the box is locked".into(), "locked"),
            _ if self.said.is_some() => ("thank you".into(), "none"),
            _ => ("Error: I know open, read and say".into(), "unknown"),
        };
        self.error_kind = error_kind;
        let part = match error_kind {
            "none" => Part::Text(text),
            _ => Part::Error(text),
        };
        Ok(StepResult::new(vec![part], self.said.is_some()))
    }

    fn evaluate(&mut self, _deadline: Deadline) -> Result<Verdict, EnvError> {
        Ok(Verdict::from_solved(self.said.as_ref() == Some(&self.word)))
    }

    fn predicates(&self) -> Facts {
        let is_error = self.error_kind != "none";
        [
            ("completed".into(), Fact::Bool(self.said.is_some())),
            ("error_kind".into(), Fact::Text(self.error_kind.into())),
            ("last_result_error".into(), Fact::Bool(is_error)),
        ]
        .into()
    }
}

/// Makes boxes: a function is a `MakeEnvironment`.
///
/// # Errors
/// Never.
pub fn boxes() -> Result<Box<dyn Environment>, EnvError> {
    Ok(Box::<LockedBox>::default())
}

/// Task `n` of a split; every task is a scenario of its own.
///
/// # Errors
/// [`IdError`] never: the names are printable.
pub fn task(n: u64, split: Split) -> Result<Task, IdError> {
    let colour = ["red", "green", "blue"][n as usize % 3];
    Ok(Task {
        id: TaskId::new(format!("box-{split}-{n}"))?,
        scenario: ScenarioId::new(format!("box-{split}-{n}/scenario"))?,
        env: "boxes".into(),
        family: colour.into(),
        split,
        instruction: format!("Say what is in the {colour} box."),
        seed: Seed::new(n),
        data: serde_json::json!({ "word": format!("word{n}") }),
    })
}

/// The harness in which the policy is judged.
pub fn base() -> HarnessSpec {
    HarnessSpec::base(BaseHarness {
        system: "You stand before a {{ colour }} box. Commands: open, read, say WORD.".into(),
        limits: Limits {
            max_turns: 5,
            max_reply_tokens: 32,
        },
        ..BaseHarness::default()
    })
}
