//! Connections that failed before their first request: counted by reason, and logged at a bounded
//! rate.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Why a handshake failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The client left.
    Closed,
    /// It took too long.
    Timeout,
    /// It was evicted by newer unfinished ones.
    Displaced,
    /// It did not speak TLS.
    NotTls,
    /// The client's certificate is missing or not valid.
    Certificate,
    /// No common version, cipher or protocol, or nonsense.
    Protocol,
}

impl Reason {
    pub(crate) const ALL: [Reason; 6] = [
        Reason::Closed,
        Reason::Timeout,
        Reason::Displaced,
        Reason::NotTls,
        Reason::Certificate,
        Reason::Protocol,
    ];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Reason::Closed => "closed",
            Reason::Timeout => "timeout",
            Reason::Displaced => "displaced",
            Reason::NotTls => "not_tls",
            Reason::Certificate => "certificate",
            Reason::Protocol => "protocol",
        }
    }
}

/// Lines in one window of time; further ones are only counted.
const LOG_LINES_MAX: u32 = 20;
const LOG_WINDOW: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct Failures {
    counts: [AtomicU64; Reason::ALL.len()],
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    window: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl Failures {
    pub(crate) fn count(&self, reason: Reason) -> u64 {
        self.counts[reason as usize].load(Relaxed)
    }

    /// `endpoint` is the kind of port, `client` or `peer`; the words of the line are etcd's.
    pub(crate) fn note(&self, endpoint: &str, reason: Reason, remote: &str, server_name: &str, error: &str) {
        self.counts[reason as usize].fetch_add(1, Relaxed);
        // Health checks of load balancers open a connection and leave; they would fill the log.
        if reason == Reason::Closed {
            tracing::debug!("remote-addr" = remote, error, "rejected connection on {endpoint} endpoint");
            return;
        }
        let Some(left_out) = self.lines.lock().take(Instant::now()) else { return };
        tracing::warn!(
            "remote-addr" = remote,
            "server-name" = server_name,
            error,
            reason = reason.label(),
            left_out,
            "rejected connection on {endpoint} endpoint"
        );
    }
}

impl Lines {
    /// Whether a line may be written now, and how many were left out before it.
    fn take(&mut self, now: Instant) -> Option<u64> {
        if self.window.is_none_or(|begin| now.duration_since(begin) >= LOG_WINDOW) {
            self.window = Some(now);
            self.written = 0;
        }
        if self.written == LOG_LINES_MAX {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_fills_neither_the_log_nor_hides_itself() {
        let mut lines = Lines::default();
        let begin = Instant::now();
        let written = (0..1000).filter(|_| lines.take(begin).is_some()).count();
        assert_eq!(written, LOG_LINES_MAX as usize);
        assert_eq!(lines.take(begin + LOG_WINDOW), Some(1000 - u64::from(LOG_LINES_MAX)));
        assert_eq!(lines.take(begin + LOG_WINDOW), Some(0));
    }
}
