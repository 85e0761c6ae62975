//! Published: what the writer tells readers beside it, and a ring of recent entries that answers
//! them without a file.
//!
//! A reader takes the count of cuts first, then how far the journal is durable, reads up to there,
//! and looks at the count again. A cut raises the count before it lowers the end or touches a byte,
//! so what was read in between is only believed if no cut had begun; everything else below the end
//! never changes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use vetch_base::Seq;

use crate::entry::{ChainedEntry, Hash};

/// What an entry in the ring takes beside its bytes.
const ENTRY_OVERHEAD: u64 = 128;

/// An encoded entry, with the hash that the one behind it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Recent {
    pub(super) bytes: Bytes,
    pub(super) hash: Hash,
}

#[derive(Debug)]
pub(super) struct Published {
    first: AtomicU64,
    durable: AtomicU64,
    cuts: AtomicU64,
    ring: Mutex<Ring>,
}

impl Published {
    pub(super) fn new(first: Seq, durable: Seq, ring_bytes: u64) -> Published {
        let (first, durable) = (AtomicU64::new(first.get()), AtomicU64::new(durable.get()));
        Published { first, durable, cuts: AtomicU64::new(0), ring: Mutex::new(Ring::new(ring_bytes)) }
    }

    /// The oldest entry that files still have.
    pub(super) fn first(&self) -> Seq {
        Seq::new(self.first.load(Ordering::Acquire))
    }

    /// How many cuts there were, and then the newest durable entry.
    pub(super) fn end(&self) -> (u64, Seq) {
        let cuts = self.cuts.load(Ordering::SeqCst);
        (cuts, Seq::new(self.durable.load(Ordering::SeqCst)))
    }

    pub(super) fn recent(&self, seq: Seq) -> Option<Recent> {
        self.ring().get(seq)
    }

    pub(super) fn appended(&self, last: Seq) {
        self.durable.store(last.get(), Ordering::Release);
    }

    /// Of entries that are durable.
    pub(super) fn remember(&self, entries: &[ChainedEntry]) {
        let mut ring = self.ring();
        entries.iter().for_each(|entry| ring.push(entry));
    }

    pub(super) fn trimmed(&self, first: Seq) {
        self.first.store(first.get(), Ordering::Release);
    }

    /// Before anything behind `to` changes.
    pub(super) fn cut(&self, to: Seq) {
        self.cuts.fetch_add(1, Ordering::SeqCst);
        self.durable.store(to.get(), Ordering::SeqCst);
        self.ring().cut(to);
    }

    /// Before the journal begins anew behind this entry.
    pub(super) fn begun(&self, at: Seq) {
        self.cut(Seq::ZERO);
        self.first.store(at.next().get(), Ordering::SeqCst);
        self.durable.store(at.get(), Ordering::SeqCst);
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().expect("nothing panics under this lock")
    }
}

/// The newest entries, without gaps, as many as fit.
#[derive(Debug)]
struct Ring {
    limit: u64,
    bytes: u64,
    first: Seq,
    entries: VecDeque<Recent>,
}

impl Ring {
    fn new(limit: u64) -> Ring {
        Ring { limit, bytes: 0, first: Seq::FIRST, entries: VecDeque::new() }
    }

    fn get(&self, seq: Seq) -> Option<Recent> {
        let at = usize::try_from(seq.get().checked_sub(self.first.get())?).ok()?;
        self.entries.get(at).cloned()
    }

    fn push(&mut self, entry: &ChainedEntry) {
        if entry.seq() != self.first.plus(self.entries.len() as u64) {
            self.cut(Seq::ZERO);
            self.first = entry.seq();
        }
        // A copy, because what was received may be a small part of a large buffer.
        let bytes = Bytes::copy_from_slice(entry.bytes());
        self.bytes += cost(&bytes);
        self.entries.push_back(Recent { bytes, hash: entry.after().hash });
        while self.bytes > self.limit
            && let Some(gone) = self.entries.pop_front()
        {
            self.bytes -= cost(&gone.bytes);
            self.first = self.first.next();
        }
    }

    fn cut(&mut self, to: Seq) {
        while self.first.plus(self.entries.len() as u64) > to.next()
            && let Some(gone) = self.entries.pop_back()
        {
            self.bytes -= cost(&gone.bytes);
        }
    }
}

fn cost(bytes: &Bytes) -> u64 {
    bytes.len() as u64 + ENTRY_OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Draft, Kind, PartId, Tip};

    fn entry(tip: &mut Tip, len: usize) -> ChainedEntry {
        let mut draft = Draft::new(Kind::Writes);
        draft.begin_part(PartId::default());
        draft.payload().extend_from_slice(&vec![7; len]);
        draft.end_part(1);
        draft.chain(tip)
    }

    #[test]
    fn recent_entries_stay_within_their_bound() {
        let limit = 16 << 10;
        let published = Published::new(Seq::FIRST, Seq::ZERO, limit);
        let mut tip = Tip::genesis(2);
        for n in 0..500_usize {
            published.remember(&[entry(&mut tip, n % 7 * 300)]);
            let ring = published.ring();
            let held: u64 = ring.entries.iter().map(|recent| cost(&recent.bytes)).sum();
            assert!(held == ring.bytes && held <= limit, "{held} bytes");
            assert!(ring.entries.len() > 4 || n < 5);
        }
        assert!(published.recent(tip.seq).is_some() && published.recent(tip.seq.next()).is_none());
        published.remember(&[entry(&mut tip, 20 << 10)]);
        assert!(published.ring().entries.is_empty(), "larger than the bound alone");
        published.remember(&[entry(&mut tip, 10)]);
        assert!(published.recent(tip.seq).is_some());
    }

    #[test]
    fn a_cut_and_a_gap_take_recent_entries_away() {
        let published = Published::new(Seq::FIRST, Seq::ZERO, 1 << 20);
        let mut tip = Tip::genesis(2);
        let entries: Vec<ChainedEntry> = (0..6).map(|_| entry(&mut tip, 9)).collect();
        published.remember(&entries[..4]);
        published.cut(Seq::new(2));
        let has = |seq| published.recent(Seq::new(seq)).is_some();
        assert_eq!([1, 2, 3, 4].map(has), [true, true, false, false]);
        published.remember(&entries[5..]);
        assert_eq!([1, 2, 5, 6].map(has), [false, false, false, true]);
    }
}
