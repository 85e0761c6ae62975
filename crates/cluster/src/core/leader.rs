//! Leader: the leader of the current epoch. It appends several records ahead, each behind the
//! position that its predecessor will have, and proves to reads that nothing newer exists.
//!
//! A read index is the place of an append that was started after the read came: if another leader
//! had been elected before, that append could not be accepted. One append serves all reads that
//! wait when it is started. When nothing is written a barrier does, one at a time. While the leader
//! has a lease (`lease`) nothing has to be started for a read.

use std::time::Duration;

use vetch_journal::{ChainedEntry, Draft, Kind, Position};
use vetch_seeded_bugs::Bug;

use super::event::{Command, ReadId};
use super::in_flight::PendingAppend;
use super::record;
use super::replica::Replica;
use crate::log::Ticket;

/// Why a replica refuses a proposal or a read. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("this server is not the leader")]
    NotLeader,
    #[error("as many appends or reads as allowed are waiting")]
    Busy,
    #[error("a record of {len} bytes is above the limit of {max}")]
    TooLarge { len: usize, max: usize },
    #[error("the entries do not continue what is in flight: chain them on `head`")]
    OutOfOrder,
}

impl Replica {
    /// Whether another append may be started now.
    pub fn may_propose(&self) -> bool {
        self.is_leader() && self.in_flight.len() < self.config.max_in_flight && self.transfer.is_none()
    }

    /// Starts an append of entries chained one after another, the first of them on `head`.
    pub fn propose(&mut self, now: Duration, entries: &[ChainedEntry]) -> Result<Ticket, Refusal> {
        if !self.is_leader() {
            return Err(Refusal::NotLeader);
        }
        if !self.may_propose() {
            return Err(Refusal::Busy);
        }
        let len = entries.iter().map(|entry| entry.bytes().len()).sum();
        if len > self.config.max_record {
            return Err(Refusal::TooLarge { len, max: self.config.max_record });
        }
        let mut tip = self.head();
        for entry in entries {
            if *entry.before() != tip || matches!(entry.kind(), Kind::NewEpoch) || entry.is_reserved() {
                return Err(Refusal::OutOfOrder);
            }
            tip = *entry.after();
        }
        if entries.is_empty() {
            return Err(Refusal::OutOfOrder);
        }
        Ok(self.start_append(now, entries, true))
    }

    /// Requests an index for a read.
    pub fn read_index(&mut self, now: Duration, read: ReadId) -> Result<(), Refusal> {
        if !self.is_leader() {
            return Err(Refusal::NotLeader);
        }
        if self.reads.len() >= self.config.max_reads {
            return Err(Refusal::Busy);
        }
        if vetch_seeded_bugs::on(Bug::BarrierShared) && !self.in_flight.is_empty() {
            self.in_flight.attach_to_last(read);
            return Ok(());
        }
        if self.read_by_lease(now, read) {
            return Ok(());
        }
        self.reads.push(read);
        self.append_barrier_for_reads(now);
        Ok(())
    }

    pub(crate) fn tick_leader(&mut self, now: Duration, reread: bool) {
        let started = self.in_flight.oldest_started();
        if started.is_some_and(|started| now >= started + self.config.append_timeout) {
            self.recover(now);
            return;
        }
        if reread {
            self.request_read(now);
        }
        let is_due = now >= self.last_append + self.config.heartbeat_interval;
        if is_due && self.in_flight.is_empty() && self.transfer.is_none() {
            self.append_barrier(now);
        }
    }

    /// Appends a barrier if reads wait for one.
    pub(crate) fn append_barrier_for_reads(&mut self, now: Duration) {
        if self.may_propose() && !self.reads.is_empty() && !self.in_flight.has_barrier() {
            self.append_barrier(now);
        }
    }

    fn append_barrier(&mut self, now: Duration) {
        assert!(!self.in_flight.has_barrier(), "one barrier is in flight at a time");
        let mut tip = self.head();
        let entry = Draft::new(Kind::Barrier).chain(&mut tip);
        self.start_append(now, &[entry], false);
    }

    pub(crate) fn start_append(&mut self, now: Duration, entries: &[ChainedEntry], proposed: bool) -> Ticket {
        assert!(self.is_leader(), "only a leader appends");
        assert!(self.transfer.is_none(), "nothing is appended behind a leadership transfer");
        assert!(self.in_flight.len() < self.config.max_in_flight, "appends in flight are limited");
        assert!(*entries[0].before() == self.head(), "an append continues what is in flight");
        let ticket = self.next_ticket();
        let after = Position(self.log_state.position().0 + self.in_flight.len() as u64);
        let record = record::join(entries);
        let tip = *entries[entries.len() - 1].after();
        let mut pending = PendingAppend::new(ticket, record.clone(), tip, now);
        (pending.proposed, pending.is_barrier) = (proposed, !proposed);
        pending.reads = std::mem::take(&mut self.reads);
        self.in_flight.push(pending);
        self.last_append = now;
        self.commands.push(Command::Append { ticket, after, record });
        ticket
    }
}
