//! Entry: one step of the order journal, as values and as bytes.
//!
//! An entry names its writer (epoch), its place (seq), the entry before it (prev_hash), the
//! revision of its first write unit (base_rev), and carries parts: one per partition, each with an
//! opaque payload or a reserved reference to one. `Tip` is what a reader or writer knows after an
//! entry; chaining a `Draft` on a tip or accepting a decoded entry moves the tip by exactly one.
//! All integers are little-endian and every length is explicit.
//!
//! Guarantees: `encode(decode(x)) == x` for every accepted `x`; decoding never panics and never
//! allocates more than the input justifies. Pure: no files, no clock.
//!
//! Not here: how entries are laid on a disk (`local::record`), and what a payload means.

use bytes::Bytes;
use vetch_base::{Epoch, Seq};

mod chain;
mod codec;

pub use chain::{ChainError, ChainedEntry, Draft, ReceiveError, Tip};
pub use codec::entry_len;

#[cfg(test)]
mod tests;

/// Version byte of every entry. A reader refuses any other.
pub const ENTRY_VERSION: u8 = 1;
/// Bytes before the first part.
pub const ENTRY_HEADER_LEN: usize = 64;
/// Bytes of a part before its payload.
pub const PART_HEADER_LEN: usize = 32;
/// Bytes of an encoded payload reference.
pub const REF_LEN: usize = 56;
/// The longest entry: far above any request limit, low enough that lengths never overflow.
pub const MAX_ENTRY_LEN: usize = 1 << 30;

/// BLAKE3 of an encoded entry, 256 bits.
pub type Hash = [u8; 32];

/// The hash that links the entry after it: of the whole encoding, so of `prev_hash` too.
pub fn hash_entry(encoded: &[u8]) -> Hash {
    blake3::hash(encoded).into()
}

/// What an entry does. Numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Write units; each consumes one revision.
    Writes = 1,
    /// The first entry of a writer; everything from older epochs behind it is void.
    NewEpoch = 2,
    /// Proves that the writer is current; consumes no revision.
    Barrier = 3,
    /// Reserved: ownership of a partition.
    Own = 4,
    /// Reserved: split or merge of partitions.
    Map = 5,
    /// Reserved: the journal continues in another stream.
    Seal = 6,
    /// Reserved: agreement on a trim point.
    Trim = 7,
    /// A change of the members that replicate the journal among themselves. Reserved wherever the
    /// journal is alone on its disk or the log is elsewhere.
    Members = 8,
}

impl Kind {
    /// The kind with this number in the format.
    pub fn from_number(number: u8) -> Option<Kind> {
        Some(match number {
            1 => Kind::Writes,
            2 => Kind::NewEpoch,
            3 => Kind::Barrier,
            4 => Kind::Own,
            5 => Kind::Map,
            6 => Kind::Seal,
            7 => Kind::Trim,
            8 => Kind::Members,
            _ => return None,
        })
    }

    /// Whether this version may only carry the kind, not act on it.
    pub fn is_reserved(self) -> bool {
        matches!(self, Kind::Own | Kind::Map | Kind::Seal | Kind::Trim | Kind::Members)
    }
}

/// An entry as values. Payloads share the buffer they were decoded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub epoch: Epoch,
    pub seq: Seq,
    pub prev_hash: Hash,
    pub base_rev: i64,
    pub kind: Kind,
    pub parts: Vec<Part>,
}

/// Who wrote a part: the partition, under which ownership, and its place in the partition's own
/// order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartId {
    pub partition: u32,
    pub owner_epoch: u64,
    pub pseq: u64,
}

/// What one partition contributes to an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub id: PartId,
    /// Write units in the payload, so revisions consumed.
    pub count: u32,
    pub payload: Payload,
}

/// The bytes of a part, or where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    Inline(Bytes),
    /// Reserved: encodes and decodes, but no reader follows it yet.
    Ref(PayloadRef),
}

/// A place in a partition's own data journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadRef {
    pub stream: u64,
    pub position: u64,
    pub len: u64,
    pub hash: Hash,
}

impl Entry {
    /// What in it this version must not pass over and cannot act on, if there is such a thing.
    pub fn unsupported(&self) -> Option<String> {
        if self.kind.is_reserved() {
            return Some(format!("an entry of kind {:?}", self.kind));
        }
        let is_outside = |part: &Part| matches!(part.payload, Payload::Ref(_));
        self.parts.iter().any(is_outside).then(|| "a payload outside the journal".to_owned())
    }

    /// The hash of the entry before that an encoded entry names.
    pub(crate) fn prev_hash_of(encoded: &[u8]) -> Option<Hash> {
        encoded.get(codec::PREV_HASH).and_then(|hash| hash.try_into().ok())
    }

    /// Revisions this entry consumes: the sum of its parts' counts.
    pub fn units(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.count)).sum()
    }
}

/// Why bytes are not an entry of this version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    #[error("entry is cut short: {need} bytes needed, {have} there")]
    Short { need: u64, have: u64 },
    #[error("entry says it is {said} bytes long but {have} are there")]
    Length { said: u64, have: u64 },
    #[error("entry version {0} is not known to this version of the software (it writes {ENTRY_VERSION})")]
    Version(u8),
    #[error("entry kind {0} is not known to this version of the software")]
    Kind(u8),
    #[error("payload kind {0} is not known to this version of the software")]
    PayloadKind(u8),
    #[error("reserved bytes of a part are not zero")]
    Reserved,
    #[error("a payload reference must be {REF_LEN} bytes long, not {0}")]
    RefLength(u32),
    #[error("{0} bytes are left over after the last part")]
    Trailing(u64),
}
