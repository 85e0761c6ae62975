//! Gauges: counts for metrics, readable at any time without a lock.
//!
//! `slow_watchers` and `pending_events` are reported by each stream at the end of its last drain,
//! so they are estimates; the other two are exact.

use std::sync::atomic::{AtomicI64, Ordering};

/// Counters shared by the hub and its streams.
#[derive(Debug, Default)]
pub struct Gauges {
    pub(crate) streams: AtomicI64,
    pub(crate) watchers: AtomicI64,
    pub(crate) slow_watchers: AtomicI64,
    pub(crate) pending_events: AtomicI64,
    /// What the hub has published: for streams that look without its lock.
    pub(crate) published: AtomicI64,
}

impl Gauges {
    /// Open streams.
    pub fn streams(&self) -> i64 {
        self.streams.load(Ordering::Relaxed)
    }

    /// Watchers of all streams.
    pub fn watchers(&self) -> i64 {
        self.watchers.load(Ordering::Relaxed)
    }

    /// Watchers that had more to deliver when their stream was last drained.
    pub fn slow_watchers(&self) -> i64 {
        self.slow_watchers.load(Ordering::Relaxed)
    }

    /// Revisions known or assumed to wait for slow watchers. For a watcher that reads history this
    /// counts the revisions it has yet to examine, which is an upper bound.
    pub fn pending_events(&self) -> i64 {
        self.pending_events.load(Ordering::Relaxed)
    }
}

pub(crate) fn add(gauge: &AtomicI64, delta: i64) {
    gauge.fetch_add(delta, Ordering::Relaxed);
}
