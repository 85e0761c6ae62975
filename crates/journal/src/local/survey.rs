//! Survey: everything there is in a journal, for people. It goes on behind damage as far as it can,
//! and says where it was.
//!
//! Nothing is locked and nothing is changed. Memory is bounded by one record or one read-ahead
//! chunk. Recovery is the judge of what may be built upon (`scan`); this is for looking.

use std::path::Path;

use bytes::Bytes;
use vetch_base::Seq;
use vetch_encryption::{ENVELOPE_HEADER_LEN, EncryptionKeys, KeyError, KeyId};

use super::encryption::{self, Undecryptable};
use super::header::{self, Header, HeaderError, Place, RECORD_HEADER_LEN, SECTOR};
use super::open_segment::OpenSegment;
use super::recovery::CutTail;
use super::segment::Segment;
use crate::contract::{Corrupt, JournalError};
use crate::disk::Disk;
use crate::entry::{Entry, Tip, entry_len, hash_entry};

/// Something that a survey comes across, in the order of the files.
#[derive(Debug)]
pub enum Sight {
    Segment {
        name: String,
        first_seq: Seq,
        len: u64,
    },
    Record(RecordSight),
    /// An entry of the record before. Its length is the encoded one.
    Entry {
        file: String,
        offset: u64,
        len: usize,
        entry: Entry,
    },
    Damage(Corrupt),
    /// A record that is as it was written, but whose key is not there. Told once for every segment.
    Encrypted {
        file: String,
        offset: u64,
        source: KeyError,
    },
    /// What looks like an interrupted write at the end: a start would cut it.
    Torn(CutTail),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordSight {
    pub file: String,
    pub offset: u64,
    /// Bytes it covers in the file.
    pub extent: u64,
    pub journal_id: u64,
    pub first_seq: Seq,
    pub entries: u32,
    pub payload: u32,
    /// None: it is plain.
    pub key: Option<KeyId>,
}

/// Shows `see` everything in the journal at `dir`. Fails only if the directory cannot be listed.
pub fn survey(
    disk: &dyn Disk,
    dir: &Path,
    keys: &EncryptionKeys,
    see: &mut dyn FnMut(Sight),
) -> Result<(), JournalError> {
    let names = disk.list(dir).map_err(JournalError::io("listing", dir))?;
    let segments = Segment::among(&names);
    let mut walk =
        Walk { keys, see, journal_id: None, tip: None, next_seq: None, is_missing_key_reported: false };
    for (n, segment) in segments.iter().enumerate() {
        match OpenSegment::open_as_is(disk, dir, segment.clone()) {
            Ok(open) => walk.segment(open, n + 1 == segments.len()),
            Err(error) => walk.damage(&segment.name, 0, error.to_string()),
        }
    }
    Ok(())
}

struct Walk<'a> {
    keys: &'a EncryptionKeys,
    see: &'a mut dyn FnMut(Sight),
    journal_id: Option<u64>,
    /// After the last entry, as long as nothing was in the way.
    tip: Option<Tip>,
    /// The sequence number behind the last record that had a good header.
    next_seq: Option<Seq>,
    is_missing_key_reported: bool,
}

