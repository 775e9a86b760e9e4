//! Rescue-GRPO: the policy model, its sampler, its warm start, and GRPO with rescue by sibling harnesses.

mod adamw;
pub mod advantage;
pub mod checkpoint;
pub mod codec;
pub mod config;
mod dropout;
mod engine;
#[cfg(test)]
mod fakes;
pub mod learner;
pub mod matmul;
pub mod metrics;
pub mod model;
pub mod nano_learner;
#[cfg(test)]
mod reference;
mod rescue;
mod rollouts;
pub mod rows;
pub mod sampler;
pub mod step;
pub mod supervised;

pub use adamw::{AdamWConfig, Moments};
pub use advantage::{
    AdvantageConfig, Baseline, Signal, advantages, group_advantages, replaced_advantages, signal,
    valid_reward,
};
pub use checkpoint::{Checkpoint, CheckpointError};
pub use codec::{BpeCodec, CodecError};
pub use config::{ConfigError, GrpoConfig, RescueMode};
pub use metrics::{
    DecisionRecord, HarnessTally, OutcomeCounts, RescueCounts, StepReport, UpdateReport,
    ZeroSpreadCounts,
};
pub use model::{DeviceKind, ModelConfig, ModelError};
pub use nano_learner::{NanoLearner, NanoLearnerConfig};
pub use rollouts::Runtime;
pub use rows::{
    Context, GroupRows, LossMean, TrainingRow, UpdateGroup, ZeroSpread, batch, group_rows,
    weigh_projected,
};
pub use sampler::NanoSampler;
pub use step::{StepError, step};
pub use supervised::{SupervisedConfig, SupervisedRow, teacher_forced_accuracy, train_supervised};
