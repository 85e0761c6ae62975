//! Record: what lies at one position of a log: entries chained one after another by one leader, end
//! to end.
//!
//! A new-epoch entry (`NewEpoch`) is alone in its record and names its candidate. A candidate is
//! one incarnation of one server: after a restart the same server is another replica, because it no
//! longer knows what it had in flight.
//!
//! A seed is a new-epoch entry without a candidate, at the first position of a log: the history
//! begins elsewhere and goes on here, behind a checkpoint whose tip the seed builds on.

use bytes::{Bytes, BytesMut};
use vetch_journal::{
    ChainedEntry, Draft, Entry, EntryError, Hash, Kind, PartId, Payload, Tip, entry_len, hash_entry,
};

const CANDIDATE_LEN: usize = 16;

/// One incarnation of one server. No two incarnations may share both numbers: draw `incarnation` at
/// random at every start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId {
    pub member: u64,
    pub incarnation: u64,
}

/// Why bytes are not a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    #[error("it is empty")]
    Empty,
    #[error(transparent)]
    Entry(#[from] EntryError),
    #[error("a new-epoch entry shares its record with other entries")]
    NewEpochNotAlone,
    #[error("a new-epoch entry does not name its candidate")]
    NoCandidate,
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
            return Err(RecordError::NewEpochNotAlone);
        }
        if entries.iter().any(|(entry, _)| entry.epoch != first.epoch) {
            return Err(RecordError::MixedEpochs);
        }
        if first.kind == Kind::NewEpoch {
            candidate_of(first).ok_or(RecordError::NoCandidate)?;
        }
        Ok(Record { entries })
    }

    pub fn first(&self) -> &Entry {
        &self.entries[0].0
    }

    /// Identifies this record: the hash of its last entry, which chains all before it.
    pub fn last_hash(&self) -> Hash {
        self.entries[self.entries.len() - 1].1
    }

    pub fn entries(&self) -> &[(Entry, Hash)] {
        &self.entries
    }

    pub fn into_entries(self) -> Vec<(Entry, Hash)> {
        self.entries
    }

    /// The candidate, if this record is a new-epoch entry.
    pub fn candidate(&self) -> Option<ReplicaId> {
        candidate_of(self.first())
    }
}

/// The candidate that a new-epoch entry names. `None` for other entries.
pub fn candidate_of(entry: &Entry) -> Option<ReplicaId> {
    let Payload::Inline(payload) = &entry.parts.first()?.payload else { return None };
    if entry.kind != Kind::NewEpoch || payload.len() != CANDIDATE_LEN {
        return None;
    }
    let number = |at: usize| u64::from_le_bytes(payload[at..at + 8].try_into().expect("eight bytes"));
    Some(ReplicaId { member: number(0), incarnation: number(8) })
}

/// The entry that makes `candidate` the leader of the epoch after `tip`'s.
pub fn new_epoch(candidate: ReplicaId, tip: Tip) -> ChainedEntry {
    let mut tip = tip;
    let mut draft = Draft::with_capacity(Kind::NewEpoch, CANDIDATE_LEN);
    draft.begin_part(PartId::default());
    draft.payload().extend_from_slice(&candidate.member.to_le_bytes());
    draft.payload().extend_from_slice(&candidate.incarnation.to_le_bytes());
    draft.end_part(0);
    draft.chain(&mut tip)
}

/// The candidate of a seed. Incarnations are drawn at random, so no server is it, and every reader
/// waits for another leader.
const NO_CANDIDATE: ReplicaId = ReplicaId { member: 0, incarnation: 0 };

/// The first record of a log that goes on behind `tip`.
pub fn seed(tip: Tip) -> ChainedEntry {
    new_epoch(NO_CANDIDATE, tip)
}

/// Whether an entry is a seed.
pub fn is_seed(entry: &Entry) -> bool {
    candidate_of(entry) == Some(NO_CANDIDATE)
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
