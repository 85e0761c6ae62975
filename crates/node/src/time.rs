//! Time: monotonic, from an arbitrary start. A simulation passes in its own.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A clock that never goes back.
pub trait Time: Send + Sync + 'static {
    fn now(&self) -> Duration;
}

/// The operating system's monotonic clock, which stands still while the machine sleeps.
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

/// The same, but time passes while the machine sleeps, as it does for the other servers of a
/// cluster.
pub(crate) struct Sleepless {
    began: Duration,
}

impl Sleepless {
    pub(crate) fn new() -> Sleepless {
        Sleepless { began: since_boot() }
    }
}

impl Time for Sleepless {
    fn now(&self) -> Duration {
        since_boot() - self.began
    }
}

fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    // Neither is ever negative.
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}
