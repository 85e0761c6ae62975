//! In flight: the leader's appends that are not decided yet, oldest first, and what the engine said
//! about their positions.
//!
//! Outcomes may arrive in any order. A record with a known position is kept until everything before
//! that position has been read; only then does its position mean anything.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use vetch_journal::{Hash, Position, Tip};

use super::event::ReadId;
use crate::log::Ticket;

/// One append of this leader.
#[derive(Clone, Debug)]
pub(crate) struct PendingAppend {
    pub(crate) ticket: Ticket,
    pub(crate) record: Bytes,
    /// The tip once it is committed.
    pub(crate) after: Tip,
    pub(crate) started: Duration,
    /// Whether the caller proposed it. Barriers are the leader's own.
    pub(crate) proposed: bool,
    pub(crate) is_barrier: bool,
    /// Reads that asked for an index before this append was started, or later if a lease allowed
    /// it.
    pub(crate) reads: Vec<ReadId>,
    acknowledged: bool,
}

impl PendingAppend {
    pub(crate) fn new(ticket: Ticket, record: Bytes, after: Tip, started: Duration) -> PendingAppend {
        let (proposed, is_barrier, acknowledged) = (true, false, false);
        let reads = Vec::new();
        PendingAppend { ticket, record, after, started, proposed, is_barrier, reads, acknowledged }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight {
    pending: VecDeque<PendingAppend>,
    /// Own records by the position that the engine acknowledged, behind what was read.
    acknowledged: BTreeMap<Position, Bytes>,
}

impl InFlight {
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    pub(crate) fn push(&mut self, pending: PendingAppend) {
        self.pending.push_back(pending);
    }

    /// The tip after everything in flight.
    pub(crate) fn head(&self) -> Option<&Tip> {
        self.pending.back().map(|pending| &pending.after)
    }

    /// When the oldest append was started.
    pub(crate) fn oldest_started(&self) -> Option<Duration> {
        self.pending.front().map(|pending| pending.started)
    }

    pub(crate) fn has_barrier(&self) -> bool {
        self.pending.iter().any(|pending| pending.is_barrier)
    }

    pub(crate) fn has_ticket(&self, ticket: Ticket) -> bool {
        self.pending.iter().any(|pending| pending.ticket == ticket)
    }

    /// Marks an append as acknowledged, once, and returns its record.
    pub(crate) fn acknowledge(&mut self, ticket: Ticket) -> Option<Bytes> {
        let pending =
            self.pending.iter_mut().find(|pending| pending.ticket == ticket && !pending.acknowledged)?;
        pending.acknowledged = true;
        Some(pending.record.clone())
    }

    /// Remembers the position of an own record.
    pub(crate) fn set_position(&mut self, at: Position, record: Bytes) {
        self.acknowledged.insert(at, record);
    }

    /// Takes the own record at this position, if one is known to be there.
    pub(crate) fn take_at(&mut self, at: Position) -> Option<Bytes> {
        self.acknowledged.remove(&at)
    }

    /// Whether an own record was acknowledged behind a position that was not read yet.
    pub(crate) fn has_gap(&self) -> bool {
        !self.acknowledged.is_empty()
    }

    /// Forgets positions that have been read.
    pub(crate) fn discard_up_to(&mut self, position: Position) {
        self.acknowledged.retain(|at, _| *at > position);
    }

    /// Forgets all positions.
    pub(crate) fn discard_positions(&mut self) {
        self.acknowledged.clear();
    }

    /// Pops the oldest append, if it is the record whose last entry has this hash.
    pub(crate) fn pop_committed(&mut self, last_hash: Hash) -> Option<PendingAppend> {
        self.pending.pop_front_if(|pending| pending.after.hash == last_hash)
    }

    pub(crate) fn contains(&self, last_hash: Hash) -> bool {
        self.pending.iter().any(|pending| pending.after.hash == last_hash)
    }

    /// Gives a read the index of the newest append, although that was started before the read.
    pub(crate) fn attach_to_last(&mut self, read: ReadId) {
        if let Some(pending) = self.pending.back_mut() {
            pending.reads.push(read);
        }
    }

    /// Takes all that is left, when none of it can be committed any more.
    pub(crate) fn drain(&mut self) -> Vec<PendingAppend> {
        self.acknowledged.clear();
        self.pending.drain(..).collect()
    }
}
