//! Disk: what is being written, and which messages wait for it.
//!
//! A leader sends entries while it writes them; it counts its own only when they are synced. What a
//! follower says about its log waits until its log is on disk. Nothing is said in a term before the
//! term is on disk: a member that forgot the term could act in it a second time. The answer to a
//! heartbeat says nothing of the log, so only the term holds it up, and a slow disk delays no read.

use std::collections::VecDeque;

use vetch_base::Seq;
use vetch_seeded_bugs::Bug;

use super::{Command, Vote};
use crate::entry::LogEntry;
use crate::message::{Body, Message};

/// What is to be on disk, all of it, before it is reported as persisted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persist {
    /// Counts up.
    pub number: u64,
    /// To be written before the entries.
    pub vote: Option<Vote>,
    /// Entries behind this one are to be dropped first.
    pub cut: Option<Seq>,
    /// They go behind the last entry, in order.
    pub entries: Vec<LogEntry>,
}

struct Pending {
    number: u64,
    has_vote: bool,
    has_entries: bool,
    /// To be sent when this and all before it is on disk.
    messages: Vec<Message>,
}

pub(super) struct Disk {
    /// The last entry that was given to the disk.
    tail: Seq,
    vote: Vote,
    pending: VecDeque<Pending>,
}

impl Disk {
    pub(super) fn new(tail: Seq) -> Disk {
        Disk { tail, vote: Vote::default(), pending: VecDeque::new() }
    }

    /// The vote that is on disk, or on its way there.
    pub(super) fn set_vote(&mut self, vote: Vote) {
        self.vote = vote;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    pub(super) fn has_entries_pending(&self) -> bool {
        self.pending.iter().any(|pending| pending.has_entries)
    }

    pub(super) fn persist(&mut self, number: u64, vote: Vote, entries: Vec<LogEntry>) -> Command {
        let first = entries.first().map(LogEntry::seq);
        let cut = first.filter(|first| *first <= self.tail).map(Seq::prev_or_zero);
        self.tail = entries.last().map_or(self.tail, LogEntry::seq);
        let vote = (vote != self.vote).then_some(vote);
        self.vote = vote.unwrap_or(self.vote);
        let (has_vote, has_entries) = (vote.is_some(), !entries.is_empty());
        self.pending.push_back(Pending { number, has_vote, has_entries, messages: Vec::new() });
        Command::Persist(Persist { number, vote, cut, entries })
    }

    /// Returns the message if it may be sent now, or keeps it.
    pub(super) fn hold(&mut self, message: Message, by_leader: bool) -> Option<Message> {
        if vetch_seeded_bugs::on(Bug::AnswerUnsynced) {
            return Some(message);
        }
        let needs_log = !by_leader && !matches!(message.body, Body::HeartbeatAnswer { .. });
        match self.pending.iter_mut().rfind(|pending| needs_log || pending.has_vote) {
            Some(pending) => {
                pending.messages.push(message);
                None
            }
            None => Some(message),
        }
    }

    /// Everything up to `number` is on disk. Returns the messages that waited for it.
    pub(super) fn persisted(&mut self, number: u64) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(done) = self.pending.pop_front_if(|pending| pending.number <= number) {
            messages.extend(done.messages);
        }
        messages
    }
}
