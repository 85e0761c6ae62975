//! Import: a data directory made from a state that comes from elsewhere.
//!
//! It is built under another name and renamed when it is complete and on disk, so that there is
//! never half a directory that a server would take for an empty one. The journal is begun as well:
//! should the checkpoint be damaged one day, an empty journal would look like a store without a
//! past.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vetch_encryption::EncryptionKeys;
use vetch_journal::{Disk, Journal, JournalError, LocalConfig, LocalJournal, RealDisk};
use vetch_store::load::Unversioned;
use vetch_store::{Mark, Record, Store};

use crate::checkpoint::{self, CheckpointError, LoadError};
use crate::config::{Identity, NodeConfig};
use crate::error::OpenError;
use crate::identity;

/// Where a data directory is built, inside of the one that it will be.
pub const UNFINISHED: &str = "member.restoring";

/// How far the revision of a backup is moved ahead: more than any cluster writes between two of
/// them.
pub const BUMP: u64 = 1_000_000_000;

/// `source` with its revision moved ahead by `bump` and everything before compacted, or as it is
/// for 0. None: that would leave no revisions to be written.
pub fn bumped(source: Mark, bump: u64) -> Option<Mark> {
    if bump == 0 {
        return Some(source);
    }
    let revision = i64::try_from(bump).ok().and_then(|bump| source.revision.checked_add(bump))?;
    // As much again is left to write as has been moved over.
    (revision < i64::MAX / 2).then_some(Mark { revision, compact_revision: revision })
}

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("data-dir {0:?} not empty or could not be read")]
    NotEmpty(PathBuf),
    #[error("{op} {}: {source}", path.display())]
    Io { op: &'static str, path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("what was just written cannot be read: {0}")]
    Unreadable(String),
    #[error("beginning the journal: {0}")]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Identity(#[from] OpenError),
}

/// A data directory under construction.
pub struct Import {
    disk: Arc<dyn Disk>,
    data_dir: PathBuf,
    checkpoint: checkpoint::Import,
    keys: EncryptionKeys,
}

impl Import {
    /// Begins in `data_dir`, which must be empty if it exists. For `swept` see
    /// [`checkpoint::Import::begin`].
    pub fn begin(data_dir: &Path, swept: i64) -> Result<Import, ImportError> {
        Import::begin_encrypted(data_dir, swept, EncryptionKeys::none())
    }

    /// The same, with everything that is written encrypted.
    pub fn begin_encrypted(data_dir: &Path, swept: i64, keys: EncryptionKeys) -> Result<Import, ImportError> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        check_empty(data_dir)?;
        let member = data_dir.join(UNFINISHED);
        disk.create_dir_all(&member).map_err(failed("creating", &member))?;
        let checkpoint =
            checkpoint::Import::begin(Arc::clone(&disk), &member.join("checkpoint"), swept, keys.clone())?;
        Ok(Import { disk, data_dir: data_dir.to_path_buf(), checkpoint, keys })
    }

    /// Adds versions of later revisions than all before, each revision entirely.
    pub fn add(&mut self, records: Vec<Record>) -> Result<(), ImportError> {
        Ok(self.checkpoint.add(records)?)
    }

    /// The state at `mark` with what was added so far, in memory. What happens to it can be added
    /// then.
    pub fn load(&mut self, mark: Mark, unversioned: &Unversioned) -> Result<Store, ImportError> {
        self.checkpoint.publish(mark, unversioned.clone())?;
        let dir = self.data_dir.join(UNFINISHED).join("checkpoint");
        let tuning = NodeConfig::new(PathBuf::new(), Identity { cluster_id: 0, member_id: 0 }).tuning;
        let (config, threads) = (tuning.checkpoints.files, tuning.checkpoints.recovery_threads);
        let loaded =
            checkpoint::load(Arc::clone(&self.disk), &dir, config, threads, &self.keys, &mut |_, _| {})?;
        match loaded.report.fell_back {
            None => Ok(loaded.store),
            Some(why) => Err(ImportError::Unreadable(why)),
        }
    }

    /// Makes what was added the state at `mark`. Without an identity, the first start chooses one.
    pub fn finish(
        mut self,
        mark: Mark,
        unversioned: Unversioned,
        identity: Option<Identity>,
    ) -> Result<(), ImportError> {
        let member = self.data_dir.join(UNFINISHED);
        let tip = self.checkpoint.publish(mark, unversioned)?;
        if let Some(identity) = identity {
            identity::load_or_create(&*self.disk, &member, identity)?;
        }
        let defaults = NodeConfig::new(PathBuf::new(), Identity { cluster_id: 0, member_id: 0 });
        let config = LocalConfig {
            segment_len: defaults.journal_segment_bytes,
            spares: 0,
            unsafe_no_fsync: false,
            new_journal_id: None,
            keys: self.keys,
        };
        let recovery = LocalJournal::recover(Arc::clone(&self.disk), &member.join("journal"), config, tip)?;
        let (mut journal, _) = recovery.finish()?;
        journal.claim()?;
        drop(journal);
        self.disk.sync_dir(&member).map_err(failed("syncing", &member))?;
        let finished = self.data_dir.join("member");
        self.disk.rename(&member, &finished).map_err(failed("renaming", &member))?;
        self.disk.sync_dir(&self.data_dir).map_err(failed("syncing", &self.data_dir))
    }
}

fn check_empty(data_dir: &Path) -> Result<(), ImportError> {
    let is_empty = match std::fs::read_dir(data_dir) {
        Ok(mut names) => names.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    if is_empty { Ok(()) } else { Err(ImportError::NotEmpty(data_dir.to_path_buf())) }
}

fn failed(op: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> ImportError {
    let path = path.to_path_buf();
    move |source| ImportError::Io { op, path, source }
}
