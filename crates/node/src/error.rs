//! Why a node refuses or gives up.

use vetch_store::StoreError;

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
    /// The corruption alarm is raised.
    #[error("corrupt cluster")]
    Corrupt,
    /// The node is stopping. A write that had been handed in may or may not become durable.
    #[error("server stopped")]
    Stopped,
    /// No answer in time. The write may still become durable.
    #[error("request timed out")]
    Timeout,
}

/// Why a node could not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{0}")]
    Refused(String),
}
