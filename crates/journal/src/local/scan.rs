//! Scan: reads segments in order, record by record, and proves every entry before it is handed out.
//!
//! Memory is bounded by one record or one read-ahead chunk, whichever is larger. What a scan cannot
//! explain it refuses with file and offset; what lies behind the last record is judged by `tail`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use vetch_base::Seq;
use vetch_encryption::{ENVELOPE_HEADER_LEN, EncryptionKeys};
use vetch_seeded_bugs::Bug;

use super::encryption::{self, Undecryptable};
use super::header::{self, Header, HeaderError, InWrite, Place, RECORD_HEADER_LEN, SECTOR};
use super::open_segment::OpenSegment;
use super::segment::Segment;
use super::tail::{self, Tail};
use crate::contract::{JournalError, Position, ReadItem};
use crate::disk::Disk;
use crate::entry::{Entry, Tip, entry_len, hash_entry};

/// How far a scan is, in bytes of segment files. Unused space at the end of segments counts as read
/// once passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub done: u64,
    pub total: u64,
}

/// Where a scan begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum From {
    /// Behind this tip, which the journal must agree with.
    Tip(Tip),
    /// At the first entry there is, whatever it says came before it.
    Oldest,
}

pub(super) struct Scan {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    keys: EncryptionKeys,
    from: From,
    /// Stop behind this entry without judging what follows; used while the journal is open.
    until: Option<Seq>,
    segments: std::vec::IntoIter<Segment>,
    open: Option<OpenSegment>,
    record: Option<OpenRecord>,
    tip: Option<Tip>,
    journal_id: Option<u64>,
    progress: Progress,
    tail: Option<Tail>,
    /// The tips between segments, as far as they were read.
    borders: Vec<Tip>,
}

/// The entries of a verified record that were not handed out yet.
struct OpenRecord {
    rest: Bytes,
    offset: u64,
    left: u32,
}

