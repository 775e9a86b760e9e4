//! The supervisor app: the active task.

use serde_json::{Value, json};

use super::World;
use super::args::Args;
use super::db::Status;

impl World {
    pub(super) fn show_active_task(&self) -> Value {
        let (status, answer) = match &self.db.done {
            None => (Value::Null, Value::Null),
            Some((Status::Success, answer)) => ("success".into(), answer.clone()),
            Some((Status::Fail, answer)) => ("fail".into(), answer.clone()),
        };
        json!({"instruction": self.instruction, "status": status, "answer": answer})
    }

    /// A second call overwrites the first (bug report A2).
    pub(super) fn complete_task(&mut self, args: &Args) -> Value {
        let status = match args.text("status") {
            "fail" => Status::Fail,
            _ => Status::Success,
        };
        self.db.done = Some((status, args.value("answer")));
        json!({"message": "Marked the active task complete."})
    }
}
