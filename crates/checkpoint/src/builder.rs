//! Builder: a first checkpoint of versions from elsewhere, given in order of revision.
//!
//! Data files partition the revisions, and so do pieces of a stream of versions in that order: each
//! piece is sorted by key and becomes a file. So only one piece is in memory at a time, whatever
//! the size of the whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vetch_encryption::EncryptionKeys;
use vetch_journal::{Disk, Tip, write_atomically};
use vetch_store::load::Unversioned;
use vetch_store::{Mark, Record};

use super::CheckpointConfig;
use super::data_file::{DataWriter, WritePacing, by_place};
use super::directory::manifest_name;
use super::error::CheckpointError;
use super::manifest::{DataFile, Manifest};
use super::pinned_tombstones::PinnedTombstones;

/// The only manifest.
const NUMBER: u64 = 1;

pub struct CheckpointBuilder {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    block_bytes: usize,
    keys: EncryptionKeys,
    /// The compaction that is known to have been carried out in full.
    swept: i64,
    files: Vec<DataFile>,
}

impl CheckpointBuilder {
    /// Begins a checkpoint in `dir`, which must be empty. `swept` is the revision up to which all
    /// superseded versions are left out of what will be added; -1 if that is not known.
    pub fn begin(
        disk: Arc<dyn Disk>,
        dir: &Path,
        swept: i64,
        keys: EncryptionKeys,
    ) -> Result<CheckpointBuilder, CheckpointError> {
        disk.create_dir_all(dir).map_err(CheckpointError::new("create directory", dir))?;
        let block_bytes = CheckpointConfig::default().block_bytes;
        Ok(CheckpointBuilder { disk, dir: dir.to_path_buf(), block_bytes, keys, swept, files: Vec::new() })
    }

    fn covered(&self) -> i64 {
        self.files.last().map_or(0, |file| file.last)
    }

    /// Adds versions of later revisions than all before, each revision entirely, in any order.
    pub fn add(&mut self, mut records: Vec<Record>) -> Result<(), CheckpointError> {
        let revisions = || records.iter().map(Record::mod_revision);
        let Some((first, last)) = revisions().min().zip(revisions().max()) else { return Ok(()) };
        assert!(first > self.covered(), "pieces come in order of revision");
        records.sort_unstable_by(by_place);
        let id = self.files.len() as u64 + 1;
        let mut writer = DataWriter::create(
            &*self.disk,
            &self.dir,
            id,
            self.block_bytes,
            &self.keys,
            WritePacing::Unpaced,
        )?;
        let mut live = 0;
        for record in &records {
            live += record.saved_len() as u64;
            writer.push(record)?;
        }
        let written = writer.finish()?;
        let (clean_at, pinned_tombstones) = (self.swept, PinnedTombstones::default());
        self.files.push(DataFile { written, first: self.covered(), last, live, clean_at, pinned_tombstones });
        Ok(())
    }

    /// Publishes the checkpoint as the state at `mark`, before the first entry of a journal.
    /// Versions may be added afterwards; the next call then replaces this checkpoint.
    pub fn publish(&mut self, mark: Mark, unversioned: Unversioned) -> Result<Tip, CheckpointError> {
        assert!(self.covered() <= mark.revision, "no version is newer than the state");
        if let Some(last) = self.files.last_mut() {
            last.last = mark.revision;
        }
        self.disk.sync_dir(&self.dir).map_err(CheckpointError::new("sync", &self.dir))?;
        let tip = Tip::genesis(mark.revision + 1);
        let next_id = self.files.len() as u64 + 1;
        let files = self.files.clone();
        let manifest = Manifest { number: NUMBER, tip, position: 0, mark, next_id, files, unversioned };
        let name = manifest_name(NUMBER);
        assert!(manifest.check().is_ok(), "the files partition the revisions up to the mark");
        let (bytes, _) = manifest.encode(&self.keys);
        write_atomically(&*self.disk, &self.dir, &name, &bytes)
            .map_err(CheckpointError::new("publish", &self.dir.join(name)))?;
        Ok(tip)
    }
}
