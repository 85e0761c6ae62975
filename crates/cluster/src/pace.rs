//! Pace: how dear a record of a log is, and so what its callers should wait for.

use std::time::Duration;

/// How dear a record is: what is worth waiting for, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How long a write waits for others to share its record: less than a record takes.
    pub write_window: Duration,
    /// How long a read waits for others to share its index. Zero while an index costs nothing.
    pub read_window: Duration,
    /// With fewer records in flight the next one is proposed however small it is. Otherwise it
    /// waits for others or for its size.
    pub small_records: usize,
    /// How long a step waits while something else than the log may need the thread, and otherwise.
    pub short_wait: Duration,
    pub long_wait: Duration,
    /// Whether a write interrupts a step. If not, more of them join it meanwhile.
    pub writes_wake: bool,
    /// How often the leader announces itself and its peers in the log.
    pub announce_interval: Duration,
}

impl Pace {
    /// For a log that takes milliseconds for a record, whatever is in it.
    pub const MILLISECONDS: Pace = Pace {
        write_window: Duration::from_millis(2),
        read_window: Duration::from_millis(1),
        small_records: 1,
        short_wait: Duration::from_millis(1),
        long_wait: Duration::from_millis(5),
        writes_wake: false,
        announce_interval: Duration::from_secs(1),
    };
}
