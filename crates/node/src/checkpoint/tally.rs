//! Tally: which records of a checkpoint being loaded are alive, and in which files they are.
//!
//! The loader drops what compaction made unreachable; this does the same one step earlier, where it is still
//! known which file a record came from, so that the first run after a restart knows what is worth rewriting.

use vetch_store::request::Event;
use vetch_store::{PREVIOUS_KEPT, Record};

use super::graves::{Graves, Pins};
use super::manifest::{DataFile, Manifest};

pub(super) struct Tally {
    /// The files with `live` and `pins` counted anew.
    pub(super) files: Vec<DataFile>,
    pub(super) records: u64,
    pub(super) bytes: u64,
    /// Versions up to here are reachable only if they are the newest of their key.
    floor: i64,
    /// Versions replaced by the very revision that was compacted at.
    replaced_at_compaction: usize,
    /// For each file, what its tombstones have to guard against in the others.
    graves: Vec<Graves>,
    /// The newest version at or below the floor of the key being read, so far.
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
            floor: manifest.mark.compact_revision - 1,
            replaced_at_compaction: 0,
            held: None,
        }
    }

    /// Counts the next record in order, from the file with this index. Records found to be alive go to `push`.
    pub(super) fn take<E>(
        &mut self,
        record: Record,
        file: usize,
        push: &mut impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        self.records += 1;
        self.bytes += record.saved_len() as u64;
        if record.mod_revision() > self.floor {
            self.flush(push)?;
            let replaces = record.version() != 1;
            self.replaced_at_compaction += usize::from(replaces && record.mod_revision() == self.floor + 1);
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

    /// If the compacted revision replaced many versions, the store gave them back early. What the files still hold
    /// below it may then be older than what was really replaced, so those events have no previous version.
    pub(super) fn correct_history(&self, history: &mut [Event]) {
        if self.replaced_at_compaction <= PREVIOUS_KEPT {
            return;
        }
        let at_compaction = history.iter_mut().take_while(|event| event.kv.mod_revision() == self.floor + 1);
        at_compaction.for_each(|event| event.prev = None);
    }

    /// No newer version at or below the floor comes for the key that was held.
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
