//! Reads: a leader requests indexes for local reads and for those of followers; every server
//! answers reads whose index it has reached.

use std::collections::HashMap;

use vetch_cluster::{LogIndex, Reached, ReadId};

use super::ReplicatedLogLoop;
use crate::batch_window::BatchWindow;
use crate::cluster::{PendingRead, ReadAtIndex, Retry};

/// The reads that the loop has taken.
#[derive(Default)]
pub(super) struct ReadsInProgress {
    /// For which no index was requested yet.
    waiting: Vec<PendingRead>,
    /// Whose index was requested.
    requested: HashMap<ReadId, Vec<PendingRead>>,
    /// Whose index this server's state has not reached.
    at_index: Vec<ReadAtIndex>,
    next_id: u64,
    /// For which reads wait to share an index.
    window: BatchWindow,
}

impl ReadsInProgress {
    /// Whether a read waits for an index to be requested.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Every read for which there is no index yet.
    pub(super) fn take_without_index(&mut self) -> Vec<PendingRead> {
        let requested = self.requested.drain().flat_map(|(_, reads)| reads);
        requested.chain(self.waiting.drain(..)).collect()
    }
}

impl ReplicatedLogLoop {
    pub(super) fn take_reads(&mut self) {
        let max = self.node.config.queue_depth;
        let reads = &mut self.work.reads;
        reads.waiting.extend(self.reads.local.try_iter().take(max));
        if reads.waiting.is_empty() {
            return;
        }
        if !self.work.is_leader {
            reads.waiting.drain(..).for_each(refuse);
            return;
        }
        let id = ReadId(reads.next_id);
        let now = self.log.now();
        if reads.window.is_open(reads.waiting.len(), now, self.log.pace().read_window) {
            return;
        }
        // A leader that is about to campaign again lets reads wait; each has its own timeout.
        if self.log.read_index(id).is_ok() {
            reads.next_id += 1;
            reads.requested.insert(id, std::mem::take(&mut reads.waiting));
        }
        reads.waiting.retain(|read| !read.is_closed());
    }

    /// Takes the indexes that came for reads of this server.
    pub(super) fn take_indexes(&mut self) {
        self.work.reads.at_index.extend(self.reads.indexed.try_iter());
    }

    pub(super) fn answer_reads(&mut self, ids: &[ReadId], outcome: Result<LogIndex, Retry>) {
        let reads = &mut self.work.reads;
        let mut answered = 0;
        for read in ids.iter().filter_map(|id| reads.requested.remove(id)).flatten() {
            // The caller may have gone.
            let _ = read.send(outcome);
            answered += 1;
        }
        reads.window.answered(answered, self.log.now());
    }

    /// Answers reads whose index this server's state has reached. Everything that the log has
    /// reported by now is applied.
    pub(super) fn answer_reached(&mut self) {
        let mut not_reached = Vec::new();
        for ReadAtIndex { index, mut reads } in std::mem::take(&mut self.work.reads.at_index) {
            let outcome = match self.log.reached(&index) {
                Reached::Yes => Ok(index),
                Reached::Unknown => Err(Retry),
                Reached::NotYet => {
                    reads.retain(|read| !read.is_closed());
                    if !reads.is_empty() {
                        not_reached.push(ReadAtIndex { index, reads });
                    }
                    continue;
                }
            };
            for read in reads {
                let _ = read.send(outcome);
            }
        }
        self.work.reads.at_index = not_reached;
    }
}

pub(super) fn refuse(read: PendingRead) {
    let _ = read.send(Err(Retry));
}
