//! Small values for this crate's own tests.

use harness_core::{
    BaseHarness, Condition, Effect, GroupId, HarnessEdit, HarnessSpec, Moment, Outcome, RolloutId,
    RolloutRole, Rule, RunId, ScenarioId, Seed, Split, Task, TaskId, Trajectory,
};

use crate::direction::Failure;
use crate::label::{Behaviour, Label, TerminalCause};
use crate::packet::{FailurePacket, Signals};

pub(crate) fn base() -> HarnessSpec {
    HarnessSpec::base(BaseHarness::default())
}

pub(crate) fn rule(name: &str, text: &str) -> Rule {
    Rule {
        name: name.into(),
        moment: Moment::AfterStep,
        when: Condition::Always,
        effect: Effect::Say(text.into()),
        max_fires: 1,
        count: Vec::new(),
    }
}

pub(crate) fn say(name: &str, text: &str) -> HarnessEdit {
    HarnessEdit::AddRule(rule(name, text))
}

pub(crate) fn task(id: &str, instruction: &str) -> Task {
    Task {
        id: TaskId::new(id).unwrap(),
        scenario: ScenarioId::new(format!("scenario-{id}")).unwrap(),
        env: "toy".into(),
        family: "hidden".into(),
        split: Split::EvolutionSearch,
        instruction: instruction.into(),
        seed: Seed::new(0),
        data: serde_json::Value::Null,
    }
}

pub(crate) fn attempt(id: &str, outcome: Outcome) -> Trajectory {
    Trajectory {
        role: RolloutRole::Probe,
        ..Trajectory::new(
            RunId::new("run").unwrap(),
            RolloutId::new(format!("{id}-0")).unwrap(),
            GroupId::new(id).unwrap(),
            &task(id, ""),
            base().id(),
            outcome,
        )
    }
}

pub(crate) fn failure(task: &str, mechanism: &str) -> Failure {
    Failure {
        task: TaskId::new(task).unwrap(),
        packet: FailurePacket {
            instruction: "count the songs".into(),
            steps: Vec::new(),
            signals: Signals::default(),
        },
        label: Label {
            terminal: TerminalCause::WrongEnd,
            behaviour: Behaviour::Other,
            mechanism: mechanism.into(),
        },
    }
}
