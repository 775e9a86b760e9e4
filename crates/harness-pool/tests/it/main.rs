//! Tests of the public API: pools, their files, profiles, digests and coverage.

mod coverage;
mod digest;
mod files;
mod pool;
mod profile;
mod support;
