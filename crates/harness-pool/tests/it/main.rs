//! Tests of the public API: pools, their files, profiles, digests and coverage.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod anchor;
mod corruption;
mod coverage;
mod digest;
mod files;
mod pool;
mod profile;
mod schema;
mod summary;
mod support;
