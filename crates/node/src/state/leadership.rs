//! Leadership: whether this server evaluates writes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vetch_base::Epoch;

/// `following` and `count` are changed together, with the store locked.
pub(crate) struct Leadership {
    /// Of the local journal: which start of this server it is.
    local_epoch: Epoch,
    /// Another server evaluates writes: the leader, or the source of a migration (`follow`).
    following: AtomicBool,
    /// How often this server has become leader, or was confirmed as leader, of a shared journal.
    count: AtomicU64,
}

impl Leadership {
    pub(crate) fn new(local_epoch: Epoch, following: bool) -> Leadership {
        Leadership { local_epoch, following: AtomicBool::new(following), count: AtomicU64::new(0) }
    }

    pub(crate) fn local_epoch(&self) -> Epoch {
        self.local_epoch
    }

    pub(crate) fn is_following(&self) -> bool {
        self.following.load(Ordering::Acquire)
    }

    /// How often this server has become leader.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Nothing is evaluated from here on.
    pub(crate) fn follow(&self) {
        self.following.store(true, Ordering::Release);
    }

    /// Requests are evaluated from here on.
    pub(crate) fn lead(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.following.store(false, Ordering::Release);
    }
}
