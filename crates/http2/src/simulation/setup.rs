//! What a run is drawn to be before it begins.

use std::time::Duration;

use super::Choices;
use crate::Limits;

/// Pings come this often, in runs in which a client that does not read may be given up.
pub(super) const SHORT_KEEPALIVE: Duration = Duration::from_secs(1);

pub(super) fn limits(choices: &mut Choices) -> Limits {
    Limits {
        streams: choices.one_of(&[100, 1, 2, 7, 10_000]),
        stream_window: choices.one_of(&[4 << 20, 4 << 20, 20_000, 1000]),
        connection_window: choices.one_of(&[16 << 20, 16 << 20, 65_535, 70_000]),
        header_list: choices.one_of(&[64 << 10, 64 << 10, 420]),
        send_buffer: choices.one_of(&[256 << 10, 1, 100, 20_000]),
        queued_answers: choices.one_of(&[16 << 20, 1, 50_000]),
        overhead: choices.one_of(&[u32::MAX, u32::MAX, 100_000, 200]),
        keepalive_interval: choices.one_of(&[
            None,
            None,
            Some(Duration::from_secs(3600)),
            Some(SHORT_KEEPALIVE),
        ]),
        keepalive_timeout: choices.one_of(&[Duration::from_secs(20), Duration::from_millis(1500)]),
    }
}
