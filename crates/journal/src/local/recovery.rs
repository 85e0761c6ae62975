//! Recovery: from files to a writer. Streams every entry behind a checkpoint, then cuts what a
//! power loss tore.
//!
//! Guarantees: every acknowledged entry is handed out or the recovery fails with file and offset;
//! recovering again gives the same entries; a crash during the cut leaves a tail that is judged
//! torn again.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vetch_encryption::EncryptionKeys;
use vetch_seeded_bugs::Bug;

use super::LocalConfig;
use super::begin::Begin;
use super::encryption;
use super::header::SECTOR;
use super::maintenance::Maintenance;
use super::scan::{From, Progress, Scan};
use super::segment::{Segment, is_spare};
use super::tail::Tail;
use super::writer::{Active, LocalJournal};
use crate::contract::{JournalError, Read, ReadItem};
use crate::disk::Disk;
use crate::entry::Tip;

/// Bytes written again at a time.
const REWRITE_PIECE: usize = 1 << 20;

/// A journal being recovered: take entries until there are none, then `finish`.
pub struct Recovery {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    config: LocalConfig,
    maintenance: Maintenance,
    segments: Vec<Segment>,
    /// A checkpoint was announced that is not the one that the journal is read from.
    is_begin_void: bool,
    scan: Scan,
    start: Tip,
    entries: u64,
}

/// What recovery found and did, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The tip after the last entry.
    pub tip: Tip,
    /// Entries handed out, so behind the start.
    pub entries: u64,
    pub segments: usize,
    /// Bytes of segment files that were read.
    pub bytes: u64,
    /// The unacknowledged write that was cut, if there was one.
    pub cut: Option<CutTail>,
}

/// The remains of a write that a power loss interrupted; it was never acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutTail {
    pub file: String,
    pub offset: u64,
    pub bytes: u64,
    pub reason: String,
}

impl LocalJournal {
    /// Takes the directory for this process and begins reading behind `start`: the tip that the
    /// checkpoint remembers, or `Tip::genesis` without one. Makes the directory if needed.
    pub fn recover(
        disk: Arc<dyn Disk>,
        dir: &Path,
        config: LocalConfig,
        start: Tip,
    ) -> Result<Recovery, JournalError> {
        disk.create_dir_all(dir).map_err(JournalError::io("creating", dir))?;
        let lock = disk.lock_dir(dir).map_err(|error| JournalError::Locked(Arc::new(error)))?;
        let names = disk.list(dir).map_err(JournalError::io("listing", dir))?;
        for name in names.iter().filter(|name| is_spare(name)) {
            let path = dir.join(name);
            disk.remove(&path).map_err(JournalError::io("removing", path))?;
        }
        // A process before this one may have been killed between naming a segment and making the
        // name durable, and nothing may be acknowledged in a file whose name can still be lost. Nor
        // may a removed spare come back: the next one to be made has its name.
        if !config.unsafe_no_fsync && !vetch_seeded_bugs::on(Bug::FoundNameNotSynced) {
            disk.sync_dir(dir).map_err(JournalError::io("syncing", dir))?;
        }
        let maintenance = Maintenance::new(disk.clone(), dir, &config, lock);
        let mut segments = Segment::among(&names);
        let begin = Begin::read(disk.as_ref(), dir)?;
        let is_begin_void = begin.is_some_and(|begin| begin.tip() != start);
        if let Some(begin) = begin {
            if is_begin_void {
                begin.check_void(start, dir)?;
            } else {
                begin.carry_out(disk.as_ref(), dir, &maintenance)?;
                segments = vec![Segment::behind(start)];
            }
        }
        let keys = config.keys.clone();
        let dir = dir.to_path_buf();
        let scan = Scan::new(disk.clone(), dir.clone(), keys, segments.clone(), From::Tip(start), None)?;
        Ok(Recovery { disk, dir, config, maintenance, segments, is_begin_void, scan, start, entries: 0 })
    }
}

impl Recovery {
    /// The next entry behind the start, or nothing at the end.
    pub fn next_entry(&mut self) -> Result<Option<ReadItem>, JournalError> {
        let item = self.scan.next_entry()?;
        self.entries += u64::from(item.is_some());
        Ok(item)
    }

    pub fn progress(&self) -> Progress {
        self.scan.progress()
    }

    /// Reads what is left, cuts a torn tail durably, and opens the journal for writing.
    pub fn finish(mut self) -> Result<(LocalJournal, RecoveryReport), JournalError> {
        while self.next_entry()?.is_some() {}
        let cut = self.cut_tail()?;
        self.write_last_segment_again()?;
        let tip = self.scan.tip().unwrap_or(self.start);
        let active = self.open_active()?;
        self.note_keys();
        self.segments.iter_mut().for_each(|segment| segment.before = self.scan.tip_before(segment));
        if self.is_begin_void {
            Begin::forget(self.disk.as_ref(), &self.dir)?;
        }
        let journal_id = self.scan.journal_id().or(self.config.new_journal_id).unwrap_or_else(random_id);
        let report = RecoveryReport {
            tip,
            entries: self.entries,
            segments: self.segments.len(),
            bytes: self.scan.progress().total,
            cut,
        };
        let journal = LocalJournal::new(
            self.disk,
            self.dir,
            &self.config,
            journal_id,
            self.segments,
            active,
            tip,
            self.maintenance,
        );
        Ok((journal, report))
    }

