//! Clock: when each lease runs out.
//!
//! Pure: time is a number the caller passes in, milliseconds since the node started. A renewal only moves a
//! number here; what survives a restart is the lease itself and, if that was written down, how much time it had
//! left. So that after a restart no lease ends early, a renewal of a lease with such a record must first take
//! the record back: [`Renewal::MustRecord`].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// How long after its end was asked for a lease that is still there comes up again, in milliseconds.
const END_AGAIN: u64 = 5_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Timer {
    /// Which lease of that id it is.
    grant: u64,
    ttl: i64,
    deadline: u64,
    /// The deadline under which it stands in the queue.
    queued: u64,
    /// What a restart would give the lease back, in seconds.
    recorded: i64,
    /// A revoke is on its way.
    ending: bool,
}

/// A lease's time left, about to be written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recording {
    pub(crate) id: i64,
    pub(crate) grant: u64,
    pub(crate) left: i64,
    before: i64,
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
        grant: u64,
    },
    /// The time is over; the lease ends as soon as its revoke is durable.
    Ended {
        grant: u64,
    },
    Unknown,
}

#[derive(Debug, Default)]
pub(crate) struct Clock {
    timers: HashMap<i64, Timer>,
    /// Deadlines, earliest first. An entry that is not the timer's `queued` belongs to a lease that is gone.
    queue: BinaryHeap<Reverse<(u64, i64)>>,
    /// How many of the timers are `ending`.
    ending: usize,
}

impl Clock {
    pub(crate) fn start(&mut self, id: i64, grant: u64, ttl: i64, remaining: i64, now: u64) {
        let deadline = after(now, remaining);
        let timer = Timer { grant, ttl, deadline, queued: deadline, recorded: remaining, ending: false };
        let before = self.timers.insert(id, timer);
        self.ending -= usize::from(before.is_some_and(|timer| timer.ending));
        self.queue.push(Reverse((deadline, id)));
    }

    pub(crate) fn stop(&mut self, id: i64) {
        let timer = self.timers.remove(&id);
        self.ending -= usize::from(timer.is_some_and(|timer| timer.ending));
    }

    /// Every lease has from now on what `remaining` says, in seconds, or its full time.
    pub(crate) fn restart(&mut self, remaining: &HashMap<i64, i64>, now: u64) {
        self.queue.clear();
        self.ending = 0;
        for (&id, timer) in &mut self.timers {
            let left = remaining.get(&id).map_or(timer.ttl, |&left| left.clamp(1, timer.ttl.max(1)));
            timer.deadline = after(now, left);
            timer.queued = timer.deadline;
            timer.ending = false;
            self.queue.push(Reverse((timer.deadline, id)));
        }
    }

