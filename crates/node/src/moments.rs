//! When revisions became visible, remembered roughly and for a while: enough to say how many
//! seconds a watcher is behind.
//!
//! Pure: it is told the time. Nothing on the way of a write is involved; the clock's thread looks
//! at the revision every tick.

use std::collections::VecDeque;
use std::time::Duration;

/// Moments remembered; at a tick of 200 ms about seven minutes of uninterrupted writing.
const MOST: usize = 2048;

#[derive(Debug, Default)]
pub(crate) struct Moments {
    /// Times at which a revision was the newest one, both ascending. A revision that did not change
    /// is not noted again.
    seen: VecDeque<(Duration, i64)>,
}

impl Moments {
    /// At `now` the newest revision is `revision`.
    pub(crate) fn note(&mut self, now: Duration, revision: i64) {
        if self.seen.back().is_some_and(|(_, last)| *last >= revision) {
            return;
        }
        if self.seen.len() == MOST {
            self.seen.pop_front();
        }
        self.seen.push_back((now, revision));
    }

    /// How long `revision` has been visible at least. Zero for one that came after the last note;
    /// for one that is older than what is remembered, the time since the oldest note.
    pub(crate) fn age(&self, revision: i64, now: Duration) -> Duration {
        let at = self.seen.partition_point(|(_, seen)| *seen < revision);
        match self.seen.get(at) {
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
    fn a_revision_is_as_old_as_the_first_note_that_includes_it() {
        let mut moments = Moments::default();
        assert_eq!(moments.age(1, seconds(9)), Duration::ZERO);
        moments.note(seconds(10), 5);
        moments.note(seconds(11), 5);
        moments.note(seconds(12), 8);
        assert_eq!(moments.age(3, seconds(20)), seconds(10));
        assert_eq!(moments.age(5, seconds(20)), seconds(10));
        assert_eq!(moments.age(6, seconds(20)), seconds(8));
        assert_eq!(moments.age(9, seconds(20)), Duration::ZERO);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut moments = Moments::default();
        for n in 1..=10_000 {
            moments.note(Duration::from_millis(n), n as i64);
        }
        assert_eq!(moments.seen.len(), MOST);
        assert_eq!(moments.age(1, Duration::from_millis(10_000)), Duration::from_millis(MOST as u64 - 1));
    }
}
