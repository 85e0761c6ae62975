use super::record::Record;
use super::*;

/// A log file under construction.
#[derive(Default)]
pub(crate) struct LogFile {
    bytes: Vec<u8>,
    crc: u32,
}

impl LogFile {
    /// The first file of a member of cluster 9.
    pub(crate) fn new(node_id: u64) -> LogFile {
        LogFile::after(0).record(METADATA, &Metadata { node_id, cluster_id: 9 })
    }

    /// A file behind another one, whose checksum it states.
    fn after(crc: u32) -> LogFile {
        let mut file = LogFile { bytes: Vec::new(), crc };
        file.append(4, Vec::new());
        file
    }

    fn append(&mut self, kind: i64, data: Vec<u8>) {
        self.crc = crc32c::crc32c_append(self.crc, &data);
        let body = Record { kind, crc: self.crc, data }.encode_to_vec();
        let padding = (8 - body.len() % 8) % 8;
        let mark = if padding > 0 { (0x80 | padding as u64) << 56 } else { 0 };
        self.bytes.extend_from_slice(&(mark | body.len() as u64).to_le_bytes());
        self.bytes.extend_from_slice(&body);
        self.bytes.resize(self.bytes.len() + padding, 0);
    }

    fn record(mut self, kind: i64, message: &impl Message) -> LogFile {
        self.append(kind, message.encode_to_vec());
        self
    }

    fn entry(self, index: u64, data: &[u8]) -> LogFile {
        self.record(ENTRY, &Entry { kind: 0, term: 2, index, data: data.to_vec() })
    }

    /// Puts without a key, which the reader of the log does not decode.
    pub(crate) fn entries(self, indexes: std::ops::RangeInclusive<u64>) -> LogFile {
        indexes.fold(self, |file, index| file.entry(index, &[0x22, 0]))
    }

    pub(crate) fn later_entry(self, index: u64) -> LogFile {
        self.record(ENTRY, &Entry { kind: 0, term: 3, index, data: vec![0x22, 0] })
    }

    pub(crate) fn membership(self, index: u64) -> LogFile {
        self.record(ENTRY, &Entry { kind: 1, term: 2, index, data: Vec::new() })
    }

    pub(crate) fn commit(self, commit: u64) -> LogFile {
        self.record(STATE, &HardState { commit })
    }

    pub(crate) fn snapshot(self, index: u64) -> LogFile {
        self.record(SNAPSHOT, &SnapshotMark { index, term: 2 })
    }

    pub(crate) fn padded(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 4096, 0);
        self.bytes
    }
}

fn sample() -> LogFile {
    LogFile::new(7).entry(4, b"").entry(5, &[0x22, 0]).commit(5)
}

fn read_all(files: &[&[u8]], index: u64) -> Result<Tail, (usize, WalError)> {
    let mut tail = Tail::behind(index);
    for (at, bytes) in files.iter().enumerate() {
        tail.take_file(bytes, at + 1 == files.len())?;
    }
    tail.finish().map_err(|reason| (0, reason))?;
    Ok(tail)
}

fn indexes(tail: &Tail) -> Vec<u64> {
    tail.entries.iter().map(|entry| entry.index).collect()
}

#[test]
fn entries_behind_the_index_are_found() {
    let tail = read_all(&[&sample().padded()], 4).unwrap();
    assert_eq!((indexes(&tail), tail.commit), (vec![5], 5));
    assert_eq!(tail.metadata, Some(Metadata { node_id: 7, cluster_id: 9 }));
    assert_eq!(tail.last, Position { term: 2, index: 5 });
}

#[test]
fn a_later_leader_replaces_what_it_disagrees_with() {
    let tail = read_all(&[&sample().entry(6, b"x").entry(5, b"y").padded()], 3).unwrap();
    assert_eq!(indexes(&tail), [4, 5]);
    assert_eq!((tail.entries[1].data.as_slice(), tail.bytes), (&b"y"[..], 1));
    let tail = read_all(&[&sample().entry(6, b"x").entry(4, b"y").entry(5, b"z").padded()], 4).unwrap();
    assert_eq!((indexes(&tail), tail.entries[0].data.as_slice()), (vec![5], &b"z"[..]));
}

#[test]
fn a_torn_end_is_no_part_of_the_log_and_damage_is_refused() {
    let whole = sample().bytes.len();
    let good = sample().entry(6, &[7; 2000]).bytes;
    let count = |bytes: &[u8]| read_all(&[bytes], 4).map(|tail| tail.entries.len());
    let cut = &good[..good.len() - 100];
    assert_eq!(count(cut), Ok(1));
    assert!(read_all(&[cut, &good], 4).is_err(), "another file follows");
    assert_eq!(count(&good[..whole + 3]), Ok(1), "not even a length");
    let mut torn = good.clone();
    torn[whole + 1000..].fill(0);
    assert_eq!(count(&torn), Ok(1));
    let mut flipped = good.clone();
    flipped[whole + 1000] ^= 1;
    assert_eq!(count(&flipped), Err((whole, WalError::Checksum)));
    assert_eq!(count(&good), Ok(2));
}

#[test]
fn files_continue_each_other() {
    let first = sample();
    let second = LogFile::after(first.crc).entry(6, b"next").padded();
    let tail = read_all(&[&first.bytes, &second], 4).unwrap();
    assert_eq!(indexes(&tail), [5, 6]);
    let stranger = LogFile::after(first.crc ^ 1).entry(6, b"next").padded();
    let error = read_all(&[&first.bytes, &stranger], 4).unwrap_err();
    assert_eq!(error, (0, WalError::NotContinued));
    let other = Metadata { node_id: 8, cluster_id: 9 };
    let error = read_all(&[&sample().record(METADATA, &other).padded()], 4).unwrap_err();
    assert_eq!(error.1, WalError::OtherMember);
}

#[test]
fn what_is_missing_is_noticed() {
    let error = |file: LogFile, index| read_all(&[&file.padded()], index).unwrap_err().1;
    assert_eq!(error(sample().entry(7, b""), 4), WalError::Gap { index: 7, end: 5 });
    assert_eq!(error(sample().commit(6), 4), WalError::CommittedMissing { commit: 6, end: 5 });
    assert_eq!(error(sample(), 9), WalError::BehindDatabase { database: 9, end: 5 });
}

#[test]
fn a_database_that_was_sent_is_gone_on_from() {
    let sent = sample().snapshot(20).commit(20);
    let tail = read_all(&[&sent.padded()], 4).unwrap();
    assert_eq!((tail.base, indexes(&tail), tail.last.index), (20, vec![], 20));
    let tail = read_all(&[&sample().snapshot(20).entry(21, b"").padded()], 4).unwrap();
    assert_eq!((tail.base, indexes(&tail)), (20, vec![21]));
    // Killed before the end of the snapshot was known to be committed: as if there had been none.
    let tail = read_all(&[&sample().snapshot(20).padded()], 4).unwrap();
    assert_eq!((tail.base, indexes(&tail), tail.last.index), (4, vec![5], 5));
    // One of its own, which it has long passed.
    let tail = read_all(&[&sample().snapshot(4).padded()], 4).unwrap();
    assert_eq!((tail.base, indexes(&tail)), (4, vec![5]));
}
