//! Lessor: when each lease expires.
//!
//! Pure: the caller passes the time in, as milliseconds since the node started. A renewal only
//! moves a number here. What survives a restart is the lease itself and, if it was recorded, how
//! much time it had left. So that no lease ends early after a restart, the renewal of a lease with
//! such a record must first withdraw the record in the journal: [`Renewal::MustRecord`].

use std::collections::{BTreeMap, BTreeSet, HashMap};

use vetch_store::blocks::Blocks;

/// How long after the revoke of an expired lease it is revoked again if it is still there, in
/// milliseconds.
const REVOKE_RETRY_INTERVAL: u64 = 5_000;

/// Leases examined in one turn, when they are recorded or listed.
pub(crate) const SCANNED_PER_TURN_MAX: usize = 10_000;

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
    /// A revoke was submitted.
    revoking: bool,
}

/// The time left of a lease, about to be journalled.
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
        /// The last recording begun by now; see [`Lessor::record_withdrawn`].
        recording: u64,
    },
    /// The lease ends as soon as its revoke is durable.
    Expired {
        grant: u64,
    },
    Unknown,
}

#[derive(Debug, Default)]
pub(crate) struct Lessor {
    /// By id, so that all of them can be scanned in turns.
    timers: BTreeMap<i64, Timer>,
    /// The `queued` deadline of every timer, earliest first, and nothing else: a revoked lease
    /// leaves no entry, however far ahead its deadline was.
    queue: BTreeSet<(u64, i64)>,
    /// How many of the timers are `revoking`.
    revoking: usize,
    /// The ids of all timers. A list of them is a copy of this, which takes constant time.
    ids: Blocks<i64>,
}

impl Lessor {
    pub(crate) fn start(&mut self, id: i64, grant: u64, ttl: i64, remaining: i64, now: u64) {
        let deadline = after(now, remaining);
        let timer = Timer {
            grant,
            ttl,
            deadline,
            queued: deadline,
            recorded: remaining,
            recordings: 0,
            revoking: false,
        };
        self.stop(id);
        self.timers.insert(id, timer);
        self.ids.set(id);
        self.queue.insert((deadline, id));
        self.check();
    }

    pub(crate) fn stop(&mut self, id: i64) {
        if let Some(timer) = self.timers.remove(&id) {
            self.revoking -= usize::from(timer.revoking);
            self.ids.remove(&id);
            assert!(self.queue.remove(&(timer.queued, id)), "every timer is in the queue");
        }
        self.check();
    }

    fn check(&self) {
        assert!(self.queue.len() == self.timers.len(), "every timer is in the queue once");
        assert!(self.revoking <= self.timers.len(), "only leases that are there are being revoked");
    }

    /// Sets the time left of every lease to what `remaining` says, in seconds, or to its full TTL.
    pub(crate) fn restart(&mut self, remaining: &HashMap<i64, i64>, now: u64) {
        self.queue.clear();
        self.revoking = 0;
        for (&id, timer) in &mut self.timers {
            let left = remaining.get(&id).map_or(timer.ttl, |&left| left.clamp(1, timer.ttl.max(1)));
            timer.deadline = after(now, left);
            timer.queued = timer.deadline;
            timer.revoking = false;
            self.queue.insert((timer.deadline, id));
        }
        self.check();
    }

    pub(crate) fn renew(&mut self, id: i64, now: u64) -> Renewal {
        let Some(timer) = self.timers.get_mut(&id) else { return Renewal::Unknown };
        if timer.revoking || timer.deadline <= now {
            return Renewal::Expired { grant: timer.grant };
        }
        if timer.recorded < timer.ttl {
            return Renewal::MustRecord { grant: timer.grant, recording: timer.recordings };
        }
        timer.deadline = after(now, timer.ttl);
        // The queue keeps the old deadline until it comes up, so a renewal costs no reordering.
        Renewal::Renewed { ttl: timer.ttl }
    }

