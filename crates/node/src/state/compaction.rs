//! Compaction state: what keeps versions from being freed, and how far freeing has come.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::watch;
use vetch_store::hash::PastHashes;
use vetch_sync::{Mutex, MutexGuard};

use super::pins::ReadPins;

pub(crate) struct CompactionState {
    /// Snapshots that are collecting versions: while there are any, none is freed. Raised with the
    /// store locked.
    collecting_snapshots: AtomicUsize,
    /// Revisions that reads in progress need. Taken and examined with the store locked.
    pins: ReadPins,
    /// Compact revision up to which memory has been given back.
    freed: watch::Sender<i64>,
    /// What the last compactions found. A compaction is entered with the store locked, and nothing
    /// is freed for it before it has been hashed.
    past_hashes: Mutex<PastHashes>,
}

impl CompactionState {
    pub(crate) fn new() -> CompactionState {
        CompactionState {
            collecting_snapshots: AtomicUsize::new(0),
            pins: ReadPins::default(),
            freed: watch::Sender::new(-1),
            past_hashes: Mutex::default(),
        }
    }

    pub(crate) fn begin_collecting(&self) {
        self.collecting_snapshots.fetch_add(1, Ordering::AcqRel);
    }

    /// True if this was the last snapshot that collected versions.
    pub(crate) fn end_collecting(&self) -> bool {
        let before = self.collecting_snapshots.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "a snapshot ends its collection once");
        before == 1
    }

    pub(crate) fn is_collecting(&self) -> bool {
        self.collecting_snapshots.load(Ordering::Acquire) > 0
    }

    pub(crate) fn pins(&self) -> &ReadPins {
        &self.pins
    }

    pub(crate) fn past_hashes(&self) -> MutexGuard<'_, PastHashes> {
        self.past_hashes.lock()
    }

    pub(crate) fn subscribe_freed(&self) -> watch::Receiver<i64> {
        self.freed.subscribe()
    }

    /// Memory has been given back up to this revision. False if that is known.
    pub(crate) fn set_freed(&self, revision: i64) -> bool {
        self.freed.send_if_modified(|freed| {
            assert!(*freed <= revision, "freed memory stays freed");
            let moved = *freed != revision;
            *freed = revision;
            moved
        })
    }
}
