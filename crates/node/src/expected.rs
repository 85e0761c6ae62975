//! Expected: those who were answered together are likely to ask again together.
//!
//! A message to a shared journal costs its servers the same, however many wait for it. The first
//! who comes back after an answer would have one all to itself, and everybody else would wait for
//! the next: so it waits a moment for the others. Whoever is alone waits for nobody.

use std::time::Duration;

/// How long other reads are waited for.
pub const MOMENT: Duration = Duration::from_millis(1);
/// How long other writes are waited for: less than a record takes.
pub(crate) const WRITES_MOMENT: Duration = Duration::from_millis(2);

/// With at least this many, most of them are waited for, and half of them with fewer.
const MANY: usize = 8;

/// How many were there when the last were answered, those who were and those who had come by then,
/// and when it was.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    there: usize,
    at: Duration,
}

impl Expected {
    pub(crate) fn answered(&mut self, there: usize, now: Duration) {
        *self = Expected { there, at: now };
    }

    /// Whether many of them are still to come, and soon.
    pub(crate) fn more(&self, waiting: usize, now: Duration, moment: Duration) -> bool {
        let enough = if self.there < MANY { self.there / 2 } else { self.there - self.there / 4 };
        waiting < enough && now < self.at + moment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_waited_for_only_for_a_moment_and_never_by_who_is_alone() {
        let at = Duration::from_secs(5);
        let mut expected = Expected::default();
        assert!(!expected.more(1, Duration::ZERO, MOMENT), "nobody was answered yet");
        expected.answered(1, at);
        assert!(!expected.more(1, at, MOMENT));
        expected.answered(3, at);
        assert!(!expected.more(1, at, MOMENT), "few do not wait for each other");
        expected.answered(8, at);
        assert!(expected.more(5, at, MOMENT));
        assert!(!expected.more(6, at, MOMENT), "most of them are there");
        assert!(!expected.more(1, at + MOMENT, MOMENT));
    }
}