    /// Notes which key the records of each segment need, from the first one. Where that cannot be
    /// read, recovery did not need the segment, or it has no records yet.
    fn note_keys(&mut self) {
        for segment in &mut self.segments {
            let mut sector = [0; SECTOR];
            let file = self.disk.open(&self.dir.join(&segment.name));
            let is_read = file.is_ok_and(|file| file.read_at(0, &mut sector).is_ok_and(|n| n == SECTOR));
            segment.key = is_read.then(|| encryption::key_of(&sector).ok()).flatten();
        }
    }

    fn cut_tail(&self) -> Result<Option<CutTail>, JournalError> {
        let Some(Tail::Torn { from, to, reason }) = self.scan.tail() else { return Ok(None) };
        let last = self.scan.last_segment().expect("a torn tail lies in a segment");
        let path = self.dir.join(&last.segment.name);
        let zero = || {
            let file = self.disk.open_write(&path)?;
            file.zero_fill(*from, *to)?;
            file.sync_data()
        };
        zero().map_err(JournalError::io("cutting the torn tail of", &path))?;
        let file = last.segment.name.clone();
        Ok(Some(CutTail { file, offset: *from, bytes: to - from, reason: reason.clone() }))
    }

    /// Makes what was read of the last segment durable once more, the zeros behind its records
    /// included. If the process before this one stopped because a sync failed, the kernel may show
    /// bytes that never reached the disk and that it will not try to write again: records that are
    /// not there, or zeros where a cut failed and records still are. They must not be built upon.
    /// The same bytes are written, so a power loss in between changes nothing.
    fn write_last_segment_again(&self) -> Result<(), JournalError> {
        let Some(last) = self.scan.last_segment() else { return Ok(()) };
        if self.config.unsafe_no_fsync {
            return Ok(());
        }
        let path = self.dir.join(&last.segment.name);
        let again = || {
            let file = self.disk.open_write(&path)?;
            let mut piece = vec![0; REWRITE_PIECE];
            let mut at = 0;
            while at < last.offset {
                let len = usize::try_from(last.offset - at).unwrap_or(REWRITE_PIECE).min(REWRITE_PIECE);
                let read = file.read_at(at, &mut piece[..len])?;
                file.write_at(at, &piece[..read])?;
                if read < len {
                    return Err(std::io::ErrorKind::UnexpectedEof.into());
                }
                at += read as u64;
            }
            file.zero_fill(last.offset, last.len)?;
            file.sync_data()
        };
        again().map_err(JournalError::io("making durable once more", &path))
    }

    fn open_active(&self) -> Result<Option<Active>, JournalError> {
        let Some(last) = self.scan.last_segment() else { return Ok(None) };
        let path = self.dir.join(&last.segment.name);
        let file = self.disk.open_write(&path).map_err(JournalError::io("opening", &path))?;
        Ok(Some(Active { path, file, len: last.len, offset: last.offset }))
    }
}

/// An unguessable identity, from the randomness that the standard library seeds its hash maps with.
#[expect(clippy::disallowed_methods, reason = "an identity is drawn once for each journal")]
fn random_id() -> u64 {
    RandomState::new().hash_one("journal")
}

/// Reads a journal without taking or changing it: for offline tools.
pub struct LocalReader {
    scan: Scan,
}

impl LocalReader {
    /// Reads everything there is from the oldest entry on, or only what lies behind `start`.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        start: Option<Tip>,
        keys: &EncryptionKeys,
    ) -> Result<LocalReader, JournalError> {
        let names = disk.list(dir).map_err(JournalError::io("listing", dir))?;
        let begin = Begin::read(disk.as_ref(), dir)?;
        let (from, segments) = match start {
            // A start gives up everything there is.
            Some(start) if begin.is_some_and(|begin| begin.tip() == start) => (From::Oldest, Vec::new()),
            Some(start) => (From::Tip(start), Segment::among(&names)),
            None => (From::Oldest, Segment::among(&names)),
        };
        let scan = Scan::new(disk, dir.to_path_buf(), keys.clone(), segments, from, None)?;
        Ok(LocalReader { scan })
    }

    pub fn progress(&self) -> Progress {
        self.scan.progress()
    }

    /// What a writer would cut, known once everything was read.
    pub fn torn_tail(&self) -> Option<CutTail> {
        let (Some(Tail::Torn { from, to, reason }), Some(last)) =
            (self.scan.tail(), self.scan.last_segment())
        else {
            return None;
        };
        let file = last.segment.name.clone();
        Some(CutTail { file, offset: *from, bytes: to - from, reason: reason.clone() })
    }
}

impl Read for LocalReader {
    fn next_entry(&mut self) -> Result<Option<ReadItem>, JournalError> {
        self.scan.next_entry()
    }
}

impl Read for Recovery {
    fn next_entry(&mut self) -> Result<Option<ReadItem>, JournalError> {
        Recovery::next_entry(self)
    }
}
