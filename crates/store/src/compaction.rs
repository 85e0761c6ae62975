//! Compaction: freeing the versions that no read can reach any more, a little at a time.
//!
//! A compaction at revision C only moves a mark; this is the part that frees memory. The store
//! remembers, in revision order, which keys were overwritten or deleted, so the work follows the
//! garbage and not the number of keys, and it can stop after any number of them. It can also stop
//! at a revision below C, for the sake of readers that began there before the compaction: that is
//! as if C had been lower so far.
//!
//! What is dropped is what no read at C or later can reach: every version that was superseded at or
//! before C, as in etcd. The changes of C itself stay, all of them, because a watch may begin
//! there and is shown whole revisions; those that are superseded already, above all tombstones, go
//! with the next compaction. What such a change at C had replaced is gone, so its event has no
//! previous version any more. Whatever changes later finds its previous version: the one that was
//! current at C.

use vetch_seeded_bugs::Bug;

use crate::keys::Slot;
use crate::record::Record;
use crate::state::Store;

/// A version that has been given back, as the checkpoint's book-keeping needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freed {
    pub mod_revision: i64,
    /// As saved in a checkpoint.
    pub saved_bytes: usize,
}

impl From<&Record> for Freed {
    fn from(record: &Record) -> Freed {
        Freed { mod_revision: record.mod_revision(), saved_bytes: record.saved_len() }
    }
}

impl Store {
    /// Takes out the garbage of up to `max` overwrites and deletes. True when nothing is left to
    /// free. The versions are moved to `freed`, so that the caller can free their memory after
    /// it has released the lock.
    pub fn compact_step(&mut self, max: usize, freed: &mut Vec<Record>) -> bool {
        self.compact_step_upto(max, i64::MAX, freed)
    }

    /// The same, but leaves everything to a reader at revision `upto` or later. True when nothing
    /// else is left to free.
    pub fn compact_step_upto(&mut self, max: usize, upto: i64, freed: &mut Vec<Record>) -> bool {
        let compacted = self.visible.compact_revision.min(upto).max(self.freed_to);
        self.freed_to = compacted;
        for _ in 0..max {
            let next = self.lingering.pop_upto(compacted - 1);
            let Some(slot) = next.or_else(|| self.superseded.pop_upto(compacted)) else {
                self.membership.compact(compacted);
                return true;
            };
            self.compact_slot(slot, compacted, freed);
        }
        false
    }

    /// Whether [`Store::compact_step`] would find something to do.
    pub fn has_garbage(&self) -> bool {
        let compacted = self.visible.compact_revision;
        self.lingering.is_due(compacted - 1) || self.superseded.is_due(compacted)
    }

    /// Bytes that only watchers which begin right at the compacted revision could ask for: what
    /// that revision changed and changed again, and its tombstones. They cannot be freed before
    /// there is a later revision to compact at.
    pub fn kept_for_watchers(&self) -> u64 {
        let compacted = self.visible.compact_revision;
        let here = self.lingering.iter().filter(|(revision, _)| *revision == compacted);
        let mut slots: Vec<Slot> = here.map(|(_, slot)| slot).collect();
        slots.sort_unstable();
        slots.dedup();
        slots.into_iter().map(|slot| self.kept_of(slot, compacted)).sum()
    }

    fn kept_of(&self, slot: Slot, compacted: i64) -> u64 {
        let versions = self.keys.chain(slot).versions();
        let upto = versions.partition_point(|version| version.mod_revision() <= compacted);
        let is_current = |index: usize| index + 1 == upto && !versions[index].is_tombstone();
        let kept = (0..upto).filter(|&index| !is_current(index));
        kept.map(|index| versions[index].footprint() as u64).sum()
    }

    fn compact_slot(&mut self, slot: Slot, compacted: i64, freed: &mut Vec<Record>) {
        let mut last = None;
        let bytes = &mut self.bytes;
        let mut take = |record: Record| {
            *bytes -= record.footprint() as u64;
            last = Some(record.clone());
            freed.push(record);
        };
        let chain = self.keys.chain_mut(slot);
        chain.compact(compacted, &mut take);
        let deleted_there = |last: &Record| last.is_tombstone() && last.mod_revision() == compacted;
        if vetch_seeded_bugs::on(Bug::DeleteLost) && chain.last().is_some_and(deleted_there) {
            chain.compact(compacted + 1, &mut take);
        }
        if chain.lingers_at(compacted) {
            self.lingering.push_back(compacted, slot);
        }
        if let Some(gone) = last
            && self.keys.chain(slot).versions().is_empty()
        {
            let keys = |other: Slot| if other == slot { gone.key() } else { self.keys.key(other) };
            self.tree.remove(&keys, slot);
            self.keys.remove(slot, &gone);
        }
    }
}
