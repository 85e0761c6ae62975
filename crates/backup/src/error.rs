//! Why a backup could not be made, read or restored.

use std::path::{Path, PathBuf};

use vetch_checkpoint::LoadError;
use vetch_journal::JournalError;
use vetch_offline::BuildError;

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("backup location {location:?}: {reason}")]
    Location { location: String, reason: String },
    /// A request to the store failed; a retry may help.
    #[error("{op} {object}: {reason}")]
    Store { op: &'static str, object: String, reason: String },
    #[error("{0} is not there")]
    Missing(String),
    /// Bytes that are not what was written.
    #[error("{object} is damaged: {reason}")]
    Damaged { object: String, reason: String },
    #[error("{object}: format {format} is not known to this version; use the version that wrote it")]
    NotSupported { object: String, format: u64 },
    /// Another server writes here. Nothing was changed.
    #[error("{0}")]
    Foreign(String),
    /// The request cannot be fulfilled from this backup.
    #[error("{0}")]
    Refused(String),
    #[error("{op} {}: {source}", path.display())]
    Io { op: &'static str, path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Checkpoint(#[from] LoadError),
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl BackupError {
    pub(crate) fn io(op: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> BackupError {
        let path = path.to_path_buf();
        move |source| BackupError::Io { op, path, source }
    }

    pub(crate) fn damaged(object: &str, reason: impl Into<String>) -> BackupError {
        BackupError::Damaged { object: object.to_owned(), reason: reason.into() }
    }

    /// Whether something in the backup is not what was written there.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            BackupError::Damaged { .. } | BackupError::Missing(_) | BackupError::NotSupported { .. }
        )
    }
}
