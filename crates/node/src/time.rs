//! Time as the node is given it: monotonic, from an arbitrary start. A simulation hands in its own.

use std::time::{Duration, Instant};

/// A clock that never goes back.
pub trait Time: Send + Sync + 'static {
    fn now(&self) -> Duration;
}

/// The operating system's monotonic clock.
pub(crate) struct Monotonic {
    began: Instant,
}

impl Monotonic {
    pub(crate) fn new() -> Monotonic {
        Monotonic { began: Instant::now() }
    }
}

impl Time for Monotonic {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }
}
