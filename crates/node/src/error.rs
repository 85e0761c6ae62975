//! Why a node refuses or gives up.

use vetch_base::Seq;
use vetch_checkpoint::LoadError;
use vetch_checkpoint::identity::IdentityError;
use vetch_checkpoint::transfer::TransferError;
use vetch_journal::{JournalError, LockError};
use vetch_store::auth::AuthError;
use vetch_store::{BadCommand, StoreError};

/// The outcome of a request that was not served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// Refused by the rules of the API; nothing changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The sequencer's queue is full; nothing changed, try again later.
    #[error("too many requests")]
    TooManyRequests,
    /// The quota or the disk is full; nothing changed.
    #[error("database space exceeded")]
    NoSpace,
    /// The journal cannot prepare its next segment, and not for lack of space; nothing changed.
    #[error("the disk fails")]
    DiskFails,
    /// The corruption alarm is raised.
    #[error("corrupt cluster")]
    Corrupt,
    /// The node is stopping. A write that was submitted may or may not become durable.
    #[error("server stopped")]
    Stopped,
    /// No answer in time. The write may still become durable.
    #[error("request timed out")]
    Timeout,
    /// Only the leader of the cluster can do this, and it is another server; nothing changed.
    #[error("not the leader")]
    NotLeader,
    /// Another server of the cluster has become the leader; nothing changed.
    #[error("another server is the leader now")]
    LeaderChanged,
}

impl From<AuthError> for NodeError {
    fn from(error: AuthError) -> NodeError {
        NodeError::Store(error.into())
    }
}

/// Why a node has stopped by itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StopCause {
    /// Its journal failed, or its cluster refused it.
    #[error("{0}")]
    Failed(String),
    #[error("the journal does not take what this server has evaluated")]
    Replaced,
    #[error("the journal begins at position {first} now")]
    Behind { first: u64 },
}

/// Why a node could not start. Nothing on disk was changed, unless the text says so.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Checkpoint(#[from] LoadError),
    #[error(transparent)]
    Locked(#[from] LockError),
    /// The journal is whole, but what an entry says does not fit the state before it.
    #[error(
        "journal entry {seq} cannot be replayed: {source}. Nothing was changed. Keep a copy of the data directory; \
         restore from a backup, or start the version that wrote it"
    )]
    Replay { seq: Seq, source: BadCommand },
    #[error("{0} holds the data of a server on a shared journal: start it with --journal")]
    Shared(String),
    #[error(
        "{0} holds the data of a server on a journal of its own, which a shared journal does not know: start without --journal, \
         or with another --data-dir"
    )]
    NotShared(String),
    #[error("the journal takes records of {max} bytes; set max_payload of its servers to {wanted} or more")]
    SmallRecords { max: usize, wanted: usize },
    #[error(
        "the journal begins at position {first}, behind what this server has: it needs a checkpoint of another server"
    )]
    Behind { first: u64 },
    #[error(transparent)]
    Transfer(#[from] TransferError),
    #[error("the node ended before it had read the journal: {0}")]
    Ended(String),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("{op} {path}: {source}")]
    Io { op: &'static str, path: String, source: std::io::Error },
}
