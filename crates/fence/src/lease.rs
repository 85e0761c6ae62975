//! Lease: for a short while after a commit, a writer knows without asking the log that nobody has
//! taken its place.
//!
//! A claim counts only right behind the last entry that counts, and whoever makes it has read that
//! entry and then waited for `election`, or is named in it. So once an append of a writer's counts,
//! no claim of another's can count before `election` has passed since the append was *started*,
//! unless the append names a successor. A lease is a third of that by default: it holds as long as
//! no clock runs three times as fast as another, whatever time they show. It is given up before a
//! successor is named.
//!
//! A lease says that nobody else's entries count. It does not say which of one's own do: an append
//! under way may have been read by other servers already, and reads there may have told of it. So a
//! read that comes meanwhile gets its index behind everything that is under way, and at once only
//! if nothing is.

use std::time::Duration;

use vetch_seeded_bugs::Bug;

use crate::member::{Event, Member, ReadId};
use crate::view::Index;

/// Where a writer is, and until when it is certain that nobody has written behind that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    pub index: Index,
    pub until: Duration,
}

impl Member {
    /// The lease of a writer that has nothing under way. Whoever looks at the time after he has
    /// looked here, and finds it below `until`, has seen the newest state there is.
    pub fn lease(&self) -> Option<Lease> {
        let is_idle = self.flight.is_empty() || vetch_seeded_bugs::on(Bug::LeaseOverlooksFlight);
        (is_idle && self.may_lease()).then(|| Lease { index: self.view.index(), until: self.leased })
    }

    /// Whether reads need not ask the log now.
    pub fn is_leased(&self, now: Duration) -> bool {
        self.may_lease() && now < self.leased
    }

    /// An append that was started then counts.
    pub(crate) fn extend_lease(&mut self, started: Duration) {
        if self.may_lease() {
            let outstays = if vetch_seeded_bugs::on(Bug::LeaseOutstays) { 8 } else { 1 };
            self.leased = self.leased.max(started + self.config.lease * outstays);
        }
    }

    /// Another writer may come at any time.
    pub(crate) fn end_lease(&mut self) {
        self.leased = Duration::ZERO;
    }

    /// Whether a read got its index, or a place behind what is under way, by the lease.
    pub(crate) fn read_by_lease(&mut self, now: Duration, read: ReadId) -> bool {
        if !self.is_leased(now) {
            return false;
        }
        match self.lease() {
            Some(Lease { index, .. }) => self.events.push(Event::Index { reads: vec![read], index }),
            None => self.flight.attach_to_last(read),
        }
        true
    }

    fn may_lease(&self) -> bool {
        self.is_leading() && self.handing.is_none() && !self.config.lease.is_zero()
    }
}
