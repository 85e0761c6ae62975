//! Read pins: what reads in progress need of the past.
//!
//! A compaction takes effect at once for those who ask after it. A read that had begun before is
//! entitled to its answer, but it gives up the store between chunks, and the versions it reads may
//! be freed meanwhile; then it has to begin anew. A client that writes and compacts in a loop could
//! have that happen to every attempt, so an attempt that is not the first one pins its revision:
//! until it is done, housekeeping frees only what no reader at that revision or later needs.
//!
//! Pins delay the freeing of memory and nothing else. They cannot put it off for ever, whatever
//! clients do: a new pin is never below the compaction that is visible when it is taken, so what
//! had been compacted by then waits only for the pins that are there already, and no pin counts for
//! longer than [`PIN_MAX`]. A read that outlives its pin begins anew. What a slow client reads
//! piece by piece, as a streamed range, is never pinned.

use std::collections::BTreeMap;
use std::time::Duration;

use vetch_store::Store;
use vetch_sync::Mutex;

use super::bell::HousekeepingBell;

/// A read that waits for nothing but its turns is done long before.
const PIN_MAX: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(crate) struct ReadPins(Mutex<Pinned>);

#[derive(Default)]
struct Pinned {
    /// When each pin was taken, by its revision and its number.
    taken: BTreeMap<(i64, u64), Duration>,
    next: u64,
    /// Whether something could be freed if there were fewer pins.
    is_waited_for: bool,
}

/// Keeps the versions of one revision until it is dropped.
pub(crate) struct ReadPin<'s> {
    pins: &'s ReadPins,
    housekeeping: &'s HousekeepingBell,
    place: (i64, u64),
}

impl ReadPins {
    /// Pins `revision`, at which the caller may read: with the store locked, so that nothing is
    /// freed in between.
    pub(crate) fn pin<'s>(
        &'s self,
        store: &Store,
        revision: i64,
        now: Duration,
        housekeeping: &'s HousekeepingBell,
    ) -> ReadPin<'s> {
        assert!(store.freed_to() <= revision, "versions that were freed cannot be pinned");
        let mut pinned = self.0.lock();
        let place = (revision, pinned.next);
        pinned.next += 1;
        pinned.taken.insert(place, now);
        ReadPin { pins: self, housekeeping, place }
    }

    /// Up to which revision versions may be freed for a compaction at `compacted`. Called with the
    /// store locked. If that is less than all, the next pin to go has housekeeping look again.
    pub(crate) fn limit(&self, compacted: i64, now: Duration) -> i64 {
        let mut pinned = self.0.lock();
        while let Some(first) = pinned.taken.first_entry()
            && now.saturating_sub(*first.get()) > PIN_MAX
        {
            first.remove();
        }
        let lowest = pinned.taken.first_key_value().map_or(i64::MAX, |((revision, _), _)| *revision);
        pinned.is_waited_for = lowest < compacted;
        lowest.min(compacted)
    }
}

impl Drop for ReadPin<'_> {
    fn drop(&mut self) {
        let mut pinned = self.pins.0.lock();
        pinned.taken.remove(&self.place);
        let is_waited_for = std::mem::take(&mut pinned.is_waited_for);
        drop(pinned);
        if is_waited_for {
            self.housekeeping.ring();
        }
    }
}
