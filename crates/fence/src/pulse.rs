//! Pulse: when a server thinks that nobody writes, and how long it waits before it tries again.
//! Time is given: how long ago some fixed moment was, by a clock that never goes back.

use std::time::Duration;

use crate::config::Config;

/// Tracks signs of life of the writer.
#[derive(Clone, Debug)]
pub(crate) struct Pulse {
    choices: u64,
    /// When to claim, if nothing is heard until then.
    due: Duration,
    /// Claims that failed in a row.
    failed: u32,
}

impl Pulse {
    pub(crate) fn new(seed: u64) -> Pulse {
        Pulse { choices: seed, due: Duration::ZERO, failed: 0 }
    }

    /// A valid entry was read: whoever wrote it lives.
    pub(crate) fn heard(&mut self, now: Duration, config: &Config) {
        self.failed = 0;
        self.due = now + config.election + self.jitter(config);
    }

    pub(crate) fn is_due(&self, now: Duration) -> bool {
        now >= self.due
    }

    /// When to try again after a claim that did not succeed: later and later, up to a third of the
    /// election timeout.
    pub(crate) fn retry_at(&mut self, now: Duration, config: &Config) -> Duration {
        self.failed = self.failed.saturating_add(1);
        let wait = (config.retry * (1 << self.failed.min(6))).min(config.election / 3);
        now + wait + self.jitter(config) / 8
    }

    fn jitter(&mut self, config: &Config) -> Duration {
        // splitmix64: well spread whatever the seed is.
        self.choices = self.choices.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.choices;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let parts = 1 << 16;
        config.jitter * u32::try_from((mixed >> 31) % parts).expect("below 65536") / parts as u32
    }
}
