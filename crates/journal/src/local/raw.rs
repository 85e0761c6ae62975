//! Raw: records as they lie in segment files, for a backup that copies the journal without decoding
//! its entries.
//!
//! A copy is made while the journal is written: only records that are durable are touched, and what
//! is known of the file is forgotten between two runs, because the zeros behind the end become
//! records. Checksums and the order of records are checked on the way out, and once more, with the
//! chain of entries, wherever the copy is looked at.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use vetch_base::Seq;

use super::header::{self, Header, HeaderError, RECORD_HEADER_LEN, SECTOR};
use super::open_segment::OpenSegment;
use super::segment::Segment;
use crate::contract::JournalError;
use crate::disk::Disk;
use crate::entry::{ChainError, Entry, EntryError, Tip, entry_len, hash_entry};

/// Where a record begins, or will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawPlace {
    /// Sequence number in the name of the segment.
    pub segment: Seq,
    pub offset: u64,
    /// Sequence number of the entry there.
    pub seq: Seq,
}

/// One record, header and padding included.
#[derive(Clone, Debug)]
pub struct RawRecord {
    pub place: RawPlace,
    /// Length of its segment file.
    pub segment_len: u64,
    pub journal_id: u64,
    pub last_seq: Seq,
    pub bytes: Bytes,
}

/// A run over durable records.
pub struct RawReader {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    place: RawPlace,
    open: Option<OpenSegment>,
}

impl RawReader {
    /// The first entry that the journal in `dir` still has. None: there is no segment.
    pub fn oldest(disk: &dyn Disk, dir: &Path) -> Result<Option<Seq>, JournalError> {
        Ok(segments(disk, dir)?.first().map(|segment| segment.first_seq))
    }

    /// Begins where the record with entry `seq` does, or will; that must be its first entry.
    pub fn seek(disk: Arc<dyn Disk>, dir: &Path, seq: Seq) -> Result<RawReader, JournalError> {
        let segments = segments(disk.as_ref(), dir)?;
        let holder = segments.iter().rev().find(|segment| segment.first_seq <= seq);
        let Some(holder) = holder else {
            let reason = format!("the journal has no entry {seq} any more");
            return Err(JournalError::corrupt(dir.display().to_string(), 0, reason));
        };
        let first = holder.first_seq;
        let mut reader = RawReader::resume(disk, dir, RawPlace { segment: first, offset: 0, seq: first });
        while reader.place.seq < seq {
            if reader.next_record(seq.prev_or_zero())?.is_none() {
                let reason = format!("no record begins with entry {seq}");
                return Err(JournalError::corrupt(&holder.name, reader.place.offset, reason));
            }
        }
        Ok(reader)
    }

    /// Begins with the record that holds entry `seq`; entries up to `until` must be durable.
    pub(super) fn holding(
        disk: Arc<dyn Disk>,
        dir: &Path,
        seq: Seq,
        until: Seq,
    ) -> Result<RawReader, JournalError> {
        let segments = segments(disk.as_ref(), dir)?;
        let holder = segments.iter().rev().find(|segment| segment.first_seq <= seq);
        // Gone, as a file that cannot be opened is.
        let missing = || JournalError::io("looking for an entry in", dir)(io::ErrorKind::NotFound.into());
        let first = holder.ok_or_else(missing)?.first_seq;
        let mut reader = RawReader::resume(disk, dir, RawPlace { segment: first, offset: 0, seq: first });
        while let Some(record) = reader.next_record(until)? {
            if record.last_seq >= seq {
                reader.place = record.place;
                break;
            }
        }
        Ok(reader)
    }

    /// Continues at a place that [`RawReader::place`] returned.
    pub fn resume(disk: Arc<dyn Disk>, dir: &Path, place: RawPlace) -> RawReader {
        RawReader { disk, dir: dir.to_path_buf(), place, open: None }
    }

