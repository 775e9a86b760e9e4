//! Behaviour of the executor, of overlays, of projection and of files, over the toy world.

mod conformance;
mod executor;
mod faults;
mod journal;
mod outside_text;
mod overlay;
mod trajectory_file;
mod untrusted;
