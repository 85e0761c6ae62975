//! Ring: the recent matches of one watcher group, shared by all its watchers.
//!
//! Invariant: the ring holds *every* match of the group from revision `start` up to the hub's
//! published revision. So a cursor at or above `start` can be served from here, and finding nothing
//! there is proof that nothing is pending; a cursor below `start` must read the log. Matches that
//! were dropped (the ring is bounded) or that happened before the group existed lie below `start`.

use std::collections::VecDeque;

use crate::event::{LogEvent, Revision};

#[cfg(test)]
mod tests;

/// How much a ring may hold. The newest match is kept whatever its size.
#[derive(Debug, Clone, Copy)]
pub struct RingLimit {
    /// Matching revisions.
    pub revisions: usize,
    /// Bytes of events.
    pub bytes: usize,
}

/// Matches that all rings together hold, about. One revision may match every range that is watched,
/// so many ranges have short rings.
const ALL_RINGS: usize = 2 << 20;

impl RingLimit {
    /// The limit of one ring among so many.
    pub(crate) fn among(self, rings: usize) -> RingLimit {
        let share = (ALL_RINGS / rings.max(1)).max(1);
        RingLimit { revisions: self.revisions.min(share), ..self }
    }
}

#[derive(Debug)]
pub(crate) struct Ring<E> {
    entries: VecDeque<Revision<E>>,
    start: i64,
    bytes: usize,
}

impl<E: LogEvent> Ring<E> {
    /// A ring that knows every match from `start` on.
    pub(crate) fn new(start: i64) -> Self {
        Ring { entries: VecDeque::new(), start, bytes: 0 }
    }

    /// First revision from which on no match is missing.
    pub(crate) fn start(&self) -> i64 {
        self.start
    }

    /// Adds the newest match and drops the oldest ones that no longer fit.
    pub(crate) fn push(&mut self, revision: Revision<E>, limit: RingLimit) {
        let newest = self.entries.back().map_or(self.start - 1, |entry| entry.rev);
        assert!(revision.rev > newest, "match at {} does not follow {newest}", revision.rev);
        self.bytes += revision.events.size();
        self.entries.push_back(revision);
        while self.entries.len() > 1 && (self.entries.len() > limit.revisions || self.bytes > limit.bytes) {
            self.drop_oldest();
        }
    }

    /// Drops matches below `revision`.
    pub(crate) fn drop_below(&mut self, revision: i64) {
        while self.entries.front().is_some_and(|entry| entry.rev < revision) {
            self.drop_oldest();
        }
    }

    /// Matches at or above `next`, which must not lie below the start.
    pub(crate) fn matches_from(&self, next: i64) -> impl Iterator<Item = &Revision<E>> {
        assert!(next >= self.start, "the ring begins at {} and cannot serve {next}", self.start);
        self.entries.range(self.entries.partition_point(|entry| entry.rev < next)..)
    }

    /// Number of matches at or above `next`.
    pub(crate) fn count_from(&self, next: i64) -> usize {
        self.entries.len() - self.entries.partition_point(|entry| entry.rev < next)
    }

    fn drop_oldest(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.bytes -= entry.events.size();
            self.start = entry.rev + 1;
        }
    }
}
