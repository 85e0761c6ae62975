//! Clock: when each lease runs out.
//!
//! Pure: time is a number the caller passes in, milliseconds since the node started. A renewal only
//! moves a number here; what survives a restart is the lease itself and, if that was written down,
//! how much time it had left. So that after a restart no lease ends early, a renewal of a lease
//! with such a record must first take the record back: [`Renewal::MustRecord`].

use std::collections::{BTreeMap, BTreeSet, HashMap};

use vetch_store::blocks::Blocks;

/// How long after its end was asked for a lease that is still there comes up again, in
/// milliseconds.
const END_AGAIN: u64 = 5_000;

/// Leases that are looked at in one turn, of recording or of listing them.
pub(crate) const LOOKED_AT: usize = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Timer {
    /// Which lease of that id it is.
    grant: u64,
    ttl: i64,
    deadline: u64,
    /// The deadline under which it stands in the queue.
    queued: u64,
    /// What a restart would give the lease back, in seconds, once all recordings begun are durable.
    recorded: i64,
    /// Recordings begun so far.
    recordings: u64,
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
        /// The last recording begun by now; see [`Clock::taken_back`].
        recording: u64,
    },
    /// The time is over; the lease ends as soon as its revoke is durable.
    Ended {
        grant: u64,
    },
    Unknown,
}

#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// By id, so that all of them can be looked at in turns.
    timers: BTreeMap<i64, Timer>,
    /// The `queued` deadline of every timer, earliest first, and nothing else: what is gone leaves
    /// nothing behind, however far its deadline lay ahead.
    queue: BTreeSet<(u64, i64)>,
    /// How many of the timers are `ending`.
    ending: usize,
    /// The ids of all timers: a list of one moment is a copy of this, which takes no time for each
    /// of them.
    ids: Blocks<i64>,
}

impl Clock {
    pub(crate) fn start(&mut self, id: i64, grant: u64, ttl: i64, remaining: i64, now: u64) {
        let deadline = after(now, remaining);
        let timer = Timer {
            grant,
            ttl,
            deadline,
            queued: deadline,
            recorded: remaining,
            recordings: 0,
            ending: false,
        };
        self.stop(id);
        self.timers.insert(id, timer);
        self.ids.set(id);
        self.queue.insert((deadline, id));
    }

