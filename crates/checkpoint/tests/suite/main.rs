//! Checkpoints against a live store: what is written comes back, whatever happens in between.

#![allow(clippy::unwrap_used)]

mod crash;
mod damage;
mod encryption;
mod format;
mod model;
mod round_trip;
mod size;
mod speed;
mod world;
