//! Tests of the public API.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod cases;
mod compare;
mod invariants;
mod learning;
mod nearest;
mod reanchor;
mod reference;
mod support;