    /// Has what follows in this segment read from the medium; see
    /// [`DiskFile::forget`](crate::DiskFile::forget).
    pub fn forget(&self) {
        let name = Segment::new(self.place.segment).name;
        if let Ok(file) = self.disk.open(&self.dir.join(name)) {
            file.forget();
        }
    }

    /// Where the next record begins, or will.
    pub fn place(&self) -> RawPlace {
        self.place
    }

    /// The next record, if all of its entries are among those up to `until`, which must be durable.
    pub fn next_record(&mut self, until: Seq) -> Result<Option<RawRecord>, JournalError> {
        if self.place.seq > until {
            return Ok(None);
        }
        loop {
            let mut open = match self.open.take() {
                Some(open) => open,
                None => self.open_segment()?,
            };
            open.offset = self.place.offset;
            let is_end = open.offset == open.len || header::is_zero(&open.bytes(open.offset, SECTOR as u64)?);
            if !is_end {
                let found = self.take(&mut open, until);
                self.open = Some(open);
                return found;
            }
            // A durable entry that is not here is in the next segment, which bears its number.
            if open.segment.first_seq == self.place.seq {
                return Err(open.corrupt(open.offset, "a segment in use begins with zeros"));
            }
            self.place = RawPlace { segment: self.place.seq, offset: 0, seq: self.place.seq };
        }
    }

    fn open_segment(&self) -> Result<OpenSegment, JournalError> {
        OpenSegment::open(self.disk.as_ref(), &self.dir, Segment::new(self.place.segment))
    }

    fn take(&mut self, open: &mut OpenSegment, until: Seq) -> Result<Option<RawRecord>, JournalError> {
        let at = self.place;
        let sector = open.bytes(at.offset, SECTOR as u64)?;
        let header = Header::parse(&sector).map_err(|error| match error {
            HeaderError::Version { version, .. } => open.unsupported(at.offset, version),
            HeaderError::Invalid => open.corrupt(at.offset, "the header of a record is damaged"),
        })?;
        if header.first_seq != at.seq || header.extent() > open.len - at.offset {
            return Err(open.corrupt(at.offset, format!("a record does not begin with entry {}", at.seq)));
        }
        let entries = u64::from(header.entries.max(1));
        let last_seq = at.seq.checked_plus(entries - 1).filter(|&last| last < Seq::MAX);
        let last_seq = last_seq.ok_or_else(|| {
            open.corrupt(at.offset, "a record's numbers leave no room for an entry after it")
        })?;
        if last_seq > until {
            return Ok(None);
        }
        let bytes = open.bytes(at.offset, header.extent())?;
        let payload = &bytes[RECORD_HEADER_LEN..RECORD_HEADER_LEN + header.payload_len as usize];
        if crc32c::crc32c(payload) != header.payload_crc {
            return Err(open.corrupt(at.offset, "the payload of a record does not match its checksum"));
        }
        self.place = RawPlace { offset: at.offset + header.extent(), seq: last_seq.next(), ..at };
        let (journal_id, segment_len) = (header.journal_id, open.len);
        Ok(Some(RawRecord { place: at, segment_len, journal_id, last_seq, bytes }))
    }
}

/// A segment that is not written to any more, because there is one behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedSegment {
    pub first_seq: Seq,
    pub last_seq: Seq,
    pub bytes: u64,
}

/// The closed segments of the journal in `dir`, oldest first.
pub fn closed_segments(disk: &dyn Disk, dir: &Path) -> Result<Vec<ClosedSegment>, JournalError> {
    let segments = segments(disk, dir)?;
    let closed = segments.windows(2).map(|pair| {
        // One that is being removed has nothing to read.
        let len = disk.open(&dir.join(&pair[0].name)).and_then(|file| file.len());
        let (first_seq, last_seq) = (pair[0].first_seq, pair[1].first_seq.prev_or_zero());
        ClosedSegment { first_seq, last_seq, bytes: len.unwrap_or(0) }
    });
    Ok(closed.collect())
}

