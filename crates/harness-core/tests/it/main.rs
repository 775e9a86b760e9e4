//! Behaviour of the executor, of overlays and of projection, over the toy world.

mod executor;
mod outside_text;
mod overlay;