impl Walk<'_> {
    fn damage(&mut self, file: &str, offset: u64, reason: impl Into<String>) {
        self.tip = None;
        (self.see)(Sight::Damage(Corrupt { file: file.to_owned(), offset, reason: reason.into() }));
    }

    fn segment(&mut self, mut open: OpenSegment, is_last: bool) {
        let name = open.segment.name.clone();
        let first_seq = open.segment.first_seq;
        self.is_missing_key_reported = false;
        (self.see)(Sight::Segment { name: name.clone(), first_seq, len: open.len });
        if let Some(next) = self.next_seq.filter(|&next| next != first_seq) {
            self.damage(
                &name,
                0,
                format!(
                    "records before it end at entry {}, and it begins at {first_seq}",
                    next.prev_or_zero()
                ),
            );
        }
        self.next_seq = Some(first_seq);
        while open.offset + SECTOR as u64 <= open.len {
            let sector = match open.bytes(open.offset, SECTOR as u64) {
                Ok(sector) => sector,
                Err(error) => {
                    self.damage(&name, open.offset, error.to_string());
                    self.resync(&mut open);
                    continue;
                }
            };
            if header::is_zero(&sector) {
                if !self.behind_zeros(&mut open, is_last) {
                    return;
                }
                continue;
            }
            match Header::parse(&sector) {
                Ok(header) => self.record(&mut open, &header, is_last),
                Err(HeaderError::Version { version, .. }) => {
                    self.damage(
                        &name,
                        open.offset,
                        format!("record version {version} is not known to this version"),
                    );
                    self.resync(&mut open);
                }
                Err(HeaderError::Invalid) => {
                    self.damage(&name, open.offset, "the header of a record is damaged");
                    self.resync(&mut open);
                }
            }
        }
    }

    /// Zeros where a record could begin: the end, unless something lies behind them. True if a
    /// record does.
    fn behind_zeros(&mut self, open: &mut OpenSegment, is_last: bool) -> bool {
        let (name, hole) = (open.segment.name.clone(), open.offset);
        let mut loose: Option<(u64, u64)> = None;
        let mut at = hole;
        while at + SECTOR as u64 <= open.len {
            if let Ok(sector) = open.bytes(at, SECTOR as u64)
                && !header::is_zero(&sector)
            {
                if self.is_ours(&sector) && !(is_last && self.is_same_write(&sector)) {
                    self.damage(&name, hole, format!("a hole: a record follows at byte {at}"));
                    self.next_seq = None;
                    open.offset = at;
                    return true;
                }
                loose = Some((loose.map_or(at, |(from, _)| from), at + SECTOR as u64));
            }
            at += SECTOR as u64;
        }
        match loose {
            Some((from, to)) if is_last => {
                let reason = "the first sector of the last write is missing".to_owned();
                (self.see)(Sight::Torn(CutTail { file: name, offset: from, bytes: to - from, reason }));
            }
            Some((from, _)) => {
                self.damage(&name, from, "bytes behind the end of a segment that is not the last")
            }
            None => {}
        }
        false
    }

    fn is_ours(&self, sector: &[u8]) -> bool {
        let journal_id = match Header::parse(sector) {
            Ok(Header { journal_id, .. }) | Err(HeaderError::Version { journal_id, .. }) => journal_id,
            Err(HeaderError::Invalid) => return false,
        };
        self.journal_id.is_none_or(|id| id == journal_id)
    }

    /// Whether a record was written in one go with the one that should begin where its reader is.
    fn is_same_write(&self, sector: &[u8]) -> bool {
        let shares = |header: Header| self.next_seq.is_some_and(|next| header.shares_write_with(next));
        Header::parse(sector).is_ok_and(shares)
    }

    /// Goes on at the next sector that begins a record, or at the end.
    fn resync(&mut self, open: &mut OpenSegment) {
        self.next_seq = None;
        open.offset += SECTOR as u64;
        while open.offset + SECTOR as u64 <= open.len {
            let sector = open.bytes(open.offset, SECTOR as u64);
            if sector.is_ok_and(|sector| self.is_ours(&sector)) {
                return;
            }
            open.offset += SECTOR as u64;
        }
    }

    fn record(&mut self, open: &mut OpenSegment, header: &Header, is_last: bool) {
        let (name, offset) = (open.segment.name.clone(), open.offset);
        self.check_header(open, header);
        if header.extent() > open.len - offset {
            self.damage(&name, offset, "a record reaches beyond the end of the file");
            return self.resync(open);
        }
        let extent = match open.bytes(offset, header.extent()) {
            Ok(extent) => extent,
            Err(error) => {
                self.damage(&name, offset, error.to_string());
                return self.resync(open);
            }
        };
        open.offset += header.extent();
        self.journal_id = self.journal_id.or(Some(header.journal_id));
        let payload = extent.slice(RECORD_HEADER_LEN..RECORD_HEADER_LEN + header.payload_len as usize);
        let is_whole = crc32c::crc32c(&payload) == header.payload_crc;
        let missing = header::zero_sectors(&extent).saturating_sub(header.zero_sectors);
        if !is_whole && missing > 0 && is_last {
            self.next_seq = Some(header.first_seq);
            if let Some(end) = self.end_of_write(open, header) {
                let reason = format!("{missing} sectors of the last write are missing");
                (open.offset, self.next_seq) = (open.len, None);
                return (self.see)(Sight::Torn(CutTail { file: name, offset, bytes: end - offset, reason }));
            }
        }
        let behind = header.first_seq.checked_plus(u64::from(header.entries));
        self.next_seq = Some(behind.unwrap_or(Seq::MAX));
        if !is_whole {
            return self.damage(&name, offset, "the payload of a record does not match its checksum");
        }
        (self.see)(Sight::Record(RecordSight {
            file: name,
            offset,
            extent: header.extent(),
            journal_id: header.journal_id,
            first_seq: header.first_seq,
            entries: header.entries,
            payload: header.payload_len,
            key: encryption::key_of(&extent).ok().flatten(),
        }));
        if let Some((entries, at)) = self.opened(open, header, offset, payload) {
            self.entries(&open.segment.name, header, entries, at);
        }
    }

    /// Where the write of the record before the current offset ends, if nothing else follows.
    fn end_of_write(&self, open: &mut OpenSegment, header: &Header) -> Option<u64> {
        let (mut at, mut end) = (open.offset, open.offset);
        while at + SECTOR as u64 <= open.len {
            let sector = open.bytes(at, SECTOR as u64).ok()?;
            if !header::is_zero(&sector) {
                let is_of_it = !self.is_ours(&sector) || self.is_same_write(&sector);
                end = (header.place.behind > 0 && is_of_it).then_some(at + SECTOR as u64)?;
            }
            at += SECTOR as u64;
        }
        Some(end)
    }

    fn check_header(&mut self, open: &OpenSegment, header: &Header) {
        let (name, offset) = (open.segment.name.clone(), open.offset);
        if let Some(expected) = self.next_seq.filter(|&expected| expected != header.first_seq) {
            self.damage(
                &name,
                offset,
                format!("a record begins with entry {}, expected {expected}", header.first_seq),
            );
        }
        if self.journal_id.is_some_and(|id| id != header.journal_id) {
            self.damage(&name, offset, "a record belongs to another journal");
        }
        if u64::from(header.segment_sectors) * SECTOR as u64 != open.file_len() {
            let made = u64::from(header.segment_sectors) * SECTOR as u64;
            self.damage(
                &name,
                offset,
                format!("the file is {} bytes long, but was made with {made}", open.file_len()),
            );
        }
    }

    /// The encoded entries of a record, and where they begin.
    fn opened(
        &mut self,
        open: &OpenSegment,
        header: &Header,
        offset: u64,
        payload: Bytes,
    ) -> Option<(Bytes, u64)> {
        let at = offset + RECORD_HEADER_LEN as u64;
        if !header.is_encrypted {
            return Some((payload, at));
        }
        let (file, segment) = (open.segment.name.clone(), open.segment.first_seq);
        let place = Place { journal_id: header.journal_id, segment, segment_len: open.file_len(), offset };
        match encryption::decrypt(self.keys, &payload, &place, header) {
            Ok(entries) => return Some((entries, at + ENVELOPE_HEADER_LEN as u64)),
            Err(Undecryptable::Damaged(reason)) => self.damage(&file, offset, reason),
            Err(Undecryptable::Key(source)) => {
                self.tip = None;
                if !std::mem::replace(&mut self.is_missing_key_reported, true) {
                    (self.see)(Sight::Encrypted { file, offset, source });
                }
            }
        }
        None
    }

    fn entries(&mut self, file: &str, header: &Header, mut rest: Bytes, mut offset: u64) {
        for _ in 0..header.entries {
            let len = match entry_len(&rest) {
                Ok(len) => len,
                Err(error) => return self.damage(file, offset, format!("bad entry: {error}")),
            };
            let bytes = rest.split_to(len);
            let entry = match Entry::decode(&bytes) {
                Ok(entry) => entry,
                Err(error) => return self.damage(file, offset, format!("bad entry: {error}")),
            };
            let hash = hash_entry(&bytes);
            let tip = match self.tip.map(|tip| tip.accept(&entry, hash)) {
                Some(Ok(tip)) => Some(tip),
                Some(Err(error)) => {
                    self.damage(file, offset, format!("bad entry: {error}"));
                    None
                }
                None => None,
            };
            // Behind damage, or at the beginning, the entry itself is believed.
            self.tip = tip.or_else(|| Tip::claimed_by(&entry)?.accept(&entry, hash).ok());
            (self.see)(Sight::Entry { file: file.to_owned(), offset, len, entry });
            offset += len as u64;
        }
        if !rest.is_empty() {
            self.damage(file, offset, "bytes are left over behind the last entry of a record");
        }
    }
}
