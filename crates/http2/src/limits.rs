//! What one connection may use.

use std::time::Duration;

/// The limits of a connection. What is not here is fixed by the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests in progress. One more is refused, which clients may take as "try again".
    pub streams: u32,
    /// What a client may send ahead of us on one stream, and on the whole connection.
    pub stream_window: u32,
    pub connection_window: u32,
    /// Bytes of the headers of one request, decoded and counted as RFC 9113 does. More is answered
    /// with status 431.
    pub header_list: usize,
    /// What is buffered for a client on one stream before its answer is asked for more.
    pub send_buffer: usize,
    /// Bytes of the bodies of answers that wait for windows, over all streams. Beyond it, only a
    /// stream that has nothing queued is asked for more.
    pub queued_answers: usize,
    /// Work that a client may cause without a request, as a burst and then each second: see
    /// `protocol/overhead.rs`.
    pub overhead: u32,
    /// A connection on which nothing arrives is pinged this often. None: never.
    pub keepalive_interval: Option<Duration>,
    /// A ping unanswered for this long ends the connection.
    pub keepalive_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            streams: 64 << 10,
            stream_window: 4 << 20,
            connection_window: 16 << 20,
            header_list: 64 << 10,
            send_buffer: 256 << 10,
            queued_answers: 16 << 20,
            overhead: 50_000,
            keepalive_interval: None,
            keepalive_timeout: Duration::from_secs(20),
        }
    }
}
