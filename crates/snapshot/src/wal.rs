//! etcd's write-ahead log, read only: what was journalled and may not be in the database yet.
//!
//! A log is a row of files named by sequence number and first index; `record` reads one of them.
//! Entries are numbered without gaps. A later entry of the same index replaces it and all behind
//! it: a new leader overwrote them. A member that got a database from its leader continues behind
//! that, which a snapshot record says.
//!
//! Not here: the requests in the entries.

use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;

use crate::file::SnapshotError;

mod error;
mod record;
#[cfg(test)]
pub(crate) mod tests;

pub use error::WalError;
use record::{ENTRY, METADATA, Records, SNAPSHOT, STATE};

/// The entries kept in memory may not be larger than this; etcd has its database catch up far
/// sooner.
const TAIL_BYTES: usize = 512 << 20;
/// etcd begins a new file at 64 MiB; one that is larger than this was not made by it.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Entries of another kind change the membership.
const REQUEST: i32 = 0;

#[derive(Clone, PartialEq, Message)]
pub struct Entry {
    #[prost(int32, tag = "1")]
    pub(crate) kind: i32,
    #[prost(uint64, tag = "2")]
    pub(crate) term: u64,
    #[prost(uint64, tag = "3")]
    pub index: u64,
    #[prost(bytes = "vec", tag = "4")]
    pub data: Vec<u8>,
}

impl Entry {
    /// Whether it changes the membership, and not data.
    pub(crate) fn is_membership(&self) -> bool {
        self.kind != REQUEST
    }
}

#[derive(Clone, PartialEq, Message)]
struct HardState {
    #[prost(uint64, tag = "3")]
    commit: u64,
}

#[derive(Clone, PartialEq, Message)]
struct SnapshotMark {
    #[prost(uint64, tag = "1")]
    index: u64,
    #[prost(uint64, tag = "2")]
    term: u64,
}

/// Who the member was.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metadata {
    #[prost(uint64, tag = "1")]
    pub(crate) node_id: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) cluster_id: u64,
}

/// Where a log ends. Of two logs, the one that ends later by this order has everything that was
/// ever committed by both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Position {
    pub(crate) term: u64,
    pub(crate) index: u64,
}

/// The end of a log.
#[derive(Debug, Default)]
pub struct Tail {
    /// The index before the first entry. Larger than what was asked for if the log continues a
    /// database that was sent by another member.
    pub base: u64,
    /// Without gaps.
    pub entries: Vec<Entry>,
    /// The commit index that was logged last, which may lag behind.
    pub commit: u64,
    pub(crate) last: Position,
    pub(crate) metadata: Option<Metadata>,
    /// The newest snapshot record.
    snapshot: Position,
    crc: Option<u32>,
    bytes: usize,
}

/// Reads the entries behind `index` of the log in `dir`.
pub(crate) fn read_tail(dir: &Path, index: u64) -> Result<Tail, SnapshotError> {
    let files = files(dir)?;
    // The last file that begins at or before the entry that the database is at, and all behind it.
    let start = files.iter().rposition(|(first, _)| *first <= index).unwrap_or(0);
    let mut tail = Tail::behind(index);
    tail.last.index = files[start].0.saturating_sub(1);
    let count = files.len();
    for (at, (_, path)) in files.iter().enumerate().skip(start) {
        let bytes = read(path)?;
        tail.take_file(&bytes, at + 1 == count)
            .map_err(|(offset, reason)| damaged(&format!("{} at byte {offset}: {reason}", path.display())))?;
    }
    tail.finish().map_err(|reason| damaged(&format!("{}: {reason}", dir.display())))?;
    Ok(tail)
}

fn damaged(what: &str) -> SnapshotError {
    SnapshotError::Refused(format!(
        "{what}. The log of this etcd is damaged or not complete; use a snapshot, the directory of another member, or what \
         the database alone holds: its file member/snap/db, with --skip-hash-check"
    ))
}

fn read(path: &Path) -> Result<Vec<u8>, SnapshotError> {
    let len = fs::metadata(path).map_err(SnapshotError::io("reading", path))?.len();
    if len > FILE_BYTES_MAX {
        return Err(damaged(&format!("{} has {len} bytes", path.display())));
    }
    fs::read(path).map_err(SnapshotError::io("reading", path))
}

