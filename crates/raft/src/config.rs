//! Config: limits and times of a member.

use std::time::Duration;

/// Limits and times of a member. All members of a cluster have the same times.
#[derive(Clone, Debug)]
pub struct Config {
    /// A leader sends heartbeats this often. It is also the unit in which a member counts time, as
    /// in etcd.
    pub heartbeat_interval: Duration,
    /// A follower that hears of no leader for this long, and up to twice as long, campaigns.
    pub election_timeout: Duration,
    /// For how long after the start of a heartbeat round that a majority answered the leader
    /// answers reads without asking again. Zero: no lease.
    pub lease_duration: Duration,
    /// Bytes of entries in one message; a single entry may be larger.
    pub max_message: u64,
    /// Messages with entries on their way to one follower.
    pub max_messages: usize,
    /// Bytes of entries that are proposed and not committed.
    pub max_uncommitted: u64,
    /// Reads that wait for an index.
    pub max_reads: usize,
    /// Bytes of applied entries kept in memory to feed followers that are a little behind.
    pub recent_bytes: usize,
    /// A follower that was asked to fetch a checkpoint and did not answer is asked again then.
    pub checkpoint_retry: Duration,
}

impl Config {
    /// Ticks of the heartbeat interval in an election timeout, at least two.
    pub(crate) fn election_ticks(&self) -> usize {
        let ticks = self.election_timeout.as_nanos().div_ceil(self.heartbeat_interval.as_nanos().max(1));
        usize::try_from(ticks).unwrap_or(usize::MAX / 4).clamp(2, usize::MAX / 4)
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            heartbeat_interval: Duration::from_millis(100),
            election_timeout: Duration::from_millis(1000),
            lease_duration: Duration::from_millis(333),
            max_message: 4 << 20,
            max_messages: 8,
            max_uncommitted: 64 << 20,
            max_reads: 65_536,
            recent_bytes: 16 << 20,
            checkpoint_retry: Duration::from_secs(2),
        }
    }
}
