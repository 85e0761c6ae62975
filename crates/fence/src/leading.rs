//! Leading: the writer of the current epoch. Appends several records ahead, each behind the
//! position that the one before it will have, and gives reads the proof that nothing newer exists.
//!
//! A read index is the place of an append that was started after the read asked: had another writer
//! taken over before, that append could not be valid. One append serves all reads that wait when it
//! is started; when nothing is written, a barrier does, one at a time. While a writer has a lease
//! (`lease`) nothing needs to be started for a read.

use std::time::Duration;

use vetch_bugs::Bug;
use vetch_journal::{ChainedEntry, Draft, Kind, Position};

use crate::flight::Pending;
use crate::log::Ticket;
use crate::member::{Command, Member, ReadId};
use crate::record;

/// Why a member does not take a proposal or a read. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("this server is not the writer")]
    NotLeading,
    #[error("as many appends or reads as allowed are waiting")]
    Busy,
    #[error("a record of {len} bytes is above the limit of {max}")]
    TooLarge { len: usize, max: usize },
    #[error("the entries do not continue what is in flight: chain them on `head`")]
    OutOfOrder,
}

impl Member {
    /// Whether another append may be started now.
    pub fn may_propose(&self) -> bool {
        self.is_leading() && self.flight.len() < self.config.window && self.handing.is_none()
    }

    /// Starts an append of entries chained one after another, the first of them on `head`.
    pub fn propose(&mut self, now: Duration, entries: &[ChainedEntry]) -> Result<Ticket, Refusal> {
        if !self.is_leading() {
            return Err(Refusal::NotLeading);
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
        Ok(self.start(now, entries, true))
    }

    /// Asks for an index on behalf of a read.
    pub fn read_index(&mut self, now: Duration, read: ReadId) -> Result<(), Refusal> {
        if !self.is_leading() {
            return Err(Refusal::NotLeading);
        }
        if self.reads.len() >= self.config.max_reads {
            return Err(Refusal::Busy);
        }
        if vetch_bugs::on(Bug::BarrierShared) && !self.flight.is_empty() {
            self.flight.attach_to_last(read);
            return Ok(());
        }
        if self.read_by_lease(now, read) {
            return Ok(());
        }
        self.reads.push(read);
        self.pump(now);
        Ok(())
    }

    pub(crate) fn tick_lead(&mut self, now: Duration, reread: bool) {
        let late = self.flight.oldest().is_some_and(|since| now >= since + self.config.append_timeout);
        if late {
            self.recover(now);
            return;
        }
        if reread {
            self.ask(now);
        }
        if self.flight.is_empty() && self.handing.is_none() && now >= self.last_append + self.config.heartbeat
        {
            self.barrier(now);
        }
    }

    /// Starts a barrier if reads wait for one.
    pub(crate) fn pump(&mut self, now: Duration) {
        if self.may_propose() && !self.reads.is_empty() && !self.flight.has_barrier() {
            self.barrier(now);
        }
    }

    fn barrier(&mut self, now: Duration) {
        let mut tip = self.head();
        let entry = Draft::new(Kind::Barrier).chain(&mut tip);
        self.start(now, &[entry], false);
    }

    pub(crate) fn start(&mut self, now: Duration, entries: &[ChainedEntry], proposed: bool) -> Ticket {
        let ticket = self.ticket();
        let after = Position(self.view.position().0 + self.flight.len() as u64);
        let record = record::join(entries);
        let mut pending = Pending::new(ticket, record.clone(), *entries[entries.len() - 1].after(), now);
        (pending.proposed, pending.is_barrier) = (proposed, !proposed);
        pending.reads = std::mem::take(&mut self.reads);
        self.flight.push(pending);
        self.last_append = now;
        self.commands.push(Command::Append { ticket, after, record });
        ticket
    }
}
