//! Live records: which records of a checkpoint being loaded are live, and in which files they are.
//!
//! The loader drops what compaction made unreachable. This does the same one step earlier, where it
//! is still known which file a record came from, so that the first run after a restart knows which
//! files are worth rewriting.

use vetch_store::Record;

use super::manifest::{DataFile, Manifest};
use super::pinned_tombstones::PinnedTombstones;
use super::tombstone_gc::TombstoneGc;

pub(super) struct LiveRecords {
    /// The files with `live` and `pinned_tombstones` counted anew.
    files: Vec<DataFile>,
    records: u64,
    bytes: u64,
    /// The compaction: before it, a version is reachable only if it is current there.
    compacted: i64,
    /// For each file, which tombstones puts in the other files still need.
    tombstone_gc: Vec<TombstoneGc>,
    /// The newest version before the compaction of the current key so far, and its file. The next
    /// record decides whether it is live.
    candidate: Option<(Record, usize)>,
}

impl LiveRecords {
    pub(super) fn new(manifest: &Manifest) -> LiveRecords {
        let reset =
            |file: &DataFile| DataFile { live: 0, pinned_tombstones: PinnedTombstones::default(), ..*file };
        let files: Vec<DataFile> = manifest.files.iter().map(reset).collect();
        LiveRecords {
            tombstone_gc: (0..files.len())
                .map(|own| TombstoneGc::new(&files, |other| other == own))
                .collect(),
            files,
            records: 0,
            bytes: 0,
            compacted: manifest.mark.compact_revision,
            candidate: None,
        }
    }

    /// Records counted so far.
    pub(super) fn records(&self) -> u64 {
        self.records
    }

    /// Bytes of the records counted so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn into_files(self) -> Vec<DataFile> {
        self.files
    }

    /// Counts the next record in order, from the file with this index. Live records go to `push`.
    pub(super) fn add<E>(
        &mut self,
        record: Record,
        file: usize,
        push: &mut impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        self.records += 1;
        self.bytes += record.saved_len() as u64;
        if record.mod_revision() >= self.compacted {
            self.resolve_candidate(&record, push)?;
            self.files[file].live += record.saved_len() as u64;
            return push(record);
        }
        match self.candidate.take() {
            Some((older, older_file)) if older.key() == record.key() => self.count_dead(&older, older_file),
            other => {
                self.candidate = other;
                self.flush(push)?;
            }
        }
        self.candidate = Some((record, file));
        Ok(())
    }

    /// Decides about the candidate: `next` is not older than the compaction.
    fn resolve_candidate<E>(
        &mut self,
        next: &Record,
        push: &mut impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        let is_replaced = |older: &Record| older.key() == next.key() && next.mod_revision() == self.compacted;
        match self.candidate.take_if(|(older, _)| is_replaced(older)) {
            Some((older, file)) => {
                self.count_dead(&older, file);
                Ok(())
            }
            None => self.flush(push),
        }
    }

    /// The candidate is current at the compaction, so it is live unless it is a tombstone.
    pub(super) fn flush<E>(&mut self, push: &mut impl FnMut(Record) -> Result<(), E>) -> Result<(), E> {
        let Some((record, file)) = self.candidate.take() else { return Ok(()) };
        if record.is_tombstone() {
            self.count_dead(&record, file);
            return Ok(());
        }
        self.files[file].live += record.saved_len() as u64;
        push(record)
    }

    fn count_dead(&mut self, record: &Record, file: usize) {
        let (created, ended) = (record.create_revision(), record.mod_revision());
        if record.is_tombstone() && !self.tombstone_gc[file].may_drop(created, ended) {
            self.files[file].pinned_tombstones.add(record.saved_len() as u64, created, ended);
        }
    }
}
