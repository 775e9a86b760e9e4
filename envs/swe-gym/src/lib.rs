//! The place of SWE-Gym in Harness-S: repairing real repositories, judged by their tests.
//!
//! There is no adapter yet, so this crate exports nothing. One that comes here implements
//! [`harness_core::Environment`] and [`harness_core::MakeEnvironment`], and knows neither pool nor router nor
//! trainer.
#![forbid(unsafe_code)]
