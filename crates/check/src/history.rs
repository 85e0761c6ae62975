//! History: what clients asked, what they were answered, and when, on one clock.
//!
//! Times are nanoseconds on the recorder's monotonic clock. Their order matters, and for leases
//! their distance. A history may span restarts and crashes of the server, but begins with an empty
//! store at revision 1.

use serde::{Deserialize, Serialize};
use vetch_model::{Answer, Event, Keys, Refusal, Request, Watch};

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
    /// Timeout, broken connection, shutdown: it may have happened, once, at any time from `called`
    /// on.
    Unknown,
}

/// One watcher from its creation to its end. A client that resumes makes a new one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    pub client: u32,
    /// When it was asked for; 0 if that is not known.
    pub called: u64,
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
    /// Cancelled at the client's wish.
    Cancelled { reason: String },
    /// Ended by the server, for no reason that the API knows.
    Dropped { reason: String },
}

/// One answer of HashKV.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hashed {
    pub called: u64,
    pub returned: u64,
    /// The revision up to which was hashed.
    pub revision: i64,
    /// 0 or less: nothing was compacted yet.
    pub compact_revision: i64,
    pub hash: u32,
}

/// One answer of LeaseTimeToLive with keys, of a lease that was there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leased {
    pub called: u64,
    pub returned: u64,
    pub id: i64,
    /// The revision in the response's header, at which these are its keys.
    pub revision: i64,
    pub keys: Vec<Vec<u8>>,
}

/// One answer about the server rather than about keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub called: u64,
    pub returned: u64,
    /// The revision in the response's header; None where headers name none.
    pub revision: Option<i64>,
    /// Whether it must not be behind anything acknowledged before the call. Where a server of
    /// several answers for itself, it may be.
    pub linearizable: bool,
    pub listing: Listing,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Listing {
    /// LeaseLeases: every lease there is.
    Leases {
        ids: Vec<i64>,
    },
    /// Alarm, action GET: those raised, without what servers raise for themselves.
    Alarms {
        alarms: Vec<Alarm>,
    },
    /// MemberList.
    Members {
        ids: Vec<u64>,
    },
    Status {
        db_size: i64,
        db_size_in_use: i64,
        leader: u64,
        term: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Alarm {
    pub member: u64,
    /// As the API numbers them.
    pub kind: i32,
}

/// A client raised or lowered an alarm, of a member that is no server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarmed {
    pub called: u64,
    /// `u64::MAX` if its outcome is unknown.
    pub returned: u64,
    pub alarm: Alarm,
    pub raised: bool,
}

/// Something that decides who may do what, and what it was made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Fact {
    /// Users are asked who they are at all.
    Enabled,
    User(String),
    /// The user has the role.
    Role(String, String),
    /// The role may read, or write, these keys.
    Permission {
        role: String,
        keys: (Vec<u8>, Vec<u8>),
        write: bool,
    },
}

/// A change of users, roles or permissions that was acknowledged, or whose outcome is unknown. At
/// first no fact holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessChange {
    pub called: u64,
    /// `u64::MAX` if its outcome is unknown.
    pub returned: u64,
    /// Which facts it made true or false, all at once.
    pub facts: Vec<(Fact, bool)>,
}

/// A request of a user that was answered, or was refused because it is not permitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    pub called: u64,
    pub returned: u64,
    pub user: String,
    pub keys: Keys,
    pub write: bool,
    pub granted: bool,
}

/// What the recorder did last, after everything else had ended. Says that the record is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finish {
    /// The index in `operations` of a range over all keys at the newest revision.
    pub range: usize,
    /// The index in `watches` of a watch of all keys from the oldest revision that could still be
    /// read, which was kept until it had shown the revision of that range.
    pub watch: usize,
}

/// Everything recorded of one run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct History {
    pub operations: Vec<Operation>,
    pub watches: Vec<Watched>,
    pub hashes: Vec<Hashed>,
    #[serde(default)]
    pub leased: Vec<Leased>,
    #[serde(default)]
    pub listed: Vec<Listed>,
    #[serde(default)]
    pub alarmed: Vec<Alarmed>,
    #[serde(default)]
    pub access_changes: Vec<AccessChange>,
    #[serde(default)]
    pub accesses: Vec<Access>,
    pub finish: Option<Finish>,
}

impl Operation {
    /// An operation that was answered, with the revision of the answer's header.
    pub fn answered(
        client: u32,
        time: (u64, u64),
        request: Request,
        revision: i64,
        answer: Answer,
    ) -> Operation {
        let outcome = Outcome::Answered { revision, answer };
        Operation { client, called: time.0, returned: time.1, request, outcome }
    }

    pub fn refused(client: u32, time: (u64, u64), request: Request, refusal: Refusal) -> Operation {
        Operation { client, called: time.0, returned: time.1, request, outcome: Outcome::Refused(refusal) }
    }

    pub fn not_done(client: u32, time: (u64, u64), request: Request) -> Operation {
        Operation { client, called: time.0, returned: time.1, request, outcome: Outcome::NotDone }
    }

    pub fn unknown(client: u32, time: (u64, u64), request: Request) -> Operation {
        Operation { client, called: time.0, returned: time.1, request, outcome: Outcome::Unknown }
    }

    /// The revision in the header of the answer, if there was one.
    pub fn revision(&self) -> Option<i64> {
        match self.outcome {
            Outcome::Answered { revision, .. } => Some(revision),
            _ => None,
        }
    }

    pub fn answer(&self) -> Option<&Answer> {
        match &self.outcome {
            Outcome::Answered { answer, .. } => Some(answer),
            _ => None,
        }
    }
}

impl Watched {
    /// A watch of which nothing has been heard yet.
    pub fn new(client: u32, request: Watch) -> Watched {
        Watched { client, called: 0, request, messages: Vec::new(), ending: Ending::Open }
    }
}

impl WatchMessage {
    /// When it arrived.
    pub fn at(&self) -> u64 {
        match self {
            WatchMessage::Created { at, .. }
            | WatchMessage::Events { at, .. }
            | WatchMessage::Progress { at, .. } => *at,
        }
    }

    /// The revision in its header.
    pub fn revision(&self) -> i64 {
        match self {
            WatchMessage::Created { revision, .. }
            | WatchMessage::Events { revision, .. }
            | WatchMessage::Progress { revision, .. } => *revision,
        }
    }

    pub fn events(&self) -> &[Event] {
        match self {
            WatchMessage::Events { events, .. } => events,
            _ => &[],
        }
    }
}
