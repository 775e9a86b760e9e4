//! Behaviour of the executor, of overlays and of projection, over the toy world.

mod executor;
mod overlay;
mod untrusted;