    /// The journal now says that a restart gives this lease its full time, as
    /// [`Renewal::MustRecord`] required. Ignored if a recording was begun since: that one is queued
    /// behind it, and says less again.
    pub(crate) fn record_withdrawn(&mut self, id: i64, grant: u64, recording: u64) {
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

    /// Up to `max` expired leases, each with its grant. One that is still there after
    /// [`REVOKE_RETRY_INTERVAL`] is returned again.
    pub(crate) fn expire(&mut self, now: u64, max: usize) -> Vec<(i64, u64)> {
        let mut expired = Vec::new();
        while expired.len() < max {
            let Some(&(deadline, id)) = self.queue.first() else { break };
            if deadline > now {
                break;
            }
            self.queue.pop_first();
            let timer = self.timers.get_mut(&id).expect("the queue holds timers that are there");
            assert!(
                timer.queued <= timer.deadline || timer.revoking,
                "no lease is examined later than its deadline"
            );
            if timer.deadline > now {
                timer.queued = timer.deadline;
            } else {
                self.revoking += usize::from(!timer.revoking);
                timer.revoking = true;
                expired.push((id, timer.grant));
                // It comes up again until it is gone, because its revoke may be refused by an alarm
                // or a full disk.
                timer.queued = now.saturating_add(REVOKE_RETRY_INTERVAL);
            }
            self.queue.insert((timer.queued, id));
        }
        self.check();
        expired
    }

    /// A revoke could not be queued; the lease comes up again.
    pub(crate) fn revoke_failed(&mut self, id: i64) {
        if let Some(timer) = self.timers.get_mut(&id) {
            self.revoking -= usize::from(timer.revoking);
            timer.revoking = false;
            self.queue.remove(&(timer.queued, id));
            timer.queued = timer.deadline;
            self.queue.insert((timer.queued, id));
        }
    }

    /// Up to `max` leases, with ids from `from` on, granted at least `min_ttl` seconds that have
    /// clearly less left than is on record; and where to go on. No more than
    /// [`SCANNED_PER_TURN_MAX`] are examined.
    ///
    /// They count as recorded at once: a renewal that comes now must queue up behind the record
    /// that is about to be journalled, or the record would undo what the renewal promised.
    /// [`Lessor::recording_failed`] undoes it.
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
            if leases.len() >= max || seen >= SCANNED_PER_TURN_MAX {
                return (leases, Some(id));
            }
            let left = seconds_up(timer.deadline.saturating_sub(now));
            let is_due =
                !timer.revoking && timer.ttl >= min_ttl && left > 0 && left + slack <= timer.recorded;
            if is_due {
                leases.push(Recording { id, grant: timer.grant, left, before: timer.recorded });
                timer.recorded = left;
                timer.recordings += 1;
            }
        }
        (leases, None)
    }

    /// The records could not be queued.
    pub(crate) fn recording_failed(&mut self, recordings: &[Recording]) {
        for recording in recordings {
            if let Some(timer) = self.timers.get_mut(&recording.id) {
                timer.recorded = recording.before;
            }
        }
    }

    /// Leases whose revoke was submitted and that are still there.
    pub(crate) fn revoking(&self) -> usize {
        self.revoking
    }

    /// All leases, by id.
    pub(crate) fn ids(&self) -> Blocks<i64> {
        self.ids.clone()
    }

    /// When a lease expires unless it is renewed; 0 if there is none.
    pub(crate) fn deadline(&self, id: i64) -> u64 {
        self.timers.get(&id).map_or(0, |timer| timer.deadline)
    }
}

fn after(now: u64, seconds: i64) -> u64 {
    now.saturating_add(u64::try_from(seconds).unwrap_or(0).saturating_mul(1000))
}