impl Scan {
    /// A scan over `segments` (oldest first), beginning at the last one that can hold what `from`
    /// asks for.
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        keys: EncryptionKeys,
        segments: Vec<Segment>,
        from: From,
        until: Option<Seq>,
    ) -> Result<Scan, JournalError> {
        let (passed, needed) = match from {
            From::Tip(tip) => select(&dir, segments, tip)?,
            From::Oldest => (Vec::new(), segments),
        };
        // What is needed may begin with a torn write, or with nothing at all; the journal has had
        // its name before.
        let journal_id = passed.iter().rev().find_map(|segment| journal_of(disk.as_ref(), &dir, segment));
        let mut total = 0;
        for segment in &needed {
            let path = dir.join(&segment.name);
            let len = disk.open(&path).and_then(|file| file.len());
            total += len.map_err(JournalError::io("opening", path))?;
        }
        // With the first needed entry at the very start of a segment, the given tip is what it must
        // follow.
        let tip = match from {
            From::Tip(tip) if needed.first().is_none_or(|first| first.first_seq == tip.seq.next()) => {
                Some(tip)
            }
            _ => None,
        };
        let progress = Progress { done: 0, total };
        let segments = needed.into_iter();
        let (open, record, tail, borders) = (None, None, None, tip.into_iter().collect());
        Ok(Scan {
            disk,
            dir,
            keys,
            from,
            until,
            segments,
            open,
            record,
            tip,
            journal_id,
            progress,
            tail,
            borders,
        })
    }

    pub(super) fn next_entry(&mut self) -> Result<Option<ReadItem>, JournalError> {
        loop {
            if self.until.is_some_and(|until| self.tip.is_some_and(|tip| tip.seq >= until)) {
                return Ok(None);
            }
            if self.record.is_some() {
                let item = self.next_in_record()?;
                if self.is_wanted(&item)? {
                    return Ok(Some(item));
                }
            } else if !self.next_record()? {
                return Ok(None);
            }
        }
    }

    pub(super) fn progress(&self) -> Progress {
        let within = self.open.as_ref().map_or(0, |open| open.offset);
        Progress { done: self.progress.done + within, total: self.progress.total }
    }

    /// The tip after everything read so far.
    pub(super) fn tip(&self) -> Option<Tip> {
        self.tip
    }

    pub(super) fn journal_id(&self) -> Option<u64> {
        self.journal_id
    }

    /// The tip before this segment, if it was read or is known from the start.
    pub(super) fn tip_before(&self, segment: &Segment) -> Option<Tip> {
        self.borders.iter().find(|tip| tip.seq.next() == segment.first_seq).copied()
    }

    /// What lies behind the last record, once `next_entry` returned nothing.
    pub(super) fn tail(&self) -> Option<&Tail> {
        self.tail.as_ref()
    }

    /// The last segment and where its records end.
    pub(super) fn last_segment(&self) -> Option<&OpenSegment> {
        self.open.as_ref()
    }

    /// Whether the entry lies behind the start; the one exactly at the start must be the one the
    /// caller knows.
    fn is_wanted(&self, item: &ReadItem) -> Result<bool, JournalError> {
        let From::Tip(start) = self.from else { return Ok(true) };
        if item.entry.seq == start.seq && item.tip != start {
            let open = self.open.as_ref().expect("an entry was read from it");
            let reason = format!("entry {} is not the one the checkpoint was taken at", start.seq);
            return Err(open.corrupt(open.offset, reason));
        }
        Ok(item.entry.seq > start.seq)
    }

    fn next_in_record(&mut self) -> Result<ReadItem, JournalError> {
        let open = self.open.as_ref().expect("a record is read from an open segment");
        let record = self.record.as_mut().expect("the caller saw it");
        let at = record.offset;
        let damaged = |error: &dyn std::fmt::Display| open.corrupt(at, format!("bad entry: {error}"));
        let len = entry_len(&record.rest).map_err(|error| damaged(&error))?;
        let bytes = record.rest.split_to(len);
        let entry = Entry::decode(&bytes).map_err(|error| damaged(&error))?;
        let before = self.tip.or_else(|| Tip::claimed_by(&entry));
        let before = before.ok_or_else(|| open.corrupt(at, "bad entry: numbers below the first"))?;
        let tip = before.accept(&entry, hash_entry(&bytes)).map_err(|error| damaged(&error))?;
        refuse_reserved(open, at, &entry)?;
        record.offset += len as u64;
        record.left -= 1;
        if record.left == 0 {
            if !record.rest.is_empty() {
                return Err(
                    open.corrupt(record.offset, "bytes are left over behind the last entry of a record")
                );
            }
            self.record = None;
        }
        self.tip = Some(tip);
        Ok(ReadItem { position: Position(entry.seq.get()), entry, tip })
    }

    /// Opens the next record; false at the end of the journal, whose tail is then judged.
    fn next_record(&mut self) -> Result<bool, JournalError> {
        if self.tail.is_some() {
            return Ok(false);
        }
        if self.open.is_none() && !self.open_next_segment()? {
            self.tail = Some(Tail::Clean);
            return Ok(false);
        }
        let open = self.open.as_mut().expect("just opened");
        if open.offset == open.len {
            return self.end_of_segment();
        }
        let sector = open.bytes(open.offset, SECTOR as u64)?;
        if header::is_zero(&sector) {
            return self.end_of_segment();
        }
        let header = match Header::parse(&sector) {
            Ok(header) => header,
            Err(HeaderError::Version { version, .. }) => {
                return Err(open.unsupported(open.offset, version));
            }
            // The sector was written as a whole over zeros, so no power loss explains half a
            // header.
            Err(HeaderError::Invalid) => {
                return Err(open.corrupt(open.offset, "the header of a record is damaged"));
            }
        };
        check_header(open, &header, self.journal_id, self.tip)?;
        let extent = open.bytes(open.offset, header.extent())?;
        let payload = extent.slice(RECORD_HEADER_LEN..RECORD_HEADER_LEN + header.payload_len as usize);
        let is_last = self.segments.as_slice().is_empty();
        if vetch_seeded_bugs::on(Bug::RevisionReused) && is_last {
            let (from, to) = (open.offset, open.offset + header.extent());
            if to == open.len || header::is_zero(&open.bytes(to, SECTOR as u64)?) {
                self.tail = Some(Tail::Torn { from, to, reason: "a planted bug".to_owned() });
                return self.check_reached_start();
            }
        }
        let is_whole =
            crc32c::crc32c(&payload) == header.payload_crc || vetch_seeded_bugs::on(Bug::TornTailAccepted);
        if !is_whole {
            self.tail = Some(tail::judge_damaged_record(open, &header, &extent, is_last)?);
            return self.check_reached_start();
        }
        let mut offset = open.offset + RECORD_HEADER_LEN as u64;
        let mut rest = payload;
        if header.is_encrypted {
            rest = decrypt_payload(open, &self.keys, &header, &rest)?;
            offset += ENVELOPE_HEADER_LEN as u64;
        }
        self.journal_id = Some(header.journal_id);
        open.offset += header.extent();
        self.record = Some(OpenRecord { rest, offset, left: header.entries });
        Ok(true)
    }

    fn open_next_segment(&mut self) -> Result<bool, JournalError> {
        let Some(segment) = self.segments.next() else { return Ok(false) };
        self.open = Some(OpenSegment::open(self.disk.as_ref(), &self.dir, segment)?);
        Ok(true)
    }

    /// Goes on with the segment behind this one, or judges the tail of the last one.
    fn end_of_segment(&mut self) -> Result<bool, JournalError> {
        let open = self.open.as_mut().expect("its end was reached");
        let last = self.tip.map_or(open.segment.first_seq.prev_or_zero(), |tip| tip.seq);
        let Some(next) = self.segments.as_slice().first() else {
            self.tail = Some(tail::judge_end(open, self.journal_id, last.next())?);
            return self.check_reached_start();
        };
        if next.first_seq != last.next() {
            let reason = format!(
                "records end at entry {last} but the next segment, {}, begins at {}",
                next.name, next.first_seq
            );
            return Err(open.corrupt(open.offset, reason));
        }
        self.progress.done += open.len;
        self.borders.extend(self.tip);
        self.open = None;
        self.open_next_segment()
    }

    /// A journal that ends before what its reader already knows has lost acknowledged entries.
    fn check_reached_start(&self) -> Result<bool, JournalError> {
        let open = self.open.as_ref().expect("its end was reached");
        let last = self.tip.map_or(open.segment.first_seq.prev_or_zero(), |tip| tip.seq);
        match self.from {
            From::Tip(start) if last < start.seq => {
                let reason =
                    format!("records end at entry {last} but the checkpoint was taken at {}", start.seq);
                Err(open.corrupt(open.offset, reason))
            }
            _ => Ok(false),
        }
    }
}

