//! Refill: an empty shared journal begins with what a data directory holds, and the directory
//! becomes that of the first server on it. For a server that stood alone and is to be one of
//! several, and for a cluster whose journal is lost.
//!
//! The journal's first record is a seed: it builds on the tip of the directory's history, takes no
//! revision, and claims an epoch above all that were. Whoever comes with nothing is told by it to
//! take a checkpoint first; the first that can be had is this directory's. So revisions go on where
//! they ended, and none is used again.
//!
//! Interrupted anywhere, it can be done again: the same directory makes the same seed, and one that
//! lies there alone counts.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use vetch_cluster::{CheckpointMatch, Log, LogIndex, PeekError, match_checkpoint, seed_log};
use vetch_journal::{Disk, Position, RealDisk, Tip};
use vetch_store::{Record, Store};

use super::{Recovered, load, replayed};
use crate::checkpoint::{Capture, CheckpointError, Checkpointer, LoadError};
use crate::config::{Identity, NodeConfig};
use crate::error::OpenError;
use crate::identity;
use crate::transfer::{TransferError, clean};

/// How long the journal may take to answer.
const JOURNAL_TIMEOUT: Duration = Duration::from_secs(10);

/// What a journal was begun with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refilled {
    pub revision: i64,
    pub keys: u64,
    /// The first entry of the journal.
    pub index: LogIndex,
    /// It had been done before, and was only finished.
    pub again: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum RefillError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Clean(#[from] TransferError),
    #[error("{0} holds no data of a server")]
    Nothing(PathBuf),
    #[error(transparent)]
    Journal(#[from] PeekError),
    #[error(
        "the newest checkpoint cannot be used: {0}. What came after the one before it was in the old journal alone; restore a backup, or take \
             the directory of another server"
    )]
    FellBack(String),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error("{op} {}: {source}", path.display())]
    Io { op: &'static str, path: PathBuf, source: io::Error },
}

/// The state of a directory, wherever its tail was.
struct Source {
    store: Store,
    dirty: Vec<Record>,
    tip: Tip,
    position: u64,
    checkpointer: Checkpointer,
}

/// Begins `log` with what `data_dir`, which no server uses, holds.
pub fn refill(data_dir: &Path, log: &mut dyn Log) -> Result<Refilled, RefillError> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let member = data_dir.join("member");
    if !member.is_dir() {
        return Err(RefillError::Nothing(data_dir.to_path_buf()));
    }
    let _lock = disk.lock_dir(&member).map_err(OpenError::from)?;
    clean(&member)?;
    let mut source = read(&disk, data_dir, &member)?;
    let before = LogIndex { position: Position(source.position), tip: source.tip };
    let again =
        source.position == 1 && match_checkpoint(log, &before, JOURNAL_TIMEOUT)? == CheckpointMatch::Matches;
    let index = if again { before } else { seed_log(log, source.tip, JOURNAL_TIMEOUT)? };
    if !again {
        // Twice, so that what there is to fall back to is of this journal as well.
        for _ in 0..2 {
            source.take_checkpoint(&index)?;
        }
    }
    remove(&member.join("journal"))?;
    identity::forget(&*disk, &member)?;
    disk.sync_dir(&member).map_err(failed("syncing", &member))?;
    let (revision, keys) = (source.store.head().revision, source.store.stats().keys);
    Ok(Refilled { revision, keys, index, again })
}

fn read(disk: &Arc<dyn Disk>, data_dir: &Path, member: &Path) -> Result<Source, RefillError> {
    let config = NodeConfig::new(data_dir.to_path_buf(), Identity { cluster_id: 0, member_id: 0 });
    let loaded = load(disk, &config, &mut |_| {})?;
    if loaded.position > 0 {
        if let Some(why) = loaded.report.fell_back {
            return Err(RefillError::FellBack(why));
        }
        let (store, tip) = (loaded.store, loaded.tip);
        let (position, checkpointer) = (loaded.position, loaded.checkpointer);
        return Ok(Source { store, dirty: Vec::new(), tip, position, checkpointer });
    }
    if loaded.report.number.is_none() && !member.join("journal").exists() {
        return Err(RefillError::Nothing(data_dir.to_path_buf()));
    }
    drop(loaded);
    let Recovered { store, dirty, tip, checkpointer, .. } = replayed(disk, &config, &mut |_| {})?;
    Ok(Source { store, dirty, tip, position: 0, checkpointer })
}

impl Source {
    fn take_checkpoint(&mut self, index: &LogIndex) -> Result<(), CheckpointError> {
        let dirty = std::mem::take(&mut self.dirty);
        let capture = Capture::at_head(&self.store, index.tip, dirty);
        let capture = Capture { position: index.position.0, ..capture };
        let store = &self.store;
        let retained = |records: &[Record]| records.iter().map(|record| store.retains(record)).collect();
        self.checkpointer.run(capture, &retained).map(drop)
    }
}

/// The journal of a server that stood alone; with `--wal-dir`, the link to it.
fn remove(journal: &Path) -> Result<(), RefillError> {
    match std::fs::symlink_metadata(journal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed("looking at", journal)(error)),
        Ok(found) if found.is_symlink() => std::fs::remove_file(journal).map_err(failed("removing", journal)),
        Ok(_) => std::fs::remove_dir_all(journal).map_err(failed("removing", journal)),
    }
}

fn failed(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RefillError {
    let path = path.to_path_buf();
    move |source| RefillError::Io { op, path, source }
}
