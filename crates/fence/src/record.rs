//! Record: what lies at one position of a log: entries chained one after another by one writer, end
//! to end.
//!
//! A claim (`NewEpoch`) is always alone in its record and says whose it is. An author is one life
//! of one server: the same server after a restart is another author, because it no longer knows
//! what it had under way.
//!
//! A seed is a claim of nobody's, alone at the first position of a log: history begins elsewhere,
//! and goes on here behind a checkpoint whose tip it builds on.

use bytes::{Bytes, BytesMut};
use vetch_journal::{
    ChainedEntry, Draft, Entry, EntryError, Hash, Kind, PartId, Payload, Tip, entry_len, hash_entry,
};

const CLAIM_LEN: usize = 16;

/// One life of one server. No two lives may share both numbers: draw `life` at random at every
/// start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Author {
    pub node: u64,
    pub life: u64,
}

/// Why bytes are not a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    #[error("it is empty")]
    Empty,
    #[error(transparent)]
    Entry(#[from] EntryError),
    #[error("a claim shares its record with other entries")]
    ClaimNotAlone,
    #[error("a claim does not say whose it is")]
    NoAuthor,
    #[error("its entries are of different epochs")]
    MixedEpochs,
}

/// The entries of one record, each with its hash. Never empty.
#[derive(Clone, Debug)]
pub struct Record {
    entries: Vec<(Entry, Hash)>,
}

impl Record {
    pub fn decode(bytes: &Bytes) -> Result<Record, RecordError> {
        let mut rest = bytes.clone();
        let mut entries = Vec::with_capacity(1);
        while !rest.is_empty() {
            let one = rest.split_to(entry_len(&rest)?);
            entries.push((Entry::decode(&one)?, hash_entry(&one)));
        }
        let (first, _) = entries.first().ok_or(RecordError::Empty)?;
        if entries.len() > 1 && entries.iter().any(|(entry, _)| entry.kind == Kind::NewEpoch) {
            return Err(RecordError::ClaimNotAlone);
        }
        if entries.iter().any(|(entry, _)| entry.epoch != first.epoch) {
            return Err(RecordError::MixedEpochs);
        }
        if first.kind == Kind::NewEpoch {
            author_of(first).ok_or(RecordError::NoAuthor)?;
        }
        Ok(Record { entries })
    }

    pub fn first(&self) -> &Entry {
        &self.entries[0].0
    }

    /// Tells this record from every other one: the hash of its last entry, which chains all before
    /// it.
    pub fn print(&self) -> Hash {
        self.entries[self.entries.len() - 1].1
    }

    pub fn entries(&self) -> &[(Entry, Hash)] {
        &self.entries
    }

    pub fn into_entries(self) -> Vec<(Entry, Hash)> {
        self.entries
    }

    /// Whose claim this is, if it is one.
    pub fn claim(&self) -> Option<Author> {
        author_of(self.first())
    }
}

/// Whose claim an entry is, if it is one.
pub fn author_of(entry: &Entry) -> Option<Author> {
    let Payload::Inline(payload) = &entry.parts.first()?.payload else { return None };
    if entry.kind != Kind::NewEpoch || payload.len() != CLAIM_LEN {
        return None;
    }
    let number = |at: usize| u64::from_le_bytes(payload[at..at + 8].try_into().expect("eight bytes"));
    Some(Author { node: number(0), life: number(8) })
}

/// A claim of the epoch after `tip`'s.
pub fn claim(author: Author, tip: Tip) -> ChainedEntry {
    let mut tip = tip;
    let mut draft = Draft::with_capacity(Kind::NewEpoch, CLAIM_LEN);
    draft.begin_part(PartId::default());
    draft.payload().extend_from_slice(&author.node.to_le_bytes());
    draft.payload().extend_from_slice(&author.life.to_le_bytes());
    draft.end_part(0);
    draft.chain(&mut tip)
}

/// Nobody: whoever reads its claim waits for somebody else's. Lives are drawn at random, so no
/// server is it.
const NOBODY: Author = Author { node: 0, life: 0 };

/// The first record of a log that goes on behind `tip`.
pub fn seed(tip: Tip) -> ChainedEntry {
    claim(NOBODY, tip)
}

/// Whether an entry is a seed.
pub fn is_seed(entry: &Entry) -> bool {
    author_of(entry) == Some(NOBODY)
}

/// The bytes of a record.
pub fn join(entries: &[ChainedEntry]) -> Bytes {
    if let [one] = entries {
        return one.bytes().clone();
    }
    let mut bytes = BytesMut::with_capacity(entries.iter().map(|entry| entry.bytes().len()).sum());
    entries.iter().for_each(|entry| bytes.extend_from_slice(entry.bytes()));
    bytes.freeze()
}
