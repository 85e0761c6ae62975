//! Config: limits and times of a replica.

use std::time::Duration;

/// Limits and times of a replica.
#[derive(Clone, Debug)]
pub struct Config {
    /// An idle leader appends a barrier this often.
    pub heartbeat_interval: Duration,
    /// A follower that has read no committed entry for this long, plus at most `election_jitter`,
    /// campaigns.
    pub election_timeout: Duration,
    pub election_jitter: Duration,
    /// For how long after the start of a committed append the leader answers reads without asking
    /// the log again. Well below `election_timeout` of all servers. Zero: no lease, the leader
    /// always asks.
    pub lease_duration: Duration,
    /// Base of the backoff after a failed campaign.
    pub campaign_retry_delay: Duration,
    /// An append without an outcome for this long is of unknown outcome.
    pub append_timeout: Duration,
    /// A read of the log without an answer for this long is repeated.
    pub read_timeout: Duration,
    /// A follower that receives nothing for this long reads the log.
    pub poll_interval: Duration,
    /// How long the log must seem shorter than what was read before `Suspect` is reported.
    pub short_log_timeout: Duration,
    /// Appends in flight.
    pub max_in_flight: usize,
    /// Reads that wait for one barrier.
    pub max_reads: usize,
    /// Bytes of a record.
    pub max_record: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            heartbeat_interval: Duration::from_millis(200),
            election_timeout: Duration::from_millis(1500),
            election_jitter: Duration::from_millis(500),
            lease_duration: Duration::from_millis(500),
            campaign_retry_delay: Duration::from_millis(20),
            append_timeout: Duration::from_secs(2),
            read_timeout: Duration::from_secs(1),
            poll_interval: Duration::from_millis(500),
            short_log_timeout: Duration::from_secs(5),
            max_in_flight: 8,
            max_reads: 65_536,
            max_record: 1 << 20,
        }
    }
}
