//! Clock: the monotonic time of a node, and how gauges show it.

use std::sync::Arc;
use std::time::Duration;

use crate::time::Time;

pub(crate) struct NodeClock {
    time: Arc<dyn Time>,
    started: Duration,
}

impl NodeClock {
    pub(crate) fn new(time: Arc<dyn Time>) -> NodeClock {
        NodeClock { started: time.now(), time }
    }

    pub(crate) fn now(&self) -> Duration {
        self.time.now()
    }

    pub(crate) fn started(&self) -> Duration {
        self.started
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.now().saturating_sub(self.started)
    }

    /// Milliseconds since the node started.
    pub(crate) fn millis(&self) -> u64 {
        (self.now() - self.started).as_millis() as u64
    }

    /// The same as a gauge shows it, where 0 means never.
    pub(crate) fn gauge_time(&self) -> i64 {
        i64::try_from(self.millis()).unwrap_or(i64::MAX).max(1)
    }
}
