//! What all clients together know, so that their requests are about the same keys, leases and
//! revisions.

use std::collections::{BTreeSet, VecDeque};

/// Revisions of deletes that are remembered, to compact exactly there.
const DELETES: usize = 8;

#[derive(Default)]
pub(crate) struct Knowledge {
    /// The highest revision any answer named.
    pub(crate) revision: i64,
    /// The highest compaction that was answered, or may have happened.
    pub(crate) compacted: i64,
    /// How far the observer of everything has come.
    pub(crate) observed: i64,
    pub(crate) deletes: VecDeque<i64>,
    pub(crate) leases: BTreeSet<i64>,
    /// Alarms that clients raised, or may have raised, and did not lower yet.
    pub(crate) alarms: BTreeSet<u64>,
    /// Answers so far.
    pub(crate) answers: u64,
    /// Writes acknowledged so far.
    pub(crate) writes: u64,
}

impl Knowledge {
    pub(crate) fn saw_revision(&mut self, revision: i64) {
        self.revision = self.revision.max(revision);
    }

    pub(crate) fn deleted_at(&mut self, revision: i64) {
        self.deletes.push_back(revision);
        if self.deletes.len() > DELETES {
            self.deletes.pop_front();
        }
    }
}
