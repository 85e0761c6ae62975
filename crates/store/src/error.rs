//! What the state machine refuses, and nothing else.
//!
//! Every variant is a function of the request and the state alone. The text a client sees belongs
//! to the edge (`api`'s error table); the names here are etcd's.

use crate::auth::AuthError;

/// A refusal by the rules of the API. The state is unchanged whenever one is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("key is not provided")]
    EmptyKey,
    #[error("key not found")]
    KeyNotFound,
    #[error("value is provided")]
    ValueProvided,
    #[error("lease is provided")]
    LeaseProvided,
    #[error("too many operations in txn request")]
    TooManyOps,
    #[error("request is too large")]
    RequestTooLarge,
    #[error("duplicate key given in txn request")]
    DuplicateKey,
    #[error("invalid sort option")]
    InvalidSortOption,
    #[error("required revision has been compacted")]
    Compacted,
    #[error("required revision is a future revision")]
    FutureRevision,
    #[error("requested lease not found")]
    LeaseNotFound,
    #[error("lease already exists")]
    LeaseExists,
    #[error("too large lease TTL")]
    LeaseTtlTooLarge,
    /// A revision of another server that does not fit the state here.
    #[error("{0}")]
    Misfit(&'static str),
    #[error(transparent)]
    Auth(#[from] AuthError),
}
