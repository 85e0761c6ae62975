//! Queue: slots that were changed, in the order of the revisions that changed them.
//!
//! It lies in chunks, so that adding to a long one never copies it and taking from it gives memory
//! back on the way.

use std::collections::VecDeque;

use crate::keys::Slot;

/// Changes per chunk.
const CHUNK: usize = 4096;

#[derive(Default)]
pub(crate) struct Queue {
    /// None of them is empty; only the last may have room.
    chunks: VecDeque<VecDeque<(i64, Slot)>>,
    /// How many changes have been taken: what the first one is counted from.
    taken: u64,
}

impl Queue {
    pub(crate) fn push_back(&mut self, revision: i64, slot: Slot) {
        if self.chunks.back().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push_back(VecDeque::new());
        }
        self.chunks.back_mut().expect("a chunk was just added").push_back((revision, slot));
    }

    /// Whether the first change is of a revision up to `upto`.
    pub(crate) fn is_due(&self, upto: i64) -> bool {
        self.front().is_some_and(|(revision, _)| revision <= upto)
    }

    /// Takes the first change if it is of a revision up to `upto`.
    pub(crate) fn pop_upto(&mut self, upto: i64) -> Option<Slot> {
        let (_, slot) = self.front().filter(|(revision, _)| *revision <= upto)?;
        let first = self.chunks.front_mut().expect("the front is in a chunk");
        first.pop_front();
        self.taken += 1;
        if first.is_empty() {
            self.chunks.pop_front();
        }
        Some(slot)
    }

    /// The last change.
    pub(crate) fn back(&self) -> Option<(i64, Slot)> {
        self.chunks.back().and_then(VecDeque::back).copied()
    }

    /// Takes the last change, which was of this revision and slot.
    pub(crate) fn take_back(&mut self, revision: i64, slot: Slot) {
        let last = self.chunks.back_mut().and_then(VecDeque::pop_back);
        assert!(last == Some((revision, slot)), "changes are taken back newest first");
        self.chunks.pop_back_if(|chunk| chunk.is_empty());
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, Slot)> + '_ {
        self.chunks.iter().flatten().copied()
    }

    /// The place of the first change after `revision`. Changes keep their places: the first ever
    /// has 0.
    pub(crate) fn place_after(&self, revision: i64) -> u64 {
        let is_before = |change: &(i64, Slot)| change.0 <= revision;
        let chunk = self.chunks.partition_point(|chunk| chunk.back().is_some_and(is_before));
        let within = self.chunks.get(chunk).map_or(0, |chunk| chunk.partition_point(is_before));
        self.place_of(chunk) + within as u64
    }

    /// The place that the next change gets.
    pub(crate) fn end(&self) -> u64 {
        self.place_of(self.chunks.len())
    }

    /// The slot of the change at a place that has not been taken.
    pub(crate) fn slot(&self, place: u64) -> Slot {
        let mut offset = usize::try_from(place - self.taken).expect("changes are in memory");
        let mut chunk = 0;
        let first = self.chunks.front().map_or(0, VecDeque::len);
        if offset >= first {
            (chunk, offset) = (1 + (offset - first) / CHUNK, (offset - first) % CHUNK);
        }
        self.chunks[chunk][offset].1
    }

    /// The place of the first change of a chunk, or behind all of them.
    fn place_of(&self, chunk: usize) -> u64 {
        let first = self.chunks.front().map_or(0, VecDeque::len);
        let before = match chunk {
            0 => 0,
            all if all == self.chunks.len() => {
                let last = self.chunks.back().map_or(0, VecDeque::len);
                if all == 1 { first } else { first + (all - 2) * CHUNK + last }
            }
            chunk => first + (chunk - 1) * CHUNK,
        };
        self.taken + before as u64
    }

    fn front(&self) -> Option<(i64, Slot)> {
        self.chunks.front().and_then(VecDeque::front).copied()
    }
}

impl FromIterator<(i64, Slot)> for Queue {
    fn from_iter<I: IntoIterator<Item = (i64, Slot)>>(changes: I) -> Queue {
        let mut queue = Queue::default();
        changes.into_iter().for_each(|(revision, slot)| queue.push_back(revision, slot));
        queue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_comes_out_in_order_across_chunks() {
        let last = 2 * CHUNK as i64 + 10;
        let mut queue: Queue = (1..=last).map(|revision| (revision, revision as Slot)).collect();
        assert_eq!(queue.chunks.len(), 3);
        let middle = CHUNK as i64 + 3;
        let taken: Vec<Slot> = std::iter::from_fn(|| queue.pop_upto(middle)).collect();
        assert_eq!(taken, (1..=middle as Slot).collect::<Vec<_>>());
        assert!(!queue.is_due(middle) && queue.is_due(middle + 1));
        for revision in middle..=last {
            let later = queue.place_after(revision)..queue.end();
            assert_eq!(later.end - later.start, (last - revision) as u64);
            if revision < last {
                assert_eq!(queue.slot(later.start), (revision + 1) as Slot, "also across chunks");
                assert_eq!(queue.slot(later.end - 1), last as Slot);
            }
        }
        assert_eq!(queue.iter().count() as i64, last - middle);
        while queue.pop_upto(last).is_some() {}
        assert!(queue.chunks.is_empty());
        queue.push_back(last + 1, 7);
        assert_eq!((queue.end(), queue.slot(last as u64)), (last as u64 + 1, 7));
        assert_eq!(queue.pop_upto(last + 1), Some(7));
    }
}
