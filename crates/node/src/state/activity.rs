//! Activity: what is observed of writes, off their path.

use crate::commit_times::CommitTimes;
use vetch_counters::prefixes::Prefixes;
use vetch_sync::{Mutex, MutexGuard};

#[derive(Default)]
pub(crate) struct Activity {
    /// Writes by prefix, counted by the fan-out thread.
    prefixes: Mutex<Prefixes>,
    commit_times: Mutex<CommitTimes>,
}

impl Activity {
    pub(crate) fn prefixes(&self) -> MutexGuard<'_, Prefixes> {
        self.prefixes.lock()
    }

    pub(crate) fn commit_times(&self) -> MutexGuard<'_, CommitTimes> {
        self.commit_times.lock()
    }
}
