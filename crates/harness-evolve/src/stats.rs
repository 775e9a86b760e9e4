//! The two statistics on which acceptance rests: an exact one-sided sign-flip test, and Holm's procedure.

pub mod holm;
pub mod sign_flip;

pub use holm::{HolmStep, holm};
pub use sign_flip::{TooFineError, sign_flip_p};
