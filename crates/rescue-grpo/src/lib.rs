//! Rescue-GRPO: the policy model, its sampler, its warm start, and GRPO with rescue by sibling harnesses.

pub mod learner;