/// First index and path of every file, in order.
fn files(dir: &Path) -> Result<Vec<(u64, PathBuf)>, SnapshotError> {
    let mut files = Vec::new();
    let names = fs::read_dir(dir).map_err(SnapshotError::io("listing", dir))?;
    for name in names {
        let name = name.map_err(SnapshotError::io("listing", dir))?.file_name();
        let parsed = name.to_str().and_then(|name| name.strip_suffix(".wal")?.split_once('-'));
        let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
        if let Some((seq, first)) = parsed.and_then(|(seq, first)| Some((number(seq)?, number(first)?))) {
            files.push((seq, first, dir.join(&name)));
        }
    }
    files.sort_unstable();
    if files.is_empty() {
        return Err(SnapshotError::Refused(format!("{} holds no write-ahead log", dir.display())));
    }
    if files.windows(2).any(|pair| pair[0].0.checked_add(1) != Some(pair[1].0)) {
        return Err(damaged(&format!("a file of the write-ahead log in {} is missing", dir.display())));
    }
    Ok(files.into_iter().map(|(_, first, path)| (first, path)).collect())
}

impl Tail {
    /// Nothing yet, of a log whose entries up to `index` are not wanted.
    pub fn behind(index: u64) -> Tail {
        Tail { base: index, ..Tail::default() }
    }

    /// Takes the records of the next file. An error has the offset at which it was found.
    pub fn take_file(&mut self, bytes: &[u8], is_last: bool) -> Result<(), (usize, WalError)> {
        let mut records = Records::new(bytes, is_last, self.crc);
        loop {
            let at = records.at;
            let Some(record) = records.next().map_err(|reason| (at, reason))? else { break };
            self.take_record(record).map_err(|reason| (at, reason))?;
        }
        self.crc = records.crc;
        Ok(())
    }

    fn take_record(&mut self, record: record::Record) -> Result<(), WalError> {
        match record.kind {
            METADATA => self.take_metadata(Metadata::decode(&record.data[..])?),
            ENTRY => self.take_entry(Entry::decode(&record.data[..])?),
            STATE => {
                self.commit = HardState::decode(&record.data[..])?.commit;
                Ok(())
            }
            SNAPSHOT => {
                let SnapshotMark { index, term } = SnapshotMark::decode(&record.data[..])?;
                self.snapshot = Position { term, index };
                Ok(())
            }
            kind => Err(WalError::UnknownKind(kind)),
        }
    }

    fn take_metadata(&mut self, metadata: Metadata) -> Result<(), WalError> {
        if self.metadata.as_ref().is_some_and(|known| *known != metadata) {
            return Err(WalError::OtherMember);
        }
        self.metadata = Some(metadata);
        Ok(())
    }

    fn take_entry(&mut self, entry: Entry) -> Result<(), WalError> {
        self.last = Position { term: entry.term, index: entry.index };
        if entry.index <= self.base {
            self.drop_from(0);
            return Ok(());
        }
        let at = usize::try_from(entry.index - self.base - 1).unwrap_or(usize::MAX);
        if at > self.entries.len() {
            if entry.index != self.snapshot.index.saturating_add(1) {
                let end = self.base + self.entries.len() as u64;
                return Err(WalError::Gap { index: entry.index, end });
            }
            self.begin_behind_snapshot();
        } else {
            self.drop_from(at);
        }
        self.bytes += entry.data.len();
        if self.bytes > TAIL_BYTES {
            return Err(WalError::TooLong);
        }
        self.entries.push(entry);
        Ok(())
    }

    /// A new leader begins anew from where it disagrees with what was there.
    fn drop_from(&mut self, at: usize) {
        let replaced = self.entries.drain(at..);
        self.bytes -= replaced.map(|entry| entry.data.len()).sum::<usize>();
    }

    fn begin_behind_snapshot(&mut self) {
        self.drop_from(0);
        self.base = self.snapshot.index;
        self.last = self.last.max(self.snapshot);
    }

    /// To be called behind the last file.
    pub fn finish(&mut self) -> Result<(), WalError> {
        // A snapshot counts if it is known to be committed; else its record was the last thing
        // before a crash.
        let end = self.base.saturating_add(self.entries.len() as u64);
        if self.snapshot.index > end && self.snapshot.index <= self.commit {
            self.begin_behind_snapshot();
        }
        let end = self.base.saturating_add(self.entries.len() as u64);
        if end < self.commit {
            return Err(WalError::CommittedMissing { commit: self.commit, end });
        }
        if self.last.index < self.base {
            return Err(WalError::BehindDatabase { database: self.base, end: self.last.index });
        }
        Ok(())
    }
}
