//! Expected: those who were answered together are likely to ask again together.
//!
//! A message to a shared journal costs its servers the same, however many wait for it. The first who comes back after an answer
//! would have one all to itself, and everybody else would wait for the next: so it waits a moment for the others. Whoever is alone
//! waits for nobody.

use std::time::Duration;

/// How long others are waited for.
pub const MOMENT: Duration = Duration::from_millis(1);

/// How many were answered last, and when.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    answered: usize,
    at: Duration,
}

impl Expected {
    pub(crate) fn answered(&mut self, count: usize, now: Duration) {
        *self = Expected { answered: count, at: now };
    }

    /// Whether most of them are still to come, and soon.
    pub(crate) fn more(&self, waiting: usize, now: Duration) -> bool {
        waiting * 2 < self.answered && now < self.at + MOMENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_waited_for_only_for_a_moment_and_never_by_who_is_alone() {
        let at = Duration::from_secs(5);
        let mut expected = Expected::default();
        assert!(!expected.more(1, Duration::ZERO), "nobody was answered yet");
        expected.answered(1, at);
        assert!(!expected.more(1, at));
        expected.answered(8, at);
        assert!(expected.more(3, at));
        assert!(!expected.more(4, at), "half of them are there");
        assert!(!expected.more(1, at + MOMENT));
    }
}
