//! Contract: what an engine that carries the journal must guarantee.
//!
//! 1. One total order; `read` never reorders and never skips.
//! 2. `append_batch` answering `Ok` means every entry given is durable; all of them or none were
//!    appended.
//! 3. After `claim`, a writer of an older epoch gets no acknowledged append any more.
//! 4. `Unknown` says the outcome is undecided: claim again and read to learn it. `Poisoned` says
//!    this engine is finished: stop the process and recover from the medium.
//!
//! Not here: threads. An engine is a plain value driven by its owner, who keeps several appends in
//! flight by giving `append_batch` everything that queued while the last one ran.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use vetch_base::Epoch;
use vetch_encryption::KeyError;

use crate::disk::LockError;
use crate::entry::{ChainedEntry, Entry, Tip};

/// A place in the engine's order. In the local engine it equals the sequence number of the entry
/// there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// An engine under the order journal.
pub trait Journal: Send {
    /// Appends a `NewEpoch` entry, which fences every earlier writer, and returns the tip to chain
    /// the next entry on.
    fn claim(&mut self) -> Result<Tip, JournalError>;

    /// Appends entries chained one after another, the first of them on the current tip, and waits
    /// until all are durable.
    fn append_batch(&mut self, entries: &[ChainedEntry]) -> Result<Appended, JournalError>;

    /// Durable entries behind `from`, in order, each checked against the one before it.
    fn read(&self, from: Tip) -> Result<Box<dyn Read + '_>, JournalError>;

    /// Gives up entries before `position`; how many are really dropped is up to the engine.
    fn trim(&mut self, position: Position) -> Result<(), JournalError>;

    /// The tip after the last durable entry.
    fn tip(&self) -> &Tip;
}

/// A run over durable entries.
pub trait Read {
    /// The next entry, or nothing at the durable end.
    fn next_entry(&mut self) -> Result<Option<ReadItem>, JournalError>;
}

/// One entry read back. Its payloads are slices of the read buffer, up to a megabyte of it: copy
/// what is kept.
#[derive(Clone, Debug)]
pub struct ReadItem {
    pub position: Position,
    pub entry: Entry,
    /// The tip after this entry: what a checkpoint taken here must remember.
    pub tip: Tip,
}

/// What a successful append cost, as plain data for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Position of the last entry appended.
    pub position: Position,
    /// Bytes written, headers and padding included.
    pub bytes: u64,
    /// Time spent writing the bytes to the medium.
    pub write: Duration,
    /// Time spent waiting until they were durable.
    pub sync: Duration,
    /// Whether this append began a new segment.
    pub rolled: bool,
}

/// Damage that cannot be explained by a power loss: where it is and what it looks like.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the journal is damaged: {file} at byte {offset}: {reason}. Nothing was changed. Keep a copy of the \
     directory, check the disk, then restore from a backup or a healthy copy; do not delete journal files to get \
     past this, they hold acknowledged writes"
)]
pub struct Corrupt {
    pub file: String,
    pub offset: u64,
    pub reason: String,
}

/// Why an operation of an engine failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum JournalError {
    /// A newer writer exists; this one must step down.
    #[error("fenced: epoch {current} is current, this writer has epoch {found}")]
    Fenced { current: Epoch, found: Epoch },
    /// The engine cannot say whether the append happened.
    #[error("the outcome of the append is unknown: {0}")]
    Unknown(String),
    /// An earlier write or sync failed; after that nothing read from the page cache proves
    /// anything.
    #[error("the journal stopped after a failure and must be recovered from disk: {0}")]
    Poisoned(Arc<str>),
    /// No room for the next segment. Nothing was written; the same call succeeds once space
    /// returns.
    #[error("no space left for a journal segment of {needed} bytes in {dir}: {source}")]
    NoSpace { dir: PathBuf, needed: u64, source: Arc<io::Error> },
    /// More bytes in one batch than a record can hold. Nothing was written.
    #[error("a batch of {len} bytes is above the limit of {max}")]
    TooLarge { len: u64, max: u64 },
    /// The entries given do not follow the tip: the caller is broken. Nothing was written.
    #[error("entries do not continue the journal: {0}")]
    OutOfOrder(String),
    #[error(transparent)]
    Corrupt(Corrupt),
    /// A feature whose bytes are reserved in the format but which this version does not act on.
    #[error(
        "{file} at byte {offset}: {what} is not supported yet by this version; use the version that wrote it"
    )]
    NotSupported { file: String, offset: u64, what: String },
    /// The bytes are as they were written, but the key that opens them was not given.
    #[error("{file} at byte {offset}: {source}. Nothing was changed")]
    Key { file: String, offset: u64, source: KeyError },
    #[error(transparent)]
    Locked(Arc<LockError>),
    /// An operation on files failed without touching acknowledged data.
    #[error("{op} {path}: {source}")]
    Io { op: &'static str, path: PathBuf, source: Arc<io::Error> },
}

impl JournalError {
    pub(crate) fn io(op: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> JournalError {
        let path = path.into();
        move |source| JournalError::Io { op, path, source: Arc::new(source) }
    }

    pub(crate) fn corrupt(file: impl Into<String>, offset: u64, reason: impl Into<String>) -> JournalError {
        JournalError::Corrupt(Corrupt { file: file.into(), offset, reason: reason.into() })
    }

    /// Whether nothing was written, so that the same call may simply be made again later.
    pub fn may_retry(&self) -> bool {
        matches!(self, JournalError::NoSpace { .. } | JournalError::Io { .. })
    }

    /// Whether the failure is lack of space, which passes by itself when space returns.
    pub fn is_no_space(&self) -> bool {
        matches!(self, JournalError::NoSpace { .. })
    }
}
