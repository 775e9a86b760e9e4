//! The place of `DBBench` in Harness-S: questions answered and changes made with SQL, judged by the database.
//!
//! There is no adapter yet, so this crate exports nothing. One that comes here implements
//! [`harness_core::Environment`] and [`harness_core::MakeEnvironment`], and knows neither pool nor router nor
//! trainer.
#![forbid(unsafe_code)]
