//! Entries: durable entries as they are encoded, read by other threads while the writer goes on:
//! for followers that lag, and for backups.
//!
//! What is recent comes from a ring in memory, the rest from files. Nothing is locked while a file
//! is read; `published` says how a reader finds out that a cut was in its way. Each entry is the
//! one that the last one handed out is followed by: a reader that has been given what was cut since
//! is told so, and begins again where its caller says.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use vetch_base::Seq;
use vetch_encryption::EncryptionKeys;

use super::encryption::{self, Undecryptable};
use super::header::{Header, Place, RECORD_HEADER_LEN};
use super::published::{Published, Recent};
use super::raw::{RawReader, RawRecord};
use super::segment::Segment;
use crate::contract::JournalError;
use crate::disk::Disk;
use crate::entry::{Entry, Hash, entry_len, hash_entry};

/// Where readers of a journal come from. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EntryReader {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    keys: EncryptionKeys,
    published: Arc<Published>,
}

/// An entry as it is encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedEntry {
    pub seq: Seq,
    pub bytes: Bytes,
}

/// Why there is no next entry.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EntriesError {
    /// Only a checkpoint leads further.
    #[error("entry {wanted} was trimmed; the journal begins at {first}")]
    Trimmed { wanted: Seq, first: Seq },
    /// Entries that were handed out are not in the journal any more.
    #[error("the journal was cut before entry {next}, which was to be read next")]
    Cut { next: Seq },
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl EntryReader {
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        keys: EncryptionKeys,
        published: Arc<Published>,
    ) -> EntryReader {
        EntryReader { disk, dir, keys, published }
    }

    /// Entries from this one on.
    pub fn from(&self, seq: Seq) -> EntriesFrom {
        EntriesFrom { reader: self.clone(), next: seq, last: None, run: None }
    }

    fn trimmed(&self, wanted: Seq) -> Option<EntriesError> {
        let first = self.published.first();
        (wanted < first).then_some(EntriesError::Trimmed { wanted, first })
    }
}

/// A run over durable entries. At the end it goes on when there are more.
pub struct EntriesFrom {
    reader: EntryReader,
    next: Seq,
    /// Hash of the entry that was handed out last.
    last: Option<Hash>,
    run: Option<FileRun>,
}

/// Records of files up to an entry that was durable when the run began. What is known of a file is
/// from then, so it is forgotten with the run: zeros behind the end become records.
struct FileRun {
    cuts: u64,
    until: Seq,
    raw: RawReader,
    /// Entries of the last record that were not handed out.
    rest: Bytes,
    next: Seq,
}

impl EntriesFrom {
    /// The entry that will be handed out next.
    pub fn next_seq(&self) -> Seq {
        self.next
    }

    /// The next durable entry, or nothing at the end.
    pub fn next_entry(&mut self) -> Result<Option<EncodedEntry>, EntriesError> {
        loop {
            let (cuts, until) = self.reader.published.end();
            if self.next > until {
                return self.at_the_end(until);
            }
            if let Some(recent) = self.reader.published.recent(self.next) {
                return self.hand_out(recent).map(Some);
            }
            if let Some(trimmed) = self.reader.trimmed(self.next) {
                return Err(trimmed);
            }
            let found = self.read(cuts, until);
            if self.reader.published.end().0 != cuts {
                continue;
            }
            return match (found, self.reader.trimmed(self.next)) {
                (Err(error), Some(trimmed)) if is_gone(&error) => Err(trimmed),
                (found, _) => self.hand_out(found?).map(Some),
            };
        }
    }

    /// The end may have been cut back over what was handed out.
    fn at_the_end(&self, until: Seq) -> Result<Option<EncodedEntry>, EntriesError> {
        if self.last.is_some() && self.next > until.next() {
            return Err(EntriesError::Cut { next: self.next });
        }
        Ok(None)
    }

    fn hand_out(&mut self, entry: Recent) -> Result<EncodedEntry, EntriesError> {
        if self.last.is_some() && self.last != Entry::prev_hash_of(&entry.bytes) {
            return Err(EntriesError::Cut { next: self.next });
        }
        let seq = self.next;
        (self.next, self.last) = (seq.next(), Some(entry.hash));
        Ok(EncodedEntry { seq, bytes: entry.bytes })
    }

    fn read(&mut self, cuts: u64, until: Seq) -> Result<Recent, JournalError> {
        let fits = |run: &FileRun| run.cuts == cuts && run.next == self.next;
        let mut run = match self.run.take().filter(fits) {
            Some(run) => run.up_to(&self.reader, until),
            None => FileRun::begin(&self.reader, self.next, cuts, until)?,
        };
        let bytes = run.next_entry(&self.reader)?;
        self.run = Some(run);
        let hash = hash_entry(&bytes);
        Ok(Recent { bytes, hash })
    }
}

impl FileRun {
    fn begin(reader: &EntryReader, seq: Seq, cuts: u64, until: Seq) -> Result<FileRun, JournalError> {
        let raw = RawReader::holding(reader.disk.clone(), &reader.dir, seq, until)?;
        let next = raw.place().seq;
        let mut run = FileRun { cuts, until, raw, rest: Bytes::new(), next };
        while run.next < seq {
            run.next_entry(reader)?;
        }
        Ok(run)
    }

    /// Goes on where it has come to an end, up to what is durable now.
    fn up_to(mut self, reader: &EntryReader, until: Seq) -> FileRun {
        if self.next > self.until {
            self.raw = RawReader::resume(reader.disk.clone(), &reader.dir, self.raw.place());
            self.until = until;
        }
        self
    }

    fn next_entry(&mut self, reader: &EntryReader) -> Result<Bytes, JournalError> {
        if self.rest.is_empty() {
            let found = self.raw.next_record(self.until)?;
            let record = found.ok_or_else(|| self.damaged("an entry that is durable is not there"))?;
            self.rest = entries_of(&record, &reader.keys)?;
        }
        let len = entry_len(&self.rest).map_err(|error| self.damaged(&format!("bad entry: {error}")))?;
        let bytes = self.rest.split_to(len);
        self.next = self.next.next();
        Ok(bytes)
    }

    fn damaged(&self, reason: &str) -> JournalError {
        let place = self.raw.place();
        JournalError::corrupt(Segment::new(place.segment).name, place.offset, reason)
    }
}

/// The encoded entries of a record, back to back.
pub(super) fn entries_of(record: &RawRecord, keys: &EncryptionKeys) -> Result<Bytes, JournalError> {
    let file = || Segment::new(record.place.segment).name;
    let offset = record.place.offset;
    let damaged = |reason: &str| JournalError::corrupt(file(), offset, reason);
    let header = Header::parse(&record.bytes).map_err(|_| damaged("the header of a record is damaged"))?;
    let payload = record.bytes.slice(RECORD_HEADER_LEN..RECORD_HEADER_LEN + header.payload_len as usize);
    if !header.is_encrypted {
        return Ok(payload);
    }
    let place = Place {
        journal_id: record.journal_id,
        segment: record.place.segment,
        segment_len: record.segment_len,
        offset,
    };
    encryption::decrypt(keys, &payload, &place, &header).map_err(|why| match why {
        Undecryptable::Damaged(reason) => damaged(reason),
        Undecryptable::Key(source) => JournalError::Key { file: file(), offset, source },
    })
}

/// Whether a file was not there any more.
fn is_gone(error: &JournalError) -> bool {
    matches!(error, JournalError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}
