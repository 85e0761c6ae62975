//! Compaction: giving back the versions nobody may ask for any more, a little at a time.
//!
//! A compaction at revision C only moves a mark; this is the part that frees memory. The store remembers,
//! in revision order, which keys were overwritten or deleted, so the work follows the garbage and not the
//! number of keys, and it can stop after any number of them.
//!
//! What is dropped is what was superseded at C - 1, one revision short of the mark. So every event at C still
//! finds its previous version, and a delete at C keeps its tombstone: a watch may start at C. Only if C itself
//! changed many keys, as when an operator deletes a whole prefix to make room and compacts right there, are the
//! values it replaced given back as well; such events then come without their previous version, as etcd's do.

use std::collections::VecDeque;

use vetch_bugs::Bug;

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

/// A revision that changed more keys than this does not keep what it replaced when it is compacted at.
pub const PREVIOUS_KEPT: usize = 16;

impl Store {
    /// Takes out the garbage of up to `max` overwrites and deletes. True when nothing is left to free.
    /// The versions are moved to `freed`, so that their memory can be given back where nobody waits.
    pub fn compact_step(&mut self, max: usize, freed: &mut Vec<Record>) -> bool {
        let compacted = self.visible.compact_revision;
        let floor = if vetch_bugs::on(Bug::DeleteLost) { compacted } else { compacted - 1 };
        for _ in 0..max {
            if let Some(slot) = pop_upto(&mut self.shed, floor) {
                self.compact_slot(slot, floor, freed);
            } else if let Some(slot) = pop_upto(&mut self.superseded, floor) {
                self.compact_slot(slot, floor, freed);
            } else if self.sheds_at(compacted) {
                let (revision, slot) = self.superseded.pop_front().expect("a large revision is in front");
                self.shed.push_back((revision, slot));
                let bytes = &mut self.bytes;
                self.keys.chain_mut(slot).shed(compacted, |record| {
                    *bytes -= record.footprint() as u64;
                    freed.push(record);
                });
            } else {
                self.membership.compact(floor);
                return true;
            }
        }
        false
    }

    /// Whether [`Store::compact_step`] would find something to do.
    pub fn has_garbage(&self) -> bool {
        let compacted = self.visible.compact_revision;
        let due =
            |queue: &VecDeque<(i64, Slot)>| queue.front().is_some_and(|&(revision, _)| revision < compacted);
        due(&self.shed) || due(&self.superseded) || self.sheds_at(compacted)
    }

    /// Whether the front of the queue belongs to a compacted revision too large to keep what it replaced.
    fn sheds_at(&self, compacted: i64) -> bool {
        let here = |&&(revision, _): &&(i64, Slot)| revision == compacted;
        let begun = self.shed.back().filter(here).is_some();
        let enough = if begun { 0 } else { PREVIOUS_KEPT };
        self.superseded.iter().take_while(here).nth(enough).is_some()
    }

    fn compact_slot(&mut self, slot: Slot, floor: i64, freed: &mut Vec<Record>) {
        let mut last = None;
        let bytes = &mut self.bytes;
        self.keys.chain_mut(slot).compact(floor, |record: Record| {
            *bytes -= record.footprint() as u64;
            last = Some(record.clone());
            freed.push(record);
        });
        if let Some(gone) = last
            && self.keys.chain(slot).versions().is_empty()
        {
            let keys = |other: Slot| if other == slot { gone.key() } else { self.keys.key(other) };
            self.tree.remove(&keys, slot);
            self.keys.remove(slot, &gone);
        }
    }
}

fn pop_upto(queue: &mut VecDeque<(i64, Slot)>, floor: i64) -> Option<Slot> {
    let &(revision, slot) = queue.front()?;
    (revision <= floor).then(|| {
        queue.pop_front();
        slot
    })
}
