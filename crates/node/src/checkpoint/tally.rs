//! Tally: which records of a checkpoint being loaded are alive, and in which files they are.
//!
//! The loader drops what compaction made unreachable; this does the same one step earlier, where it
//! is still known which file a record came from, so that the first run after a restart knows what
//! is worth rewriting.

use vetch_store::Record;

use super::graves::{Graves, Pins};
use super::manifest::{DataFile, Manifest};

pub(super) struct Tally {
    /// The files with `live` and `pins` counted anew.
    pub(super) files: Vec<DataFile>,
    pub(super) records: u64,
    pub(super) bytes: u64,
    /// The compaction: before it, a version is reachable only if it is current there.
    compacted: i64,
    /// For each file, what its tombstones have to guard against in the others.
    graves: Vec<Graves>,
    /// The newest version before the compaction of the key being read, so far.
    held: Option<(Record, usize)>,
}

impl Tally {
    pub(super) fn new(manifest: &Manifest) -> Tally {
        let fresh = |file: &DataFile| DataFile { live: 0, pins: Pins::default(), ..*file };
        let files: Vec<DataFile> = manifest.files.iter().map(fresh).collect();
        Tally {
            graves: (0..files.len()).map(|own| Graves::new(&files, |other| other == own)).collect(),
            files,
            records: 0,
            bytes: 0,
            compacted: manifest.mark.compact_revision,
            held: None,
        }
    }

    /// Counts the next record in order, from the file with this index. Records found to be alive go
    /// to `push`.
    pub(super) fn take<E>(
        &mut self,
        record: Record,
        file: usize,
        push: &mut impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        self.records += 1;
        self.bytes += record.saved_len() as u64;
        if record.mod_revision() >= self.compacted {
            self.settle(&record, push)?;
            self.files[file].live += record.saved_len() as u64;
            return push(record);
        }
        match self.held.take() {
            Some((held, holder)) if held.key() == record.key() => self.bury(&held, holder),
            other => {
                self.held = other;
                self.flush(push)?;
            }
        }
        self.held = Some((record, file));
        Ok(())
    }

    /// Decides about the version that was held when the next one, not older than the compaction, is
    /// known.
    fn settle<E>(&mut self, next: &Record, push: &mut impl FnMut(Record) -> Result<(), E>) -> Result<(), E> {
        let replaces = |held: &Record| held.key() == next.key() && next.mod_revision() == self.compacted;
        match self.held.take_if(|(held, _)| replaces(held)) {
            Some((held, file)) => {
                self.bury(&held, file);
                Ok(())
            }
            None => self.flush(push),
        }
    }

    /// The version that was held is current at the compaction.
    pub(super) fn flush<E>(&mut self, push: &mut impl FnMut(Record) -> Result<(), E>) -> Result<(), E> {
        let Some((record, file)) = self.held.take() else { return Ok(()) };
        if record.is_tombstone() {
            self.bury(&record, file);
            return Ok(());
        }
        self.files[file].live += record.saved_len() as u64;
        push(record)
    }

    fn bury(&mut self, record: &Record, file: usize) {
        let (created, ended) = (record.create_revision(), record.mod_revision());
        if record.is_tombstone() && !self.graves[file].may_forget(created, ended) {
            self.files[file].pins.add(record.saved_len() as u64, created, ended);
        }
    }
}
