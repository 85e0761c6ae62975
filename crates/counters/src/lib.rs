//! Counters: what is counted beside the work, in bounded memory.
//!
//! * `histogram`: durations and sizes by bucket, from many threads.
//! * `prefixes`: which parts of the key space are written to most.

mod histogram;
pub mod prefixes;

pub use histogram::{Histogram, doubling};
