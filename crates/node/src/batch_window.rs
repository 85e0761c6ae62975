//! Batch window: clients that were answered together are likely to send again together.
//!
//! A message to a shared journal costs its servers the same, however many requests share it. Sent
//! at once, the first request after an answer would get a message of its own and all others would
//! wait for the next one. So it waits for the others, for a short time. A single client never
//! waits.

use std::time::Duration;

/// How long reads at a follower wait for others to share a question to the leader.
pub const READ_BATCH_WINDOW: Duration = Duration::from_millis(1);

/// From this many clients on, three quarters of them are waited for; with fewer, half of them.
const MANY: usize = 8;

/// How many requests were answered last or had arrived by then, and when that was.
#[derive(Debug, Default)]
pub(crate) struct BatchWindow {
    requests: usize,
    at: Duration,
}

impl BatchWindow {
    pub(crate) fn answered(&mut self, requests: usize, now: Duration) {
        *self = BatchWindow { requests, at: now };
    }

    /// Whether the requests that wait should go on waiting for others, within `window`.
    pub(crate) fn is_open(&self, waiting: usize, now: Duration, window: Duration) -> bool {
        let enough = if self.requests < MANY { self.requests / 2 } else { self.requests - self.requests / 4 };
        waiting < enough && now < self.at + window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_short_and_a_single_client_never_waits() {
        let at = Duration::from_secs(5);
        let mut window = BatchWindow::default();
        assert!(!window.is_open(1, Duration::ZERO, READ_BATCH_WINDOW), "nothing was answered yet");
        window.answered(1, at);
        assert!(!window.is_open(1, at, READ_BATCH_WINDOW));
        window.answered(3, at);
        assert!(!window.is_open(1, at, READ_BATCH_WINDOW), "few do not wait for each other");
        window.answered(8, at);
        assert!(window.is_open(5, at, READ_BATCH_WINDOW));
        assert!(!window.is_open(6, at, READ_BATCH_WINDOW), "most of them have arrived");
        assert!(!window.is_open(1, at + READ_BATCH_WINDOW, READ_BATCH_WINDOW));
    }
}
