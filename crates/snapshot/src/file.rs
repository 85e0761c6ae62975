//! Snapshot files: a bbolt file, and usually the SHA-256 of it behind it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use vetch_bolt::{BoltError, Db, ReadAt};
use vetch_offline::BuildError;

#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("{op} {}: {source}", path.display())]
    Io { op: &'static str, path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Format { path: PathBuf, source: BoltError },
    /// The file is sound, but not what etcd would have put there.
    #[error("bucket {bucket:?}, key {key}: {reason}")]
    Content { bucket: String, key: String, reason: String },
    #[error(
        "snapshot missing hash but --skip-hash-check=false: a file that a client saved ends with its hash, one that was \
         copied out of a data directory does not. If it was copied while no etcd was running, give --skip-hash-check"
    )]
    NoHash,
    #[error(
        "expected sha256 {expected}, got {found}: the snapshot was changed or is incomplete. Take it again or use \
         another one; --skip-hash-check reads it all the same"
    )]
    WrongHash { expected: String, found: String },
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl SnapshotError {
    pub(crate) fn io(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SnapshotError {
        let path = path.to_path_buf();
        move |source| SnapshotError::Io { op, path, source }
    }

    pub(crate) fn content(bucket: &[u8], key: &[u8], reason: impl Into<String>) -> SnapshotError {
        SnapshotError::Content {
            bucket: String::from_utf8_lossy(bucket).into_owned(),
            key: hex(key),
            reason: reason.into(),
        }
    }
}

const HASH: u64 = 32;
/// Smaller than any page, and what every page size is a multiple of.
const SECTOR: u64 = 512;
/// Bytes per read while hashing.
const PIECE: usize = 1 << 20;

/// A snapshot, or the database of an etcd that is not running.
pub(crate) struct SnapshotFile {
    pub(crate) path: PathBuf,
    pub(crate) db: Db<File>,
    /// Where the hash begins, if there is one.
    hash_at: Option<u64>,
}

impl SnapshotFile {
    pub(crate) fn open(path: &Path) -> Result<SnapshotFile, SnapshotError> {
        let file = File::open(path).map_err(SnapshotError::io("opening", path))?;
        let metadata = file.metadata().map_err(SnapshotError::io("opening", path))?;
        if !metadata.is_file() {
            return Err(SnapshotError::Refused(format!("{} is not a file", path.display())));
        }
        let len = metadata.len();
        let hash_at = (len % SECTOR == HASH).then(|| len - HASH);
        let db = Db::open(file, hash_at.unwrap_or(len))
            .map_err(|source| SnapshotError::Format { path: path.to_path_buf(), source })?;
        Ok(SnapshotFile { path: path.to_path_buf(), db, hash_at })
    }

    pub(crate) fn has_hash(&self) -> bool {
        self.hash_at.is_some()
    }

    /// Compares the hash with the content; without one there is nothing to compare. `progress` gets
    /// the bytes done and in total.
    pub(crate) fn check_hash(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<(), SnapshotError> {
        let Some(end) = self.hash_at else { return Ok(()) };
        let failed = || SnapshotError::io("reading", &self.path);
        let file = File::open(&self.path).map_err(failed())?;
        let mut hash = Sha256::new();
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        while at < end {
            let len = (end - at).min(PIECE as u64) as usize;
            ReadAt::read_exact_at(&file, at, &mut piece[..len]).map_err(failed())?;
            hash.update(&piece[..len]);
            at += len as u64;
            progress(at, end);
        }
        let mut expected = [0; HASH as usize];
        ReadAt::read_exact_at(&file, end, &mut expected).map_err(failed())?;
        let found = hash.finalize();
        if found[..] != expected {
            return Err(SnapshotError::WrongHash { expected: hex(&expected), found: hex(&found) });
        }
        Ok(())
    }

    /// Says which file it was.
    pub(crate) fn format(&self) -> impl Fn(BoltError) -> SnapshotError + '_ {
        |source| SnapshotError::Format { path: self.path.clone(), source }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
