//! Tests of the public API, in a process of their own so that its size can be watched.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod hostile;