/// The journal that a segment belongs to, as its first record says.
fn journal_of(disk: &dyn Disk, dir: &Path, segment: &Segment) -> Option<u64> {
    let mut sector = [0; SECTOR];
    let read = disk.open(&dir.join(&segment.name)).and_then(|file| file.read_at(0, &mut sector));
    let is_read = read.is_ok_and(|read| read == SECTOR);
    is_read.then(|| Header::parse(&sector).ok()).flatten().map(|header| header.journal_id)
}

/// The segments before the one that holds the entry behind `tip`, and those from it on.
fn select(
    dir: &Path,
    mut segments: Vec<Segment>,
    tip: Tip,
) -> Result<(Vec<Segment>, Vec<Segment>), JournalError> {
    let wanted = tip.seq.next();
    let Some(first) = segments.first() else {
        return if tip.seq == Seq::ZERO {
            Ok((Vec::new(), segments))
        } else {
            let reason = format!("there is no journal, but the checkpoint was taken at entry {}", tip.seq);
            Err(JournalError::corrupt(dir.display().to_string(), 0, reason))
        };
    };
    let after = segments.partition_point(|segment| segment.first_seq <= wanted);
    if after == 0 {
        let reason = format!("the journal begins at entry {}, but {wanted} is needed", first.first_seq);
        return Err(JournalError::corrupt(&first.name, 0, reason));
    }
    let needed = segments.split_off(after - 1);
    Ok((segments, needed))
}

/// Everything an intact header says must fit its place.
fn check_header(
    open: &OpenSegment,
    header: &Header,
    journal_id: Option<u64>,
    tip: Option<Tip>,
) -> Result<(), JournalError> {
    let expected = tip.map_or(open.segment.first_seq, |tip| tip.seq.next());
    let reason = if header.first_seq != expected {
        format!("a record begins with entry {}, expected {expected}", header.first_seq)
    } else if journal_id.is_some_and(|id| id != header.journal_id) {
        "a record belongs to another journal".to_owned()
    } else if u64::from(header.segment_sectors) * SECTOR as u64 != open.len {
        let sectors = header.segment_sectors;
        format!("the file is {} bytes long, but was made with {sectors} sectors of {SECTOR}", open.len)
    } else if header.extent() > open.len - open.offset {
        "a record reaches beyond the end of the file".to_owned()
    } else if header.entries == 0 {
        "a record without entries".to_owned()
    } else if header.entries > 1 && header.place != InWrite::ALONE {
        "a record of several in one write has more than one entry".to_owned()
    } else {
        return Ok(());
    };
    Err(open.corrupt(open.offset, reason))
}

/// The entries of an encrypted record at the current offset. Its checksum is right, so the bytes
/// are as they were written. The error distinguishes a missing key from bytes that were forged.
fn decrypt_payload(
    open: &OpenSegment,
    keys: &EncryptionKeys,
    header: &Header,
    payload: &[u8],
) -> Result<Bytes, JournalError> {
    let place = Place {
        journal_id: header.journal_id,
        segment: open.segment.first_seq,
        segment_len: open.len,
        offset: open.offset,
    };
    encryption::decrypt(keys, payload, &place, header).map_err(|why| match why {
        Undecryptable::Damaged(reason) => open.corrupt(open.offset, reason),
        Undecryptable::Key(source) => {
            JournalError::Key { file: open.segment.name.clone(), offset: open.offset, source }
        }
    })
}

fn refuse_reserved(open: &OpenSegment, offset: u64, entry: &Entry) -> Result<(), JournalError> {
    match entry.unsupported() {
        Some(what) => Err(JournalError::NotSupported { file: open.segment.name.clone(), offset, what }),
        None => Ok(()),
    }
}
