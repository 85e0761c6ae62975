//! Refill: an empty shared journal starts with the state of a data directory, which becomes that of
//! the first server on it. For a single server that becomes a cluster, and for a cluster whose
//! journal is lost.
//!
//! The first record of the journal is a seed: it builds on the tip of the directory's history,
//! takes no revision, and claims an epoch above all earlier ones. A server without state learns
//! from it that it needs a checkpoint first; this directory has the first one. So revisions
//! continue where they ended, and none is used twice.
//!
//! It can be interrupted and repeated at any time: the same directory makes the same seed, and a
//! seed that is alone in the journal is committed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use vetch_base::Seq;
use vetch_checkpoint::identity::{self, IdentityError};
use vetch_checkpoint::replay::replay;
use vetch_checkpoint::transfer::{TransferError, remove_unfinished};
use vetch_checkpoint::{Capture, CheckpointConfig, CheckpointError, Checkpointer, LoadError, Loaded, load};
use vetch_cluster::{CheckpointMatch, Log, LogIndex, PeekError, match_checkpoint, seed_log};
use vetch_encryption::EncryptionKeys;
use vetch_journal::{
    Disk, Journal, JournalError, LocalConfig, LocalJournal, LockError, Position, RealDisk, Tip,
};
use vetch_store::{BadCommand, Record, Store};

use crate::decode_threads;

/// How long the journal may take to answer.
const JOURNAL_TIMEOUT: Duration = Duration::from_secs(10);

/// The state that a journal was started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refilled {
    pub revision: i64,
    pub keys: u64,
    /// The first entry of the journal.
    pub index: LogIndex,
    /// An interrupted refill had seeded the journal already.
    pub was_seeded: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum RefillError {
    #[error(transparent)]
    Locked(#[from] LockError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    LocalJournal(#[from] JournalError),
    #[error(
        "journal entry {seq} cannot be replayed: {source}. Keep a copy of the data directory; restore from a backup, \
         or start the version that wrote it"
    )]
    Replay { seq: Seq, source: BadCommand },
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

/// The state of a directory: of its checkpoint, and of its local journal if it has one.
struct Source {
    store: Store,
    dirty: Vec<Record>,
    tip: Tip,
    position: u64,
    checkpointer: Checkpointer,
}

/// Starts `log` with the state of `data_dir`, which no server uses.
pub fn refill(data_dir: &Path, log: &mut dyn Log) -> Result<Refilled, RefillError> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let member = data_dir.join("member");
    if !member.is_dir() {
        return Err(RefillError::Nothing(data_dir.to_path_buf()));
    }
    let _lock = disk.lock_dir(&member)?;
    remove_unfinished(&member)?;
    let mut source = read(&disk, data_dir, &member)?;
    let before = LogIndex { position: Position(source.position), tip: source.tip };
    let was_seeded =
        source.position == 1 && match_checkpoint(log, &before, JOURNAL_TIMEOUT)? == CheckpointMatch::Matches;
    let index = if was_seeded { before } else { seed_log(log, source.tip, JOURNAL_TIMEOUT)? };
    if !was_seeded {
        // Twice, so that the fallback belongs to this journal as well.
        for _ in 0..2 {
            source.take_checkpoint(&index)?;
        }
    }
    remove(&member.join("journal"))?;
    identity::remove(&*disk, &member)?;
    disk.sync_dir(&member).map_err(failed("syncing", &member))?;
    let (revision, keys) = (source.store.head().revision, source.store.stats().keys);
    Ok(Refilled { revision, keys, index, was_seeded })
}

fn read(disk: &Arc<dyn Disk>, data_dir: &Path, member: &Path) -> Result<Source, RefillError> {
    let (config, keys) = (CheckpointConfig::default(), EncryptionKeys::none());
    let dir = member.join("checkpoint");
    let loaded = load(Arc::clone(disk), &dir, config, decode_threads(), &keys, &mut |_, _| {})?;
    let journal = member.join("journal");
    if loaded.position > 0 {
        if let Some(why) = loaded.report.fell_back {
            return Err(RefillError::FellBack(why));
        }
        let Loaded { store, tip, position, checkpointer, .. } = loaded;
        return Ok(Source { store, dirty: Vec::new(), tip, position, checkpointer });
    }
    if loaded.report.number.is_none() && !journal.exists() {
        return Err(RefillError::Nothing(data_dir.to_path_buf()));
    }
    Source::replay(disk, &journal, loaded, keys)
}

impl Source {
    /// The state of the checkpoint with the local journal replayed.
    fn replay(
        disk: &Arc<dyn Disk>,
        journal: &Path,
        loaded: Loaded,
        keys: EncryptionKeys,
    ) -> Result<Source, RefillError> {
        let Loaded { mut store, tip, checkpointer, .. } = loaded;
        let config = LocalConfig { spares: 0, keys, ..LocalConfig::default() };
        let mut recovery = LocalJournal::recover(Arc::clone(disk), journal, config, tip)?;
        let mut dirty = Vec::new();
        while let Some(item) = recovery.next_entry()? {
            let seq = item.entry.seq;
            let replayed = replay(&mut store, &item.entry);
            for unit in replayed.map_err(|source| RefillError::Replay { seq, source })? {
                dirty.extend(unit.events.into_iter().map(|event| event.kv));
            }
        }
        let (journal, _) = recovery.finish()?;
        let tip = *journal.tip();
        assert!(tip.next_rev == store.head().revision + 1, "journal and store agree on the next revision");
        store.publish(store.head());
        Ok(Source { store, dirty, tip, position: 0, checkpointer })
    }

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
