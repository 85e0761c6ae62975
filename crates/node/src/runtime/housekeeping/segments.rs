//! Prepares journal segments ahead of their use.

use std::sync::Arc;

use vetch_journal::{JournalError, Maintenance};

use crate::admission::DiskState;
use crate::state::NodeState;

pub(super) struct Segments {
    node: Arc<NodeState>,
    /// None on a shared journal, which has no files here.
    maintenance: Option<Maintenance>,
}

impl Segments {
    pub(super) fn new(node: &Arc<NodeState>, maintenance: Option<Maintenance>) -> Segments {
        Segments { node: Arc::clone(node), maintenance }
    }

    /// True if trimmed segments were removed.
    pub(super) fn prepare(&mut self) -> bool {
        let Some(maintenance) = &mut self.maintenance else { return false };
        let before = self.node.disk.state();
        let has_removed = match maintenance.run() {
            Ok(done) => {
                self.node.disk.segment_prepared();
                done.removed > 0
            }
            Err(error) => {
                self.node.disk.segment_failed(&error);
                log_failure(before, self.node.disk.state(), &error);
                false
            }
        };
        let spare = maintenance.spares() as u64 * self.node.config.journal_segment_bytes;
        self.node.disk.set_spare_room(spare);
        has_removed
    }
}

fn log_failure(before: DiskState, now: DiskState, error: &JournalError) {
    match now {
        now if now == before => {}
        DiskState::Full => {
            tracing::error!(%error, "the disk is full: writes are refused until there is space again");
        }
        _ => {
            tracing::error!(%error, "no journal segment can be prepared: writes are refused until one can; check the disk");
        }
    }
}
