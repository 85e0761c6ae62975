//! Reads: a leader requests indexes for local reads and for those of followers; every server
//! answers reads whose index it has reached.

use vetch_cluster::{LogIndex, ReadId};

use super::ReplicatedLogLoop;
use crate::batch_window::READ_BATCH_WINDOW;
use crate::cluster::read_index::{PendingRead, ReadAtIndex, Retry};

impl ReplicatedLogLoop {
    pub(super) fn take_reads(&mut self) {
        let max = self.node.config.queue_depth;
        self.work.reads.extend(self.reads.local.try_iter().take(max));
        if self.work.reads.is_empty() {
            return;
        }
        if !self.work.is_leader {
            self.work.reads.drain(..).for_each(refuse);
            return;
        }
        let read = ReadId(self.work.next_read);
        let now = self.driver.now();
        let has_lease = self.driver.replica().has_lease(now);
        if !has_lease && self.work.read_window.is_open(self.work.reads.len(), now, READ_BATCH_WINDOW) {
            return;
        }
        // A leader that is about to campaign again lets reads wait; each has its own timeout.
        if self.driver.replica_mut().read_index(now, read).is_ok() {
            self.work.next_read += 1;
            self.work.requested_reads.insert(read, std::mem::take(&mut self.work.reads));
        }
        self.work.reads.retain(|read| !read.is_closed());
    }

    pub(super) fn answer_reads(&mut self, reads: &[ReadId], outcome: Result<LogIndex, Retry>) {
        let mut answered = 0;
        for read in reads.iter().filter_map(|read| self.work.requested_reads.remove(read)).flatten() {
            // The caller may have gone.
            let _ = read.send(outcome);
            answered += 1;
        }
        self.work.read_window.answered(answered, self.driver.now());
    }

    /// Answers reads whose index this server's state has reached. Everything that the replica has
    /// reported by now is applied.
    pub(super) fn answer_reached(&mut self) {
        let mut not_reached = Vec::new();
        for ReadAtIndex { index, mut reads } in std::mem::take(&mut self.work.indexed) {
            let replica = self.driver.replica_mut();
            let outcome = if replica.reached(&index) {
                Ok(index)
            } else if replica.log_state().tip().seq >= index.tip.seq
                && !matches!(replica.log_state().reached(&index), Ok(true))
            {
                // The index is too old to be compared.
                Err(Retry)
            } else {
                reads.retain(|read| !read.is_closed());
                if !reads.is_empty() {
                    not_reached.push(ReadAtIndex { index, reads });
                }
                continue;
            };
            for read in reads {
                let _ = read.send(outcome);
            }
        }
        self.work.indexed = not_reached;
    }
}

pub(super) fn refuse(read: PendingRead) {
    let _ = read.send(Err(Retry));
}
