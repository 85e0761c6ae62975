//! Drive: takes from the crate what is to be written, sent and applied, until nothing is left.

use raft::StateRole;
use raft::eraftpb::{Entry as RaftEntry, Message as Pb, MessageType};
use vetch_base::{Epoch, Seq};
use vetch_cluster::{Event, ReplicaId};
use vetch_journal::Kind;
use vetch_seeded_bugs::Bug;

use super::{Command, Core};
use crate::entry::LogEntry;
use crate::members::{conf_change, members_of};
use crate::message::Message;

impl Core {
    /// Everything up to the command of this number is on disk, synced.
    pub fn persisted(&mut self, number: u64) {
        if self.stopped {
            return;
        }
        let messages = self.disk.persisted(number);
        self.node.on_persist_ready(number);
        self.commands.extend(messages.into_iter().map(Command::Send));
        self.drive();
    }

    pub(super) fn drive(&mut self) {
        loop {
            self.mirror();
            self.follow_role();
            if self.stopped || !(self.node.has_ready() || self.start_reads()) {
                break;
            }
            if self.node.has_ready() {
                self.take_ready();
            }
        }
        let (applied, max) = (self.decided.seq, self.config.recent_bytes);
        self.node.mut_store().log.forget(applied, max);
    }

    /// Brings the log up to what the crate has appended or replaced.
    fn mirror(&mut self) {
        let log = &self.node.raft.raft_log;
        let is_new =
            |entry: &&RaftEntry| log.store.log.epoch(Seq::new(entry.index)) != Some(Epoch::new(entry.term));
        let Some(first) = log.unstable_entries().iter().find(is_new).map(|entry| entry.index) else { return };
        let new: Vec<(Seq, Epoch)> = log.unstable_entries()[(first - log.unstable.offset) as usize..]
            .iter()
            .map(|entry| (Seq::new(entry.index), Epoch::new(entry.term)))
            .collect();
        let log = &mut self.node.mut_store().log;
        if Seq::new(first) <= log.last() {
            log.cut(Seq::new(first).prev_or_zero());
        }
        for (seq, epoch) in new {
            let staged = self.staged.iter().find(|entry| entry.seq() == seq && entry.epoch() == epoch);
            // What was not given is the entry with which a leader begins.
            let entry = staged.cloned().unwrap_or_else(|| LogEntry::new_epoch(epoch, log.tip()));
            assert!(entry.seq() == seq, "the log and the crate have the same end");
            log.push(entry);
        }
    }

    fn take_ready(&mut self) {
        let by_leader = self.node.raft.state == StateRole::Leader;
        let mut ready = self.node.ready();
        assert!(ready.snapshot().is_empty(), "the crate is given no checkpoints to restore");
        let (number, must_sync) = (ready.number(), ready.must_sync());
        let entries = ready.take_entries();
        let committed = ready.take_committed_entries();
        let indexes = ready.take_read_states();
        let messages = if by_leader { ready.take_messages() } else { ready.take_persisted_messages() };
        self.node.advance_append_async(ready);
        if must_sync {
            let log = &self.node.store().log;
            let recent = |entry: &RaftEntry| log.recent(Seq::new(entry.index)).cloned();
            let entries =
                entries.iter().map(|entry| recent(entry).expect("what is not on disk is in memory"));
            let entries = entries.collect();
            let command = self.disk.persist(number, self.vote(), entries);
            self.commands.push(command);
        }
        if self.disk.is_idle() || vetch_seeded_bugs::on(Bug::OwnUnsynced) {
            self.node.on_persist_ready(number);
        }
        self.send(messages, by_leader);
        self.apply(&committed);
        self.give_indexes(indexes);
    }

    fn send(&mut self, messages: Vec<Pb>, by_leader: bool) {
        let has_beat = messages.iter().any(|message| message.get_msg_type() == MessageType::MsgHeartbeat);
        let beat = if has_beat { self.beats.start(self.now) } else { 0 };
        for message in messages {
            let log = &self.node.store().log;
            let entry = |raft: &RaftEntry| match log.recent(Seq::new(raft.index)) {
                Some(entry) if entry.epoch().get() == raft.term => entry.clone(),
                _ => LogEntry::read(raft.data.clone()).expect("an entry that was read from disk is whole"),
            };
            let checkpoint = &self.node.store().checkpoint;
            let Some(message) = Message::from_raft(message, beat, entry, checkpoint) else { continue };
            if let Some(message) = self.disk.hold(message, by_leader) {
                self.commands.push(Command::Send(message));
            }
        }
    }

    fn apply(&mut self, committed: &[RaftEntry]) {
        for raft in committed {
            let log = &self.node.store().log;
            let entry = log.recent(Seq::new(raft.index)).cloned().unwrap_or_else(|| {
                LogEntry::read(raft.data.clone()).expect("an entry that was read from disk is whole")
            });
            self.apply_one(&entry);
        }
        if let Some(last) = committed.last() {
            self.node.advance_apply_to(last.index);
        }
    }

    fn apply_one(&mut self, entry: &LogEntry) {
        assert!(entry.seq() == self.decided.seq.next(), "entries are applied one after another");
        self.decided = *entry.tip();
        if entry.kind() == Kind::Members {
            self.change_members(entry);
        }
        let is_own = self.node.raft.state == StateRole::Leader && entry.epoch() == self.term();
        if is_own && entry.kind() == Kind::NewEpoch {
            self.proposals.begin(entry, &mut self.events);
            self.leading = Some(entry.epoch());
            self.events.push(Event::Leading { epoch: entry.epoch(), tip: *entry.tip() });
        } else if !self.proposals.applied(entry, &mut self.events) {
            return;
        }
        self.applied = self.decided;
    }

    /// A change that cannot be made is none, on every member alike.
    fn change_members(&mut self, entry: &LogEntry) {
        let Ok((changes, _)) = members_of(&entry.entry()) else { return };
        let Ok(members) = self.members.after(&changes) else { return };
        self.members = members;
        self.node
            .apply_conf_change(&conf_change(&changes))
            .expect("the crate makes every change that the members allow");
        let raft = &mut self.node.raft;
        let stays = vetch_seeded_bugs::on(Bug::RemovedLeaderStays);
        if raft.state == StateRole::Leader && !self.members.voters().contains(&self.me) && !stays {
            // The crate would count this member on. The others know of the commit by the messages
            // that are being sent, or elect someone who has the entry.
            let term = raft.term;
            raft.become_follower(term, raft::INVALID_ID);
        }
    }

    /// Reports who leads, and ends what only a leader has.
    fn follow_role(&mut self) {
        let (term, leader) = (self.term(), self.node.raft.leader_id);
        let leads = self.node.raft.state == StateRole::Leader;
        if self.leading.is_some_and(|epoch| !leads || epoch != term) {
            self.leading = None;
            if self.transfer.take().is_some() {
                self.events.push(Event::LeadershipTransferred);
            }
        }
        if !leads {
            self.lose_reads();
            self.beats.clear();
        } else if self.node.raft.lead_transferee.is_none() {
            self.transfer = None;
        }
        if leader != raft::INVALID_ID && leader != self.me && self.contact.followed != (term, leader) {
            self.contact.followed = (term, leader);
            let leader = ReplicaId { member: leader, incarnation: 0 };
            self.events.push(Event::Following { epoch: term, leader });
        }
    }
}
