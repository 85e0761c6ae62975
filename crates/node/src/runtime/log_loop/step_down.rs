//! Step down: a leader takes back what it has evaluated and will never be committed, and goes on as
//! a follower with the state that it has.
//!
//! The sequencer may be in the middle of a round, and even of one evaluation, which releases the
//! lock on the store if it examines many keys. So this takes three steps. From the moment that
//! `following` is set, with the store locked, no evaluation begins; one that has begun goes on to
//! its end. A command makes the sequencer send what it has, behind all batches; it takes commands
//! between evaluations only. Once that batch is here, or the sequencer has ended, no evaluation is
//! under way, and all that was evaluated and not committed is here. The store is rewound to what is
//! visible. Meanwhile nothing that the log reports is handled, so nothing else changes head.

use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, TrySendError};
use vetch_store::rewind::rewind;

use super::ReplicatedLogLoop;
use super::reads::refuse;
use crate::error::NodeError;
use crate::runtime::Step;
use crate::runtime::round::Locked;
use crate::sequencer::{Batch, EndOfLead, LeadershipTransfer, saved_bytes};
use crate::state::{Command, Reply};

/// How long a step waits for the sequencer.
const WAIT_MAX: Duration = Duration::from_millis(1);

/// How far this server has come with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SteppingDown {
    /// The sequencer has to be told.
    Begun,
    /// Its last batch is on its way.
    Requested,
}

impl ReplicatedLogLoop {
    /// No evaluation begins here from now on.
    pub(super) fn step_down(&mut self) {
        {
            let _store = self.node.store.write();
            self.node.leadership.follow();
        }
        self.work.is_leader = false;
        self.work.transfer = None;
        self.work.stepping_down = Some(SteppingDown::Begun);
        self.registry.begin_following();
        self.work.reads.take_without_index().into_iter().for_each(refuse);
        self.update_status(|status| (status.is_leader, status.leader) = (false, None));
    }

    /// Waits for the sequencer, rewinds, and handles what was reported meanwhile.
    pub(super) fn continue_stepping_down(&mut self, wait: Duration) -> Step {
        if self.work.stepping_down == Some(SteppingDown::Begun) {
            match self.node.commands.try_send(Command::EndLead) {
                // Without a sequencer there will be no batch.
                Ok(()) | Err(TrySendError::Disconnected(_)) => {
                    self.work.stepping_down = Some(SteppingDown::Requested);
                }
                Err(TrySendError::Full(_)) => {}
            }
        }
        if !self.has_all_batches(wait.min(WAIT_MAX)) {
            return Step::Worked;
        }
        self.take_back();
        self.work.stepping_down = None;
        self.handle_events()
    }

    /// Takes batches until the sequencer's last one has come, or the sequencer has ended.
    fn has_all_batches(&mut self, wait: Duration) -> bool {
        loop {
            if self.work.queue.back().is_some_and(|batch| batch.end_of_lead.is_some()) {
                return true;
            }
            match self.batches.recv_timeout(wait) {
                Ok(batch) => self.work.queue.push_back(batch),
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => return true,
            }
        }
    }

    /// Makes the state what is visible. Clients whose requests are taken back do not know what
    /// became of them.
    fn take_back(&mut self) {
        let mut batches = self.work.take_uncommitted();
        let undo = batches.iter_mut().flat_map(|batch| std::mem::take(&mut batch.unversioned.undo)).collect();
        let revision = {
            let mut store = Locked::of(&self.node);
            let visible = store.visible();
            rewind(&mut store, visible, undo);
            visible.revision
        };
        let changed = batches.iter().filter(|batch| batch.draft.is_some()).count();
        tracing::info!(batches = changed, revision, "what was evaluated ahead is taken back");
        self.node.metrics.proposals.rewound.add(changed as u64);
        batches.into_iter().for_each(|batch| self.abandon(batch));
        // As at a start.
        self.work.dirty.retain(|record| record.mod_revision() <= revision);
        self.work.fresh_bytes = saved_bytes(&self.work.dirty);
        self.node.disk.set_fresh_bytes(self.work.fresh_bytes);
    }

    /// Nothing of this batch is committed, but the records that it carries for a checkpoint may be.
    fn abandon(&mut self, batch: Batch<Reply>) {
        let Batch { capture, transfer, end_of_lead, replies, .. } = batch;
        if let Some(LeadershipTransfer { dirty, .. }) = transfer {
            self.work.dirty.extend(dirty);
        }
        // The caller of a capture asks again.
        let captured = capture.and_then(|request| request.capture);
        self.work.dirty.extend(captured.into_iter().flat_map(|capture| capture.dirty));
        if let Some(EndOfLead { dirty, number }) = end_of_lead {
            self.work.dirty.extend(dirty);
            // No later batch gets a number of one that is taken back.
            self.work.number = number;
            self.node.visible.set_seq(number);
        }
        for (reply, _) in replies {
            self.node.metrics.proposals.pending.add(-1);
            self.node.metrics.proposals.failed.add(1);
            let _ = reply.send(Err(NodeError::Timeout));
        }
    }
}
