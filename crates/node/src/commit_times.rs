//! Commit times: roughly when recent revisions became visible, for the seconds that a watcher is
//! behind.
//!
//! Pure: the caller passes the time in. The write path is not involved; the lease thread samples
//! the revision every tick.

use std::collections::VecDeque;
use std::time::Duration;

/// Samples kept; at a tick of 200 ms about seven minutes of uninterrupted writing.
const COMMIT_TIMES_MAX: usize = 2048;

#[derive(Debug, Default)]
pub(crate) struct CommitTimes {
    /// Times at which a revision was the newest one, both ascending. An unchanged revision is not
    /// sampled again.
    samples: VecDeque<(Duration, i64)>,
}

impl CommitTimes {
    /// At `now` the newest revision is `revision`.
    pub(crate) fn sample(&mut self, now: Duration, revision: i64) {
        if self.samples.back().is_some_and(|(_, last)| *last >= revision) {
            return;
        }
        if self.samples.len() == COMMIT_TIMES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back((now, revision));
    }

    /// How long `revision` has been visible at least. Zero for one newer than the last sample; the
    /// time since the oldest sample for one that is older than all of them.
    pub(crate) fn age(&self, revision: i64, now: Duration) -> Duration {
        let at = self.samples.partition_point(|(_, seen)| *seen < revision);
        match self.samples.get(at) {
            Some((time, _)) => now.saturating_sub(*time),
            None => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn a_revision_is_as_old_as_the_first_sample_that_includes_it() {
        let mut commit_times = CommitTimes::default();
        assert_eq!(commit_times.age(1, seconds(9)), Duration::ZERO);
        commit_times.sample(seconds(10), 5);
        commit_times.sample(seconds(11), 5);
        commit_times.sample(seconds(12), 8);
        assert_eq!(commit_times.age(3, seconds(20)), seconds(10));
        assert_eq!(commit_times.age(5, seconds(20)), seconds(10));
        assert_eq!(commit_times.age(6, seconds(20)), seconds(8));
        assert_eq!(commit_times.age(9, seconds(20)), Duration::ZERO);
    }

    #[test]
    fn the_number_of_samples_is_bounded() {
        let mut commit_times = CommitTimes::default();
        for n in 1..=10_000 {
            commit_times.sample(Duration::from_millis(n), n as i64);
        }
        assert_eq!(commit_times.samples.len(), COMMIT_TIMES_MAX);
        assert_eq!(
            commit_times.age(1, Duration::from_millis(10_000)),
            Duration::from_millis(COMMIT_TIMES_MAX as u64 - 1)
        );
    }
}
