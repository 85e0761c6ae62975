//! Config: limits and times of a member.

use std::time::Duration;

/// Limits and times of a member.
#[derive(Clone, Debug)]
pub struct Config {
    /// An idle writer appends a barrier this often.
    pub heartbeat: Duration,
    /// Without a sign of the writer for this long, plus at most `jitter`, a member claims.
    pub election: Duration,
    pub jitter: Duration,
    /// For how long after the start of an append that counts a writer answers reads without asking
    /// the log again. Well below `election`, of all servers; zero: it always asks.
    pub lease: Duration,
    /// After a claim that failed, at least this long until the next.
    pub retry: Duration,
    /// An append without an outcome for this long counts as unknown.
    pub append_timeout: Duration,
    /// A read without an answer for this long is asked for again.
    pub read_timeout: Duration,
    /// A follower that hears nothing for this long asks.
    pub poll: Duration,
    /// How long the log may seem shorter than what was read from it before that is told.
    pub patience: Duration,
    /// Appends in flight.
    pub window: usize,
    /// Reads that wait for one barrier.
    pub max_reads: usize,
    /// Bytes of a record.
    pub max_record: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            heartbeat: Duration::from_millis(200),
            election: Duration::from_millis(1500),
            jitter: Duration::from_millis(500),
            lease: Duration::from_millis(500),
            retry: Duration::from_millis(20),
            append_timeout: Duration::from_secs(2),
            read_timeout: Duration::from_secs(1),
            poll: Duration::from_millis(500),
            patience: Duration::from_secs(5),
            window: 8,
            max_reads: 65_536,
            max_record: 1 << 20,
        }
    }
}
