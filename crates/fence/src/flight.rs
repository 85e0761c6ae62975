//! Flight: a writer's appends that are not decided yet, oldest first, and what is known of where
//! they went.
//!
//! Outcomes may come in any order. A record that is known to lie at a position is kept until
//! everything before that position is known as well; only then does it mean anything.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use vetch_journal::{Hash, Position, Tip};

use crate::log::Ticket;
use crate::member::ReadId;

/// One append of this writer.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) ticket: Ticket,
    pub(crate) record: Bytes,
    /// The tip once it counts.
    pub(crate) after: Tip,
    pub(crate) since: Duration,
    /// Whether the caller gave it; barriers are the writer's own.
    pub(crate) proposed: bool,
    pub(crate) is_barrier: bool,
    /// Reads that asked for an index before this append was started, or later if a lease allowed
    /// it.
    pub(crate) reads: Vec<ReadId>,
    acknowledged: bool,
}

impl Pending {
    pub(crate) fn new(ticket: Ticket, record: Bytes, after: Tip, since: Duration) -> Pending {
        let (proposed, is_barrier, acknowledged) = (true, false, false);
        Pending { ticket, record, after, since, proposed, is_barrier, reads: Vec::new(), acknowledged }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Flight {
    pending: VecDeque<Pending>,
    /// Own records whose position the engine told, behind what was read.
    stored: BTreeMap<Position, Bytes>,
}

impl Flight {
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    pub(crate) fn push(&mut self, pending: Pending) {
        self.pending.push_back(pending);
    }

    /// The tip after everything in flight.
    pub(crate) fn head(&self) -> Option<&Tip> {
        self.pending.back().map(|pending| &pending.after)
    }

    pub(crate) fn oldest(&self) -> Option<Duration> {
        self.pending.front().map(|pending| pending.since)
    }

    pub(crate) fn has_barrier(&self) -> bool {
        self.pending.iter().any(|pending| pending.is_barrier)
    }

    pub(crate) fn holds(&self, ticket: Ticket) -> bool {
        self.pending.iter().any(|pending| pending.ticket == ticket)
    }

    /// Notes where an append went, once; returns its record.
    pub(crate) fn acknowledge(&mut self, ticket: Ticket) -> Option<Bytes> {
        let pending =
            self.pending.iter_mut().find(|pending| pending.ticket == ticket && !pending.acknowledged)?;
        pending.acknowledged = true;
        Some(pending.record.clone())
    }

    pub(crate) fn store(&mut self, at: Position, record: Bytes) {
        self.stored.insert(at, record);
    }

    /// The own record at this position, if it is known to be there.
    pub(crate) fn stored_at(&mut self, at: Position) -> Option<Bytes> {
        self.stored.remove(&at)
    }

    pub(crate) fn has_stored(&self) -> bool {
        !self.stored.is_empty()
    }

    /// Forgets what is known of positions that have been read.
    pub(crate) fn read_up_to(&mut self, position: Position) {
        self.stored.retain(|at, _| *at > position);
    }

    /// The oldest append, if it is the record whose last entry has this hash.
    pub(crate) fn take(&mut self, print: Hash) -> Option<Pending> {
        self.pending.pop_front_if(|pending| pending.after.hash == print)
    }

    /// Whether this record is among them.
    pub(crate) fn contains(&self, print: Hash) -> bool {
        self.pending.iter().any(|pending| pending.after.hash == print)
    }

    /// Gives a read its index with the newest append, although that was started before it asked.
    pub(crate) fn attach_to_last(&mut self, read: ReadId) {
        if let Some(pending) = self.pending.back_mut() {
            pending.reads.push(read);
        }
    }

    /// All that is left, when none of it can count any more.
    pub(crate) fn give_up(&mut self) -> Vec<Pending> {
        self.stored.clear();
        self.pending.drain(..).collect()
    }

    pub(crate) fn forget_positions(&mut self) {
        self.stored.clear();
    }
}
