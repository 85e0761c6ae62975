//! Reader: takes the records that the log delivers, in the order of their positions, and acts on
//! what they mean for this replica.

use std::time::Duration;

use bytes::Bytes;
use vetch_journal::{Entry, Hash, Kind, Position, Tip};

use super::divergence::Divergence;
use super::event::{Command, ReplicaEvent};
use super::in_flight::PendingAppend;
use super::leadership_transfer::transfer_target;
use super::log_state::{Ignored, LogIndex, ReadOutcome};
use super::record::{ReplicaId, candidate_of};
use super::replica::{Replica, VERIFIED_RECORDS};
use super::role::{Role, ShortLog};
use crate::log::Page;

/// Answers in a row that must show a log that is too short.
const SHORT_ANSWERS: u32 = 5;

impl Replica {
    /// Whether the page comes from a log that this replica has read: it shows the last few records
    /// again, or everything before it was trimmed.
    fn verify(&mut self, page: &Page) -> bool {
        let last = self.log_state.position();
        let from = page.first.0.max((last.0 + 1).saturating_sub(VERIFIED_RECORDS));
        let covers = page.records.first().is_some_and(|(at, _)| at.0 <= from);
        self.verified |= page.first > last || (covers && page.records.iter().any(|(at, _)| *at == last));
        self.verified
    }

    pub(crate) fn on_page(&mut self, now: Duration, page: Page) {
        if page.first.0 > self.log_state.position().0 + 1 {
            self.stop(ReplicaEvent::Behind { first: page.first });
            return;
        }
        let end = page.end;
        let before = self.log_state.position();
        if end.is_some() {
            self.reading = None;
        }
        if !self.verify(&page) {
            if let Some(end) = end.filter(|end| *end < before) {
                self.at_end(now, end);
            }
            return;
        }
        if !self.read_page(now, page) {
            return;
        }
        self.read_acknowledged(now);
        if self.log_state.position() > before {
            // The read makes progress, so it is not repeated yet.
            self.reading = self.reading.map(|_| now);
            self.poll_at = now + self.config.poll_interval;
        }
        if let Some(end) = end.filter(|_| !self.stopped) {
            self.at_end(now, end);
        }
    }

    /// Reads what is new in the page and compares the rest. False if it has a hole or this replica
    /// has stopped.
    fn read_page(&mut self, now: Duration, page: Page) -> bool {
        for (at, record) in page.records {
            let next = self.log_state.position().0 + 1;
            if at.0 > next {
                // Records between were not delivered: request them.
                if self.reading.is_none() {
                    self.request_read(now);
                }
                return false;
            }
            if at.0 == next {
                self.read(now, at, &record);
            } else if let Err(divergence) = self.log_state.reread(at, &record) {
                self.halt(divergence);
            }
            if self.stopped {
                return false;
            }
        }
        true
    }

    /// Reads own acknowledged records that lie right behind what was read.
    pub(crate) fn read_acknowledged(&mut self, now: Duration) {
        while !self.stopped {
            let next = Position(self.log_state.position().0 + 1);
            let Some(record) = self.in_flight.take_at(next) else { return };
            self.read(now, next, &record);
        }
    }

    fn read(&mut self, now: Duration, at: Position, record: &Bytes) {
        match self.log_state.read(at, record) {
            // A checkpoint there or later lets this server read on.
            Err(Divergence::Seeded { at }) => self.stop(ReplicaEvent::Behind { first: Position(at) }),
            Err(divergence) => self.halt(divergence),
            Ok((last_hash, outcome)) => {
                // The log goes on behind what was read, so it is not shorter.
                self.short = None;
                self.in_flight.discard_up_to(at);
                match outcome {
                    ReadOutcome::Accepted(entries) => self.accepted(now, at, last_hash, entries),
                    ReadOutcome::Ignored(why) => self.ignored(now, at, last_hash, why),
                }
            }
        }
    }

    fn ignored(&mut self, now: Duration, at: Position, last_hash: Hash, why: Ignored) {
        self.events.push(ReplicaEvent::Ignored { at, why });
        if self.is_own_new_epoch(last_hash) {
            self.campaign_failed(now);
        } else if self.is_leader() && self.in_flight.contains(last_hash) {
            self.recover(now);
        }
    }

