//! Step: the time and messages.
//!
//! The crate trusts its peers and panics where a message contradicts what it knows. What can be
//! checked cheaply is checked here first: a message that no sound member sends is refused, and one
//! that shows two histories halts this member.

use std::time::Duration;

use bytes::Bytes;
use raft::{ProgressState, SnapshotStatus, StateRole};
use vetch_base::{Epoch, Seq};
use vetch_cluster::{Divergence, Event};
use vetch_journal::{Position, Tip};
use vetch_seeded_bugs::Bug;

use super::{Core, forked};
use crate::entry::{LogEntry, LogEntryError};
use crate::message::{Body, Message, Place};

/// Why a message is refused. Nothing was changed; its sender is broken, or of another version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    #[error("it is for member {0}")]
    Misrouted(u64),
    #[error("its sender or its term is not possible")]
    Head,
    #[error("an entry of it: {0}")]
    Entry(#[from] LogEntryError),
    #[error("its entries do not follow one another")]
    Order,
    #[error("it speaks of entries that are not there")]
    BeyondEnd,
}

/// Terms beyond this one are refused, so that counting up never ends.
const TERM_MAX: u64 = 1 << 62;

impl Core {
    /// Advances the time. Ticks that were missed, by a process that slept, are not made up for:
    /// messages that arrived meanwhile are to be read before an election.
    pub fn tick(&mut self, now: Duration) {
        self.now = self.now.max(now);
        if self.stopped || self.now < self.next_tick {
            return;
        }
        self.next_tick += self.config.heartbeat_interval;
        if self.next_tick <= self.now {
            self.next_tick = self.now + self.config.heartbeat_interval;
        }
        self.remind_of_checkpoints();
        let is_follower = self.node.raft.state != StateRole::Leader;
        let campaigns = is_follower && self.node.raft.election_elapsed + 1 >= self.timer.ticks();
        // Who campaigns must have all of its log on disk; the crate relies on it.
        if campaigns && self.has_unsynced_log() {
            return;
        }
        self.node.raft.set_randomized_election_timeout(self.timer.ticks());
        if campaigns {
            self.timer.draw();
        }
        self.node.tick();
        self.drive();
    }

    /// Handles a message of another member.
    pub fn receive(&mut self, now: Duration, message: Message) -> Result<(), MessageError> {
        self.now = self.now.max(now);
        if self.stopped {
            return Ok(());
        }
        if message.to != self.me {
            return Err(MessageError::Misrouted(message.to));
        }
        let message = if vetch_seeded_bugs::SEEDED { self.altered(message) } else { message };
        let term = message.term.get();
        if message.from == raft::INVALID_ID || message.from == self.me || term == 0 || term > TERM_MAX {
            return Err(MessageError::Head);
        }
        // The crate answers a leader of an earlier term without a look at what it says.
        let is_stale = message.term < self.term() && is_from_a_leader(&message);
        if !is_stale {
            self.staged = self.checked_entries(&message)?;
            if self.stopped || !self.is_to_be_handled(&message)? {
                return Ok(());
            }
        }
        let raft = match &message.body {
            Body::Checkpoint { tip, .. } if is_stale || self.needs(tip) => {
                if !is_stale {
                    self.report_behind(tip);
                }
                heartbeat_in_place_of(&message)
            }
            _ => message.to_raft(&self.staged),
        };
        if self.stopped {
            return Ok(());
        }
        // What it refuses is from a member that is none, and was not handled.
        let _ = self.node.step(raft);
        if vetch_seeded_bugs::SEEDED && message.term == self.term() {
            self.commit_too_much(&message);
        }
        self.drive();
        self.staged.clear();
        self.after_message(&message);
        Ok(())
    }

    /// Whether the crate is to see the message.
    fn is_to_be_handled(&mut self, message: &Message) -> Result<bool, MessageError> {
        let last = self.log().last();
        match &message.body {
            Body::Append { .. } | Body::Checkpoint { .. } => self.heard_a_leader(),
            Body::Heartbeat { commit, .. } => {
                // The leader counts on entries that this member once had on disk.
                if *commit > last {
                    let tip = *self.log().tip();
                    self.halt(Divergence::Missing {
                        at: commit.get(),
                        epoch: message.term,
                        builds_on: *commit,
                        tip: tip.seq,
                        tip_epoch: tip.epoch,
                    });
                    return Ok(false);
                }
                self.heard_a_leader();
            }
            Body::Campaign { forced, .. } => {
                let unguarded = vetch_seeded_bugs::on(Bug::VotesUnguarded);
                return Ok(*forced || unguarded || self.now >= self.contact.quiet_until);
            }
            Body::CampaignNow => return Ok(!self.has_unsynced_log()),
            Body::Accepted { index, .. } if *index > last && self.leads_in(message.term) => {
                return Err(MessageError::BeyondEnd);
            }
            Body::HeartbeatAnswer { beat, .. } if self.leads_in(message.term) => {
                self.beats.answered(message.from, beat.number);
            }
            _ => {}
        }
        Ok(true)
    }

    /// A leader may count on this member not to help another one to be elected for a while. The
    /// crate has such a rule, but forgets it with the leader, when it hears of a higher term.
    fn heard_a_leader(&mut self) {
        self.contact.quiet_until = self.contact.quiet_until.max(self.now + self.config.election_timeout);
    }

    fn leads_in(&self, term: Epoch) -> bool {
        self.node.raft.state == StateRole::Leader && self.term() == term
    }

    fn has_unsynced_log(&self) -> bool {
        let log = &self.node.raft.raft_log;
        log.persisted < log.last_index() || self.disk.has_entries_pending()
    }

