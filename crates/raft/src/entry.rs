//! Log entry: an entry of the journal with the place it has in the log. Its sequence number is the
//! index of Raft, its epoch the term.

use bytes::Bytes;
use vetch_base::{Epoch, Seq};
use vetch_journal::{ChainError, ChainedEntry, Entry, EntryError, Kind, Tip, hash_entry};

/// An encoded entry, and the tip after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    bytes: Bytes,
    kind: Kind,
    tip: Tip,
}

/// Why bytes are not an entry of a replicated log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogEntryError {
    #[error(transparent)]
    Entry(#[from] EntryError),
    #[error(transparent)]
    Chain(#[from] ChainError),
    #[error("{0} is not supported by this version")]
    NotSupported(String),
}

impl LogEntry {
    /// Decodes an entry that must follow `before`.
    pub fn decode(bytes: Bytes, before: &Tip) -> Result<LogEntry, LogEntryError> {
        let entry = Entry::decode(&bytes)?;
        let tip = before.accept(&entry, hash_entry(&bytes))?;
        if let Some(what) = entry.unsupported().filter(|_| entry.kind != Kind::Members) {
            return Err(LogEntryError::NotSupported(what));
        }
        Ok(LogEntry { bytes, kind: entry.kind, tip })
    }

    /// Decodes an entry whose predecessor is not at hand, such as the first one read from a disk.
    pub fn read(bytes: Bytes) -> Result<LogEntry, LogEntryError> {
        let entry = Entry::decode(&bytes)?;
        let overflow = LogEntryError::Chain(ChainError::Overflow);
        let next_rev = entry.base_rev.checked_add_unsigned(entry.units()).ok_or(overflow.clone())?;
        if entry.seq == Seq::MAX || entry.epoch == Epoch::MAX || next_rev == i64::MAX {
            return Err(overflow);
        }
        if let Some(what) = entry.unsupported().filter(|_| entry.kind != Kind::Members) {
            return Err(LogEntryError::NotSupported(what));
        }
        let tip = Tip { epoch: entry.epoch, seq: entry.seq, hash: hash_entry(&bytes), next_rev };
        Ok(LogEntry { bytes, kind: entry.kind, tip })
    }

    /// The first entry of the leader of `epoch`, behind `before`. Every member makes the same one.
    pub(crate) fn new_epoch(epoch: Epoch, before: &Tip) -> LogEntry {
        assert!(epoch > before.epoch, "a new epoch is above the one before");
        let entry = Entry {
            epoch,
            seq: before.seq.next(),
            prev_hash: before.hash,
            base_rev: before.next_rev,
            kind: Kind::NewEpoch,
            parts: Vec::new(),
        };
        let bytes = Bytes::from(entry.encode());
        let tip = Tip { epoch, seq: entry.seq, hash: hash_entry(&bytes), next_rev: before.next_rev };
        LogEntry { bytes, kind: Kind::NewEpoch, tip }
    }

    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn seq(&self) -> Seq {
        self.tip.seq
    }

    pub fn epoch(&self) -> Epoch {
        self.tip.epoch
    }

    /// The tip after this entry.
    pub fn tip(&self) -> &Tip {
        &self.tip
    }

    /// The entry as values.
    pub fn entry(&self) -> Entry {
        Entry::decode(&self.bytes).expect("it was decoded or encoded here before")
    }
}

impl From<&ChainedEntry> for LogEntry {
    fn from(entry: &ChainedEntry) -> LogEntry {
        LogEntry { bytes: entry.bytes().clone(), kind: entry.kind(), tip: *entry.after() }
    }
}
