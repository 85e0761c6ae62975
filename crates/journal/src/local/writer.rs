//! Writer: the open local journal. One record, one write, one sync per batch; a failure of either
//! ends it. What a member of several does beside that is in `replicated`, `cut` and `begin`.
//!
//! Invariant: everything that can fail for want of space happens before the first byte of a record
//! is written, so `NoSpace` leaves the journal as it was and the same batch may be given again.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use vetch_base::Seq;
use vetch_encryption::{EncryptionKeys, KeyId, Purpose};
use vetch_seeded_bugs::Bug;

use super::LocalConfig;
use super::begin::State;
use super::encryption;
use super::entries::{EntriesFrom, EntryReader};
use super::header::{self, InWrite, MAX_PAYLOAD, Place, SECTOR};
use super::maintenance::{Maintenance, Retired, Spare};
use super::published::Published;
use super::record;
use super::scan::{From, Scan};
use super::segment::Segment;
use crate::contract::{Appended, Journal, JournalError, Position, Read, ReadItem};
use crate::disk::{Disk, DiskFile};
use crate::entry::{ChainedEntry, Draft, Kind, Tip};

mod begin;
mod cut;
mod replicated;

pub use cut::Cut;

/// A record buffer above this size is given back after use.
const KEEP_BUFFER: usize = 8 << 20;

/// The open journal of this process.
pub struct LocalJournal {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    no_fsync: bool,
    keys: EncryptionKeys,
    journal_id: u64,
    /// Oldest first; the last one is active.
    segments: Vec<Segment>,
    active: Option<Active>,
    tip: Tip,
    claimed: bool,
    poison: Option<Arc<str>>,
    buf: Vec<u8>,
    maintenance: Maintenance,
    /// What readers beside the writer go by.
    published: Arc<Published>,
    /// How far the journal is with beginning anew behind a checkpoint of another member.
    begin: Option<State>,
    stats: Stats,
}

/// The segment that records are appended to.
pub(super) struct Active {
    pub(super) path: PathBuf,
    pub(super) file: Box<dyn DiskFile>,
    pub(super) len: u64,
    pub(super) offset: u64,
}

/// Totals since the journal was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub records: u64,
    pub entries: u64,
    pub bytes: u64,
    pub rolls: u64,
    pub write: Duration,
    pub sync: Duration,
}

