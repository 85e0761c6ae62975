//! Ring: the recent matches of one watcher group, shared by all its watchers.
//!
//! Invariant: the ring holds *every* match of the group from revision `start` up to the hub's
//! published revision. So a cursor at or above `start` can be served from here, and finding nothing
//! there is proof that nothing is pending; a cursor below `start` must read the log. Matches that
//! were dropped (the ring is bounded) or that happened before the group existed lie below `start`.
//! Matches of revisions that are not published yet may be there too; those are not shown.
//!
//! A match is a revision with all its events, which the rings share with each other and with the
//! log. Those of the range are picked for each watcher.

use std::collections::VecDeque;

use crate::event::{Events, Revision};
use crate::log_event::LogEvent;

#[cfg(test)]
mod tests;

/// How much a ring may hold. The newest match is kept whatever its size.
#[derive(Debug, Clone, Copy)]
pub struct RingLimit {
    /// Matching revisions.
    pub revisions: usize,
    /// Bytes of events, those of other ranges in the same revisions included.
    pub bytes: usize,
}

/// Matches that all rings together hold. One revision may match every
/// range that is watched, so many ranges have short rings.
pub(crate) const ALL_RINGS: usize = if cfg!(test) { 1 << 12 } else { 1 << 20 };

/// Room for so many matches is not worth giving back.
const SPARE_MIN: usize = 8;

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

    /// The newest match, or the revision before the start.
    pub(crate) fn newest(&self) -> i64 {
        self.entries.back().map_or(self.start - 1, |entry| entry.rev)
    }

    /// Matches held.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds the newest match and drops the oldest ones that no longer fit.
    pub(crate) fn push(&mut self, rev: i64, events: &Events<E>, limit: RingLimit) {
        let newest = self.newest();
        assert!(rev > newest, "match at {rev} does not follow {newest}");
        self.bytes += events.size();
        self.entries.push_back(Revision { rev, events: events.clone() });
        self.trim(limit);
    }

    /// Drops the oldest matches that do not fit, and the room for them.
    pub(crate) fn trim(&mut self, limit: RingLimit) {
        while self.entries.len() > 1 && (self.entries.len() > limit.revisions || self.bytes > limit.bytes) {
            self.drop_oldest();
        }
        self.give_back_room();
    }

    /// Drops matches below `revision`.
    pub(crate) fn drop_below(&mut self, revision: i64) {
        while self.entries.front().is_some_and(|entry| entry.rev < revision) {
            self.drop_oldest();
        }
        self.give_back_room();
    }

    /// Matches at or above `next`, which must not lie below the start, and not above `to`.
    pub(crate) fn matches(&self, next: i64, to: i64) -> impl Iterator<Item = &Revision<E>> {
        assert!(next >= self.start, "the ring begins at {} and cannot serve {next}", self.start);
        self.entries.range(self.before(next)..self.before(to + 1).max(self.before(next)))
    }

    /// Number of matches at or above `next` and not above `to`.
    pub(crate) fn count(&self, next: i64, to: i64) -> usize {
        self.before(to + 1).saturating_sub(self.before(next))
    }

    /// The first match at or above `next`.
    pub(crate) fn first_from(&self, next: i64) -> Option<i64> {
        self.entries.get(self.before(next)).map(|entry| entry.rev)
    }

    /// How many matches there are below a revision.
    fn before(&self, revision: i64) -> usize {
        self.entries.partition_point(|entry| entry.rev < revision)
    }

    /// A ring that was once long takes no more than a short one.
    fn give_back_room(&mut self) {
        if self.entries.capacity() > SPARE_MIN && self.entries.len() < self.entries.capacity() / 4 {
            self.entries.shrink_to(2 * self.entries.len());
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.bytes -= entry.events.size();
            self.start = entry.rev + 1;
        }
    }
}
