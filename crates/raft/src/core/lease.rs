//! Lease: for a short time after a majority answered a heartbeat, the leader knows without asking
//! that it was not replaced.
//!
//! A member that heard a leader's heartbeat gives no vote for an election timeout by its own clock,
//! and starts with such a timeout, since it does not remember what it heard before. So a member
//! that is elected later has the vote of a member that answered the heartbeat and waited since. The
//! lease counts from when the heartbeat was *sent* and is a third of that time: it holds while no
//! clock runs more than twice as fast as another, whatever time they show.
//!
//! The target of a leadership transfer waits for nothing, and the message that tells it to campaign
//! may arrive at any later time. A leader that began a transfer has no lease until another epoch.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use vetch_base::Epoch;
use vetch_cluster::Lease;
use vetch_seeded_bugs::Bug;

use super::Core;

/// Heartbeats that may still be answered.
const BEATS_MAX: usize = 64;

/// Heartbeats that were sent, and the newest that each member answered.
#[derive(Default)]
pub(super) struct Beats {
    number: u64,
    /// With the time they were sent.
    started: VecDeque<(u64, Duration)>,
    answered: BTreeMap<u64, Duration>,
    /// The epoch in which there is no lease any more.
    ended: Epoch,
}

impl Beats {
    pub(super) fn start(&mut self, now: Duration) -> u64 {
        self.number += 1;
        self.started.push_back((self.number, now));
        if self.started.len() > BEATS_MAX {
            self.started.pop_front();
        }
        self.number
    }

    pub(super) fn answered(&mut self, member: u64, number: u64) {
        if let Some((_, started)) = self.started.iter().find(|(started, _)| *started == number) {
            let newest = self.answered.entry(member).or_default();
            *newest = (*newest).max(*started);
        }
    }

    pub(super) fn clear(&mut self) {
        self.started.clear();
        self.answered.clear();
    }

    pub(super) fn end_lease(&mut self, epoch: Epoch) {
        self.ended = epoch;
    }
}

impl Core {
    /// The lease of a leader. If the time is below `until`, `index` is the newest state.
    pub fn lease(&self) -> Option<Lease> {
        let may_lease = self.is_leader() && self.beats.ended != self.term();
        if !may_lease || self.config.lease_duration.is_zero() {
            return None;
        }
        let outstays = if vetch_seeded_bugs::on(Bug::LeaseTooLong) { 8 } else { 1 };
        let until = self.confirmed_at()? + self.config.lease_duration * outstays;
        Some(Lease { index: self.index_at(self.committed()), until })
    }

    /// Whether reads can be answered without asking.
    pub fn has_lease(&self, now: Duration) -> bool {
        self.lease().is_some_and(|lease| now < lease.until)
    }

    /// When the last heartbeat was sent that a majority of today's voters answered.
    fn confirmed_at(&self) -> Option<Duration> {
        let counted = |member: &&u64| {
            vetch_seeded_bugs::on(Bug::LearnersConfirm) || self.members.voters().contains(member)
        };
        let answered =
            self.beats.answered.iter().filter(|(member, _)| **member != self.me && counted(member));
        let mut times: Vec<Duration> = answered.map(|(_, time)| *time).collect();
        times.sort_unstable_by(|one, other| other.cmp(one));
        let others = self.members.voters().len() / 2;
        match others {
            // No other member votes.
            0 => Some(self.now),
            others => times.get(others - 1).copied(),
        }
    }
}