impl LocalJournal {
    #[expect(clippy::too_many_arguments, reason = "called once, by recovery, with everything it found")]
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        config: &LocalConfig,
        journal_id: u64,
        segments: Vec<Segment>,
        active: Option<Active>,
        tip: Tip,
        maintenance: Maintenance,
    ) -> LocalJournal {
        let first = segments.first().map_or(tip.seq.next(), |segment| segment.first_seq);
        LocalJournal {
            disk,
            dir,
            no_fsync: config.unsafe_no_fsync,
            keys: config.keys.clone(),
            journal_id,
            segments,
            active,
            tip,
            claimed: false,
            poison: None,
            buf: Vec::new(),
            maintenance,
            published: Arc::new(Published::new(first, tip.seq, config.recent_bytes)),
            begin: None,
            stats: Stats::default(),
        }
    }

    /// The half of the engine that a background thread runs.
    pub fn maintenance(&self) -> Maintenance {
        self.maintenance.clone()
    }

    /// Readers of durable entries, for other threads.
    pub fn entries(&self) -> EntryReader {
        let (disk, dir) = (self.disk.clone(), self.dir.clone());
        EntryReader::new(disk, dir, self.keys.clone(), self.published.clone())
    }

    /// Durable entries from this one on, while the journal goes on.
    pub fn entries_from(&self, seq: Seq) -> EntriesFrom {
        self.entries().from(seq)
    }

    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Bytes of records that still fit the active segment.
    pub fn room(&self) -> u64 {
        self.active.as_ref().map_or(0, |active| active.len - active.offset)
    }

    /// Segment files in use, the active one included.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// How many segments need which key; the ones in plain are counted under none. Trimmed segments
    /// count until their files are removed.
    pub fn segments_by_key(&self) -> BTreeMap<Option<KeyId>, usize> {
        let mut counts = BTreeMap::new();
        let keys = self.segments.iter().map(|segment| segment.key).chain(self.maintenance.retired_keys());
        keys.flatten().for_each(|key| *counts.entry(key).or_default() += 1);
        counts
    }

    /// Trimmed segments whose files are still there.
    pub fn retired(&self) -> usize {
        self.maintenance.retired()
    }

    /// Refuses if a segment that holds an entry at `position` or behind it needs a key that was not
    /// given: those that recovery had no need to read as well.
    pub fn check_keys(&self, position: Position) -> Result<(), JournalError> {
        let from =
            self.segments.partition_point(|segment| segment.first_seq.get() <= position.0).saturating_sub(1);
        for segment in &self.segments[from..] {
            let Some(Some(id)) = segment.key else { continue };
            let key = |source| JournalError::Key { file: segment.name.clone(), offset: 0, source };
            self.keys.find(id).map_err(key)?;
        }
        Ok(())
    }

    /// The key of the records in the active segment, or none in it if they are plain; none at all
    /// if it has none yet.
    pub fn active_key(&self) -> Option<Option<KeyId>> {
        self.segments.last().and_then(|active| active.key)
    }

    /// Begins a new segment now if the keys have changed since the last record, so that the
    /// segments before it can go as soon as a checkpoint covers them. True if it did. Nothing is
    /// lost if it cannot: the next append tries again.
    pub fn follow_keys(&mut self) -> Result<bool, JournalError> {
        self.check_poison()?;
        if !self.claimed || self.is_fit_for(self.keys.current()) {
            return Ok(false);
        }
        let spare = self.maintenance.take(0)?;
        self.activate(spare)?;
        Ok(true)
    }

    /// Whether a record encrypted with this key may go into the active segment.
    fn is_fit_for(&self, key: Option<KeyId>) -> bool {
        self.segments.last().is_some_and(|active| active.key.is_none_or(|used| used == key))
    }

    /// Lets go of every segment whose entries all lie before `position`, without touching a file;
    /// the next `Maintenance::run` removes them. The active segment always stays. Returns how many
    /// were let go.
    pub fn retire(&mut self, position: Position) -> Result<usize, JournalError> {
        self.check_poison()?;
        let keep_from = self.segments.partition_point(|segment| segment.first_seq.get() <= position.0);
        let gone = keep_from.saturating_sub(1);
        assert!(gone == 0 || gone < self.segments.len(), "the active segment stays");
        let dir = &self.dir;
        let retired = |segment: Segment| Retired { path: dir.join(segment.name), key: segment.key };
        self.maintenance.retire(self.segments.drain(..gone).map(retired));
        if let Some(first) = self.segments.first() {
            self.published.trimmed(first.first_seq);
        }
        Ok(gone)
    }

    fn check_poison(&self) -> Result<(), JournalError> {
        match &self.poison {
            Some(cause) => Err(JournalError::Poisoned(cause.clone())),
            None => Ok(()),
        }
    }

    fn poison(&mut self, what: &str, error: &dyn std::fmt::Display) -> JournalError {
        let cause: Arc<str> = format!("{what}: {error}").into();
        self.poison = Some(cause.clone());
        JournalError::Poisoned(cause)
    }

    /// The batch must continue the tip, entry by entry, in the current epoch. Returns the length of
    /// its payload.
    fn check_batch(&self, entries: &[ChainedEntry]) -> Result<u64, JournalError> {
        let mut tip = &self.tip;
        let mut len = 0;
        for entry in entries {
            if entry.after().epoch < self.tip.epoch {
                return Err(JournalError::Fenced { current: self.tip.epoch, found: entry.after().epoch });
            }
            if entry.before() != tip {
                let reason = format!("entry {} was chained on another tip than {}", entry.seq(), tip.seq);
                return Err(JournalError::OutOfOrder(reason));
            }
            if entry.is_reserved() {
                let file = self.dir.display().to_string();
                let what = format!("writing an entry of kind {:?} or with references", entry.kind());
                return Err(JournalError::NotSupported { file, offset: 0, what });
            }
            tip = entry.after();
            len += entry.bytes().len() as u64;
        }
        let max = MAX_PAYLOAD - encryption::OVERHEAD as u64;
        if len > max {
            return Err(JournalError::TooLarge { len, max });
        }
        Ok(len)
    }

    /// Makes sure that the active segment has room for a record; true if that took a new segment.
    fn make_room(&mut self, extent: u64, key: Option<KeyId>) -> Result<bool, JournalError> {
        let has_room = self.active.as_ref().is_some_and(|active| active.len - active.offset >= extent);
        if has_room && self.is_fit_for(key) {
            return Ok(false);
        }
        // A segment that could not be made has no name and no record: the journal is as it was.
        let spare = self.maintenance.take(extent)?;
        self.activate(spare)?;
        Ok(true)
    }

    fn activate(&mut self, spare: Spare) -> Result<(), JournalError> {
        let segment = Segment::behind(self.tip);
        // Only a change of keys leaves a segment without a record. One that turns out too small for
        // the first is replaced, zeros by more zeros.
        let replaces = self.segments.last().is_some_and(|last| last.first_seq == segment.first_seq);
        let is_empty = self.active.as_ref().is_none_or(|active| active.offset == 0);
        assert!(!replaces || is_empty, "a segment with records is named once");
        let last = self.segments.last().map(|last| last.first_seq);
        assert!(
            last.is_none_or(|last| last <= segment.first_seq),
            "segments are in the order of their entries"
        );
        let path = self.dir.join(&segment.name);
        if let Err(error) = self.disk.rename(&spare.path, &path) {
            if error.kind() != io::ErrorKind::StorageFull {
                return Err(self.poison("naming a segment", &error));
            }
            // The directory itself has no room for the name; nothing happened.
            let needed = spare.len;
            self.maintenance.put_back(spare);
            return Err(JournalError::NoSpace { dir: self.dir.clone(), needed, source: Arc::new(error) });
        }
        if !vetch_seeded_bugs::on(Bug::SegmentNameNotSynced)
            && let Err(error) = self.disk.sync_dir(&self.dir)
        {
            return Err(self.poison("syncing the journal directory", &error));
        }
        if replaces {
            self.segments.pop();
        }
        self.segments.push(segment);
        self.active = Some(Active { path, file: spare.file, len: spare.len, offset: 0 });
        self.stats.rolls += 1;
        Ok(())
    }

    fn append(&mut self, entries: &[ChainedEntry]) -> Result<Appended, JournalError> {
        let last =
            *entries.last().ok_or_else(|| JournalError::OutOfOrder("an empty batch".to_owned()))?.after();
        let mut payload = self.check_batch(entries)?;
        if self.begin.is_some() {
            self.complete_begin()?;
        }
        let encryptor =
            self.keys.encryptor(Purpose::JournalRecord, &[self.journal_id, self.tip.seq.next().get()]);
        let key = encryptor.as_ref().map(|encryptor| encryptor.header().key);
        payload += if encryptor.is_some() { encryption::OVERHEAD as u64 } else { 0 };
        let rolled = self.make_room(header::extent(payload), key)?;
        let place = self.place(key);
        self.buf.clear();
        record::build(&mut self.buf, place, InWrite::ALONE, entries, encryptor.as_ref());
        self.write_out(entries.len(), last, rolled)
    }

    /// Where the next record goes: in the active segment, which has records of this key from now
    /// on.
    fn place(&mut self, key: Option<KeyId>) -> Place {
        let active = self.active.as_ref().expect("room was made");
        let segment = self.segments.last_mut().expect("the active one is there");
        segment.key = Some(key);
        Place {
            journal_id: self.journal_id,
            segment: segment.first_seq,
            segment_len: active.len,
            offset: active.offset,
        }
    }

    /// Writes the records in the buffer and syncs them, with which the tip moves to `last`.
    fn write_out(&mut self, entries: usize, last: Tip, rolled: bool) -> Result<Appended, JournalError> {
        let active = self.active.as_mut().expect("room was made");
        let bytes = self.buf.len() as u64;
        assert!(bytes.is_multiple_of(SECTOR as u64), "a record owns whole sectors");
        assert!(active.offset + bytes <= active.len, "a record stays within its segment");
        assert!(last.seq == self.tip.seq.plus(entries as u64), "sequence numbers are contiguous");
        assert!(last.epoch >= self.tip.epoch, "epochs never go back");
        assert!(last.next_rev >= self.tip.next_rev, "revisions never go back");
        #[expect(clippy::disallowed_methods, reason = "measures a write and a sync, for metrics")]
        let began = Instant::now();
        let written = active.file.write_at(active.offset, &self.buf);
        let write = began.elapsed();
        let no_fsync = self.no_fsync || vetch_seeded_bugs::on(Bug::AckBeforeSync);
        let synced = written.and_then(|()| if no_fsync { Ok(()) } else { active.file.sync_data() });
        let synced = if vetch_seeded_bugs::on(Bug::SyncErrorIgnored) { Ok(()) } else { synced };
        if let Err(error) = synced {
            let what = format!("writing {} at byte {}", active.path.display(), active.offset);
            return Err(self.poison(&what, &error));
        }
        let sync = began.elapsed() - write;
        active.offset += bytes;
        self.tip = last;
        self.buf.shrink_to(KEEP_BUFFER);
        self.count(entries, bytes, write, sync);
        self.published.appended(last.seq);
        Ok(Appended { position: Position(last.seq.get()), bytes, write, sync, rolled })
    }

    fn count(&mut self, entries: usize, bytes: u64, write: Duration, sync: Duration) {
        self.stats.records += 1;
        self.stats.entries += entries as u64;
        self.stats.bytes += bytes;
        self.stats.write += write;
        self.stats.sync += sync;
    }
}