fn segments(disk: &dyn Disk, dir: &Path) -> Result<Vec<Segment>, JournalError> {
    Ok(Segment::among(&disk.list(dir).map_err(JournalError::io("listing", dir))?))
}

/// Why bytes are not the next record of a journal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    #[error("a record is cut short")]
    CutShort,
    #[error("record version {0} is not known to this version")]
    Version(u16),
    #[error("the header of a record is damaged")]
    Header,
    #[error("a record begins with entry {0} out of turn")]
    OutOfTurn(Seq),
    #[error("a record's numbers leave no room for an entry after it")]
    NoSuccessor,
    #[error("a record belongs to another journal")]
    OtherJournal,
    #[error("the payload of a record does not match its checksum")]
    Checksum,
    #[error("bad entry: {0}")]
    Entry(#[from] EntryError),
    #[error("bad entry: {0}")]
    Chain(#[from] ChainError),
    #[error("bad entry: no place in a chain")]
    NoPlace,
    #[error("bytes behind the last entry of a record")]
    Trailing,
}

/// Checks rows of copied records, one row after the other: checksums, order, and the chain of
/// entries that are not encrypted.
#[derive(Debug, Default)]
pub struct RecordCheck {
    next_seq: Option<Seq>,
    journal_id: Option<u64>,
    tip: Option<Tip>,
}

impl RecordCheck {
    /// `rows` are whole records, the first of which follows the last one given before. The error
    /// says what is wrong, and at which byte.
    pub fn take(&mut self, rows: &Bytes) -> Result<(), (u64, BadRecord)> {
        let mut at = 0;
        while at < rows.len() {
            at += self.record(&rows.slice(at..)).map_err(|reason| (at as u64, reason))?;
        }
        Ok(())
    }

    /// The sequence number that the next record must begin with.
    pub fn next_seq(&self) -> Option<Seq> {
        self.next_seq
    }

    fn record(&mut self, rest: &Bytes) -> Result<usize, BadRecord> {
        if rest.len() < SECTOR {
            return Err(BadRecord::CutShort);
        }
        let header = Header::parse(rest).map_err(|error| match error {
            HeaderError::Version { version, .. } => BadRecord::Version(version),
            HeaderError::Invalid => BadRecord::Header,
        })?;
        if self.next_seq.is_some_and(|expected| expected != header.first_seq) {
            return Err(BadRecord::OutOfTurn(header.first_seq));
        }
        if self.journal_id.is_some_and(|id| id != header.journal_id) {
            return Err(BadRecord::OtherJournal);
        }
        let next_seq = header.first_seq.checked_plus(u64::from(header.entries));
        let next_seq = next_seq.ok_or(BadRecord::NoSuccessor)?;
        let extent = usize::try_from(header.extent()).unwrap_or(usize::MAX);
        if extent > rest.len() {
            return Err(BadRecord::CutShort);
        }
        let payload = rest.slice(RECORD_HEADER_LEN..RECORD_HEADER_LEN + header.payload_len as usize);
        if crc32c::crc32c(&payload) != header.payload_crc {
            return Err(BadRecord::Checksum);
        }
        if header.is_encrypted {
            // Who has the key sees more; what is here is as it was written.
            self.tip = None;
        } else {
            self.entries(payload, header.entries)?;
        }
        self.journal_id = Some(header.journal_id);
        self.next_seq = Some(next_seq);
        Ok(extent)
    }

    fn entries(&mut self, mut payload: Bytes, count: u32) -> Result<(), BadRecord> {
        for _ in 0..count {
            let len = entry_len(&payload)?;
            let bytes = payload.split_to(len);
            let entry = Entry::decode(&bytes)?;
            let before = self.tip.or_else(|| Tip::claimed_by(&entry)).ok_or(BadRecord::NoPlace)?;
            self.tip = Some(before.accept(&entry, hash_entry(&bytes))?);
        }
        if payload.is_empty() { Ok(()) } else { Err(BadRecord::Trailing) }
    }
}
