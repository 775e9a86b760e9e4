//! Tests of the public API.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod cases;
mod compare;
mod invariants;
mod learning;
mod reanchor;
mod support;
