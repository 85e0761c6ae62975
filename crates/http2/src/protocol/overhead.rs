//! Limits the work that a client causes without making a request.
//!
//! Frames that cost work and carry no request are paid from an allowance that refills over time. It
//! is far above what an ordinary client needs: one that cancels its calls as fast as it can make
//! them, or measures round trips by PING all the time, stays within it. A flood ends its
//! connection, and until then costs a small part of one processor.

use std::time::Duration;

use super::{Code, Fault};

/// A PING to acknowledge, and frames that are only parsed.
pub(super) const SMALL: u32 = 1;
/// A request that is reset before it was started (CVE-2023-44487), and DATA without data.
pub(super) const REQUEST: u32 = 5;
/// A SETTINGS frame; one more for each 16 streams to which a larger initial window applies.
pub(super) const SETTINGS: u32 = 20;
pub(super) const STREAMS_PER_UNIT: usize = 16;

#[derive(Debug)]
pub(super) struct Overhead {
    left: u32,
    max: u32,
}

impl Overhead {
    /// A burst of `max` units, and as many again each second.
    pub(super) fn new(max: u32) -> Overhead {
        Overhead { left: max, max }
    }

    pub(super) fn spend(&mut self, units: u32) -> Result<(), Fault> {
        match self.left.checked_sub(units) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Fault::new(Code::EnhanceYourCalm, "too much work for nothing"),
        }
    }

    pub(super) fn refill(&mut self, elapsed: Duration) {
        let units = u128::from(self.max) * elapsed.as_micros() / 1_000_000;
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(units).min(self.max);
    }
}
