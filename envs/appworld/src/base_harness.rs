//! The base harness of this environment: a short system text, errors reduced to their message, few turns.

use harness_core::{ActionFormat, BaseHarness, ErrorView, HarnessSpec, Limits, ObservationPolicy};

/// The base harness under which the small policy is trained and judged.
///
/// It says nothing about logins, pages, documentation or lost writes: what helps there is for siblings to find.
pub fn base_harness() -> HarnessSpec {
    HarnessSpec::base(BaseHarness {
        system: "solve the task with python calls on apis".into(),
        task: "{{ task.instruction }}".into(),
        tools: Vec::new(),
        observation: ObservationPolicy {
            max_chars: 240,
            errors: ErrorView::Message,
        },
        action: ActionFormat::Text,
        limits: Limits {
            max_turns: 10,
            max_reply_tokens: 24,
        },
    })
}
