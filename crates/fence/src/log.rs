//! Log: what is asked of an engine, and what it tells. Nothing here waits: an append is started,
//! its outcome is news.
//!
//! 1. Positions are given out one after another, beginning with 1. What lies at a position never
//!    changes.
//! 2. `Appended` says that the record is durable and where it is. A record may have been stored
//!    without it being said, long after it was given, or twice: the rules of this crate take care
//!    of that.
//! 3. An engine that can checks `after`, the position of the last record the caller knows of, and
//!    refuses the append if another record is last. Nothing depends on the check; it spares the log
//!    records that would be void.
//! 4. Reads are in order and without holes. They may lag behind what is stored: reads prove nothing
//!    about the end.
//! 5. A full log refuses; it never drops what it holds. Only `trim` gives up records.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use vetch_journal::Position;

/// Names an append between its start and its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Ends a wait for news early. Anybody may call it, at any time.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// An ordered durable log, as one server sees it.
pub trait Log: Send {
    /// Starts an append. Its outcome is told by `next`, once at most; an outcome that never comes
    /// counts as unknown.
    fn append(&mut self, ticket: Ticket, after: Position, record: Bytes);

    /// Asks for the records behind `after`. Pages follow, in order, until one comes to the end, or
    /// `ReadFailed` does. An engine that can goes on telling of new records as they come, until it
    /// is asked to read from somewhere else.
    fn read(&mut self, after: Position);

    /// The next news, waiting for it as long as is given.
    fn next(&mut self, wait: Duration) -> Option<News>;

    /// What ends `next` early, for those who have other work for whoever waits there. Nothing if it
    /// cannot be ended.
    fn waker(&self) -> Option<Waker> {
        None
    }

    /// Gives up the records below `floor`.
    fn trim(&mut self, floor: Position) -> Result<(), LogError>;

    /// The same for who cannot wait. Whether it was done shows in where the log begins; asking
    /// again does no harm.
    fn trim_soon(&mut self, floor: Position) {
        let _ = self.trim(floor);
    }

    /// Bytes of the largest record that is taken.
    fn max_record(&self) -> usize;

    /// How full the log is, as far as was heard lately. Never waits; nothing if it was not heard.
    fn space(&mut self) -> Option<Space> {
        None
    }
}

impl<L: Log + ?Sized> Log for Box<L> {
    fn append(&mut self, ticket: Ticket, after: Position, record: Bytes) {
        (**self).append(ticket, after, record);
    }

    fn read(&mut self, after: Position) {
        (**self).read(after);
    }

    fn next(&mut self, wait: Duration) -> Option<News> {
        (**self).next(wait)
    }

    fn waker(&self) -> Option<Waker> {
        (**self).waker()
    }

    fn trim(&mut self, floor: Position) -> Result<(), LogError> {
        (**self).trim(floor)
    }

    fn trim_soon(&mut self, floor: Position) {
        (**self).trim_soon(floor);
    }

    fn max_record(&self) -> usize {
        (**self).max_record()
    }

    fn space(&mut self) -> Option<Space> {
        (**self).space()
    }
}

/// How full a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes it holds.
    pub used: u64,
    /// Bytes that it takes on top of these; nothing if no limit is known.
    pub left: Option<u64>,
    /// How long ago that was.
    pub age: Duration,
}

/// Why a log did not do what it was asked at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LogError(pub String);

/// What an engine has to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The record is durable, at this position.
    Appended {
        ticket: Ticket,
        at: Position,
    },
    /// This attempt was not stored: another record was last. `last` is where, if the engine said
    /// it.
    Refused {
        ticket: Ticket,
        last: Option<Position>,
    },
    /// This attempt was not stored: the log is full.
    Full {
        ticket: Ticket,
    },
    /// It may be stored, or be stored later, or never.
    Unknown {
        ticket: Ticket,
        why: String,
    },
    Records(Page),
    /// Another part of the engine answers from here on, and it may not know what the one before it
    /// did. Nothing that is told after this was asked before it.
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
