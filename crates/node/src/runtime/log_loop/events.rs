//! Events: what the log reports.

use std::sync::Arc;

use vetch_base::Epoch;
use vetch_cluster::{Event, ReplicaId, Ticket};
use vetch_journal::Tip;
use vetch_members::Leader;
use vetch_seeded_bugs::Bug;

use super::ReplicatedLogLoop;
use crate::cluster::Retry;
use crate::lessor::Lessor;
use crate::runtime::Step;
use crate::state::RunState;

impl ReplicatedLogLoop {
    /// Handles what was reported, up to where this server begins to step down: what follows meets
    /// the state of a follower.
    pub(super) fn handle_events(&mut self) -> Step {
        while self.work.stepping_down.is_none()
            && let Some(event) = self.work.events.pop_front()
        {
            if self.handle(event) == Step::Ended {
                return Step::Ended;
            }
        }
        Step::Worked
    }

    fn handle(&mut self, event: Event) -> Step {
        match event {
            Event::Applied { entry, tip } => return self.apply(&entry, &tip),
            Event::Committed { ticket, tip } => return self.committed(ticket, &tip),
            Event::Dropped { ticket } => self.dropped(ticket),
            Event::ReadIndex { reads, index } => self.answer_reads(&reads, Ok(index)),
            Event::ReadIndexLost { reads } => self.answer_reads(&reads, Err(Retry)),
            Event::Leading { epoch, tip } => self.begin_leading(epoch, &tip),
            Event::Following { epoch, leader } => self.begin_following(epoch, leader),
            Event::LeadershipTransferred => self.leadership_transferred(),
            // Requests wait for the next one.
            Event::NoLeader => self.update_status(|status| status.leader = None),
            Event::Suspect { read, end } => {
                tracing::error!(
                    read = read.0,
                    end = end.0,
                    "the journal seems to have lost its last records: this server takes no part until it has \
                     them again; see docs/cluster.md"
                );
                self.force_checkpoint();
            }
            Event::Full => {
                tracing::warn!("the journal is full: nothing can be written until there is room");
            }
            Event::Behind { first } => {
                let why = format!("the journal begins at position {} now, behind what was read", first.0);
                return self.restart_from_checkpoint(&why, RunState::Behind(first.0));
            }
            Event::Halted(divergence) => self.halt(&divergence),
        }
        Step::Worked
    }

    pub(super) fn committed(&mut self, ticket: Ticket, tip: &Tip) -> Step {
        if self.work.announcement == Some(ticket) {
            self.update_cluster_info(|info| info.remember_proof(tip));
        }
        if self.registry.committed(ticket, tip.seq) {
            self.publish_members();
            self.registry.reply_committed();
            return if self.registry.is_removed() { self.removed() } else { Step::Worked };
        }
        self.commit_batches(ticket);
        Step::Worked
    }

    pub(super) fn commit_batches(&mut self, ticket: Ticket) {
        let Some(batches) = self.work.take_decided(ticket) else { return };
        let drafts = batches.iter().filter(|batch| batch.draft.is_some()).count();
        self.work.number = self.work.number.plus(drafts as u64);
        let last = Tip { seq: self.work.number, ..self.log.status().index.tip };
        let answered: usize = batches.iter().map(|batch| batch.replies.len()).sum();
        self.work.request_window.answered(answered + self.work.queued_requests(), self.log.now());
        self.committer.commit(batches, Some(&last));
    }

    fn dropped(&mut self, ticket: Ticket) {
        self.registry.dropped(ticket);
        // The caller of a dropped transfer gets no reply: this server stays the leader, or another
        // one was elected.
        self.work.transfer.take_if(|(transfer, _)| *transfer == ticket);
        if let Some(batches) = self.work.take_decided(ticket) {
            self.work.set_dropped(batches);
        }
    }

    /// The current epoch is this server's.
    fn begin_leading(&mut self, epoch: Epoch, tip: &Tip) {
        self.work.requeue_dropped();
        // Locked, so that every evaluation knows whether it leads: see `propose_transfer`.
        let node = Arc::clone(&self.node);
        let store = node.store.write();
        if !self.work.is_leader {
            assert!(
                tip.next_rev == store.head().revision + 1,
                "journal and store agree on the next revision"
            );
            let mut lessor = node.leases.lessor();
            *lessor = Lessor::default();
            // A client may have renewed a lease at the previous leader, so all leases get their
            // full time again.
            for (id, lease) in store.leases().iter() {
                let time = if vetch_seeded_bugs::on(Bug::LeaseCutShort) { 0 } else { lease.ttl() };
                lessor.start(id, lease.grant(), lease.ttl(), time, node.clock.millis());
            }
            drop(lessor);
            self.work.is_leader = true;
            self.work.peers.begin_leading(self.log.now());
            self.registry.begin_leading(self.log.now());
        }
        // Also after a transfer that was dropped. It invalidates a transfer that is still queued.
        node.leadership.lead();
        drop(store);
        tracing::info!(epoch = epoch.get(), "this server is the leader");
        self.work.announced_at = None;
        let me = self.me.clone();
        self.update_status(|status| {
            (status.epoch, status.is_leader, status.caught_up) = (epoch, true, true);
            (status.leader, status.transferring) = (Some(me), false);
        });
    }

    /// A transfer to another server is committed. Nothing was evaluated ahead, so this server can
    /// follow at once.
    fn leadership_transferred(&mut self) {
        assert!(self.work.is_committed(), "a leader commits all that it evaluated before it transfers");
        self.work.is_leader = false;
        self.registry.begin_following();
        tracing::info!("this server has transferred the leadership");
        self.update_status(|status| (status.is_leader, status.leader) = (false, None));
        if let Some((_, reply)) = self.work.transfer.take() {
            let _ = reply.send(());
        }
    }

    fn begin_following(&mut self, epoch: Epoch, leader: ReplicaId) {
        if vetch_seeded_bugs::on(Bug::ReplacedUnnoticed) {
            self.work.is_leader = false;
        }
        if self.work.is_leader {
            self.step_down();
        }
        tracing::info!(epoch = epoch.get(), "another server is the leader");
        // It announces its address soon; usually the member list has it.
        let known = self.registry.get(leader.member).and_then(|member| member.client_urls.first());
        let leader = known.map(|url| Leader { member: leader.member, url: url.clone() });
        self.update_status(|status| {
            (status.epoch, status.leader, status.transferring) = (epoch, leader, false);
        });
    }
}
