//! Snapshot point: where a snapshot begins, and what keeps its versions until they are collected.

use std::sync::Arc;

use vetch_base::Seq;
use vetch_store::load::Unversioned;
use vetch_store::{Mark, Store};

use super::NodeState;

/// A point between two batches, as the sequencer saw it.
pub(crate) struct SnapshotPoint {
    pub(crate) mark: Mark,
    /// Sequence number of the entry before it.
    pub(crate) seq: Seq,
    /// How often the store had been rewound.
    pub(crate) rewinds: u64,
    pub(crate) unversioned: Unversioned,
    pub(crate) hold: CollectionHold,
}

impl SnapshotPoint {
    /// Called with the store locked, so that nothing is freed between the look and the hold.
    pub(crate) fn new(node: &Arc<NodeState>, store: &Store, seq: Seq) -> SnapshotPoint {
        SnapshotPoint {
            mark: store.head(),
            seq,
            rewinds: store.rewinds(),
            unversioned: store.unversioned(),
            hold: CollectionHold::new(node),
        }
    }
}

/// As long as there is one, housekeeping frees no version.
pub(crate) struct CollectionHold(Arc<NodeState>);

impl CollectionHold {
    fn new(node: &Arc<NodeState>) -> CollectionHold {
        node.compaction.begin_collecting();
        CollectionHold(Arc::clone(node))
    }
}

impl Drop for CollectionHold {
    fn drop(&mut self) {
        if self.0.compaction.end_collecting() {
            // A compaction may have been waiting.
            self.0.housekeeping.ring();
        }
    }
}
