//! Queue: slots that were changed, in the order of the revisions that changed them.
//!
//! It lies in chunks, so that adding to a long one never copies it and taking from it gives memory back on the way.

use std::collections::VecDeque;

use crate::keys::Slot;

/// Changes per chunk.
const CHUNK: usize = 4096;

#[derive(Default)]
pub(crate) struct Queue {
    /// None of them is empty; only the last may have room.
    chunks: VecDeque<VecDeque<(i64, Slot)>>,
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
        if first.is_empty() {
            self.chunks.pop_front();
        }
        Some(slot)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, Slot)> + '_ {
        self.chunks.iter().flatten().copied()
    }

    /// The slots that were changed after `revision`, newest change first.
    pub(crate) fn after(&self, revision: i64) -> impl Iterator<Item = Slot> + '_ {
        let newest_first = self.chunks.iter().rev().flat_map(|chunk| chunk.iter().rev());
        newest_first.take_while(move |(changed, _)| *changed > revision).map(|(_, slot)| *slot)
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
        let newest: Vec<Slot> = ((last - 11) as Slot..=last as Slot).rev().collect();
        assert_eq!(queue.after(last - 12).collect::<Vec<_>>(), newest, "also across chunks");
        assert_eq!(queue.after(last).next(), None);
        assert_eq!(queue.iter().count() as i64, last - middle);
        while queue.pop_upto(last).is_some() {}
        assert!(queue.chunks.is_empty());
        queue.push_back(last + 1, 7);
        assert_eq!(queue.pop_upto(last + 1), Some(7));
    }
}
