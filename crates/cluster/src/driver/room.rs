//! Room: how much the log takes until it is full. Its fill level is a moment old when it comes, so
//! what was proposed since is added to it. A reserve is kept, so that barriers, new-epoch entries,
//! deletes and compactions still find room when everything else is refused.

use std::collections::VecDeque;
use std::time::Duration;

use crate::log::Space;
use crate::replicated_log::Room;

/// How long a log that refused a record counts as full.
const FULL_TIMEOUT: Duration = Duration::from_secs(10);
/// Room that is reserved: a tenth of all, at least for some records of the largest size, at most
/// this.
const RESERVED_MAX: u64 = 256 << 20;
const RESERVED_RECORDS: u64 = 4;
/// How often the sum of proposed bytes is sampled, and how many samples are kept: far longer than a
/// fill level takes to arrive.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
const SAMPLES_MAX: usize = 256;
/// Overhead of a record in the log, generously.
const RECORD_OVERHEAD: u64 = 256;

/// What is known of the room.
#[derive(Default)]
pub(super) struct Gauge {
    /// When the log last refused a record.
    refused: Option<Duration>,
    /// The last known fill level, and when it was measured.
    space: Option<(Space, Duration)>,
    proposed: Proposed,
    was_full: bool,
}

impl Gauge {
    /// Counts the bytes of a record that was proposed.
    pub(super) fn add(&mut self, now: Duration, bytes: usize) {
        self.proposed.add(now, bytes as u64 + RECORD_OVERHEAD);
    }

    /// The log refused a record for lack of room. True if it had not for a while.
    pub(super) fn refuse(&mut self, now: Duration) -> bool {
        self.refused.replace(now).is_none_or(|since| now >= since + FULL_TIMEOUT)
    }

    /// Decides whether the log is full. The last known level stays valid until there is a newer
    /// one.
    pub(super) fn room(&mut self, now: Duration, level: Option<Space>, record: u64, leads: bool) -> Room {
        if let Some(space) = level {
            self.space = Some((space, now.saturating_sub(space.age)));
        }
        // Followers refuse nothing; they take checkpoints for as long as a leader that refuses
        // waits for them.
        let was_low = self.was_full || !leads;
        let is_refused = self.refused.is_some_and(|refused| now < refused + FULL_TIMEOUT);
        let used = self.space.map_or(0, |(space, _)| space.used);
        let (left, is_low) = match &self.space {
            Some((Space { used, left: Some(left), .. }, when)) => {
                let left_now = left.saturating_sub(self.proposed.since(*when));
                (left_now, is_low(used + left, left_now, record, was_low))
            }
            // Without a limit only a refusal shows that the log is full, and the room is not known:
            // deletes may try.
            _ => (RESERVED_RECORDS * record, false),
        };
        self.was_full = is_low || is_refused;
        Room { used, left, is_full: self.was_full }
    }
}

/// Bytes proposed by this server, with samples of earlier sums.
#[derive(Default)]
struct Proposed {
    total: u64,
    samples: VecDeque<(Duration, u64)>,
}

impl Proposed {
    fn add(&mut self, now: Duration, bytes: u64) {
        if self.samples.back().is_none_or(|(last, _)| now >= *last + SAMPLE_INTERVAL) {
            self.samples.push_back((now, self.total));
        }
        if self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.total += bytes;
    }

    /// Bytes proposed since then, or a few more.
    fn since(&self, time: Duration) -> u64 {
        let before = self.samples.iter().rev().find(|(at, _)| *at <= time).or(self.samples.front());
        before.map_or(0, |(_, total)| self.total - total)
    }
}

/// Whether less than the reserve is left of `whole`. Once that was so, half as much again is
/// needed.
fn is_low(whole: u64, left: u64, record: u64, was_low: bool) -> bool {
    let reserved = (whole / 10)
        .max(RESERVED_RECORDS * record)
        .min(RESERVED_MAX.max(RESERVED_RECORDS * record))
        .min(whole / 2);
    left < if was_low { reserved + reserved / 2 } else { reserved }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{FULL_TIMEOUT, Gauge, Proposed, SAMPLES_MAX, Space, is_low};

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_bytes_proposed_since_are_never_underestimated() {
        let mut proposed = Proposed::default();
        assert_eq!(proposed.since(Duration::ZERO), 0);
        for millis in 0..100 * SAMPLES_MAX as u64 {
            proposed.add(Duration::from_millis(millis), 1);
        }
        let total = 100 * SAMPLES_MAX as u64;
        let since = |millis| proposed.since(Duration::from_millis(millis));
        for millis in [total - 1, total - 1000, total - 10_050] {
            assert!((total - millis..=total - millis + 100).contains(&since(millis)), "{millis}");
        }
        assert!(since(0) <= total && since(total + 5000) <= 100);
    }

    #[test]
    fn a_tenth_is_reserved_or_some_records_and_a_little_more_to_go_on() {
        let record = 8 * MIB;
        assert!(!is_low(1000 * MIB, 100 * MIB, record, false));
        assert!(is_low(1000 * MIB, 99 * MIB, record, false));
        assert!(is_low(1000 * MIB, 149 * MIB, record, true));
        assert!(!is_low(1000 * MIB, 150 * MIB, record, true));
        assert!(is_low(100 * MIB, 31 * MIB, record, false), "four records");
        assert!(!is_low(100 * MIB, 32 * MIB, record, false));
        assert!(!is_low(1 << 40, 256 * MIB, record, false), "not a tenth of everything");
        assert!(!is_low(10 * MIB, 5 * MIB, record, false), "at most half");
    }

    #[test]
    fn what_was_proposed_since_the_level_was_measured_is_not_left() {
        let (mut gauge, now) = (Gauge::default(), Duration::from_secs(50));
        let level = Space { used: 10 * MIB, left: Some(90 * MIB), age: Duration::from_secs(1) };
        gauge.add(now, 50 << 20);
        let room = gauge.room(now, Some(level), MIB, true);
        assert!(room.left < 40 * MIB && room.left > 39 * MIB && !room.is_full, "{room:?}");
        gauge.add(now, 32 << 20);
        assert!(gauge.room(now, None, MIB, true).is_full, "less than a tenth is left");
        let later = now + Duration::from_secs(5);
        gauge.add(later, 0);
        let freed = Space { left: Some(90 * MIB), age: Duration::ZERO, ..level };
        assert!(!gauge.room(later, Some(freed), MIB, true).is_full);
    }

    #[test]
    fn a_log_that_refused_a_record_counts_as_full_for_a_while() {
        let (mut gauge, now) = (Gauge::default(), Duration::from_secs(50));
        assert!(!gauge.room(now, None, MIB, true).is_full);
        assert!(gauge.refuse(now));
        assert!(!gauge.refuse(now + FULL_TIMEOUT / 2), "it is not reported again so soon");
        let until = now + FULL_TIMEOUT / 2 + FULL_TIMEOUT;
        assert!(gauge.room(until - Duration::from_millis(1), None, MIB, true).is_full);
        assert!(!gauge.room(until, None, MIB, true).is_full);
    }
}
