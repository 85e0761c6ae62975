//! Clock: when each lease runs out.
//!
//! Pure: time is a number the caller passes in, milliseconds since the node started. A renewal only moves a
//! number here; what survives a restart is the lease itself and, if that was written down, how much time it had
//! left. So that after a restart no lease ends early, a renewal of a lease with such a record must first take
//! the record back: [`Renewal::MustRecord`].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Timer {
    ttl: i64,
    deadline: u64,
    /// What a restart would give the lease back, in seconds.
    recorded: i64,
    /// A revoke is on its way.
    ending: bool,
}

/// The outcome of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// The lease has its full time again.
    Renewed {
        ttl: i64,
    },
    /// Renewed, once the journal says that a restart must give the full time again.
    MustRecord {
        ttl: i64,
    },
    /// The time is over; the lease ends as soon as its revoke is durable.
    Ended,
    Unknown,
}

#[derive(Debug, Default)]
pub(crate) struct Clock {
    timers: HashMap<i64, Timer>,
    /// Deadlines, earliest first. An entry whose deadline is no longer the timer's is stale.
    queue: BinaryHeap<Reverse<(u64, i64)>>,
}

impl Clock {
    pub(crate) fn start(&mut self, id: i64, ttl: i64, remaining: i64, now: u64) {
        let deadline = after(now, remaining);
        self.timers.insert(id, Timer { ttl, deadline, recorded: remaining, ending: false });
        self.queue.push(Reverse((deadline, id)));
    }

    pub(crate) fn stop(&mut self, id: i64) {
        self.timers.remove(&id);
    }

    pub(crate) fn renew(&mut self, id: i64, now: u64) -> Renewal {
        let Some(timer) = self.timers.get_mut(&id) else { return Renewal::Unknown };
        if timer.ending || timer.deadline <= now {
            return Renewal::Ended;
        }
        if timer.recorded < timer.ttl {
            return Renewal::MustRecord { ttl: timer.ttl };
        }
        timer.deadline = after(now, timer.ttl);
        // The queue learns the new deadline when the old one comes up, so a renewal costs no reordering.
        Renewal::Renewed { ttl: timer.ttl }
    }

    /// The journal now says what a restart would give this lease.
    pub(crate) fn recorded(&mut self, id: i64, remaining: i64) {
        if let Some(timer) = self.timers.get_mut(&id) {
            timer.recorded = if remaining > 0 { remaining } else { timer.ttl };
        }
    }

    /// Seconds left, rounded down, and the granted time. Below zero once the deadline has passed.
    pub(crate) fn remaining(&self, id: i64, now: u64) -> Option<(i64, i64)> {
        let timer = self.timers.get(&id)?;
        let left = (i128::from(timer.deadline) - i128::from(now)).div_euclid(1000);
        Some((left as i64, timer.ttl))
    }

    /// Up to `max` leases whose time is over and that are not being revoked yet.
    pub(crate) fn expire(&mut self, now: u64, max: usize) -> Vec<i64> {
        let mut expired = Vec::new();
        while expired.len() < max {
            let Some(&Reverse((deadline, id))) = self.queue.peek() else { break };
            if deadline > now {
                break;
            }
            self.queue.pop();
            let Some(timer) = self.timers.get_mut(&id) else { continue };
            if timer.deadline > now {
                self.queue.push(Reverse((timer.deadline, id)));
            } else if !timer.ending {
                timer.ending = true;
                expired.push(id);
            }
        }
        expired
    }

    /// A revoke could not be handed in; the lease comes up again.
    pub(crate) fn revoke_failed(&mut self, id: i64) {
        if let Some(timer) = self.timers.get_mut(&id) {
            timer.ending = false;
            self.queue.push(Reverse((timer.deadline, id)));
        }
    }

    /// Leases granted at least `min_ttl` seconds that have clearly less left than is on record.
    pub(crate) fn to_record(&self, now: u64, min_ttl: i64, slack: i64) -> Vec<(i64, i64)> {
        let mut leases: Vec<(i64, i64)> = self
            .timers
            .iter()
            .filter(|(_, timer)| !timer.ending && timer.ttl >= min_ttl)
            .map(|(&id, timer)| (id, timer, seconds_up(timer.deadline.saturating_sub(now))))
            .filter(|&(_, timer, left)| left > 0 && left + slack <= timer.recorded)
            .map(|(id, _, left)| (id, left))
            .collect();
        leases.sort_unstable();
        leases
    }

    /// All leases, soonest to end first.
    pub(crate) fn by_deadline(&self) -> Vec<i64> {
        let mut ids: Vec<(u64, i64)> = self.timers.iter().map(|(&id, timer)| (timer.deadline, id)).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id).collect()
    }
}

fn after(now: u64, seconds: i64) -> u64 {
    now.saturating_add(u64::try_from(seconds).unwrap_or(0).saturating_mul(1000))
}

/// Rounded up, because a lease may come back late but never early.
fn seconds_up(millis: u64) -> i64 {
    i64::try_from(millis.div_ceil(1000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewed_lease_outlives_its_first_deadline() {
        let mut clock = Clock::default();
        clock.start(7, 10, 10, 0);
        assert_eq!(clock.renew(7, 9_000), Renewal::Renewed { ttl: 10 });
        assert_eq!(clock.expire(10_000, 9), []);
        assert_eq!(clock.remaining(7, 10_000), Some((9, 10)));
        assert_eq!(clock.expire(19_000, 9), [7]);
        assert_eq!(clock.expire(19_000, 9), [], "a lease is revoked once");
        assert_eq!(clock.renew(7, 19_000), Renewal::Ended);
        clock.revoke_failed(7);
        assert_eq!(clock.expire(19_001, 9), [7]);
        clock.stop(7);
        assert_eq!(clock.renew(7, 19_002), Renewal::Unknown);
    }

    #[test]
    fn a_recorded_lease_is_renewed_only_through_the_journal() {
        let mut clock = Clock::default();
        clock.start(7, 600, 600, 0);
        assert_eq!(clock.to_record(100_000, 300, 5), [(7, 500)]);
        clock.recorded(7, 500);
        assert_eq!(clock.to_record(103_000, 300, 5), []);
        assert_eq!(clock.renew(7, 110_000), Renewal::MustRecord { ttl: 600 });
        clock.recorded(7, 0);
        assert_eq!(clock.renew(7, 110_000), Renewal::Renewed { ttl: 600 });
    }

    #[test]
    fn remaining_time_is_never_recorded_too_short() {
        let mut clock = Clock::default();
        clock.start(7, 600, 600, 0);
        assert_eq!(clock.to_record(100_001, 300, 5), [(7, 500)]);
        assert_eq!(clock.to_record(99_999, 300, 5), [(7, 501)]);
    }

    #[test]
    fn expiry_is_bounded_and_ordered() {
        let mut clock = Clock::default();
        for id in 1..=5 {
            clock.start(id, 10 - id, 10 - id, 0);
        }
        assert_eq!(clock.expire(20_000, 2), [5, 4]);
        assert_eq!(clock.expire(20_000, 9), [3, 2, 1]);
    }
}
