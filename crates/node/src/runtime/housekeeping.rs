//! The housekeeping thread: everything that keeps a node small, off every path a client waits on.
//!
//! * `segments` prepares journal segments.
//! * `compaction` frees what compactions made unreachable.
//! * `checkpoints` takes checkpoints and reads them back.
//! * `trimmer` trims the journal behind them.
//! * `scrubber` looks for damage on disk.
//!
//! One thread does all of it, which keeps a checkpoint simple: no version disappears from memory
//! while one is being written.

mod checkpoints;
mod compaction;
mod scrubber;
mod segments;
mod trimmer;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use vetch_base::Seq;
use vetch_checkpoint::Checkpointer;
use vetch_journal::Maintenance;
use vetch_seeded_bugs::Bug;

use crate::runtime::Step;
use crate::scrub::Scrub;
use crate::state::{Command, NodeState};

use checkpoints::Checkpoints;
use scrubber::Scrubber;
use segments::Segments;
pub(crate) use trimmer::Trimmer;

/// Between two steps, unless the bell rings.
const IDLE_INTERVAL: Duration = Duration::from_millis(500);
/// Between two polls for a capture that was requested.
const CAPTURE_POLL_INTERVAL: Duration = Duration::from_millis(1);
/// How long the disk is left to others between two pieces of a checkpoint that is read back.
const READ_BACK_INTERVAL: Duration = Duration::from_millis(20);

/// Keeps the node small.
pub struct Housekeeping {
    node: Arc<NodeState>,
    bell: Receiver<()>,
    segments: Segments,
    checkpoints: Checkpoints,
    trimmer: Trimmer,
    scrubber: Scrubber,
}

impl Housekeeping {
    pub(crate) fn new(
        node: &Arc<NodeState>,
        bell: Receiver<()>,
        maintenance: Option<Maintenance>,
        checkpointer: Checkpointer,
        scrub: Scrub,
        trimmer: Trimmer,
    ) -> Housekeeping {
        Housekeeping {
            node: Arc::clone(node),
            bell,
            segments: Segments::new(node, maintenance),
            checkpoints: Checkpoints::new(node, checkpointer),
            trimmer,
            scrubber: Scrubber::new(node, scrub),
        }
    }

    /// How long a place in the sequencer's queue is waited for: not at all, unless this is called.
    /// A queue that is full now may stay full if no other thread takes from it.
    pub(crate) fn set_enqueue_timeout(&mut self, timeout: Duration) {
        self.checkpoints.set_enqueue_timeout(timeout);
    }

    pub(crate) fn run(mut self) {
        let mut last_step = Instant::now();
        loop {
            let is_early = last_step.elapsed() < IDLE_INTERVAL;
            match self.bell.recv_timeout(self.interval()) {
                // Only the capture is polled this often: on a full disk, an attempt to prepare a
                // segment is expensive.
                Err(RecvTimeoutError::Timeout) if self.checkpoints.is_capturing() && is_early => {
                    self.take_checkpoint_if_due();
                    continue;
                }
                Err(RecvTimeoutError::Timeout) if self.checkpoints.is_verifying() && is_early => {
                    self.verify();
                    continue;
                }
                Ok(()) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            last_step = Instant::now();
            if self.step() == Step::Ended {
                return;
            }
        }
    }

    fn interval(&self) -> Duration {
        match (self.checkpoints.is_capturing(), self.checkpoints.is_verifying()) {
            (true, _) => CAPTURE_POLL_INTERVAL,
            (false, true) => READ_BACK_INTERVAL,
            (false, false) => IDLE_INTERVAL,
        }
    }

    /// Does whatever is due.
    pub fn step(&mut self) -> Step {
        if self.node.is_stopping() {
            return Step::Ended;
        }
        let generation = self.node.key_usage.generation();
        if self.segments.prepare() {
            // It reports which keys the remaining files need.
            self.trimmer.wake_journal();
        }
        if self.node.key_usage.is_journal_behind() {
            // Trims nothing, but makes the journal check its keys.
            self.trimmer.request(Seq::ZERO);
        }
        // What a capture counts on must stay in memory until it is written.
        if !self.checkpoints.is_capturing() || vetch_seeded_bugs::on(Bug::FreedWhileCaptured) {
            compaction::run(&self.node, &mut self.checkpoints);
        }
        self.take_checkpoint_if_due();
        self.verify();
        self.scrub();
        if self.node.retention.is_enabled() {
            // Entries may be in the backup by now, or may have to be given up.
            self.trim();
        }
        self.review_alarms();
        let files_by_key = self.checkpoints.checkpointer().files_by_key();
        self.node.key_usage.note_checkpoint(files_by_key, generation);
        self.node.key_usage.report_unused();
        Step::Idle
    }

    fn take_checkpoint_if_due(&mut self) {
        let is_journal_damaged = self.scrubber.is_journal_damaged(self.checkpoints.checkpointer());
        self.checkpoints.take_if_due(is_journal_damaged, &self.trimmer);
    }

    /// Reads back the next piece of a new checkpoint. The journal is trimmed only once all of it is
    /// known to be on disk.
    fn verify(&mut self) {
        if self.checkpoints.verify_step() {
            self.trim();
            self.checkpoints.publish_trim_vote();
        }
    }

    fn trim(&mut self) {
        self.trimmer.trim(self.checkpoints.checkpointer());
    }

    /// Reads some of the files again, unless a checkpoint is using the disk.
    fn scrub(&mut self) {
        if !self.checkpoints.is_verifying() && !self.checkpoints.is_capturing() {
            self.scrubber.step(self.checkpoints.checkpointer_mut(), self.trimmer.trimmed());
        }
    }

    fn review_alarms(&self) {
        let decides = self.node.cluster.is_none() || !self.node.is_following();
        if decides && self.node.store.read().alarms().next().is_some() {
            // With a full queue the next step comes soon enough.
            let _ = self.node.commands.try_send(Command::ReviewAlarms);
        }
    }
}
