//! Lease state: the lessor, and the limits on looking at all keys of large leases.

use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};
use vetch_store::Store;
use vetch_sync::{Mutex, MutexGuard};

use crate::lessor::Lessor;

/// Lists of the keys of large leases that are made at once; more of them would only share the
/// processors.
const LEASE_LISTS_MAX: usize = 2;

pub(crate) struct LeaseState {
    lessor: Mutex<Lessor>,
    lists: Semaphore,
    judging: Semaphore,
}

impl LeaseState {
    /// Each lease has the time left that was recorded.
    pub(crate) fn new(store: &Store) -> LeaseState {
        let mut lessor = Lessor::default();
        for (id, lease) in store.leases().iter() {
            lessor.start(id, lease.grant(), lease.ttl(), lease.remaining(), 0);
        }
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        LeaseState {
            lessor: Mutex::new(lessor),
            lists: Semaphore::new(LEASE_LISTS_MAX),
            judging: Semaphore::new((processors / 2).max(1)),
        }
    }

    pub(crate) fn lessor(&self) -> MutexGuard<'_, Lessor> {
        self.lessor.lock()
    }

    /// Waits for the permission to list the keys of a large lease.
    pub(crate) async fn list_turn(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.lists.acquire().await
    }

    /// Waits for the permission to judge a renewal by the keys of a large lease: half of the
    /// processors do that at most.
    pub(crate) async fn judge_turn(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.judging.acquire().await
    }
}
