//! Chain: the rule by which one entry follows another, for writers (`Draft::chain`) and for readers
//! (`Tip::accept`).
//!
//! Invariant: both sides move a `Tip` through the same four checks (seq, prev_hash, epoch,
//! base_rev), so whatever a writer can chain, a reader accepts, and a journal that lost, repeated
//! or swapped an entry is found at that entry.

use bytes::Bytes;
use vetch_base::{Epoch, Seq};

use super::codec::{self, Place};
use super::{
    ENTRY_HEADER_LEN, Entry, EntryError, Hash, Kind, PART_HEADER_LEN, PartId, PayloadRef, hash_entry,
};

/// What is known after an entry: enough to write the next one or to recognise it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tip {
    /// The epoch of the current leader; zero before the first.
    pub epoch: Epoch,
    /// Sequence number of the last entry; zero before the first.
    pub seq: Seq,
    /// Hash of the last entry; zeros before the first.
    pub hash: Hash,
    /// The revision the next write unit gets.
    pub next_rev: i64,
}

/// Why an entry does not follow a tip.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    #[error("sequence number is {found}, expected {expected}")]
    Seq { expected: Seq, found: Seq },
    #[error("it does not name the entry before it: hash chain broken")]
    PrevHash,
    #[error("epoch is {found} while {current} is current")]
    Epoch { current: Epoch, found: Epoch },
    #[error("a new epoch must be above {current}, found {found}")]
    NewEpoch { current: Epoch, found: Epoch },
    #[error("its first revision is {found}, expected {expected}")]
    BaseRev { expected: i64, found: i64 },
    #[error("its numbers leave no room for an entry after it")]
    Overflow,
}

impl Tip {
    /// The tip of a journal that has no entry yet; its first write unit gets `next_rev`.
    pub fn genesis(next_rev: i64) -> Tip {
        Tip { epoch: Epoch::ZERO, seq: Seq::ZERO, hash: [0; 32], next_rev }
    }

    /// The tip after `entry`, whose encoding hashes to `hash`; refused unless it follows this one.
    pub fn accept(&self, entry: &Entry, hash: Hash) -> Result<Tip, ChainError> {
        let expected = self.seq.checked_next().ok_or(ChainError::Overflow)?;
        if entry.seq != expected {
            return Err(ChainError::Seq { expected, found: entry.seq });
        }
        if entry.prev_hash != self.hash {
            return Err(ChainError::PrevHash);
        }
        if entry.kind == Kind::NewEpoch {
            if entry.epoch <= self.epoch {
                return Err(ChainError::NewEpoch { current: self.epoch, found: entry.epoch });
            }
        } else if entry.epoch != self.epoch {
            return Err(ChainError::Epoch { current: self.epoch, found: entry.epoch });
        }
        if entry.base_rev != self.next_rev {
            return Err(ChainError::BaseRev { expected: self.next_rev, found: entry.base_rev });
        }
        let next_rev = next_rev(entry.base_rev, entry.units()).ok_or(ChainError::Overflow)?;
        // Readers and writers count on from here.
        if entry.seq == Seq::MAX || entry.epoch == Epoch::MAX || next_rev == i64::MAX {
            return Err(ChainError::Overflow);
        }
        Ok(Tip { epoch: entry.epoch, seq: entry.seq, hash, next_rev })
    }

    /// The tip after `entry`, whose encoding hashes to `hash`, as the entry itself claims it.
    pub(crate) fn after(entry: &Entry, hash: Hash) -> Option<Tip> {
        let next_rev = next_rev(entry.base_rev, entry.units())?;
        Some(Tip { epoch: entry.epoch, seq: entry.seq, hash, next_rev })
    }

    /// The tip just before `entry`, as the entry itself claims it. Where reading starts in the
    /// middle of a journal there is nothing to check the first entry against.
    pub(crate) fn claimed_by(entry: &Entry) -> Option<Tip> {
        let epoch = if entry.kind == Kind::NewEpoch { entry.epoch.checked_prev()? } else { entry.epoch };
        Some(Tip { epoch, seq: entry.seq.checked_prev()?, hash: entry.prev_hash, next_rev: entry.base_rev })
    }
}

fn next_rev(base_rev: i64, units: u64) -> Option<i64> {
    base_rev.checked_add_unsigned(units)
}

/// An entry under construction, in its final buffer: the caller appends payload bytes behind
/// reserved headers, so chaining moves nothing.
#[derive(Clone, Debug)]
pub struct Draft {
    buf: Vec<u8>,
    kind: Kind,
    parts: u16,
    units: u64,
    has_refs: bool,
    open: Option<usize>,
}

impl Draft {
    pub fn new(kind: Kind) -> Draft {
        Draft::with_capacity(kind, 0)
    }

