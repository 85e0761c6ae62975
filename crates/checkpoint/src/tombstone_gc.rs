//! Tombstone GC: when a tombstone may be dropped from the files.
//!
//! Loading a checkpoint gives each key the versions that compaction at the checkpoint's mark C
//! leaves: all changes at C and above, and the version before C that is current there, if there is
//! one. So a put that no read can reach is harmless in a file as long as something newer,
//! before or at C, is in some file too. For a put whose life was ended by a tombstone, that
//! something is the tombstone: drop it while the put is still there, and the key is resurrected.
//!
//! **Invariant.** For every put in the files of a checkpoint whose life ended at a tombstone t: t
//! is in the files too.
//!
//! From it follows that nothing is resurrected. Take the newest record at or below C that the files
//! hold of a key, and say it is a put p. If p's life ended at or below C, its tombstone would be in
//! the files and newer: contradiction. So that life was alive at C, its newest put at or below C is
//! retained by the store, and what is retained is always written: p is that put.
//!
//! Each tombstone protects against puts of its own life only. A later life of the same key may be
//! dropped with its tombstone while an earlier put is still in some file; that put's own tombstone
//! is then still there.
//!
//! **Rule.** Compaction drops the versions of a key oldest first, so a store that no longer has t
//! has no put of t's life either, and a file being filtered now loses them all. Another file that
//! overlaps the revisions of the life may still hold one, unless it was filtered after compaction
//! had passed t everywhere: that is what `clean_at > t.mod_revision` says, since `clean_at` = S
//! promises that when the file was filtered, everything that was superseded below S had been given
//! back. A tombstone that the store no longer has is dropped if every file that overlaps
//! [create_revision, mod_revision] is being rewritten in this run or is clean in this sense, and
//! kept otherwise. A run is published as a whole or not at all, so "in this run" is enough.
//!
//! The rule preserves the invariant: a put enters the files with its tombstone or before it; a
//! tombstone leaves only when no file of the new checkpoint holds a put of its life. A tombstone
//! that never made it into a file before it was given back falls under the same rule, for the put
//! it ended may have.

use super::manifest::DataFile;

/// The files of the next checkpoint, as far as they may hold puts that still need a tombstone.
#[derive(Debug, Clone)]
pub(super) struct TombstoneGc {
    spans: Vec<Span>,
}

#[derive(Debug, Clone, Copy)]
struct Span {
    first: i64,
    last: i64,
    clean_at: i64,
}

impl TombstoneGc {
    /// `is_rewritten` says, by index, which files are filtered in this run.
    pub(super) fn new(files: &[DataFile], is_rewritten: impl Fn(usize) -> bool) -> TombstoneGc {
        let spans = files.iter().enumerate().map(|(index, file)| Span {
            first: file.first,
            last: file.last,
            clean_at: if is_rewritten(index) { i64::MAX } else { file.clean_at },
        });
        TombstoneGc { spans: spans.collect() }
    }

    /// Whether no file can hold a put of a life that began at `created` or later and ended at
    /// `ended` or before.
    pub(super) fn may_drop(&self, created: i64, ended: i64) -> bool {
        let overlapping =
            self.spans.iter().skip_while(|span| span.last < created).take_while(|span| span.first < ended);
        overlapping.into_iter().all(|span| span.clean_at > ended)
    }
}

/// Bytes of tombstones that would have to stay if the file at `index` were rewritten now. All or
/// nothing, by the extremes: an estimate for planning.
pub(super) fn pinned_bytes(files: &[DataFile], index: usize) -> u64 {
    let pinned = files[index].pinned_tombstones;
    let tombstone_gc = TombstoneGc::new(files, |other| other == index);
    if pinned.bytes == 0 || tombstone_gc.may_drop(pinned.created, pinned.ended) { 0 } else { pinned.bytes }
}
