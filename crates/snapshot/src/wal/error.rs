//! Why a write-ahead log cannot be used.

use super::TAIL_BYTES;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WalError {
    #[error("a record is cut short")]
    Truncated,
    #[error("checksum does not match")]
    Checksum,
    #[error(transparent)]
    Decode(#[from] prost::DecodeError),
    #[error("a record of unknown kind {0}")]
    UnknownKind(i64),
    #[error("the file does not continue the one before it")]
    NotContinued,
    #[error("the log of another member")]
    OtherMember,
    #[error("entry {index} follows entry {end}")]
    Gap { index: u64, end: u64 },
    #[error("more than {TAIL_BYTES} bytes that the database does not have yet")]
    TooLong,
    #[error("entries up to {commit} were committed, and the log ends at {end}")]
    CommittedMissing { commit: u64, end: u64 },
    #[error("the database is at entry {database}, and the log ends at {end}")]
    BehindDatabase { database: u64, end: u64 },
}