    fn accepted(&mut self, now: Duration, at: Position, last_hash: Hash, entries: Vec<(Entry, Tip)>) {
        self.election_timer.reset(now, &self.config);
        if let Some(pending) = self.in_flight.pop_committed(last_hash) {
            self.committed(at, pending);
            return;
        }
        let candidate = entries.first().and_then(|(entry, _)| candidate_of(entry));
        let target = entries.last().and_then(|(entry, _)| transfer_target(entry));
        for (entry, tip) in entries {
            assert!(entry.kind != Kind::NewEpoch || candidate.is_some(), "a new epoch names its candidate");
            self.events.push(ReplicaEvent::Applied { at, entry, tip });
        }
        if let Some(candidate) = candidate {
            self.epoch_began(now, candidate);
        } else if self.log_state.leader() != Some(self.me) && !matches!(self.role, Role::Follower) {
            // There is another leader after all.
            self.role = Role::Follower;
        }
        self.campaign_if_named(now, target);
    }

    fn committed(&mut self, at: Position, pending: PendingAppend) {
        let PendingAppend { ticket, after: tip, reads, proposed, started, .. } = pending;
        assert!(tip == *self.log_state.tip(), "an append is committed when it has been read");
        self.extend_lease(started);
        if proposed {
            self.events.push(ReplicaEvent::Committed { ticket, at, tip });
        }
        if !reads.is_empty() {
            self.events.push(ReplicaEvent::ReadIndex { reads, index: LogIndex { position: at, tip } });
        }
        self.finish_transfer(ticket);
    }

    /// A new-epoch entry was accepted. Everything in flight is decided: what was not read before it
    /// is dropped.
    fn epoch_began(&mut self, now: Duration, leader: ReplicaId) {
        let mut reads = Vec::new();
        self.transfer = None;
        self.end_lease();
        for pending in self.in_flight.drain() {
            reads.extend(pending.reads);
            if pending.proposed {
                self.events.push(ReplicaEvent::Dropped { ticket: pending.ticket });
            }
        }
        assert!(self.log_state.leader() == Some(leader), "the leader is the one that the log names");
        assert!(self.in_flight.is_empty(), "a new epoch decides everything in flight");
        let tip = *self.log_state.tip();
        if leader == self.me {
            // These reads have waited since before the election. The next barrier serves them.
            self.reads.append(&mut reads);
            self.role = Role::Leader;
            self.last_append = now;
            self.events.push(ReplicaEvent::Leading { epoch: tip.epoch, tip });
            return;
        }
        reads.append(&mut self.reads);
        if !reads.is_empty() {
            self.events.push(ReplicaEvent::ReadIndexLost { reads });
        }
        self.role = Role::Follower;
        self.events.push(ReplicaEvent::Following { epoch: tip.epoch, leader });
    }

    fn at_end(&mut self, now: Duration, end: Position) {
        // The page may hold more than the log did when the read was requested.
        self.caught_up |= self.verified && end <= self.log_state.position();
        if end < self.log_state.position() {
            self.seems_short(now, end);
        } else {
            self.short = None;
        }
        self.campaign_at_end(now, end);
    }

    /// One answer may be late, and time passes for a suspended process: only several in a row over
    /// a while are reported.
    fn seems_short(&mut self, now: Duration, end: Position) {
        let short = self.short.get_or_insert(ShortLog { since: now, answers: 0, reported: false });
        short.answers += 1;
        let is_late = now >= short.since + self.config.short_log_timeout;
        if !short.reported && short.answers >= SHORT_ANSWERS && is_late {
            short.reported = true;
            self.events.push(ReplicaEvent::Suspect { read: self.log_state.position(), end });
        }
    }

    /// Requests what lies behind the last record read, and that record once more: if it is another
    /// one now, the log has lost the first. After a reconnect a few records before it as well: a
    /// log that lost them all may hold the last one again, from a duplicate that arrived late.
    pub(crate) fn request_read(&mut self, now: Duration) {
        self.reading = Some(now);
        self.poll_at = now + self.config.poll_interval;
        let back = if self.verified { 1 } else { VERIFIED_RECORDS };
        let after = Position(self.log_state.position().0.saturating_sub(back));
        self.commands.push(Command::Read { after });
    }
}