    pub(crate) fn stop(&mut self, id: i64) {
        if let Some(timer) = self.timers.remove(&id) {
            self.ending -= usize::from(timer.ending);
            self.ids.remove(&id);
            assert!(self.queue.remove(&(timer.queued, id)), "every timer is in the queue");
        }
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
            self.queue.insert((timer.deadline, id));
        }
    }

    pub(crate) fn renew(&mut self, id: i64, now: u64) -> Renewal {
        let Some(timer) = self.timers.get_mut(&id) else { return Renewal::Unknown };
        if timer.ending || timer.deadline <= now {
            return Renewal::Ended { grant: timer.grant };
        }
        if timer.recorded < timer.ttl {
            return Renewal::MustRecord { grant: timer.grant, recording: timer.recordings };
        }
        timer.deadline = after(now, timer.ttl);
        // The queue learns the new deadline when the old one comes up, so a renewal costs no
        // reordering.
        Renewal::Renewed { ttl: timer.ttl }
    }

    /// The journal now says that a restart gives this lease its full time, as
    /// [`Renewal::MustRecord`] asked for. That holds only if no recording was begun since: it is
    /// queued behind, and says less again.
    pub(crate) fn taken_back(&mut self, id: i64, grant: u64, recording: u64) {
        if let Some(timer) = self.timers.get_mut(&id)
            && (timer.grant, timer.recordings) == (grant, recording)
        {
            timer.recorded = timer.ttl;
        }
    }

    /// Seconds left, rounded down, and the granted time. Below zero once the deadline has passed.
    pub(crate) fn remaining(&self, id: i64, now: u64) -> Option<(i64, i64)> {
        let timer = self.timers.get(&id)?;
        let left = (i128::from(timer.deadline) - i128::from(now)).div_euclid(1000);
        Some((left as i64, timer.ttl))
    }

    /// Up to `max` leases whose time is over, each with its grant. One that is still there a while
    /// later is named again.
    pub(crate) fn expire(&mut self, now: u64, max: usize) -> Vec<(i64, u64)> {
        let mut expired = Vec::new();
        while expired.len() < max {
            let Some(&(deadline, id)) = self.queue.first() else { break };
            if deadline > now {
                break;
            }
            self.queue.pop_first();
            let timer = self.timers.get_mut(&id).expect("the queue holds timers that are there");
            if timer.deadline > now {
                timer.queued = timer.deadline;
            } else {
                self.ending += usize::from(!timer.ending);
                timer.ending = true;
                expired.push((id, timer.grant));
                // It comes up again until it is gone, because its end may be refused, as by an
                // alarm or a full disk.
                timer.queued = now.saturating_add(END_AGAIN);
            }
            self.queue.insert((timer.queued, id));
        }
        expired
    }

    /// A revoke could not be handed in; the lease comes up again.
    pub(crate) fn revoke_failed(&mut self, id: i64) {
        if let Some(timer) = self.timers.get_mut(&id) {
            self.ending -= usize::from(timer.ending);
            timer.ending = false;
            self.queue.remove(&(timer.queued, id));
            timer.queued = timer.deadline;
            self.queue.insert((timer.queued, id));
        }
    }

    /// Up to `max` leases, with ids from `from` on, granted at least `min_ttl` seconds that have
    /// clearly less left than is on record; and where to go on. No more than [`LOOKED_AT`] are
    /// looked at.
    ///
    /// They count as recorded at once: a renewal that comes now must queue up behind the record
    /// that is about to be journalled, or the record would take back what the renewal promised.
    /// [`Clock::not_recorded`] undoes it.
    pub(crate) fn begin_recording(
        &mut self,
        from: i64,
        now: u64,
        min_ttl: i64,
        slack: i64,
        max: usize,
    ) -> (Vec<Recording>, Option<i64>) {
        let mut leases = Vec::new();
        for (seen, (&id, timer)) in self.timers.range_mut(from..).enumerate() {
            if leases.len() >= max || seen >= LOOKED_AT {
                return (leases, Some(id));
            }
            let left = seconds_up(timer.deadline.saturating_sub(now));
            let is_due = !timer.ending && timer.ttl >= min_ttl && left > 0 && left + slack <= timer.recorded;
            if is_due {
                leases.push(Recording { id, grant: timer.grant, left, before: timer.recorded });
                timer.recorded = left;
                timer.recordings += 1;
            }
        }
        (leases, None)
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

    /// All leases, by id.
    pub(crate) fn ids(&self) -> Blocks<i64> {
        self.ids.clone()
    }

    /// When a lease ends, unless it is renewed; the beginning of time if it has ended.
    pub(crate) fn deadline(&self, id: i64) -> u64 {
        self.timers.get(&id).map_or(0, |timer| timer.deadline)
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
            .begin_recording(i64::MIN, now, 300, 5, 10)
            .0
            .iter()
            .map(|recording| (recording.id, recording.left))
            .collect()
    }

    #[test]
    fn a_record_that_was_not_handed_in_changes_nothing() {
        let mut clock = Clock::default();
        clock.start(7, 1, 600, 600, 0);
        let recordings = clock.begin_recording(i64::MIN, 100_000, 300, 5, 10).0;
        assert_eq!(
            clock.renew(7, 100_000),
            Renewal::MustRecord { grant: 1, recording: 1 },
            "the record may be on its way"
        );
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
        assert_eq!(clock.renew(7, 110_000), Renewal::MustRecord { grant: 1, recording: 1 });
        clock.taken_back(7, 1, 1);
        assert_eq!(clock.renew(7, 110_000), Renewal::Renewed { ttl: 600 });
    }

    #[test]
    fn a_record_begun_behind_a_renewal_is_taken_back_by_the_next() {
        let mut clock = Clock::default();
        clock.start(7, 1, 600, 600, 0);
        assert_eq!(left(&mut clock, 100_000), [(7, 500)]);
        assert_eq!(clock.renew(7, 100_000), Renewal::MustRecord { grant: 1, recording: 1 });
        assert_eq!(left(&mut clock, 110_000), [(7, 490)], "queued behind what the renewal journals");
        clock.taken_back(7, 1, 1);
        assert_eq!(clock.renew(7, 110_000), Renewal::MustRecord { grant: 1, recording: 2 });
        clock.taken_back(7, 2, 2);
        assert_eq!(
            clock.renew(7, 110_000),
            Renewal::MustRecord { grant: 1, recording: 2 },
            "not by another lease of its id"
        );
        clock.taken_back(7, 1, 2);
        assert_eq!(clock.renew(7, 110_000), Renewal::Renewed { ttl: 600 });
    }

    #[test]
    fn remaining_time_is_never_recorded_too_short() {
        let mut clock = Clock::default();
        clock.start(7, 1, 600, 600, 0);
        assert_eq!(left(&mut clock, 99_999), [(7, 501)]);
        clock.taken_back(7, 1, 1);
        assert_eq!(left(&mut clock, 100_001), [(7, 500)]);
    }

    #[test]
    fn a_lease_that_is_gone_leaves_nothing_behind() {
        let mut clock = Clock::default();
        for round in 0..1_000 {
            clock.start(7, round, 9_000_000_000, 9_000_000_000, round);
            if round % 2 == 0 {
                clock.stop(7);
            }
        }
        clock.start(8, 1, 10, 10, 0);
        assert_eq!(clock.expire(20_000, 9), [(8, 1)]);
        clock.revoke_failed(8);
        clock.stop(8);
        clock.stop(7);
        assert_eq!((clock.timers.len(), clock.queue.len(), clock.ids.len()), (0, 0, 0));
    }

    #[test]
    fn leases_are_recorded_in_turns_that_look_at_each_of_them_once() {
        let mut clock = Clock::default();
        let many = 3 * LOOKED_AT as i64;
        for id in 1..=many {
            // Every second one is too short to be recorded.
            let ttl = if id % 2 == 0 { 600 } else { 60 };
            clock.start(id, 1, ttl, ttl, 0);
        }
        let (mut from, mut recorded, mut turns) = (Some(i64::MIN), Vec::new(), 0);
        while let Some(id) = from {
            let (recordings, next) = clock.begin_recording(id, 30_000, 300, 5, 1_000);
            assert!(recordings.len() <= 1_000);
            recorded.extend(recordings.iter().map(|recording| recording.id));
            from = next;
            turns += 1;
        }
        assert!(recorded.iter().copied().eq((1..=many / 2).map(|n| 2 * n)));
        assert!(turns <= 16, "{turns} turns");
    }

    #[test]
    fn a_list_of_leases_stays_as_it_was_when_it_was_taken() {
        let mut clock = Clock::default();
        (1..=1000).for_each(|id| clock.start(id, 1, 10, id, 0));
        let ids = clock.ids();
        clock.stop(7);
        clock.start(5000, 1, 10, 10, 0);
        assert!(ids.iter().copied().eq(1..=1000));
        assert_eq!([7, 8, 5000].map(|id| clock.deadline(id)), [0, 8_000, 10_000]);
        assert!(clock.ids().iter().copied().eq((1..=6).chain(8..=1000).chain([5000])));
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
