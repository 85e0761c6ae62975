//! etcd's write-ahead log, read only: what was journalled and may not be in the database yet.
//!
//! A log is a row of files named by sequence number and first index. A file is a row of records, each behind a length of
//! eight bytes (56 bits of length; if the top bit is set, three more bits of padding to a multiple of 8), and then
//! zeros. A record has a type, data, and the running CRC-32C of all data so far, which each file begins by stating.
//!
//! Not here: what the entries mean.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;

use crate::file::SnapshotError;

/// The entries kept in memory may not be larger than this; etcd has its database catch up far sooner.
const TAIL_BYTES: usize = 512 << 20;
/// A longer record than this is no record. etcd limits a request to a fraction of it.
const LONGEST_RECORD: usize = 256 << 20;
const SECTOR: usize = 512;

#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(uint32, tag = "2")]
    crc: u32,
    #[prost(bytes = "vec", tag = "3")]
    data: Vec<u8>,
}

const METADATA: i64 = 1;
const ENTRY: i64 = 2;
const STATE: i64 = 3;
const CRC: i64 = 4;
const SNAPSHOT: i64 = 5;

/// Entries of another kind change who is a member.
const REQUEST: i32 = 0;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Entry {
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(uint64, tag = "3")]
    pub(crate) index: u64,
    #[prost(bytes = "vec", tag = "4")]
    data: Vec<u8>,
}

/// The requests that change what Vetch takes over. A message in place of each, and whichever else there is, is skipped.
#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(bytes = "vec", optional, tag = "4")]
    put: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "5")]
    delete_range: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "6")]
    txn: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "7")]
    compaction: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "8")]
    lease_grant: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "9")]
    lease_revoke: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "10")]
    alarm: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "11")]
    lease_checkpoint: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "1000")]
    auth_enable: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "1011")]
    auth_disable: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "1100")]
    user_add: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "1101")]
    user_delete: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "1103")]
    user_change_password: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "1104")]
    user_grant_role: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "1105")]
    user_revoke_role: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "1200")]
    role_add: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "1201")]
    role_delete: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "1203")]
    role_grant_permission: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "1204")]
    role_revoke_permission: Option<Vec<u8>>,
}

impl Entry {
    /// Whether it asks for something that a database without it lacks. What cannot be read counts as such.
    pub(crate) fn changes_state(&self) -> bool {
        self.kind == REQUEST
            && Request::decode(&self.data[..]).map_or(true, |found| found != Request::default())
    }
}

#[derive(Clone, PartialEq, Message)]
struct HardState {
    #[prost(uint64, tag = "3")]
    commit: u64,
}

/// Who the member was.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metadata {
    #[prost(uint64, tag = "1")]
    pub(crate) node_id: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) cluster_id: u64,
}

/// The end of a log.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// Entries behind the index that was asked for, by index. Of several with one index the last counts.
    pub(crate) entries: BTreeMap<u64, Entry>,
    /// Up to here entries are known to be decided.
    pub(crate) commit: u64,
    pub(crate) metadata: Option<Metadata>,
    bytes: usize,
}

/// Reads the entries behind `index` of the log in `dir`.
pub(crate) fn read_tail(dir: &Path, index: u64) -> Result<Tail, SnapshotError> {
    let files = files(dir)?;
    // The last file that begins at or before the first entry wanted, and all behind it.
    let start = files.iter().rposition(|(first, _)| *first <= index + 1).unwrap_or(0);
    let mut tail = Tail::default();
    let count = files.len();
    for (at, (_, path)) in files.iter().enumerate().skip(start) {
        let bytes = fs::read(path).map_err(SnapshotError::io("reading", path))?;
        tail.take_file(&bytes, index, at + 1 == count).map_err(|(offset, reason)| {
            let place = format!("{} at byte {offset}: {reason}", path.display());
            SnapshotError::Refused(format!(
                "{place}. The log of this etcd is damaged; start etcd once and stop it again, or use a snapshot"
            ))
        })?;
    }
    Ok(tail)
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
    if files.windows(2).any(|pair| pair[0].0 + 1 != pair[1].0) {
        return Err(SnapshotError::Refused(format!(
            "a file of the write-ahead log in {} is missing",
            dir.display()
        )));
    }
    Ok(files.into_iter().map(|(_, first, path)| (first, path)).collect())
}

impl Tail {
    fn take_file(&mut self, bytes: &[u8], index: u64, is_last: bool) -> Result<(), (usize, String)> {
        let mut at = 0;
        let mut crc = 0;
        while let Some(head) = bytes.get(at..at + 8) {
            let head = u64::from_le_bytes(head.try_into().expect("eight bytes"));
            if head == 0 {
                return Ok(());
            }
            let len = (head & ((1 << 56) - 1)) as usize;
            let padding = if head >> 63 == 1 { (head >> 56 & 7) as usize } else { 0 };
            if len > LONGEST_RECORD {
                return Err((at, format!("a record of {len} bytes")));
            }
            let end = at + 8 + len + padding;
            // What a crash left of the last write is not part of the log, and nobody was told of it.
            let is_torn = |from: usize| is_last && has_zero_sector(&bytes[from..end.min(bytes.len())], from);
            let Some(body) = bytes.get(at + 8..at + 8 + len).filter(|_| end <= bytes.len()) else {
                return if is_last { Ok(()) } else { Err((at, "a record is cut short".into())) };
            };
            match self.take_record(body, &mut crc, index) {
                Ok(()) => at = end,
                Err(_) if is_torn(at + 8) => return Ok(()),
                Err(reason) => return Err((at, reason)),
            }
        }
        Ok(())
    }

