//! Behaviour of the executor, of overlays, of projection and of files, over the toy world.

mod executor;
mod overlay;
mod trajectory_file;
mod untrusted;
