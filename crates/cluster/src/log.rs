//! Log: what an engine must provide, and what it reports. Nothing here waits: an append is started,
//! its outcome is an event.
//!
//! 1. Positions are assigned one after another, beginning with 1. The record at a position never
//!    changes.
//! 2. `Appended` says that the record is durable and where it is. A record may be stored without
//!    an acknowledgement, long after it was given, or twice; the rules of this crate handle that.
//! 3. An engine that can checks `after`, the position of the last record that the caller knows of,
//!    and refuses the append if another record is last. Correctness does not depend on the check;
//!    it keeps records out of the log that would be ignored.
//! 4. Reads are in order and without holes. They may lag behind what is stored: a read proves
//!    nothing about the end of the log.
//! 5. A full log refuses appends; it never drops what it holds. Only `trim` deletes records.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use vetch_journal::Position;

use crate::pace::Pace;

/// Names an append between its start and its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Interrupts a wait for log events. Any thread may call it, at any time.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// An ordered durable log, as one server sees it.
pub trait Log: Send {
    /// Starts an append. `next` reports its outcome, at most once. An outcome that never comes is
    /// an unknown outcome.
    fn append(&mut self, ticket: Ticket, after: Position, record: Bytes);

    /// Requests the records behind `after`. Pages follow, in order, until one reaches the end or
    /// `ReadFailed` is reported. An engine that can goes on to push new records, until the next
    /// read from another position.
    fn read(&mut self, after: Position);

    /// The next event; waits at most this long for it.
    fn next(&mut self, wait: Duration) -> Option<LogEvent>;

    /// A waker that interrupts `next`; `None` if the engine has none.
    fn waker(&self) -> Option<Waker> {
        None
    }

    /// Deletes the records below `floor`.
    fn trim(&mut self, floor: Position) -> Result<(), LogError>;

    /// Starts a trim without waiting for it. The first position of the log shows whether it was
    /// done; a trim may be repeated.
    fn start_trim(&mut self, floor: Position) {
        let _ = self.trim(floor);
    }

    /// Bytes of the largest record that the log takes.
    fn max_record(&self) -> usize;

    /// The last known fill level. Never waits; `None` if it is not known.
    fn space(&mut self) -> Option<Space> {
        None
    }

    /// How dear a record is.
    fn pace(&self) -> Pace {
        Pace::MILLISECONDS
    }
}

impl<L: Log + ?Sized> Log for Box<L> {
    fn append(&mut self, ticket: Ticket, after: Position, record: Bytes) {
        (**self).append(ticket, after, record);
    }

    fn read(&mut self, after: Position) {
        (**self).read(after);
    }

    fn next(&mut self, wait: Duration) -> Option<LogEvent> {
        (**self).next(wait)
    }

    fn waker(&self) -> Option<Waker> {
        (**self).waker()
    }

    fn trim(&mut self, floor: Position) -> Result<(), LogError> {
        (**self).trim(floor)
    }

    fn start_trim(&mut self, floor: Position) {
        (**self).start_trim(floor);
    }

    fn max_record(&self) -> usize {
        (**self).max_record()
    }

    fn space(&mut self) -> Option<Space> {
        (**self).space()
    }

    fn pace(&self) -> Pace {
        (**self).pace()
    }
}

/// How full a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that the log holds.
    pub used: u64,
    /// Bytes that it takes on top of these; `None` if no limit is known.
    pub left: Option<u64>,
    /// How long ago this was measured.
    pub age: Duration,
}

/// Why a call of a log failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    #[error("the log did not answer; whether it was trimmed is unknown")]
    NoAnswer,
    #[error("{0}")]
    Failed(String),
}

/// What an engine reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// The record is durable, at this position.
    Appended {
        ticket: Ticket,
        at: Position,
    },
    /// This attempt was not stored: another record was last. `last` is its position, if the engine
    /// reported it.
    Refused {
        ticket: Ticket,
        last: Option<Position>,
    },
    /// This attempt was not stored: the log is full.
    Full {
        ticket: Ticket,
    },
    /// The record may be stored, or be stored later, or never.
    Unknown {
        ticket: Ticket,
        why: String,
    },
    Records(Page),
    /// Another endpoint of the engine answers from here on, and it may not know what the one before
    /// it did. No later event answers a request from before.
    Reconnected,
    ReadFailed {
        why: String,
    },
}

/// Records read, in the order of their positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub records: Vec<(Position, Bytes)>,
    /// The first position that the log still holds, or would fill next if it holds none.
    pub first: Position,
    /// The last position of the log, if nothing seemed to follow this page and it answers a read.
    pub end: Option<Position>,
}
