//! Builder of a data directory: a state from elsewhere becomes a checkpoint and an empty journal.
//!
//! The directory is built under another name and renamed when it is complete and durable, so that a
//! server never takes half a directory for an empty one. The journal gets its first entry: without
//! one, a damaged checkpoint would look like a fresh store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vetch_checkpoint::identity::{self, Identity, IdentityError};
use vetch_checkpoint::{CheckpointBuilder, CheckpointConfig, CheckpointError, LoadError};
use vetch_encryption::EncryptionKeys;
use vetch_journal::{Disk, Journal, JournalError, LocalConfig, LocalJournal, RealDisk};
use vetch_store::load::Unversioned;
use vetch_store::{Mark, Record, Store};

use crate::decode_threads;

/// Where a data directory is built, inside the final one.
pub const UNFINISHED_DIR: &str = "member.restoring";

/// How far a restore moves the revision ahead: more than any cluster writes between two backups.
pub const REVISION_BUMP: u64 = 1_000_000_000;

/// `source` with its revision moved ahead by `bump` and everything before compacted, or unchanged
/// for
/// 0. None if that would leave no revisions to write.
pub fn bump_revision(source: Mark, bump: u64) -> Option<Mark> {
    if bump == 0 {
        return Some(source);
    }
    let revision = i64::try_from(bump).ok().and_then(|bump| source.revision.checked_add(bump))?;
    // Half of all revisions are left to write.
    (revision < i64::MAX / 2).then_some(Mark { revision, compact_revision: revision })
}

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("data-dir {0:?} not empty or could not be read")]
    NotEmpty(PathBuf),
    #[error("{op} {}: {source}", path.display())]
    Io { op: &'static str, path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("the new checkpoint cannot be read: {0}")]
    Unreadable(String),
    #[error("creating the journal: {0}")]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// The length of the first journal segment; later ones follow the server's settings.
const JOURNAL_SEGMENT_BYTES: u64 = 16 << 20;

/// A data directory under construction.
pub struct DataDirBuilder {
    disk: Arc<dyn Disk>,
    data_dir: PathBuf,
    checkpoint: CheckpointBuilder,
    keys: EncryptionKeys,
}

impl DataDirBuilder {
    /// Begins in `data_dir`, which must be empty if it exists. For `swept` see
    /// [`CheckpointBuilder::begin`].
    pub fn begin(data_dir: &Path, swept: i64, keys: EncryptionKeys) -> Result<DataDirBuilder, BuildError> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        check_empty(data_dir)?;
        let member = data_dir.join(UNFINISHED_DIR);
        disk.create_dir_all(&member).map_err(failed("creating", &member))?;
        let checkpoint =
            CheckpointBuilder::begin(Arc::clone(&disk), &member.join("checkpoint"), swept, keys.clone())?;
        Ok(DataDirBuilder { disk, data_dir: data_dir.to_path_buf(), checkpoint, keys })
    }

    /// Adds versions of later revisions than all before, each revision entirely.
    pub fn add(&mut self, records: Vec<Record>) -> Result<(), BuildError> {
        Ok(self.checkpoint.add(records)?)
    }

    /// The state at `mark` of what was added so far, in memory. Later versions may be added
    /// afterwards.
    pub fn load(&mut self, mark: Mark, unversioned: &Unversioned) -> Result<Store, BuildError> {
        self.checkpoint.publish(mark, unversioned.clone())?;
        let dir = self.data_dir.join(UNFINISHED_DIR).join("checkpoint");
        let (config, threads) = (CheckpointConfig::default(), decode_threads());
        let loaded = vetch_checkpoint::load(
            Arc::clone(&self.disk),
            &dir,
            config,
            threads,
            &self.keys,
            &mut |_, _| {},
        )?;
        match loaded.report.fell_back {
            None => Ok(loaded.store),
            Some(why) => Err(BuildError::Unreadable(why)),
        }
    }

    /// Finishes the directory: what was added is the state at `mark`. Without an identity, the
    /// first start chooses one.
    pub fn finish(
        mut self,
        mark: Mark,
        unversioned: Unversioned,
        identity: Option<Identity>,
    ) -> Result<(), BuildError> {
        let member = self.data_dir.join(UNFINISHED_DIR);
        let tip = self.checkpoint.publish(mark, unversioned)?;
        if let Some(identity) = identity {
            identity::load_or_create(&*self.disk, &member, identity)?;
        }
        let config = LocalConfig {
            segment_len: JOURNAL_SEGMENT_BYTES,
            spares: 0,
            keys: self.keys,
            ..LocalConfig::default()
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

fn check_empty(data_dir: &Path) -> Result<(), BuildError> {
    let is_empty = match std::fs::read_dir(data_dir) {
        Ok(mut names) => names.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    if is_empty { Ok(()) } else { Err(BuildError::NotEmpty(data_dir.to_path_buf())) }
}

fn failed(op: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> BuildError {
    let path = path.to_path_buf();
    move |source| BuildError::Io { op, path, source }
}
