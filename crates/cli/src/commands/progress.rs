//! Progress of long work: a line every few seconds, and none for work that is short.

use std::time::{Duration, Instant};

const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

pub(crate) struct Ticker {
    last: Instant,
}

impl Ticker {
    pub(crate) fn new() -> Ticker {
        Ticker { last: Instant::now() }
    }

    /// Reports the progress of `what`, if it is time to.
    pub(crate) fn report(&mut self, what: &str, done: u64, total: u64) {
        if self.last.elapsed() < PROGRESS_INTERVAL {
            return;
        }
        self.last = Instant::now();
        let percent = done.saturating_mul(100).checked_div(total).unwrap_or(0).min(100);
        super::print_message(&format!("{what}: {} MiB of {} MiB ({percent}%)", done >> 20, total >> 20));
    }
}
