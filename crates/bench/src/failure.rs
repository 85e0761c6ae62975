//! Failures: how a call ends that did not succeed, and what can be wrong with a response.

/// Why a call did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{text}", match code {
    Some(code) => format!("status {code}: "),
    None => "transport: ".to_owned(),
})]
pub(crate) struct Failure {
    /// The gRPC status code; none if the server never gave one.
    pub(crate) code: Option<u32>,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn transport(text: impl Into<String>) -> Failure {
        Failure { code: None, text: text.into() }
    }

    /// The connection failed, so an immediate retry is of no use.
    pub(crate) fn is_transport(&self) -> bool {
        matches!(self.code, None | Some(14))
    }
}

/// What is wrong with the response to a call that succeeded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WrongAnswer {
    #[error("the response is not a well-formed message")]
    Malformed,
    #[error("the response cannot be decoded: {0}")]
    Decode(#[from] prost::DecodeError),
    #[error("the compare failed")]
    CompareFailed,
    #[error("the else branch has a response of another kind")]
    ElseBranch,
    #[error("the key exists already")]
    KeyExists,
    #[error("a put without a revision")]
    NoRevision,
    #[error("{found} keys instead of {expected}")]
    Keys { found: u64, expected: u64 },
    #[error("{received} keys were listed and {count} counted instead of {expected}")]
    Listed { received: u64, count: u64, expected: u64 },
    #[error("a page of {keys} of {count} keys instead of {expected} of {left}")]
    Page { keys: u64, count: u64, expected: u64, left: u64 },
    #[error("another lease was renewed")]
    OtherLease,
    #[error("the lease has expired")]
    LeaseExpired,
    #[error("a lease without an ID or a TTL")]
    IncompleteLease,
    #[error("a watch was cancelled")]
    WatchCancelled,
    #[error("events of an unknown watcher")]
    UnknownWatcher,
    #[error("revision {revision} after {last}")]
    EventOrder { revision: i64, last: i64 },
    #[error("an event without its previous value")]
    NoPreviousValue,
    #[error("a transaction succeeded that had failed in the recording")]
    Succeeded,
    #[error("a transaction failed that had succeeded in the recording")]
    Failed,
    #[error("a delete with an old revision succeeded at revision {0}")]
    StaleDelete(i64),
    #[error("the key does not exist")]
    KeyMissing,
}

/// Why a call is counted as an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    #[error(transparent)]
    Failed(#[from] Failure),
    #[error(transparent)]
    Wrong(#[from] WrongAnswer),
    #[error("the server ended a watch")]
    WatchEnded,
}

impl CallError {
    /// How a watch ended that its client did not cancel.
    pub(crate) fn of_watch(failure: Option<&Failure>) -> CallError {
        failure.map_or(CallError::WatchEnded, |failure| CallError::Failed(failure.clone()))
    }
}
