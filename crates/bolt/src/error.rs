//! Why a file could not be read.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum BoltError {
    /// The bytes are not what the format allows.
    #[error("damaged at byte {offset}: {reason}")]
    Damaged { offset: u64, reason: String },
    #[error("cannot be read at byte {offset}: {source}")]
    Io { offset: u64, source: io::Error },
}

impl BoltError {
    pub(crate) fn damaged(offset: u64, reason: impl Into<String>) -> BoltError {
        BoltError::Damaged { offset, reason: reason.into() }
    }
}
