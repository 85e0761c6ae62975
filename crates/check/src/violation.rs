//! Violations: which promise was broken, and by what.

use std::fmt;

/// The promise that was broken. Each is judged by a function of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The record contradicts itself: an answer of another kind than the request, a return before
    /// the call.
    Malformed,
    /// Two writes were answered with the same revision.
    DuplicateRevision,
    /// A write got a revision that had been seen before the write was called, or a lower one.
    WriteOrder,
    /// An answer shows a revision below one that was seen before the request was called.
    StaleRead,
    /// A revision exists that no request and no lease's end can have made.
    UnexplainedRevision,
    /// What a request that was refused or not done would have written is there.
    NotDoneVisible,
    /// An answer is not what the state at its revision says.
    WrongAnswer,
    /// A refusal that nothing justifies, or an answer where a refusal was due.
    WrongRefusal,
    /// Compactions that contradict each other, or reads of what was compacted.
    Compaction,
    /// A lease ended before its time.
    EarlyExpiry,
    /// What was said about a lease fits no order of its grants, renewals and ends.
    Lease,
    /// The final range or the final watch does not reach the newest revision.
    FinalState,
    /// HashKV returned two hashes of one state, or not the specification's.
    Hash,
    /// The list of alarms fits no order of their being raised and lowered.
    Alarm,
    /// A member that had been listed is missing.
    Members,
    /// Status returned the impossible: no data at all, terms that go back, two leaders of one term.
    Status,
    /// A user was let do what was certainly not permitted.
    AccessLeaked,
    /// A user was refused what was certainly permitted.
    AccessDenied,
    WatchCreated,
    WatchFilter,
    WatchOrdered,
    WatchUnique,
    WatchAtomic,
    WatchReliable,
    WatchResumable,
    WatchBookmarkable,
    WatchProgressAhead,
    WatchCreateFlag,
    WatchPrevKv,
    WatchFutureStart,
    WatchCompacted,
    /// The server ended a watch that no client had cancelled and no compaction had overtaken.
    WatchDropped,
    /// A header below the events that it came with.
    WatchHeader,
    /// Too many explanations had to be tried; nothing was proven either way, which is not a pass.
    GaveUp,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind:?}: {text}")]
pub struct Violation {
    pub kind: Kind,
    /// Names the operations or messages with their times.
    pub text: String,
}

impl Violation {
    pub fn new(kind: Kind, text: impl fmt::Display) -> Violation {
        Violation { kind, text: text.to_string() }
    }

    /// The same, saying whose it is.
    pub(crate) fn of(self, name: &str) -> Violation {
        Violation { text: format!("{name}: {}", self.text), ..self }
    }
}
