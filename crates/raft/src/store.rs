//! Store: the log as the crate `raft` reads it.

use raft::eraftpb::{ConfState, Entry, EntryType, HardState, Snapshot};
use raft::{Error, GetEntriesContext, RaftState, Storage, StorageError};
use vetch_base::Seq;
use vetch_journal::{Kind, Tip};

use crate::entry::LogEntry;
use crate::log::{EntrySource, Log};
use crate::members::Members;

/// A state that a member holds or can begin from: everything up to `tip`, with these members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub tip: Tip,
    pub members: Members,
}

pub(crate) struct Store {
    pub(crate) log: Log,
    /// What a follower is told to fetch that needs entries which were trimmed.
    pub(crate) checkpoint: Checkpoint,
    source: Box<dyn EntrySource>,
    start: HardState,
}

impl Store {
    pub(crate) fn new(checkpoint: Checkpoint, source: Box<dyn EntrySource>, start: HardState) -> Store {
        Store { log: Log::new(checkpoint.tip), checkpoint, source, start }
    }
}

/// An entry as the crate knows it.
pub(crate) fn to_raft(entry: &LogEntry) -> Entry {
    let (term, index, data) = (entry.epoch().get(), entry.seq().get(), entry.bytes().clone());
    let mut raft = Entry { term, index, data, ..Entry::default() };
    raft.set_entry_type(match entry.kind() {
        Kind::Members => EntryType::EntryConfChangeV2,
        _ => EntryType::EntryNormal,
    });
    raft
}

impl Storage for Store {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let members: ConfState = self.checkpoint.members.conf_state();
        Ok(RaftState::new(self.start.clone(), members))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        let (low, last) = (Seq::new(low), Seq::new(high - 1));
        if low <= self.log.floor() {
            return Err(Error::Store(StorageError::Compacted));
        }
        let mut left = max_size.into().unwrap_or(u64::MAX);
        let mut entries = Vec::new();
        let mut next = low;
        while next <= last {
            if let Some(entry) = self.log.recent(next) {
                let len = entry.bytes().len() as u64;
                if len > left && !entries.is_empty() {
                    break;
                }
                left = left.saturating_sub(len);
                entries.push(to_raft(entry));
                next = next.next();
                continue;
            }
            let read =
                self.source.read(next, last.min(self.log.forgotten()), left).filter(|read| !read.is_empty());
            let Some(read) = read else { return Err(Error::Store(StorageError::Unavailable)) };
            for entry in read {
                if entry.seq() != next || self.log.epoch(next) != Some(entry.epoch()) {
                    return Err(Error::Store(StorageError::Unavailable));
                }
                let len = entry.bytes().len() as u64;
                if len > left && !entries.is_empty() {
                    return Ok(entries);
                }
                left = left.saturating_sub(len);
                entries.push(to_raft(&entry));
                next = next.next();
            }
        }
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        let seq = Seq::new(index);
        match self.log.epoch(seq) {
            Some(epoch) => Ok(epoch.get()),
            None if seq < self.log.floor() => Err(Error::Store(StorageError::Compacted)),
            None => Err(Error::Store(StorageError::Unavailable)),
        }
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.log.floor().get() + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.log.last().get())
    }

    /// A follower needs entries that were trimmed. Only the place travels, and what follows from
    /// it: the follower fetches a checkpoint.
    fn snapshot(&self, request_index: u64, _: u64) -> raft::Result<Snapshot> {
        let Checkpoint { tip, members } = &self.checkpoint;
        if tip.seq.get() < request_index || tip.seq < self.log.floor() {
            return Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        let mut snapshot = Snapshot::default();
        snapshot.mut_metadata().index = tip.seq.get();
        snapshot.mut_metadata().term = tip.epoch.get();
        snapshot.mut_metadata().set_conf_state(members.conf_state());
        Ok(snapshot)
    }
}
