//! The checker: was everything that clients saw possible in one order of events?
//!
//! * `history`: what clients asked and saw, and when. Recorded by the simulation and by trials of real processes alike.

pub mod history;

pub use history::{Ending, History, Operation, Outcome, WatchMessage, Watched};
