//! Behaviour of the executor, of overlays and of projection, over the toy world.

mod conformance;
mod executor;
mod overlay;
