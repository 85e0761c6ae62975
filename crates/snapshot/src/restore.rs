//! Restore: a data directory of Vetch from a snapshot, or from the data directory of an etcd.
//!
//! A snapshot is older than what clients have seen since. They would take revisions that are given out a second
//! time for ones they know, so unless told otherwise the revision is moved far ahead and everything below is marked as
//! compacted: whoever watches or caches is told to begin anew. A data directory that was stopped is not older than
//! anything, so there the revision stays, and clients go on as after a restart.

use std::path::PathBuf;

use vetch_node::config::Identity;
use vetch_node::import::Import;
use vetch_node::seal::Keys;
use vetch_node::store::Mark;

pub use crate::etcd_dir::is_etcd;
use crate::etcd_dir::{self, EtcdDir};
use crate::file::{SnapshotError, SnapshotFile};
use crate::import::{self, Meta, Versions};
use crate::wal::Tail;

/// How far the revision of a snapshot is moved ahead: more than any cluster writes between two backups.
pub const BUMP: u64 = 1_000_000_000;

/// Memory for versions that are being sorted, and in how many pieces a database is sorted at most.
const PIECE_BYTES: u64 = 64 << 20;
const PIECES: u64 = 40;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// A snapshot, or the data directory of an etcd.
    pub source: PathBuf,
    /// Where the log of that etcd is, if it is not in its data directory.
    pub source_wal: Option<PathBuf>,
    pub data_dir: PathBuf,
    pub skip_hash_check: bool,
    /// How far to move the revision ahead, and mark it compacted. None: [`BUMP`] for a snapshot, 0 for a directory.
    pub bump: Option<u64>,
    /// Who the restored member is. None: who it was in a data directory; else the first start decides.
    pub identity: Option<Identity>,
}

/// What takes long, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    Hashing { done: u64, total: u64 },
    Importing { done: u64, total: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// Of the source.
    pub source: Mark,
    /// Of the data directory that was made.
    pub mark: Mark,
    pub versions: u64,
    pub leases: usize,
    pub users: usize,
    pub roles: usize,
}

pub fn restore(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Restored, SnapshotError> {
    restore_sealed(options, &Keys::none(), progress)
}

/// The same, with everything that is written sealed.
pub fn restore_sealed(
    options: &Options,
    keys: &Keys,
    progress: &mut dyn FnMut(Progress),
) -> Result<Restored, SnapshotError> {
    if options.source.is_dir() {
        let dir = EtcdDir::open(&options.source, options.source_wal.as_deref())?;
        let file = SnapshotFile::open(&dir.db)?;
        let meta = Meta::read(&file)?;
        let tail = dir.tail(meta.consistent_index)?;
        check_tail(&file, &tail, meta.consistent_index)?;
        let identity = options.identity.or_else(|| etcd_dir::identity(&tail));
        return build(&file, &meta, options, options.bump.unwrap_or(0), identity, keys, progress);
    }
    let file = SnapshotFile::open(&options.source)?;
    if !options.skip_hash_check {
        if !file.has_hash() {
            return Err(SnapshotError::NoHash);
        }
        file.check_hash(&mut |done, total| progress(Progress::Hashing { done, total }))?;
    }
    let meta = Meta::read(&file)?;
    build(&file, &meta, options, options.bump.unwrap_or(BUMP), options.identity, keys, progress)
}

fn build(
    file: &SnapshotFile,
    meta: &Meta,
    options: &Options,
    bump: u64,
    identity: Option<Identity>,
    keys: &Keys,
    progress: &mut dyn FnMut(Progress),
) -> Result<Restored, SnapshotError> {
    import::check_buckets(file)?;
    let unversioned = import::unversioned(file)?;
    let mut target = Import::begin_sealed(&options.data_dir, meta.finished.unwrap_or(-1), keys.clone())?;
    let total = file.db.bytes();
    let piece_bytes = usize::try_from(PIECE_BYTES.max(total / PIECES)).unwrap_or(usize::MAX);
    let mut versions = Versions::new(file, meta, piece_bytes);
    let mut add = |records| Ok(target.add(records)?);
    let source = versions.read(&mut add, &mut |done| progress(Progress::Importing { done, total }))?;
    let mark = bumped(source, bump)?;
    let restored = Restored {
        source,
        mark,
        versions: versions.count,
        leases: unversioned.leases.len(),
        users: unversioned.auth.users.len(),
        roles: unversioned.auth.roles.len(),
    };
    target.finish(mark, unversioned, identity)?;
    Ok(restored)
}

fn bumped(source: Mark, bump: u64) -> Result<Mark, SnapshotError> {
    if bump == 0 {
        return Ok(source);
    }
    let revision = i64::try_from(bump).ok().and_then(|bump| source.revision.checked_add(bump));
    // As much again is left to write as has been moved over.
    let revision = revision.filter(|&revision| revision < i64::MAX / 2).ok_or_else(|| {
        SnapshotError::Refused(format!("--bump-revision {bump} leaves no revisions to be written"))
    })?;
    Ok(Mark { revision, compact_revision: revision })
}

/// Refuses a log with requests that the database does not have.
fn check_tail(file: &SnapshotFile, tail: &Tail, index: u64) -> Result<(), SnapshotError> {
    // With one voter, whatever is in the log is decided; else only what the log says is.
    let is_alone = import::voters(file)? <= 1;
    let missing = tail.entries.values().filter(|entry| is_alone || entry.index <= tail.commit);
    let missing = missing.filter(|entry| entry.changes_state()).count();
    if missing == 0 {
        return Ok(());
    }
    Err(SnapshotError::Refused(format!(
        "the log of this etcd has {missing} requests behind index {index} that its database does not have yet, because it \
         was killed. Start etcd on the directory once, so that it takes them over, and stop it with a signal; then try again"
    )))
}
