//! Role: what a replica is doing.

use std::time::Duration;

use bytes::Bytes;
use vetch_journal::Hash;

use crate::log::Ticket;

pub(crate) enum Role {
    Follower,
    Candidate(Campaign),
    Leader,
}

/// How far a campaign has come.
pub(crate) enum Campaign {
    /// The log is being read to its end.
    CatchingUp,
    /// The last one failed. The next begins with reading.
    BackingOff { until: Duration },
    /// The new-epoch entry was appended, with an open outcome.
    Appended { ticket: Ticket, record: Bytes, last_hash: Hash, since: Duration },
}

/// Signs that the log has lost what was read from it, since a record was last read.
#[derive(Clone, Copy)]
pub(crate) struct ShortLog {
    pub(crate) since: Duration,
    pub(crate) answers: u32,
    pub(crate) reported: bool,
}
