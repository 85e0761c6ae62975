//! Why a checkpoint could not be written or read.

use std::io;
use std::path::{Path, PathBuf};

use vetch_encryption::KeyError;

/// Bytes on disk that are not what was written: where, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} at byte {offset}: {reason}", file.display())]
pub struct Damage {
    pub file: PathBuf,
    pub offset: u64,
    pub reason: String,
}

impl Damage {
    pub fn new(file: &Path, offset: u64, reason: impl Into<String>) -> Damage {
        Damage { file: file.to_path_buf(), offset, reason: reason.into() }
    }
}

/// A run failed. The previous checkpoint is untouched; the next run writes what this one could not.
#[derive(Debug, thiserror::Error)]
#[error("{op} {}: {source}", path.display())]
pub struct CheckpointError {
    pub op: &'static str,
    pub path: PathBuf,
    pub source: io::Error,
}

impl CheckpointError {
    pub(crate) fn new(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CheckpointError {
        let path = path.to_path_buf();
        move |source| CheckpointError { op, path, source }
    }

    /// Whether the disk or a quota is full: a later run may succeed without any repair.
    pub fn is_no_space(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

/// Why no state could be loaded from a directory. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(
        "the checkpoint is damaged: {0}. Nothing was changed. Keep a copy of the directory, check the disk, then \
         restore from a backup or a healthy copy; do not delete checkpoint files to get past this, the journal \
         before them is gone"
    )]
    Damaged(Damage),
    /// The bytes are as they were written, but the key that decrypts them was not given.
    #[error("{}: {source}. Nothing was changed", file.display())]
    Key { file: PathBuf, source: KeyError },
    #[error("{}: {what} is not known to this version; use the version that wrote it", file.display())]
    NotSupported { file: PathBuf, what: String },
    #[error("{op} {}: {source}", path.display())]
    Io { op: &'static str, path: PathBuf, source: io::Error },
}

impl LoadError {
    pub(crate) fn io(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LoadError {
        let path = path.to_path_buf();
        move |source| LoadError::Io { op, path, source }
    }
}
