//! Claiming: on the way to an epoch. Read to the end, append a claim behind it, read through the
//! claim.
//!
//! Whether a claim succeeded is never concluded from its outcome: it is read, like everything else.
//! So a claim whose outcome is unknown may be followed by another one, and whichever comes first
//! counts. One that lands when its author has long gone back to following makes it the writer all
//! the same.

use std::time::Duration;

use bytes::Bytes;
use vetch_journal::{Hash, Position};
use vetch_seeded_bugs::Bug;

use crate::log::Ticket;
use crate::member::{Command, Event, Member, Role};
use crate::record;

/// How far a claim has come.
pub(crate) enum Claim {
    /// What lies in the log is being read.
    Reading,
    /// The last one failed; the next begins with reading.
    Waiting { until: Duration },
    /// Appended, with an open outcome.
    Asked { ticket: Ticket, record: Bytes, print: Hash, since: Duration },
}

impl Member {
    /// Claims without waiting until the writer falls silent: for whoever it named. A writer that
    /// was not asked may still have a lease.
    pub fn claim_now(&mut self, now: Duration) {
        if !self.is_stopped() && matches!(self.role, Role::Following) {
            self.begin_claim(now);
        }
    }

    pub(crate) fn begin_claim(&mut self, now: Duration) {
        self.role = Role::Claiming(Claim::Reading);
        self.ask(now);
    }

    /// Something about an own append is not as it should be: only an epoch of its own tells what
    /// became of it.
    pub(crate) fn recover(&mut self, now: Duration) {
        if vetch_seeded_bugs::on(Bug::UnknownDropped) {
            for pending in self.flight.give_up() {
                self.events.push(Event::Void { ticket: pending.ticket });
            }
            return;
        }
        self.flight.forget_positions();
        self.begin_claim(now);
    }

    pub(crate) fn is_claim(&self, ticket: Ticket) -> bool {
        matches!(&self.role, Role::Claiming(Claim::Asked { ticket: asked, .. }) if *asked == ticket)
    }

    pub(crate) fn is_my_claim(&self, print: Hash) -> bool {
        matches!(&self.role, Role::Claiming(Claim::Asked { print: asked, .. }) if *asked == print)
    }

    /// The bytes of the claim with this ticket.
    pub(crate) fn claimed(&self, ticket: Ticket) -> Option<Bytes> {
        match &self.role {
            Role::Claiming(Claim::Asked { ticket: asked, record, .. }) if *asked == ticket => {
                Some(record.clone())
            }
            _ => None,
        }
    }

    pub(crate) fn claim_failed(&mut self, now: Duration) {
        let until = self.pulse.retry_at(now, &self.config);
        self.role = Role::Claiming(Claim::Waiting { until });
    }

    pub(crate) fn tick_claim(&mut self, now: Duration, reread: bool) {
        let Role::Claiming(claim) = &self.role else { return };
        match claim {
            Claim::Waiting { until } if now >= *until => self.begin_claim(now),
            Claim::Asked { since, .. } if now >= *since + self.config.append_timeout => {
                self.claim_failed(now)
            }
            // An answer that reached the end and could not be believed was none: nothing else would
            // ask again.
            Claim::Reading if self.reading.is_none() && now >= self.poll_at => self.ask(now),
            Claim::Reading | Claim::Asked { .. } if reread => self.ask(now),
            _ => {}
        }
    }

    /// All there is has been read: the moment to claim, unless the log is shorter than it was.
    pub(crate) fn claim_at_end(&mut self, now: Duration, end: Position) {
        if !matches!(self.role, Role::Claiming(Claim::Reading)) {
            return;
        }
        let read = self.view.position();
        if end > read {
            self.ask(now);
        } else if end == read {
            self.append_claim(now);
        } else {
            self.claim_failed(now);
        }
    }

    fn append_claim(&mut self, now: Duration) {
        let claim = record::claim(self.me, *self.view.tip());
        let (ticket, record) = (self.ticket(), record::join(std::slice::from_ref(&claim)));
        let (print, after) = (claim.after().hash, self.view.position());
        self.commands.push(Command::Append { ticket, after, record: record.clone() });
        self.role = Role::Claiming(Claim::Asked { ticket, record, print, since: now });
    }
}