    fn take_record(&mut self, body: &[u8], crc: &mut u32, index: u64) -> Result<(), String> {
        let record = Record::decode(body).map_err(|error| error.to_string())?;
        if record.kind == CRC {
            *crc = record.crc;
            return Ok(());
        }
        let expected = crc32c::crc32c_append(*crc, &record.data);
        if record.crc != expected {
            return Err("checksum does not match".into());
        }
        *crc = expected;
        let text = |error: prost::DecodeError| error.to_string();
        match record.kind {
            METADATA => self.metadata = Some(Metadata::decode(&record.data[..]).map_err(text)?),
            ENTRY => self.take_entry(Entry::decode(&record.data[..]).map_err(text)?, index)?,
            STATE => self.commit = HardState::decode(&record.data[..]).map_err(text)?.commit,
            SNAPSHOT => {}
            kind => return Err(format!("a record of unknown kind {kind}")),
        }
        Ok(())
    }

    fn take_entry(&mut self, entry: Entry, index: u64) -> Result<(), String> {
        if entry.index <= index {
            return Ok(());
        }
        // A new leader begins anew from where it disagrees with what was there.
        let replaced = self.entries.split_off(&entry.index);
        self.bytes -= replaced.values().map(|entry| entry.data.len()).sum::<usize>();
        self.bytes += entry.data.len();
        if self.bytes > TAIL_BYTES {
            return Err(format!("more than {TAIL_BYTES} bytes that the database does not have yet"));
        }
        self.entries.insert(entry.index, entry);
        Ok(())
    }
}

/// Whether one of the sectors that hold `bytes`, which lie at `offset` of a file, is zero throughout.
fn has_zero_sector(bytes: &[u8], offset: usize) -> bool {
    let first = (SECTOR - offset % SECTOR).min(bytes.len());
    let (head, rest) = bytes.split_at(first);
    std::iter::once(head).chain(rest.chunks(SECTOR)).any(|part| part.iter().all(|&byte| byte == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log file under construction.
    #[derive(Default)]
    struct File {
        bytes: Vec<u8>,
        crc: u32,
    }

    impl File {
        fn record(mut self, kind: i64, data: Vec<u8>) -> File {
            self.crc = crc32c::crc32c_append(self.crc, &data);
            let body = Record { kind, crc: self.crc, data }.encode_to_vec();
            let padding = (8 - body.len() % 8) % 8;
            let mark = if padding > 0 { (0x80 | padding as u64) << 56 } else { 0 };
            self.bytes.extend_from_slice(&(mark | body.len() as u64).to_le_bytes());
            self.bytes.extend_from_slice(&body);
            self.bytes.resize(self.bytes.len() + padding, 0);
            self
        }

        fn entry(self, index: u64, data: &[u8]) -> File {
            self.record(ENTRY, Entry { kind: 0, index, data: data.to_vec() }.encode_to_vec())
        }

        fn padded(mut self) -> Vec<u8> {
            self.bytes.resize(self.bytes.len() + 4096, 0);
            self.bytes
        }
    }

    fn sample() -> File {
        let metadata = Metadata { node_id: 7, cluster_id: 9 }.encode_to_vec();
        let state = HardState { commit: 5 }.encode_to_vec();
        File::default().record(METADATA, metadata).entry(4, b"").entry(5, &[0x22, 0]).record(STATE, state)
    }

    fn read(bytes: &[u8], index: u64, is_last: bool) -> Result<Tail, (usize, String)> {
        let mut tail = Tail::default();
        tail.take_file(bytes, index, is_last).map(|()| tail)
    }

    #[test]
    fn entries_behind_the_index_are_found() {
        let tail = read(&sample().padded(), 4, true).unwrap();
        assert_eq!((tail.entries.keys().copied().collect::<Vec<_>>(), tail.commit), (vec![5], 5));
        assert_eq!(tail.metadata, Some(Metadata { node_id: 7, cluster_id: 9 }));
        assert!(tail.entries[&5].changes_state(), "a put");
        assert!(!Entry { kind: 0, index: 6, data: Vec::new() }.changes_state());
        let cluster_version = vec![0xa2, 0x51, 0];
        assert!(!Entry { kind: 0, index: 6, data: cluster_version }.changes_state());
    }

    #[test]
    fn a_later_leader_replaces_what_it_disagrees_with() {
        let tail = read(&sample().entry(6, b"x").entry(5, b"y").padded(), 3, true).unwrap();
        assert_eq!(tail.entries.keys().copied().collect::<Vec<_>>(), [4, 5]);
        assert_eq!((tail.entries[&5].data.as_slice(), tail.bytes), (&b"y"[..], 1));
    }

    #[test]
    fn a_torn_end_is_no_part_of_the_log_and_damage_is_refused() {
        let whole = sample().bytes.len();
        let good = sample().entry(6, &[7; 2000]).bytes;
        let cut = &good[..good.len() - 100];
        assert_eq!(read(cut, 4, true).unwrap().entries.len(), 1);
        assert!(read(cut, 4, false).is_err(), "another file follows");
        let mut torn = good.clone();
        torn[whole + 1000..].fill(0);
        assert_eq!(read(&torn, 4, true).unwrap().entries.len(), 1);
        let mut flipped = good.clone();
        flipped[whole + 1000] ^= 1;
        assert_eq!(read(&flipped, 4, true).unwrap_err(), (whole, "checksum does not match".into()));
        assert_eq!(read(&good, 4, true).unwrap().entries.len(), 2);
    }
}
