//! Whole evolutions on a toy world whose truth is known.

mod cases;
mod evolution;
mod simulation;
mod toy;
mod traces;
mod undirected;