impl Journal for LocalJournal {
    fn claim(&mut self) -> Result<Tip, JournalError> {
        self.check_poison()?;
        let mut tip = self.tip;
        let entry = Draft::new(Kind::NewEpoch).chain(&mut tip);
        self.append(&[entry])?;
        self.claimed = true;
        Ok(self.tip)
    }

    fn append_batch(&mut self, entries: &[ChainedEntry]) -> Result<Appended, JournalError> {
        self.check_poison()?;
        if !self.claimed {
            return Err(JournalError::OutOfOrder("append before claim".to_owned()));
        }
        self.append(entries)
    }

    fn read(&self, from: Tip) -> Result<Box<dyn Read + '_>, JournalError> {
        self.check_poison()?;
        let until = Some(self.tip.seq);
        let scan = Scan::new(
            self.disk.clone(),
            self.dir.clone(),
            self.keys.clone(),
            self.segments.clone(),
            From::Tip(from),
            until,
        )?;
        Ok(Box::new(LiveRead { scan }))
    }

    fn trim(&mut self, position: Position) -> Result<(), JournalError> {
        self.retire(position)?;
        self.maintenance.remove_retired()?;
        Ok(())
    }

    fn tip(&self) -> &Tip {
        &self.tip
    }
}

struct LiveRead {
    scan: Scan,
}

impl Read for LiveRead {
    fn next_entry(&mut self) -> Result<Option<ReadItem>, JournalError> {
        self.scan.next_entry()
    }
}
