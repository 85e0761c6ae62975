//! Proposals: batches of the sequencer, announcements, the member list and leadership transfers on
//! their way into the log.

use crossbeam_channel::TryRecvError;
use vetch_cluster::{Refusal, ReplicaId};
use vetch_journal::Draft;
use vetch_members::announcement;
use vetch_seeded_bugs::Bug;

use super::ReplicatedLogLoop;
use crate::runtime::Step;
use crate::sequencer::{Batch, LeadershipTransfer};
use crate::state::Reply;

/// Batches taken from the sequencer and not proposed yet.
const QUEUE_MAX: usize = 64;

impl ReplicatedLogLoop {
    pub(super) fn take_batches(&mut self) -> Step {
        while self.work.queue.len() < QUEUE_MAX {
            match self.batches.try_recv() {
                Ok(batch) => self.work.queue.push_back(batch),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return self.drain(),
            }
        }
        Step::Worked
    }

    /// The sequencer has ended. What it left is committed, if that takes no longer than a request
    /// may.
    fn drain(&mut self) -> Step {
        let now = self.log.now();
        let since = *self.work.stopping_since.get_or_insert(now);
        let is_late = now >= since + self.node.config.request_timeout;
        if self.work.is_drained() || is_late || !self.work.is_leader { Step::Ended } else { Step::Worked }
    }

    /// Announces this leader's address and its peers at an interval, for servers that forward
    /// requests.
    pub(super) fn announce(&mut self) {
        let now = self.log.now();
        let is_due =
            self.work.announced_at.is_none_or(|last| now >= last + self.log.pace().announce_interval);
        if !self.work.is_leader || !is_due {
            return;
        }
        let peers = self.work.peers.peers();
        let announcement = announcement::encode(&self.me, &peers);
        if let Ok(ticket) = self.log.propose(&[&announcement]) {
            (self.work.announced_at, self.work.announcement) = (Some(now), Some(ticket));
            self.update_cluster_info(|info| info.peers = peers);
        }
    }

    /// Executes commands about members, and proposes the member list when it has changed.
    pub(super) fn maintain_members(&mut self) -> Result<(), Step> {
        let now = self.log.now();
        if !self.work.is_leader {
            // Dropped without a reply: the caller has to ask the leader.
            self.member_commands.try_iter().for_each(drop);
            return Ok(());
        }
        for command in self.member_commands.try_iter() {
            self.registry.execute(now, command);
        }
        self.registry.check_own_place(now).map_err(|refusal| self.failed(refusal.to_string()))?;
        if let Some(draft) = self.registry.due(now)
            && let Ok(ticket) = self.log.propose(&[&draft])
        {
            self.registry.proposed(now, ticket);
        }
        Ok(())
    }

    /// Proposes what is queued, a record at a time. Responses that change nothing wait for a proof
    /// that this server leads: they, too, must come from the newest state.
    pub(super) fn propose(&mut self) -> Result<(), Step> {
        while self.work.is_leader && !self.work.queue.is_empty() {
            if self.work.queue.front().is_some_and(|batch| batch.capture.is_some()) {
                if self.work.records_in_flight() > 0 {
                    return Ok(());
                }
                let batch = self.work.queue.pop_front().expect("there is a first one");
                self.reply_capture(batch);
                continue;
            }
            let transfer = self.work.queue.front().and_then(|batch| batch.transfer.as_ref());
            if let Some((to, leadership_count)) = transfer.map(|it| (it.to, it.leadership_count)) {
                if self.propose_transfer(to, leadership_count) {
                    continue;
                }
                return Ok(());
            }
            if !self.log.may_propose() || !self.is_worth_a_record() {
                return Ok(());
            }
            if !self.propose_record()? {
                return Ok(());
            }
        }
        self.reply_follower_captures()
    }

    /// Proposes the next record. False if the log refuses it for now.
    fn propose_record(&mut self) -> Result<bool, Step> {
        let (taken, drafts) = self.work.next_record(self.node.config.tuning.batch.bytes);
        match self.log.propose(&drafts) {
            Ok(ticket) => {
                self.work.proposed(ticket, taken);
                self.check_room();
                if vetch_seeded_bugs::on(Bug::AnsweredEarly) {
                    self.commit_batches(ticket);
                }
                Ok(true)
            }
            Err(Refusal::NotLeader | Refusal::Busy) => Ok(false),
            Err(refusal @ (Refusal::TooLarge { .. } | Refusal::OutOfOrder)) => {
                Err(self.replaced(format!("an entry cannot be written: {refusal}")))
            }
        }
    }

    /// A follower has nothing in flight, so captures need not wait.
    fn reply_follower_captures(&mut self) -> Result<(), Step> {
        while !self.work.is_leader
            && let Some(batch) = self.work.queue.pop_front()
        {
            if batch.draft.is_some() {
                self.work.queue.push_front(batch);
                return Err(self.replaced("what was evaluated here is not in the journal".to_string()));
            }
            self.reply_capture(batch);
        }
        Ok(())
    }

    /// Names another server as the next leader. Everything before it has been proposed. Not if this
    /// server has begun another leadership since the transfer was requested: requests behind it may
    /// have been evaluated, and would never be committed. Returns whether to go on with the queue.
    fn propose_transfer(&mut self, to: ReplicaId, leadership_count: u64) -> bool {
        let is_stale = self.node.leadership.count() != leadership_count;
        let ticket = match is_stale {
            true => None,
            false => match self.log.transfer_leadership(to) {
                Ok(ticket) => Some(ticket),
                Err(_) => return false,
            },
        };
        let transfer = self.work.queue.pop_front().and_then(|batch| batch.transfer);
        if let Some(LeadershipTransfer { reply, dirty, fresh_bytes, .. }) = transfer {
            self.work.dirty.extend(dirty);
            self.work.fresh_bytes += fresh_bytes;
            self.node.disk.set_fresh_bytes(self.work.fresh_bytes);
            self.work.transfer = ticket.map(|ticket| (ticket, reply));
        }
        is_stale
    }

    /// Whether the queue should be proposed now. A record costs the servers of the log the same
    /// whether it holds one request or a hundred, so a few requests wait for the records in flight,
    /// and others join them meanwhile.
    fn is_worth_a_record(&self) -> bool {
        let (tuning, pace) = (&self.node.config.tuning, self.log.pace());
        let bytes = |batch: &Batch<Reply>| batch.draft.as_ref().map_or(0, Draft::size);
        let requests = self.work.queued_requests();
        requests >= tuning.journal.record_requests
            || self.work.queue.iter().map(bytes).sum::<usize>() >= tuning.batch.bytes / 16
            || (self.work.records_in_flight() < pace.small_records
                && !self.work.request_window.is_open(requests, self.log.now(), pace.write_window))
    }
}
