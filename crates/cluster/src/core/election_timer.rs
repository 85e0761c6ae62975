//! Election timer: when a follower assumes that there is no leader, and how long a candidate backs
//! off after a failed campaign. The time is given: a duration since some fixed moment, by a clock
//! that never goes back.

use std::time::Duration;

use super::config::Config;

#[derive(Clone, Debug)]
pub(crate) struct ElectionTimer {
    random: u64,
    /// When to campaign, unless a committed entry is read before.
    deadline: Duration,
    /// Campaigns that failed in a row.
    failed: u32,
}

impl ElectionTimer {
    pub(crate) fn new(seed: u64) -> ElectionTimer {
        ElectionTimer { random: seed, deadline: Duration::ZERO, failed: 0 }
    }

    /// A committed entry was read, so there is a leader.
    pub(crate) fn reset(&mut self, now: Duration, config: &Config) {
        self.failed = 0;
        self.deadline = now + config.election_timeout + self.jitter(config);
    }

    pub(crate) fn is_expired(&self, now: Duration) -> bool {
        now >= self.deadline
    }

    /// When to campaign again after a failure: exponential backoff, up to a third of the election
    /// timeout.
    pub(crate) fn retry_at(&mut self, now: Duration, config: &Config) -> Duration {
        self.failed = self.failed.saturating_add(1);
        let delay =
            (config.campaign_retry_delay * (1 << self.failed.min(6))).min(config.election_timeout / 3);
        now + delay + self.jitter(config) / 8
    }

    fn jitter(&mut self, config: &Config) -> Duration {
        // splitmix64: well distributed whatever the seed is.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let parts = 1 << 16;
        let part = u32::try_from((mixed >> 31) % parts).expect("below 65536");
        config.election_jitter * part / parts as u32
    }
}
