//! Leased: which keys hang on a lease at one visible revision, in steps.
//!
//! The keys of a lease are known at head only. What a reader at revision V may be shown follows
//! from the versions of that revision, and a [`LeasedRun`] finds them although the store changes
//! between two steps:
//!
//! * A key that is on the lease at V has a version there that names the lease. As long as that is
//!   its newest version, its slot is among those of the lease.
//! * Otherwise it was overwritten or deleted after V, and the queue of superseded versions names
//!   its slot with a revision above V. Entries leave that queue only when compaction frees versions
//!   up to their revision.
//! * A slot is given to another key only when nothing of the first one is retained, which for a key
//!   that is alive at V takes a compaction above V.
//!
//! So as long as nothing above V is freed ([`Store::freed_to`]), every key that is wanted is in one
//! of the two places at any time, and moves only from the first to the second. The run goes through
//! the slots of the lease in order and then through the part of the queue above V as long as it is
//! by then: a slot that left the lease before the cursor came by is in there. What either of them
//! names is asked for its version at V, so keys that came to the lease later are passed over; a key
//! that left and came back may be found twice, and [`LeasedRun::finish`] drops one of them.
//!
//! A rewind ([`crate::rewind`]) moves keys the other way, back from the queue to their leases,
//! where the cursor may have passed. A run that is overtaken by one starts again.
//!
//! Records are shared, not copied: a key of a run takes a pointer.

use vetch_seeded_bugs::Bug;

use crate::keys::Slot;
use crate::record::Record;
use crate::state::Store;

pub struct LeasedRun {
    /// None: any lease.
    lease: Option<i64>,
    at: i64,
    /// How often the store had been rewound when the run began.
    rewinds: u64,
    next: Next,
    found: Vec<Record>,
}

/// Where the next step goes on.
enum Next {
    /// From this slot of this lease on.
    Slots(i64, Slot),
    /// Places in the queue of superseded versions.
    Superseded { from: u64, upto: u64 },
}

impl LeasedRun {
    /// The keys on one lease at what is visible now.
    pub fn of(store: &Store, lease: i64) -> LeasedRun {
        let mark = if vetch_seeded_bugs::on(Bug::LeaseKeysAhead) { store.head } else { store.visible };
        LeasedRun::from(store, mark.revision, Some(lease), lease)
    }

    /// The keys on any lease.
    pub fn of_all(store: &Store) -> LeasedRun {
        LeasedRun::from(store, store.visible.revision, None, i64::MIN)
    }

    fn from(store: &Store, at: i64, lease: Option<i64>, first: i64) -> LeasedRun {
        LeasedRun { lease, at, rewinds: store.rewinds, next: Next::Slots(first, 0), found: Vec::new() }
    }

    /// The revision that is read.
    pub fn revision(&self) -> i64 {
        self.at
    }

    /// Examines up to `budget` keys. True when all are there.
    ///
    /// None if versions of this revision may have been freed, or the store was rewound: start
    /// again.
    pub fn step(&mut self, store: &Store, budget: usize) -> Option<bool> {
        if self.at < store.freed_to || self.rewinds != store.rewinds {
            return None;
        }
        let mut left = budget;
        let (from, upto) = match self.next {
            Next::Slots(lease, slot) => match self.walk_slots(store, (lease, slot), &mut left) {
                Some((lease, slot)) => {
                    self.next = Next::Slots(lease, slot);
                    return Some(false);
                }
                None => (store.superseded.place_after(self.at), store.superseded.end()),
            },
            Next::Superseded { from, upto } => (from, upto),
        };
        Some(self.walk_superseded(store, from, upto, left))
    }

    /// Where to go on; None when all slots have been looked at.
    fn walk_slots(&mut self, store: &Store, from: (i64, Slot), left: &mut usize) -> Option<(i64, Slot)> {
        let wanted = self.lease;
        let leases =
            store.leases.iter_from(from.0).take_while(|(id, _)| wanted.is_none_or(|wanted| *id == wanted));
        for (id, lease) in leases {
            let first = if id == from.0 { from.1 } else { 0 };
            for slot in lease.slots_from(first) {
                if *left == 0 {
                    return Some((id, slot));
                }
                *left -= 1;
                self.look_at(store, slot);
            }
        }
        None
    }

    fn walk_superseded(&mut self, store: &Store, from: u64, upto: u64, left: usize) -> bool {
        let end = upto.min(from.saturating_add(left as u64));
        (from..end).for_each(|place| self.look_at(store, store.superseded.slot(place)));
        self.next = Next::Superseded { from: end, upto };
        end == upto
    }

    fn look_at(&mut self, store: &Store, slot: Slot) {
        if let Some(version) = store.keys.chain(slot).live_at(self.at) {
            let lease = version.lease();
            if lease != 0 && self.lease.is_none_or(|wanted| wanted == lease) {
                self.found.push(version.clone());
            }
        }
    }

    /// What has been found so far, in no order, some of it twice.
    pub fn found(&self) -> &[Record] {
        &self.found
    }

    /// Drops what has been found so far: only what follows is in the answer.
    pub fn drop_found(&mut self) {
        self.found.clear();
    }

    /// The versions of all keys, in order of the keys, each once. Needs no store: sorting takes
    /// longer than finding.
    pub fn finish(mut self) -> Vec<Record> {
        self.found.sort_unstable_by(|a, b| a.key().cmp(b.key()));
        self.found.dedup_by(|a, b| a.key() == b.key());
        self.found
    }
}

#[cfg(test)]
mod tests;