    /// The entries of a message, decoded, chained, and compared with this member's.
    fn checked_entries(&mut self, message: &Message) -> Result<Vec<LogEntry>, MessageError> {
        let Body::Append { after, entries, .. } = &message.body else { return Ok(Vec::new()) };
        if after.seq.get() > u64::MAX / 2 || after.epoch > message.term {
            return Err(MessageError::Order);
        }
        let before = self.log().tip_at(after.seq).filter(|tip| tip.epoch == after.epoch);
        let decoded = decode(entries, *after, message.term)?;
        if let Some(divergence) = self.divergence(*after, before.as_ref(), &decoded) {
            self.halt(divergence);
        }
        Ok(decoded)
    }

    /// Two entries with one index and one term, or another one than what is committed.
    fn divergence(&self, after: Place, before: Option<&Tip>, entries: &[LogEntry]) -> Option<Divergence> {
        let ours = self.log().epoch(after.seq);
        if after.seq <= self.committed() && ours.is_some_and(|epoch| epoch != after.epoch) {
            return Some(forked(after.seq, "a leader builds on another entry than the committed one"));
        }
        if let (Some(before), Some(first)) = (before, entries.first())
            && let Err(error) = before.accept(&first.entry(), first.tip().hash)
        {
            return Some(forked(first.seq(), error.to_string()));
        }
        let differs = |entry: &&LogEntry| match self.log().tip_at(entry.seq()) {
            Some(tip) if tip.epoch == entry.epoch() => tip != *entry.tip(),
            Some(_) => entry.seq() <= self.committed(),
            None => false,
        };
        entries.iter().find(differs).map(|entry| forked(entry.seq(), "a leader sends another entry"))
    }

    /// Whether a checkpoint with this tip is of use to this member: it goes on behind it, and drops
    /// its log. If this member has come as far meanwhile, it must not, because it may have told a
    /// leader that it has what follows.
    pub fn needs(&mut self, tip: &Tip) -> bool {
        match self.log().tip_at(tip.seq) {
            Some(ours) if ours == *tip => return false,
            Some(ours) if ours.epoch == tip.epoch || tip.seq <= self.committed() => {
                self.halt(forked(tip.seq, "a leader's checkpoint has another entry"));
            }
            _ => {}
        }
        tip.seq > self.committed()
    }

    fn report_behind(&mut self, tip: &Tip) {
        if !self.stopped && tip.seq > self.contact.behind {
            self.contact.behind = tip.seq;
            self.events.push(Event::Behind { first: Position(tip.seq.get()) });
        }
    }

    fn after_message(&mut self, message: &Message) {
        if message.term != self.term() || self.stopped {
            return;
        }
        match &message.body {
            Body::Heartbeat { .. } if self.contact.announced != message.term => {
                self.contact.announced = message.term;
                self.announce(message.from);
            }
            Body::Accepted { .. } if self.is_fetching(message.from) => {
                // What it fetched is older than what it was told to.
                self.node.report_snapshot(message.from, SnapshotStatus::Failure);
                self.contact.fetching.remove(&message.from);
                self.drive();
            }
            _ => {}
        }
    }

    /// Tells a leader how far this member's log is known to be its own, which a leader cannot know
    /// of a member that has begun anew behind a checkpoint. The crate answers so when a leader
    /// appends behind what is committed.
    fn announce(&mut self, leader: u64) {
        let body = Body::Append { after: Place::default(), commit: Seq::ZERO, entries: Vec::new() };
        let message = Message { from: leader, to: self.me, term: self.term(), body };
        if self.committed() > Seq::ZERO {
            let _ = self.node.step(message.to_raft(&[]));
            self.drive();
        }
    }

    fn is_fetching(&self, member: u64) -> bool {
        let progress = self.node.raft.prs().get(member);
        progress.is_some_and(|progress| progress.state == ProgressState::Snapshot)
    }

    /// Tells followers again to fetch a checkpoint that did not answer for long.
    fn remind_of_checkpoints(&mut self) {
        let is_leader = self.node.raft.state == StateRole::Leader;
        let mut fetching: Vec<u64> = self.members.voters().union(self.members.learners()).copied().collect();
        fetching.retain(|member| is_leader && self.is_fetching(*member));
        self.contact.fetching.retain(|member, _| fetching.contains(member));
        for member in fetching {
            let since = *self.contact.fetching.entry(member).or_insert(self.now);
            if self.now >= since + self.config.checkpoint_retry {
                self.contact.fetching.remove(&member);
                self.node.report_snapshot(member, SnapshotStatus::Failure);
            }
        }
    }
}

/// Entries that follow one another, of terms up to the sender's.
fn decode(entries: &[Bytes], after: Place, term: Epoch) -> Result<Vec<LogEntry>, MessageError> {
    let mut decoded: Vec<LogEntry> = Vec::with_capacity(entries.len());
    for bytes in entries {
        let entry = match decoded.last() {
            Some(last) => LogEntry::decode(bytes.clone(), last.tip())?,
            None => LogEntry::read(bytes.clone())?,
        };
        let is_first = decoded.is_empty();
        if is_first && (entry.seq() != after.seq.next() || entry.epoch() < after.epoch)
            || entry.epoch() > term
        {
            return Err(MessageError::Order);
        }
        decoded.push(entry);
    }
    Ok(decoded)
}

fn is_from_a_leader(message: &Message) -> bool {
    matches!(message.body, Body::Append { .. } | Body::Heartbeat { .. } | Body::Checkpoint { .. })
}

/// The crate would throw the log away for a checkpoint that is not there yet. It is told that there
/// is a leader, and no more.
fn heartbeat_in_place_of(message: &Message) -> raft::eraftpb::Message {
    let body = Body::Heartbeat { commit: Seq::ZERO, beat: Default::default() };
    Message { body, ..message.clone() }.to_raft(&[])
}
