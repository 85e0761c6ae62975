//! Lease: for a short time after a commit, the leader knows without asking the log that it has not
//! been replaced.
//!
//! A new-epoch entry is accepted only right behind the last committed entry, and its candidate
//! either waited for `election_timeout` after it read that entry, or is named in it. So once an
//! append of the leader is committed, no other campaign can succeed before `election_timeout` has
//! passed since the append was *started*, unless the append names a successor. A lease is a third
//! of that by default: it holds as long as no clock runs three times as fast as another, whatever
//! time they show. The leader gives it up before it names a successor.
//!
//! A lease says that no other server's entries are committed. It does not say which of the leader's
//! own are: other servers may have read an append in flight already, and may have answered reads
//! from it. So a read gets an index behind everything in flight, and gets it at once only if
//! nothing is in flight.

use std::time::Duration;

use vetch_seeded_bugs::Bug;

use super::event::{ReadId, ReplicaEvent};
use super::log_state::LogIndex;
use super::replica::Replica;

/// The leader's last committed index, and until when no other server can have written behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    pub index: LogIndex,
    pub until: Duration,
}

impl Replica {
    /// The lease of a leader that has nothing in flight. Borrow the lease before reading the clock:
    /// if the time is below `until`, `index` is the newest state.
    pub fn lease(&self) -> Option<Lease> {
        let is_idle = self.in_flight.is_empty() || vetch_seeded_bugs::on(Bug::LeaseOverlooksFlight);
        (is_idle && self.may_lease())
            .then(|| Lease { index: self.log_state.index(), until: self.lease_until })
    }

    /// Whether reads can be answered without asking the log.
    pub fn has_lease(&self, now: Duration) -> bool {
        self.may_lease() && now < self.lease_until
    }

    /// An append that was started at `started` is committed.
    pub(crate) fn extend_lease(&mut self, started: Duration) {
        if self.may_lease() {
            let outstays = if vetch_seeded_bugs::on(Bug::LeaseOutstays) { 8 } else { 1 };
            self.lease_until = self.lease_until.max(started + self.config.lease_duration * outstays);
        }
    }

    /// Another leader may be elected at any time.
    pub(crate) fn end_lease(&mut self) {
        self.lease_until = Duration::ZERO;
    }

    /// Serves a read by the lease: at once, or with the newest append in flight. Returns whether
    /// there is a lease.
    pub(crate) fn read_by_lease(&mut self, now: Duration, read: ReadId) -> bool {
        if !self.has_lease(now) {
            return false;
        }
        match self.lease() {
            Some(Lease { index, .. }) => {
                self.events.push(ReplicaEvent::ReadIndex { reads: vec![read], index })
            }
            None => self.in_flight.attach_to_last(read),
        }
        true
    }

    fn may_lease(&self) -> bool {
        self.is_leader() && self.transfer.is_none() && !self.config.lease_duration.is_zero()
    }
}
