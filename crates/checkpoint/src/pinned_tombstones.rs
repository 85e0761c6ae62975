//! Tombstones that must stay in a file; see `tombstone_gc`.

/// The tombstones of a file that tombstone GC kept: no reason to rewrite the file before they
/// may be dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PinnedTombstones {
    pub(super) bytes: u64,
    /// The oldest beginning and the latest end of the lives they ended.
    pub(super) created: i64,
    pub(super) ended: i64,
}

impl PinnedTombstones {
    pub(super) fn add(&mut self, bytes: u64, created: i64, ended: i64) {
        if self.bytes == 0 {
            *self = PinnedTombstones { bytes, created, ended };
            return;
        }
        self.bytes += bytes;
        self.created = self.created.min(created);
        self.ended = self.ended.max(ended);
    }
}
