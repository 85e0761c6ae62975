//! Trims the local journal behind checkpoints and backups.

use std::sync::Arc;

use crossbeam_channel::Sender;
use vetch_base::Seq;
use vetch_checkpoint::Checkpointer;
use vetch_journal::Position;
use vetch_sync::queue::Nudge;

use crate::retention::Trim;
use crate::sequencer::Batch;
use crate::state::{NodeState, Reply};

pub(crate) struct Trimmer {
    node: Arc<NodeState>,
    positions: Sender<Position>,
    /// Wakes the journal's thread for a position.
    nudge: Nudge<Batch<Reply>>,
    /// The last entry up to which a trim was requested.
    trimmed: Seq,
}

impl Trimmer {
    pub(crate) fn new(
        node: &Arc<NodeState>,
        positions: Sender<Position>,
        nudge: Nudge<Batch<Reply>>,
    ) -> Trimmer {
        Trimmer { node: Arc::clone(node), positions, nudge, trimmed: Seq::ZERO }
    }

    pub(super) fn trimmed(&self) -> Seq {
        self.trimmed
    }

    /// Gives up what neither the two newest checkpoints nor a backup needs. A shared journal is not
    /// trimmed by one server alone.
    pub(super) fn trim(&mut self, checkpointer: &Checkpointer) {
        if self.node.cluster.is_some() {
            return;
        }
        let Some(tip) = checkpointer.trim_to() else { return };
        let disk_full = self.node.disk.is_full();
        if disk_full && self.node.retention.release_pins() {
            tracing::warn!("the disk is full: checkpoint files that were held for a backup are released");
        }
        let upto = match self.node.retention.trim(tip.seq.next(), self.node.disk.journal_bytes(), disk_full) {
            Trim::Upto(upto) => upto,
            Trim::Dropped(upto) => {
                self.node.report_retention_dropped();
                upto
            }
        };
        assert!(upto <= tip.seq.next(), "the journal is trimmed only behind checkpoints");
        if upto > self.trimmed && self.request(upto) {
            self.trimmed = upto;
        }
    }

    /// False: the queue is full of older positions; the next call names a newer one.
    pub(super) fn request(&self, upto: Seq) -> bool {
        let taken = self.positions.try_send(Position(upto.get())).is_ok();
        self.wake_journal();
        taken
    }

    pub(super) fn wake_journal(&self) {
        self.nudge.ring();
    }
}