    /// A draft with room for about `payload` bytes in one part.
    pub fn with_capacity(kind: Kind, payload: usize) -> Draft {
        let mut buf = Vec::with_capacity(ENTRY_HEADER_LEN + PART_HEADER_LEN + payload);
        buf.resize(ENTRY_HEADER_LEN, 0);
        Draft { buf, kind, parts: 0, units: 0, has_refs: false, open: None }
    }

    /// Opens a part; append its payload through `payload`, then close it with `end_part`.
    pub fn begin_part(&mut self, id: PartId) {
        assert!(self.open.is_none(), "a part is already open");
        self.open = Some(codec::begin_part(&mut self.buf, id));
    }

    /// Where the payload of the open part is appended. What is already there must stay.
    pub fn payload(&mut self) -> &mut Vec<u8> {
        assert!(self.open.is_some(), "no part is open");
        &mut self.buf
    }

    /// Bytes of the whole entry so far.
    pub fn size(&self) -> usize {
        self.buf.len()
    }

    /// Bytes in the payload of the open part so far.
    pub fn payload_len(&self) -> usize {
        self.open.map_or(0, |at| self.buf.len() - at - PART_HEADER_LEN)
    }

    /// Closes the open part, which holds `count` write units.
    pub fn end_part(&mut self, count: u32) {
        let at = self.open.take().expect("no part is open");
        codec::end_part(&mut self.buf, at, count);
        self.count_part(count);
    }

    /// Adds a reference part. Reserved: no reader follows references yet.
    pub fn push_ref(&mut self, id: PartId, count: u32, reference: &PayloadRef) {
        assert!(self.open.is_none(), "a part is open");
        codec::push_ref(&mut self.buf, id, count, reference);
        self.has_refs = true;
        self.count_part(count);
    }

    fn count_part(&mut self, count: u32) {
        self.parts = self.parts.checked_add(1).expect("an entry has at most 65535 parts");
        self.units += u64::from(count);
    }

    /// Gives the draft its place behind `tip` and moves the tip onto it. A `NewEpoch` raises the
    /// epoch by one.
    pub fn chain(mut self, tip: &mut Tip) -> ChainedEntry {
        assert!(self.open.is_none(), "a part is still open");
        let epoch = if self.kind == Kind::NewEpoch { tip.epoch.next() } else { tip.epoch };
        let place = Place { epoch, seq: tip.seq.next(), base_rev: tip.next_rev, prev_hash: tip.hash };
        codec::write_header(&mut self.buf, self.kind, self.parts, &place);
        let next_rev = next_rev(tip.next_rev, self.units).expect("revisions fit i64");
        let before = *tip;
        *tip = Tip { epoch, seq: place.seq, hash: hash_entry(&self.buf), next_rev };
        let is_reserved = self.has_refs || self.kind.is_reserved();
        ChainedEntry { bytes: Bytes::from(self.buf), kind: self.kind, is_reserved, before, after: *tip }
    }
}

/// An encoded entry with its place in the chain. Only `Draft::chain` and `ChainedEntry::receive`
/// make one, so engines trust hash and place.
#[derive(Clone, Debug)]
pub struct ChainedEntry {
    bytes: Bytes,
    kind: Kind,
    is_reserved: bool,
    before: Tip,
    after: Tip,
}

/// Why bytes that came from elsewhere are not the next entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    #[error("not an entry: {0}")]
    Entry(#[from] EntryError),
    #[error("an entry that does not follow: {0}")]
    Chain(#[from] ChainError),
}

impl ChainedEntry {
    /// An encoded entry that another member chained, if it follows `tip`, which moves onto it.
    /// Returned with the entry as values, whose payloads are slices of the bytes.
    pub fn receive(bytes: Bytes, tip: &mut Tip) -> Result<(ChainedEntry, Entry), ReceiveError> {
        let entry = Entry::decode(&bytes)?;
        let before = *tip;
        let after = before.accept(&entry, hash_entry(&bytes))?;
        *tip = after;
        let is_reserved = entry.unsupported().is_some();
        Ok((ChainedEntry { bytes, kind: entry.kind, is_reserved, before, after }, entry))
    }

    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn seq(&self) -> Seq {
        self.after.seq
    }

    /// Whether readers of this version would refuse the entry.
    pub fn is_reserved(&self) -> bool {
        self.is_reserved
    }

    /// Revision of the first write unit in the entry.
    pub fn base_rev(&self) -> i64 {
        self.before.next_rev
    }

    /// The tip this entry was chained on.
    pub fn before(&self) -> &Tip {
        &self.before
    }

    /// The tip once this entry is durable.
    pub fn after(&self) -> &Tip {
        &self.after
    }
}
