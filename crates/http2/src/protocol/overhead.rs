//! What a client costs without asking for anything.
//!
//! Frames that make work and carry no request are paid from an allowance that time refills. It is
//! far above what an ordinary client needs: one that cancels its calls as fast as it can make them,
//! or measures round trips by PING all the time, stays within it. A flood ends its connection, and
//! until then costs a small part of one processor.

use std::time::Duration;

use super::{Code, Fault};

/// An acknowledged PING, and frames that are only looked at.
pub(super) const SMALL: u32 = 1;
/// A request that is reset before it was looked at (CVE-2023-44487), and DATA without data.
pub(super) const REQUEST: u32 = 5;
/// A SETTINGS frame; and for each 16 streams that a larger initial window has to be looked up for,
/// one more.
pub(super) const SETTINGS: u32 = 20;
pub(super) const STREAMS_PER_UNIT: usize = 16;

#[derive(Debug)]
pub(super) struct Overhead {
    left: u32,
    max: u32,
}

impl Overhead {
    /// `max` units may be spent at once, and as many again each second.
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
