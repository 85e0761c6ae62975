//! History: what clients asked, what they were answered, and when, on one clock.
//!
//! Times are nanoseconds on the recorder's monotonic clock; only their order matters. A history may span restarts and
//! crashes of the server, but begins with an empty store at revision 1.

use serde::{Deserialize, Serialize};
use vetch_model::{Answer, Event, Refusal, Request, Watch};

/// One request and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    pub client: u32,
    /// When the request was sent, and when its outcome was known.
    pub called: u64,
    pub returned: u64,
    pub request: Request,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Answered, with the revision in the response's header.
    Answered { revision: i64, answer: Answer },
    /// Refused by the rules of the API; nothing changed.
    Refused(Refusal),
    /// The server said that it did not do it (overload, no space): nothing changed.
    NotDone,
    /// Timeout, broken connection, shutdown: it may have happened, once, at any time from `called` on.
    Unknown,
}

/// One watcher from its creation to its end. A client that resumes makes a new one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    pub client: u32,
    pub request: Watch,
    pub messages: Vec<WatchMessage>,
    pub ending: Ending,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatchMessage {
    Created {
        revision: i64,
        at: u64,
    },
    /// One response, its fragments joined.
    Events {
        revision: i64,
        events: Vec<Event>,
        at: u64,
    },
    Progress {
        revision: i64,
        at: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// The recorder stopped listening, or the connection broke: nothing more is known.
    Open,
    /// Cancelled by compaction; the revision that the response named.
    Compacted { compact_revision: i64 },
    /// Cancelled at the client's wish, or refused.
    Cancelled { reason: String },
}

/// Everything recorded of one run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct History {
    pub operations: Vec<Operation>,
    pub watches: Vec<Watched>,
}