/// Rounded up: a lease may expire late but never early.
fn seconds_up(millis: u64) -> i64 {
    i64::try_from(millis.div_ceil(1000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewed_lease_outlives_its_first_deadline() {
        let mut lessor = Lessor::default();
        lessor.start(7, 1, 10, 10, 0);
        assert_eq!(lessor.renew(7, 9_000), Renewal::Renewed { ttl: 10 });
        assert_eq!(lessor.expire(10_000, 9), []);
        assert_eq!(lessor.remaining(7, 10_000), Some((9, 10)));
        assert_eq!(lessor.revoking(), 0);
        assert_eq!(lessor.expire(19_000, 9), [(7, 1)]);
        assert_eq!(lessor.revoking(), 1);
        assert_eq!(lessor.expire(23_999, 9), [], "its revoke is in flight");
        assert_eq!(lessor.expire(24_000, 9), [(7, 1)], "its revoke was refused, it seems");
        assert_eq!(lessor.revoking(), 1, "the same one");
        assert_eq!(lessor.renew(7, 24_000), Renewal::Expired { grant: 1 });
        lessor.revoke_failed(7);
        assert_eq!(lessor.revoking(), 0);
        assert_eq!(lessor.expire(24_001, 9), [(7, 1)]);
        lessor.start(7, 2, 10, 10, 24_001);
        assert_eq!(lessor.revoking(), 0, "granted again");
        assert_eq!(lessor.expire(34_001, 9), [(7, 2)]);
        lessor.stop(7);
        assert_eq!(lessor.revoking(), 0);
        assert_eq!(lessor.renew(7, 34_002), Renewal::Unknown);
    }

    #[test]
    fn a_restarted_lessor_forgets_what_expired_before() {
        let mut lessor = Lessor::default();
        lessor.start(7, 1, 10, 10, 0);
        lessor.start(8, 2, 10, 10, 0);
        lessor.restart(&HashMap::from([(7, 3)]), 60_000);
        assert_eq!(lessor.expire(62_999, 9), []);
        assert_eq!(lessor.expire(63_000, 9), [(7, 1)]);
        assert_eq!(lessor.renew(8, 69_999), Renewal::Renewed { ttl: 10 }, "it has its full time");
    }

    fn left(lessor: &mut Lessor, now: u64) -> Vec<(i64, i64)> {
        lessor
            .begin_recording(i64::MIN, now, 300, 5, 10)
            .0
            .iter()
            .map(|recording| (recording.id, recording.left))
            .collect()
    }

    #[test]
    fn a_record_that_was_not_handed_in_changes_nothing() {
        let mut lessor = Lessor::default();
        lessor.start(7, 1, 600, 600, 0);
        let recordings = lessor.begin_recording(i64::MIN, 100_000, 300, 5, 10).0;
        assert_eq!(
            lessor.renew(7, 100_000),
            Renewal::MustRecord { grant: 1, recording: 1 },
            "the record may be on its way"
        );
        lessor.recording_failed(&recordings);
        assert_eq!(lessor.renew(7, 100_000), Renewal::Renewed { ttl: 600 });
    }

    #[test]
    fn a_lease_granted_again_is_not_ended_by_its_predecessor() {
        let mut lessor = Lessor::default();
        lessor.start(7, 1, 10, 10, 0);
        lessor.stop(7);
        lessor.start(7, 2, 100, 100, 5_000);
        assert_eq!(lessor.expire(50_000, 9), []);
        assert_eq!(lessor.queue.len(), 1);
        assert_eq!(lessor.expire(105_000, 9), [(7, 2)]);
    }

    #[test]
    fn a_recorded_lease_is_renewed_only_through_the_journal() {
        let mut lessor = Lessor::default();
        lessor.start(7, 1, 600, 600, 0);
        assert_eq!(left(&mut lessor, 100_000), [(7, 500)]);
        assert_eq!(left(&mut lessor, 103_000), []);
        assert_eq!(lessor.renew(7, 110_000), Renewal::MustRecord { grant: 1, recording: 1 });
        lessor.record_withdrawn(7, 1, 1);
        assert_eq!(lessor.renew(7, 110_000), Renewal::Renewed { ttl: 600 });
    }

    #[test]
    fn a_record_begun_behind_a_renewal_is_taken_back_by_the_next() {
        let mut lessor = Lessor::default();
        lessor.start(7, 1, 600, 600, 0);
        assert_eq!(left(&mut lessor, 100_000), [(7, 500)]);
        assert_eq!(lessor.renew(7, 100_000), Renewal::MustRecord { grant: 1, recording: 1 });
        assert_eq!(left(&mut lessor, 110_000), [(7, 490)], "queued behind what the renewal journals");
        lessor.record_withdrawn(7, 1, 1);
        assert_eq!(lessor.renew(7, 110_000), Renewal::MustRecord { grant: 1, recording: 2 });
        lessor.record_withdrawn(7, 2, 2);
        assert_eq!(
            lessor.renew(7, 110_000),
            Renewal::MustRecord { grant: 1, recording: 2 },
            "not by another lease of its id"
        );
        lessor.record_withdrawn(7, 1, 2);
        assert_eq!(lessor.renew(7, 110_000), Renewal::Renewed { ttl: 600 });
    }

    #[test]
    fn remaining_time_is_never_recorded_too_short() {
        let mut lessor = Lessor::default();
        lessor.start(7, 1, 600, 600, 0);
        assert_eq!(left(&mut lessor, 99_999), [(7, 501)]);
        lessor.record_withdrawn(7, 1, 1);
        assert_eq!(left(&mut lessor, 100_001), [(7, 500)]);
    }

    #[test]
    fn a_lease_that_is_gone_leaves_nothing_behind() {
        let mut lessor = Lessor::default();
        for round in 0..1_000 {
            lessor.start(7, round, 9_000_000_000, 9_000_000_000, round);
            if round % 2 == 0 {
                lessor.stop(7);
            }
        }
        lessor.start(8, 1, 10, 10, 0);
        assert_eq!(lessor.expire(20_000, 9), [(8, 1)]);
        lessor.revoke_failed(8);
        lessor.stop(8);
        lessor.stop(7);
        assert_eq!((lessor.timers.len(), lessor.queue.len(), lessor.ids.len()), (0, 0, 0));
    }

    #[test]
    fn leases_are_recorded_in_turns_that_look_at_each_of_them_once() {
        let mut lessor = Lessor::default();
        let many = 3 * SCANNED_PER_TURN_MAX as i64;
        for id in 1..=many {
            // Every second one is too short to be recorded.
            let ttl = if id % 2 == 0 { 600 } else { 60 };
            lessor.start(id, 1, ttl, ttl, 0);
        }
        let (mut from, mut recorded, mut turns) = (Some(i64::MIN), Vec::new(), 0);
        while let Some(id) = from {
            let (recordings, next) = lessor.begin_recording(id, 30_000, 300, 5, 1_000);
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
        let mut lessor = Lessor::default();
        (1..=1000).for_each(|id| lessor.start(id, 1, 10, id, 0));
        let ids = lessor.ids();
        lessor.stop(7);
        lessor.start(5000, 1, 10, 10, 0);
        assert!(ids.iter().copied().eq(1..=1000));
        assert_eq!([7, 8, 5000].map(|id| lessor.deadline(id)), [0, 8_000, 10_000]);
        assert!(lessor.ids().iter().copied().eq((1..=6).chain(8..=1000).chain([5000])));
    }

    #[test]
    fn expiry_is_bounded_and_ordered() {
        let mut lessor = Lessor::default();
        for id in 1..=5 {
            lessor.start(id, 1, 10 - id, 10 - id, 0);
        }
        assert_eq!(lessor.expire(20_000, 2), [(5, 1), (4, 1)]);
        assert_eq!(lessor.expire(20_000, 9), [(3, 1), (2, 1), (1, 1)]);
    }
}
