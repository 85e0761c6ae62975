//! Campaign: how a candidate becomes leader. Read to the end of the log, append a new-epoch entry
//! behind it, read through that entry.
//!
//! Whether a campaign succeeded is never concluded from the outcome of its append: it is read, like
//! everything else. So a new-epoch entry of unknown outcome may be followed by another one, and the
//! first in the log is accepted. One that is stored long after its candidate went back to following
//! still makes that replica the leader.

use std::time::Duration;

use bytes::Bytes;
use vetch_journal::{Hash, Position};
use vetch_seeded_bugs::Bug;

use super::event::{Command, ReplicaEvent};
use super::record;
use super::replica::Replica;
use super::role::{Campaign, Role};
use crate::log::Ticket;

impl Replica {
    /// Campaigns without waiting for the election timeout: for the replica that a leadership
    /// transfer names. A leader that was not consulted may still have a lease.
    pub fn campaign(&mut self, now: Duration) {
        if !self.is_stopped() && matches!(self.role, Role::Follower) {
            self.begin_campaign(now);
        }
    }

    pub(crate) fn begin_campaign(&mut self, now: Duration) {
        self.role = Role::Candidate(Campaign::CatchingUp);
        self.request_read(now);
    }

    /// The outcome of an own append is not as expected. Only a new epoch of its own decides what
    /// became of it.
    pub(crate) fn recover(&mut self, now: Duration) {
        if vetch_seeded_bugs::on(Bug::UnknownDropped) {
            for pending in self.in_flight.drain() {
                self.events.push(ReplicaEvent::Dropped { ticket: pending.ticket });
            }
            return;
        }
        self.in_flight.discard_positions();
        self.begin_campaign(now);
    }

    pub(crate) fn is_campaign_append(&self, ticket: Ticket) -> bool {
        matches!(&self.role, Role::Candidate(Campaign::Appended { ticket: own, .. }) if *own == ticket)
    }

    pub(crate) fn is_own_new_epoch(&self, last_hash: Hash) -> bool {
        matches!(&self.role, Role::Candidate(Campaign::Appended { last_hash: own, .. }) if *own == last_hash)
    }

    /// The bytes of the new-epoch entry that was appended with this ticket.
    pub(crate) fn campaign_record(&self, ticket: Ticket) -> Option<Bytes> {
        match &self.role {
            Role::Candidate(Campaign::Appended { ticket: own, record, .. }) if *own == ticket => {
                Some(record.clone())
            }
            _ => None,
        }
    }

    pub(crate) fn campaign_failed(&mut self, now: Duration) {
        let until = self.election_timer.retry_at(now, &self.config);
        self.role = Role::Candidate(Campaign::BackingOff { until });
    }

    pub(crate) fn tick_candidate(&mut self, now: Duration, reread: bool) {
        let Role::Candidate(campaign) = &self.role else { return };
        match campaign {
            Campaign::BackingOff { until } if now >= *until => self.begin_campaign(now),
            Campaign::Appended { since, .. } if now >= *since + self.config.append_timeout => {
                self.campaign_failed(now)
            }
            // The answer that reached the end may have been rejected as unverified. Nothing else
            // repeats the read then.
            Campaign::CatchingUp if self.reading.is_none() && now >= self.poll_at => self.request_read(now),
            Campaign::CatchingUp | Campaign::Appended { .. } if reread => self.request_read(now),
            _ => {}
        }
    }

    /// Everything up to `end` was read. Appends the new-epoch entry, unless the log has grown or is
    /// shorter than what was read.
    pub(crate) fn campaign_at_end(&mut self, now: Duration, end: Position) {
        if !matches!(self.role, Role::Candidate(Campaign::CatchingUp)) {
            return;
        }
        let read = self.log_state.position();
        if end > read {
            self.request_read(now);
        } else if end == read {
            self.append_new_epoch(now);
        } else {
            self.campaign_failed(now);
        }
    }

    fn append_new_epoch(&mut self, now: Duration) {
        let entry = record::new_epoch(self.me, *self.log_state.tip());
        let (ticket, record) = (self.next_ticket(), record::join(std::slice::from_ref(&entry)));
        let (last_hash, after) = (entry.after().hash, self.log_state.position());
        self.commands.push(Command::Append { ticket, after, record: record.clone() });
        self.role = Role::Candidate(Campaign::Appended { ticket, record, last_hash, since: now });
    }
}
