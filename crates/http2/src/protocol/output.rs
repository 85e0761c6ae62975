//! Bytes to be written. Small ones are copied together, so that many answers are one write; large
//! ones stay where they are and are written from there.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};

/// From this length on, bytes are not copied.
const COPY_BELOW: usize = 4 << 10;
/// What is kept of the buffer for small bytes when everything has been written.
const KEEP: usize = 64 << 10;
/// The same while the connection is idle, when there may be very many connections.
const KEPT_AT_REST: usize = 4 << 10;
const PARTS_KEPT_AT_REST: usize = 64;

#[derive(Debug, Default)]
pub struct Output {
    /// Written before `small`.
    first: VecDeque<Bytes>,
    small: BytesMut,
    len: usize,
    /// The most that `small` has held since the connection was idle, and what the burst before
    /// needed: a new buffer begins at that size instead of growing to it by copies.
    peak: usize,
    last_peak: usize,
}

impl Output {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(super) fn copy(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        if self.small.capacity() == 0 {
            self.small.reserve(self.last_peak.max(bytes.len()));
        }
        self.small.extend_from_slice(bytes);
    }

    pub(super) fn push(&mut self, bytes: Bytes) {
        if bytes.len() < COPY_BELOW {
            return self.copy(&bytes);
        }
        if !self.small.is_empty() {
            self.first.push_back(self.small.split().freeze());
        }
        self.len += bytes.len();
        self.first.push_back(bytes);
    }

    /// What comes first, in at most as many parts as there are places. The number of those filled.
    pub fn parts<'a>(&'a self, places: &mut [IoSlice<'a>]) -> usize {
        let small = Some(&self.small[..]).filter(|small| !small.is_empty());
        let parts = self.first.iter().map(|bytes| &bytes[..]).chain(small);
        let mut filled = 0;
        for (place, part) in places.iter_mut().zip(parts) {
            *place = IoSlice::new(part);
            filled += 1;
        }
        filled
    }

    /// The connection is idle: gives back a buffer that only a burst needed.
    pub(super) fn shrink(&mut self) {
        if self.len == 0 && self.small.capacity() > KEPT_AT_REST {
            self.small = BytesMut::new();
            self.last_peak = std::mem::take(&mut self.peak).min(KEEP);
        }
        if self.len == 0 && self.first.capacity() > PARTS_KEPT_AT_REST {
            self.first = VecDeque::new();
        }
    }

    /// The first `written` bytes have been written.
    pub fn advance(&mut self, mut written: usize) {
        assert!(written <= self.len, "no more can be written than there is");
        self.peak = self.peak.max(self.small.len());
        self.len -= written;
        while let Some(front) = self.first.front_mut() {
            if written < front.len() {
                return front.advance(written);
            }
            written -= front.len();
            self.first.pop_front();
        }
        if written < self.small.len() {
            return self.small.advance(written);
        }
        self.small.clear();
        if self.small.capacity() > KEEP {
            self.small = BytesMut::new();
        }
    }
}
