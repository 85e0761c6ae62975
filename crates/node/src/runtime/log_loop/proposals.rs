//! Proposals: batches of the sequencer, announcements, the member list and leadership transfers on
//! their way into the log.

use std::time::Duration;

use crossbeam_channel::TryRecvError;
use vetch_cluster::{Refusal, ReplicaId};
use vetch_journal::{ChainedEntry, Draft, Kind};
use vetch_members::announcement;
use vetch_seeded_bugs::Bug;

use super::ReplicatedLogLoop;
use crate::batch_window::WRITE_BATCH_WINDOW;
use crate::runtime::Step;
use crate::sequencer::{Batch, LeadershipTransfer};
use crate::state::Reply;

/// How often the leader announces its address and its peers.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(1);
/// Batches taken from the sequencer and not proposed yet.
const QUEUE_MAX: usize = 64;
/// With fewer records in flight the next one is always proposed; otherwise it has to be worth it.
const PIPELINE: usize = 1;

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
        let now = self.driver.now();
        let since = *self.work.stopping_since.get_or_insert(now);
        let is_late = now >= since + self.node.config.request_timeout;
        if self.work.is_drained() || is_late || !self.work.is_leader { Step::Ended } else { Step::Worked }
    }

    /// Announces this leader's address and its peers at an interval, for servers that forward
    /// requests.
    pub(super) fn announce(&mut self) {
        let now = self.driver.now();
        let is_due = self.work.announced_at.is_none_or(|last| now >= last + ANNOUNCE_INTERVAL);
        if !self.work.is_leader || !is_due {
            return;
        }
        let peers = self.work.peers.peers();
        let replica = self.driver.replica_mut();
        let entry = announcement::encode(&self.me, &peers).chain(&mut replica.head());
        if let Ok(ticket) = replica.propose(now, &[entry]) {
            (self.work.announced_at, self.work.announcement) = (Some(now), Some(ticket));
            self.update_cluster_info(|info| info.peers = peers);
        }
    }

    /// Executes commands about members, and proposes the member list when it has changed.
    pub(super) fn maintain_members(&mut self) -> Result<(), Step> {
        let now = self.driver.now();
        if !self.work.is_leader {
            // Dropped without a reply: the caller has to ask the leader.
            self.member_commands.try_iter().for_each(drop);
            return Ok(());
        }
        for command in self.member_commands.try_iter() {
            self.registry.execute(now, command);
        }
        self.registry.check_own_place(now).map_err(|refusal| self.failed(refusal.to_string()))?;
        if let Some(draft) = self.registry.due(now) {
            let replica = self.driver.replica_mut();
            let entry = draft.chain(&mut replica.head());
            if let Ok(ticket) = replica.propose(now, &[entry]) {
                self.registry.proposed(now, ticket);
            }
        }
        Ok(())
    }

    /// Proposes what is queued, a record at a time. Responses that change nothing wait for a
    /// barrier: they, too, must come from the newest state.
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
            if !self.driver.replica().may_propose() || !self.is_worth_a_record() {
                return Ok(());
            }
            if !self.propose_record()? {
                return Ok(());
            }
        }
        self.reply_follower_captures()
    }

    /// Proposes the next record. False if the replica refuses it for now.
    fn propose_record(&mut self) -> Result<bool, Step> {
        let (taken, entries) = self.next_record();
        let now = self.driver.now();
        match self.driver.replica_mut().propose(now, &entries) {
            Ok(ticket) => {
                self.count_proposed(&entries);
                self.work.proposed(ticket, taken);
                if vetch_seeded_bugs::on(Bug::AnsweredEarly)
                    && let Some(last) = entries.last()
                {
                    self.committed(ticket, last.after());
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
        let now = self.driver.now();
        let ticket = match is_stale {
            true => None,
            false => match self.driver.replica_mut().transfer_leadership(now, to) {
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
        let tuning = &self.node.config.tuning;
        let bytes = |batch: &Batch<Reply>| batch.draft.as_ref().map_or(0, Draft::size);
        let requests = self.work.queued_requests();
        requests >= tuning.journal.record_requests
            || self.work.queue.iter().map(bytes).sum::<usize>() >= tuning.batch.bytes / 16
            || (self.work.records_in_flight() < PIPELINE
                && !self.work.request_window.is_open(requests, self.driver.now(), WRITE_BATCH_WINDOW))
    }

    /// The next record: how many batches of the queue, and their entries, chained on the head.
    fn next_record(&self) -> (usize, Vec<ChainedEntry>) {
        let mut tip = self.driver.replica().head();
        let (mut taken, mut bytes, mut entries) = (0, 0, Vec::new());
        let is_plain = |batch: &&Batch<Reply>| batch.capture.is_none() && batch.transfer.is_none();
        for batch in self.work.queue.iter().take_while(is_plain) {
            if let Some(draft) = &batch.draft {
                let mut after = tip;
                let entry = draft.clone().chain(&mut after);
                bytes += entry.bytes().len();
                if taken > 0 && bytes > self.node.config.tuning.batch.bytes {
                    break;
                }
                tip = after;
                entries.push(entry);
            }
            taken += 1;
        }
        if entries.is_empty() {
            entries.push(Draft::new(Kind::Barrier).chain(&mut tip));
        }
        (taken, entries)
    }
}