    pub(crate) fn renew(&mut self, id: i64, now: u64) -> Renewal {
        let Some(timer) = self.timers.get_mut(&id) else { return Renewal::Unknown };
        if timer.ending || timer.deadline <= now {
            return Renewal::Ended { grant: timer.grant };
        }
        if timer.recorded < timer.ttl {
            return Renewal::MustRecord { grant: timer.grant };
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

    /// Up to `max` leases whose time is over, each with its grant. One that is still there a while later is named again.
    pub(crate) fn expire(&mut self, now: u64, max: usize) -> Vec<(i64, u64)> {
        let mut expired = Vec::new();
        while expired.len() < max {
            let Some(&Reverse((deadline, id))) = self.queue.peek() else { break };
            if deadline > now {
                break;
            }
            self.queue.pop();
            let Some(timer) = self.timers.get_mut(&id).filter(|timer| timer.queued == deadline) else {
                continue;
            };
            if timer.deadline > now {
                timer.queued = timer.deadline;
                self.queue.push(Reverse((timer.deadline, id)));
            } else {
                self.ending += usize::from(!timer.ending);
                timer.ending = true;
                expired.push((id, timer.grant));
                // It comes up again until it is gone, because its end may be refused, as by an alarm or a full disk.
                timer.queued = now.saturating_add(END_AGAIN);
                self.queue.push(Reverse((timer.queued, id)));
            }
        }
        expired
    }

    /// A revoke could not be handed in; the lease comes up again.
    pub(crate) fn revoke_failed(&mut self, id: i64) {
        if let Some(timer) = self.timers.get_mut(&id) {
            self.ending -= usize::from(timer.ending);
            timer.ending = false;
            timer.queued = timer.deadline;
            self.queue.push(Reverse((timer.deadline, id)));
        }
    }

    /// Up to `max` leases granted at least `min_ttl` seconds that have clearly less left than is on record.
    ///
    /// They count as recorded at once: a renewal that comes now must queue up behind the record that is about to be
    /// journalled, or the record would take back what the renewal promised. [`Clock::not_recorded`] undoes it.
    pub(crate) fn begin_recording(
        &mut self,
        now: u64,
        min_ttl: i64,
        slack: i64,
        max: usize,
    ) -> Vec<Recording> {
        let mut leases = Vec::new();
        for (&id, timer) in &self.timers {
            let left = seconds_up(timer.deadline.saturating_sub(now));
            let is_due = !timer.ending && timer.ttl >= min_ttl && left > 0 && left + slack <= timer.recorded;
            if is_due {
                leases.push(Recording { id, grant: timer.grant, left, before: timer.recorded });
            }
        }
        // The lowest ids, whatever order the table has them in.
        if leases.len() > max {
            leases.select_nth_unstable_by_key(max, |recording| recording.id);
            leases.truncate(max);
        }
        leases.sort_unstable_by_key(|recording| recording.id);
        for recording in &leases {
            self.timers.get_mut(&recording.id).expect("it was just seen").recorded = recording.left;
        }
        leases
    }

    /// The records could not be handed in.
    pub(crate) fn not_recorded(&mut self, recordings: &[Recording]) {
        for recording in recordings {
            if let Some(timer) = self.timers.get_mut(&recording.id) {
                timer.recorded = recording.before;
            }
        }
    }

    /// Leases whose end was asked for and that are still there.
    pub(crate) fn ending(&self) -> usize {
        self.ending
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
        clock.start(7, 1, 10, 10, 0);
        assert_eq!(clock.renew(7, 9_000), Renewal::Renewed { ttl: 10 });
        assert_eq!(clock.expire(10_000, 9), []);
        assert_eq!(clock.remaining(7, 10_000), Some((9, 10)));
        assert_eq!(clock.ending(), 0);
        assert_eq!(clock.expire(19_000, 9), [(7, 1)]);
        assert_eq!(clock.ending(), 1);
        assert_eq!(clock.expire(23_999, 9), [], "its end is under way");
        assert_eq!(clock.expire(24_000, 9), [(7, 1)], "its end was refused, it seems");
        assert_eq!(clock.ending(), 1, "the same one");
        assert_eq!(clock.renew(7, 24_000), Renewal::Ended { grant: 1 });
        clock.revoke_failed(7);
        assert_eq!(clock.ending(), 0);
        assert_eq!(clock.expire(24_001, 9), [(7, 1)]);
        clock.start(7, 2, 10, 10, 24_001);
        assert_eq!(clock.ending(), 0, "granted again");
        assert_eq!(clock.expire(34_001, 9), [(7, 2)]);
        clock.stop(7);
        assert_eq!(clock.ending(), 0);
        assert_eq!(clock.renew(7, 34_002), Renewal::Unknown);
    }

    #[test]
    fn a_clock_that_is_restarted_forgets_what_ran_out_before() {
        let mut clock = Clock::default();
        clock.start(7, 1, 10, 10, 0);
        clock.start(8, 2, 10, 10, 0);
        clock.restart(&HashMap::from([(7, 3)]), 60_000);
        assert_eq!(clock.expire(62_999, 9), []);
        assert_eq!(clock.expire(63_000, 9), [(7, 1)]);
        assert_eq!(clock.renew(8, 69_999), Renewal::Renewed { ttl: 10 }, "it has its full time");
    }

    fn left(clock: &mut Clock, now: u64) -> Vec<(i64, i64)> {
        clock
            .begin_recording(now, 300, 5, 10)
            .iter()
            .map(|recording| (recording.id, recording.left))
            .collect()
    }

    #[test]
    fn a_record_that_was_not_handed_in_changes_nothing() {
        let mut clock = Clock::default();
        clock.start(7, 1, 600, 600, 0);
        let recordings = clock.begin_recording(100_000, 300, 5, 10);
        assert_eq!(clock.renew(7, 100_000), Renewal::MustRecord { grant: 1 }, "the record may be on its way");
        clock.not_recorded(&recordings);
        assert_eq!(clock.renew(7, 100_000), Renewal::Renewed { ttl: 600 });
    }

    #[test]
    fn a_lease_granted_again_is_not_ended_by_its_predecessor() {
        let mut clock = Clock::default();
        clock.start(7, 1, 10, 10, 0);
        clock.stop(7);
        clock.start(7, 2, 100, 100, 5_000);
        assert_eq!(clock.expire(50_000, 9), []);
        assert_eq!(clock.queue.len(), 1);
        assert_eq!(clock.expire(105_000, 9), [(7, 2)]);
    }

    #[test]
    fn a_recorded_lease_is_renewed_only_through_the_journal() {
        let mut clock = Clock::default();
        clock.start(7, 1, 600, 600, 0);
        assert_eq!(left(&mut clock, 100_000), [(7, 500)]);
        assert_eq!(left(&mut clock, 103_000), []);
        assert_eq!(clock.renew(7, 110_000), Renewal::MustRecord { grant: 1 });
        clock.recorded(7, 0);
        assert_eq!(clock.renew(7, 110_000), Renewal::Renewed { ttl: 600 });
    }

    #[test]
    fn remaining_time_is_never_recorded_too_short() {
        let mut clock = Clock::default();
        clock.start(7, 1, 600, 600, 0);
        assert_eq!(left(&mut clock, 99_999), [(7, 501)]);
        clock.recorded(7, 0);
        assert_eq!(left(&mut clock, 100_001), [(7, 500)]);
    }

    #[test]
    fn expiry_is_bounded_and_ordered() {
        let mut clock = Clock::default();
        for id in 1..=5 {
            clock.start(id, 1, 10 - id, 10 - id, 0);
        }
        assert_eq!(clock.expire(20_000, 2), [(5, 1), (4, 1)]);
        assert_eq!(clock.expire(20_000, 9), [(3, 1), (2, 1), (1, 1)]);
    }
}
