//! Small values for this crate's own tests.

use harness_core::{
    BaseHarness, Condition, Effect, GroupId, HarnessEdit, HarnessSpec, Moment, Outcome,
    PolicyVersion, RolloutId, RolloutRole, Rule, RunId, Sampling, ScenarioId, Seed, Split,
    TRAJECTORY_SCHEMA_VERSION, Task, TaskId, Trajectory,
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

pub(crate) fn attempt(task: &str, outcome: Outcome) -> Trajectory {
    Trajectory {
        schema_version: TRAJECTORY_SCHEMA_VERSION,
        run_id: RunId::new("run").unwrap(),
        rollout_id: RolloutId::new(format!("{task}-0")).unwrap(),
        group_id: GroupId::new(task).unwrap(),
        task_id: TaskId::new(task).unwrap(),
        env: "toy".into(),
        split: Split::EvolutionSearch,
        harness_id: base().id(),
        policy_version: PolicyVersion(0),
        attempt: 0,
        role: RolloutRole::Probe,
        outcome,
        reward: None,
        prompt: Vec::new(),
        turns: Vec::new(),
        error: None,
        rule_errors: 0,
        unprojectable: None,
        sampling: Sampling {
            temperature: 1.0,
            max_new_tokens: 8,
        },
        started: None,
        ended: None,
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
