//! Exit: how the loop ends, and captures of the state for checkpoints.

use std::sync::atomic::Ordering;
use std::time::Duration;

use vetch_checkpoint::Capture;
use vetch_cluster::Divergence;
use vetch_seeded_bugs::Bug;

use super::ReplicatedLogLoop;
use super::reads::refuse;
use crate::error::NodeError;
use crate::runtime::Step;
use crate::sequencer::{Batch, CaptureRequest};
use crate::state::{Reply, RunState};

/// How long a halted server takes to write its state to disk.
const EXIT_CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(30);

const REMOVED: &str = "this server was removed from the cluster, or replaced by another one of its name; to join as a new \
                       one, start it with an empty data directory";

impl ReplicatedLogLoop {
    /// What this server evaluated ahead may never be committed.
    pub(super) fn replaced(&mut self, why: String) -> Step {
        self.restart_from_checkpoint(&why, RunState::Replaced)
    }

    /// Ends the node so that it is opened again.
    pub(super) fn restart_from_checkpoint(&mut self, why: &str, state: RunState) -> Step {
        tracing::warn!(why, "this server restarts from a checkpoint");
        self.node.leadership.follow();
        self.update_status(|status| (status.is_leader, status.leader) = (false, None));
        for (reply, _) in self.work.take_uncommitted().into_iter().flat_map(|batch| batch.replies) {
            let _ = reply.send(Err(NodeError::Timeout));
        }
        self.work.reads.take_without_index().into_iter().for_each(refuse);
        self.node.lifecycle.end(state);
        Step::Ended
    }

    /// This server's history may be the right one, as far as it is committed: it is written to disk
    /// before the server ends.
    pub(super) fn halt(&mut self, divergence: &Divergence) {
        let cause = format!(
            "the journal and this server have different histories: {divergence}; see docs/cluster.md"
        );
        tracing::error!(cause, "this server stops; its state is written to disk first");
        if self.work.is_leader {
            self.step_down();
        }
        self.work.halted = Some((cause, self.log.now()));
        self.force_checkpoint();
    }

    /// Waits until a checkpoint has saved everything visible, then fails the node.
    pub(super) fn checkpoint_before_exit(&mut self) -> Step {
        let Some((cause, since)) = self.work.halted.clone() else { return Step::Worked };
        if self.take_batches() == Step::Ended {
            return Step::Ended;
        }
        let visible = self.node.store.read().visible().revision;
        let saved = self.cluster.saved.load(Ordering::Acquire);
        let is_late = self.log.now() >= since + EXIT_CHECKPOINT_TIMEOUT;
        if is_late || saved >= visible {
            return self.failed(cause);
        }
        while let Some(batch) = self.work.queue.pop_front() {
            self.reply_capture(batch);
        }
        Step::Worked
    }

    pub(super) fn removed(&mut self) -> Step {
        self.failed(REMOVED.to_string())
    }

    pub(super) fn failed(&mut self, cause: String) -> Step {
        self.node.fail(cause);
        Step::Ended
    }

    /// Replies with a capture and the place in the log that made its state. Everything before it is
    /// committed by now.
    pub(super) fn reply_capture(&mut self, batch: Batch<Reply>) {
        let Some(CaptureRequest { reply, capture }) = batch.capture else {
            // Queued while this server was about to be replaced: the requests are not evaluated.
            batch.replies.into_iter().for_each(|(reply, _)| drop(reply.send(Err(NodeError::Timeout))));
            return;
        };
        let index = self.log.status().index;
        let dirty = std::mem::take(&mut self.work.dirty);
        let capture = match capture {
            Some(mut capture) => {
                capture.dirty.splice(..0, dirty);
                capture
            }
            None if self.work.is_leader => {
                // It was requested while another server led. The next one is requested soon.
                self.work.dirty = dirty;
                return;
            }
            None => {
                // While this server leads, the sequencer counts.
                self.node.disk.set_fresh_bytes(0);
                Capture::at_head(&self.node.store.read(), index.tip, dirty)
            }
        };
        self.work.fresh_bytes = 0;
        let further = u64::from(vetch_seeded_bugs::on(Bug::CaptureMisplaced));
        let capture = Capture { tip: index.tip, position: index.position.0 + further, ..capture };
        let _ = reply.send(capture);
    }
}
