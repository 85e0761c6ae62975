//! Restore: a data directory of Vetch from a snapshot, or from the data directory of an etcd.
//!
//! A snapshot is older than what clients have seen since. They would take a revision that is
//! assigned a second time for the one they know, so by default the revision is moved far ahead and
//! everything below is marked as compacted: watchers and caches get "compacted" and begin anew. A
//! data directory that was stopped is not older than anything, so there the revision stays, and
//! clients go on as after a restart. What only its log holds, because the etcd was killed, is
//! applied to what its database holds; for that the state has to be in memory, as it will be in the
//! server.

use std::path::PathBuf;

use vetch_checkpoint::identity::Identity;
use vetch_encryption::EncryptionKeys;
use vetch_node::store::{Mark, Store};
use vetch_offline::{DataDirBuilder, bump_revision};

use crate::etcd_dir::EtcdDir;
pub use crate::etcd_dir::is_etcd;
use crate::file::{SnapshotError, SnapshotFile};
use crate::import::{self, Meta, Versions};
use crate::replay::{Replay, Replayed, may_change};
use crate::wal::Entry;
pub use vetch_offline::REVISION_BUMP;

/// Memory for versions that are being sorted, and in how many pieces a database is sorted at most.
const PIECE_BYTES: u64 = 64 << 20;
const PIECES: u64 = 40;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// A snapshot, or the data directory of an etcd.
    pub source: PathBuf,
    /// Where the log of that etcd is, if it is not in its data directory.
    pub source_wal: Option<PathBuf>,
    /// Data directories of other members of the same cluster.
    pub other_members: Vec<PathBuf>,
    /// Whether to leave out entries of the log that may not be committed, instead of refusing
    /// them.
    pub leave_undecided: bool,
    pub data_dir: PathBuf,
    pub skip_hash_check: bool,
    /// How far to move the revision ahead, and mark it compacted. None: [`REVISION_BUMP`] for a
    /// snapshot, 0 for a directory.
    pub bump: Option<u64>,
    /// Who the restored member is. None: who it was in a data directory; else the first start
    /// decides.
    pub identity: Option<Identity>,
}

/// What takes long, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    Hashing { done: u64, total: u64 },
    Importing { done: u64, total: u64 },
    Replaying { done: u64, total: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// Of the source.
    pub source: Mark,
    /// Of the data directory that was made.
    pub mark: Mark,
    pub versions: u64,
    /// Requests that were in the log only.
    pub from_log: u64,
    pub leases: usize,
    pub users: usize,
    pub roles: usize,
}

pub fn restore(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Restored, SnapshotError> {
    restore_encrypted(options, &EncryptionKeys::none(), progress)
}

/// The same, with everything that is written encrypted.
pub fn restore_encrypted(
    options: &Options,
    keys: &EncryptionKeys,
    progress: &mut dyn FnMut(Progress),
) -> Result<Restored, SnapshotError> {
    if options.source.is_dir() {
        return from_directory(options, keys, progress);
    }
    let file = SnapshotFile::open(&options.source)?;
    if !options.skip_hash_check {
        if !file.has_hash() {
            return Err(SnapshotError::NoHash);
        }
        file.check_hash(&mut |done, total| progress(Progress::Hashing { done, total }))?;
    }
    let meta = Meta::read(&file)?;
    let source = Source { file: &file, meta: &meta, log: &[] };
    build(&source, options, options.bump.unwrap_or(REVISION_BUMP), options.identity, keys, progress)
}

fn from_directory(
    options: &Options,
    keys: &EncryptionKeys,
    progress: &mut dyn FnMut(Progress),
) -> Result<Restored, SnapshotError> {
    let mut members = vec![EtcdDir::open(&options.source, options.source_wal.as_deref())?];
    for other in &options.other_members {
        members.push(EtcdDir::open(other, None)?);
    }
    let chosen = EtcdDir::choose(members)?;
    if !options.leave_undecided {
        chosen.check_uncommitted()?;
    }
    let identity = options.identity.or_else(|| chosen.dir.identity());
    let source = Source { file: &chosen.dir.file, meta: &chosen.dir.meta, log: &chosen.committed };
    build(&source, options, options.bump.unwrap_or(0), identity, keys, progress)
}

/// What is restored: a database, and what is to be applied to it.
struct Source<'s> {
    file: &'s SnapshotFile,
    meta: &'s Meta,
    log: &'s [Entry],
}

fn build(
    source: &Source<'_>,
    options: &Options,
    bump: u64,
    identity: Option<Identity>,
    keys: &EncryptionKeys,
    progress: &mut dyn FnMut(Progress),
) -> Result<Restored, SnapshotError> {
    let Source { file, meta, log } = source;
    import::check_buckets(file)?;
    let mut unversioned = import::unversioned(file)?;
    let mut target = DataDirBuilder::begin(&options.data_dir, meta.finished.unwrap_or(-1), keys.clone())?;
    let total = file.db.bytes();
    let piece_bytes = usize::try_from(PIECE_BYTES.max(total / PIECES)).unwrap_or(usize::MAX);
    let mut versions = Versions::new(file, meta, piece_bytes);
    let mut add = |records| Ok(target.add(records)?);
    let mut source = versions.read(&mut add, &mut |done| progress(Progress::Importing { done, total }))?;
    let (mut count, mut from_log) = (versions.count, 0);
    if log.iter().any(may_change) {
        let replayed = replay(target.load(source, &unversioned)?, log, progress)?;
        (source, unversioned, from_log) = (replayed.mark, replayed.unversioned, replayed.requests);
        count += replayed.records.len() as u64;
        target.add(replayed.records)?;
    }
    let mark = bump_revision(source, bump).ok_or_else(|| {
        SnapshotError::Refused(format!("--bump-revision {bump} leaves no revisions to be written"))
    })?;
    let restored = Restored {
        source,
        mark,
        versions: count,
        from_log,
        leases: unversioned.leases.len(),
        users: unversioned.auth.users.len(),
        roles: unversioned.auth.roles.len(),
    };
    target.finish(mark, unversioned, identity)?;
    Ok(restored)
}

fn replay(
    store: Store,
    log: &[Entry],
    progress: &mut dyn FnMut(Progress),
) -> Result<Replayed, SnapshotError> {
    let total: u64 = log.iter().map(|entry| entry.data.len() as u64).sum();
    let mut done = 0;
    let mut replay = Replay::new(store);
    for entry in log {
        replay.apply(entry).map_err(|reason| {
            SnapshotError::Refused(format!(
                "entry {} of the log cannot be taken over: {reason}. Start etcd on the directory once, so that its database \
                 takes it over, and stop it with a signal; then try again",
                entry.index
            ))
        })?;
        done += entry.data.len() as u64;
        progress(Progress::Replaying { done, total });
    }
    Ok(replay.finish())
}
