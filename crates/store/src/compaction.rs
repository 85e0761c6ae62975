//! Compaction: giving back the versions nobody may ask for any more, a little at a time.
//!
//! A compaction at revision C only moves a mark; this is the part that frees memory. The store remembers,
//! in revision order, which keys were overwritten or deleted, so the work follows the garbage and not the
//! number of keys, and it can stop after any number of them.
//!
//! What is dropped is what was superseded at C - 1, one revision short of the mark. So every event at C still
//! finds its previous version, and a delete at C keeps its tombstone: a watch may start at C.

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

impl Store {
    /// Frees up to `max` overwritten or deleted keys' garbage. True when nothing is left to free.
    pub fn compact_step(&mut self, max: usize, freed: &mut Vec<Freed>) -> bool {
        let floor = self.visible.compact_revision - 1;
        for _ in 0..max {
            match self.superseded.front() {
                Some(&(revision, slot)) if revision <= floor => {
                    self.superseded.pop_front();
                    self.compact_slot(slot, floor, freed);
                }
                _ => {
                    self.membership.compact(floor);
                    return true;
                }
            }
        }
        false
    }

    /// Whether [`Store::compact_step`] would find something to do.
    pub fn has_garbage(&self) -> bool {
        self.superseded.front().is_some_and(|&(revision, _)| revision < self.visible.compact_revision)
    }

    fn compact_slot(&mut self, slot: Slot, floor: i64, freed: &mut Vec<Freed>) {
        let mut last = None;
        let bytes = &mut self.bytes;
        self.keys.chain_mut(slot).compact(floor, |record: Record| {
            *bytes -= record.footprint() as u64;
            freed.push(Freed { mod_revision: record.mod_revision(), saved_bytes: record.saved_len() });
            last = Some(record);
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
