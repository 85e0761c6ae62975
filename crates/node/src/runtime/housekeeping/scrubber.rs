//! Looks for damage on disk, as much as is due, and reports it.

use std::sync::Arc;

use crate::scrub::Scrub;
use crate::state::NodeState;
use vetch_base::Seq;
use vetch_checkpoint::{Checkpointer, Damage};

pub(super) struct Scrubber {
    node: Arc<NodeState>,
    scrub: Scrub,
    /// The last entry of a damaged journal segment: checkpoints are taken until it is not needed
    /// any more.
    damaged_journal: Option<Seq>,
}

impl Scrubber {
    pub(super) fn new(node: &Arc<NodeState>, scrub: Scrub) -> Scrubber {
        Scrubber { node: Arc::clone(node), scrub, damaged_journal: None }
    }

    /// Whether a start would need a damaged segment.
    pub(super) fn is_journal_damaged(&self, checkpointer: &Checkpointer) -> bool {
        let is_needed = |last: Seq| checkpointer.journal_needed_from().is_none_or(|tip| tip.seq < last);
        self.damaged_journal.is_some_and(is_needed)
    }

    /// `trimmed` is up to where the journal was trimmed.
    pub(super) fn step(&mut self, checkpointer: &mut Checkpointer, trimmed: Seq) {
        let found = self.scrub.step(self.node.clock.now(), checkpointer);
        self.node.metrics.scrub.bytes.add(found.bytes);
        found.checkpoint.iter().for_each(|damage| report(&self.node, damage));
        for (damage, last) in &found.journal {
            report(&self.node, damage);
            self.damaged_journal = self.damaged_journal.max(Some(*last));
        }
        if found.is_complete {
            self.node.metrics.scrub.runs.add(1);
            self.node.metrics.scrub.done_at.set(self.node.clock.gauge_time());
        }
        self.forget_repaired(checkpointer, trimmed);
    }

    /// A damaged file that is not needed any more is not shown any more.
    fn forget_repaired(&mut self, checkpointer: &Checkpointer, trimmed: Seq) {
        let known = self.node.disk.damaged_files();
        if known.is_empty() {
            return;
        }
        let damaged = checkpointer.damaged();
        for file in known.iter().filter(|file| !damaged.contains(file) && !self.scrub.has_segment(file)) {
            self.node.disk.forget_damage(file);
        }
        if self.damaged_journal.is_some_and(|last| last < trimmed) {
            self.damaged_journal = None;
        }
    }
}

pub(super) fn report(node: &NodeState, damage: &Damage) {
    tracing::error!(%damage, "a file is damaged: make a backup now and check the disk");
    node.metrics.scrub.damage_found.add(1);
    node.disk.report_damage(damage.file.clone(), damage.to_string());
}
