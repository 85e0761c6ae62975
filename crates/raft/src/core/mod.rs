//! Core: one member, stepped. Inputs are the time, messages, word of what is on disk, and what its
//! server wants; outputs are commands and events.
//!
//! * `step`: time, and messages with the checks that precede the crate's.
//! * `drive`: takes from the crate what is to be written, sent and applied.
//! * `disk`: what is being written, and which messages wait for it.
//! * `lead`: proposals, changes of members, leadership transfers. `proposals` decides their fate.
//! * `reads`, `lease`: reads at the leader.
//! * `mistakes`: seeded bugs.
//!
//! The order of things on disk is the caller's duty: commands to persist are carried out one after
//! another, in their order, and each is reported by `persisted` when all of it is synced.

mod disk;
mod drive;
mod lead;
mod lease;
mod mistakes;
mod proposals;
mod reads;
mod step;
mod timer;

use std::collections::BTreeMap;
use std::time::Duration;

use raft::eraftpb::HardState;
use raft::{RawNode, ReadOnlyOption, StateRole};
use vetch_base::{Epoch, Seq};
use vetch_cluster::{Divergence, Event, LogIndex};
use vetch_journal::{Kind, Position, Tip};
use vetch_seeded_bugs::Bug;

use crate::config::Config;
use crate::entry::LogEntry;
use crate::log::EntrySource;
use crate::members::Members;
use crate::message::Message;
use crate::store::{Checkpoint, Store};
use disk::Disk;
use lease::Beats;
use proposals::Proposals;
use reads::Reads;
use timer::ElectionTimer;

pub use disk::Persist;
pub use lead::{ChangeRefusal, TransferRefusal};
pub use step::MessageError;

/// The term a member is in, and whom it voted for there; zero for no member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vote {
    pub term: Epoch,
    pub member: u64,
}

/// What a member has on disk when it starts.
pub struct Start {
    pub me: u64,
    /// For election timeouts. Another one for each member.
    pub seed: u64,
    pub vote: Vote,
    /// The state that it begins with.
    pub checkpoint: Checkpoint,
    /// All entries on disk behind the checkpoint.
    pub tail: Vec<LogEntry>,
    /// Reads what is on disk later.
    pub source: Box<dyn EntrySource>,
}

/// What a member wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Persist(Persist),
    /// May be lost, late, doubled and overtaken by others.
    Send(Message),
}

/// One member of a Raft group.
pub struct Core {
    config: Config,
    me: u64,
    node: RawNode<Store>,
    now: Duration,
    next_tick: Duration,
    timer: ElectionTimer,
    contact: Contact,
    members: Members,
    /// After the last entry that the crate gave as committed.
    decided: Tip,
    /// After the last one that was reported: not within a proposal of several entries, which is
    /// reported as a whole.
    applied: Tip,
    disk: Disk,
    /// Entries of the input that is being handled, which the crate may or may not take.
    staged: Vec<LogEntry>,
    proposals: Proposals,
    reads: Reads,
    beats: Beats,
    /// The epoch in which `Leading` was reported, while this member leads.
    leading: Option<Epoch>,
    /// To whom leadership is being transferred.
    transfer: Option<u64>,
    stopped: bool,
    commands: Vec<Command>,
    events: Vec<Event>,
}

/// What a member keeps of what it heard from others.
struct Contact {
    /// Until when no votes are given but to the target of a leadership transfer.
    quiet_until: Duration,
    /// The leader that was reported last, with its term.
    followed: (Epoch, u64),
    /// The last term in which the leader was told what this member holds.
    announced: Epoch,
    /// The last index for which `Behind` was reported.
    behind: Seq,
    /// As a leader: followers that were told to fetch a checkpoint, and when.
    fetching: BTreeMap<u64, Duration>,
}

impl Core {
    /// A follower with what its disk has. It reports entries behind the checkpoint again, as it
    /// learns that they are committed.
    pub fn new(config: Config, start: Start, now: Duration) -> Core {
        let Start { me, seed, vote, checkpoint, tail, source } = start;
        let is_new = tail.is_empty() && vote == Vote::default();
        let hard_state = hard_state(vote, &checkpoint, &tail);
        let (applied, members) = (checkpoint.tip, checkpoint.members.clone());
        let mut store = Store::new(checkpoint, source, hard_state);
        tail.into_iter().for_each(|entry| store.log.push(entry));
        let disk = Disk::new(store.log.last());
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let node = RawNode::new(&raft_config(&config, me, applied.seq), store, &logger)
            .expect("the configuration and the start were made to fit the crate");
        let mut timer = ElectionTimer::new(seed, config.election_ticks());
        timer.draw();
        let forgets = vetch_seeded_bugs::on(Bug::RestartVotesAtOnce);
        let quiet = if is_new || forgets { Duration::ZERO } else { config.election_timeout };
        let mut core = Core {
            me,
            node,
            now,
            next_tick: now + config.heartbeat_interval,
            timer,
            contact: Contact {
                quiet_until: now + quiet,
                followed: (Epoch::ZERO, 0),
                announced: Epoch::ZERO,
                behind: Seq::ZERO,
                fetching: BTreeMap::new(),
            },
            members,
            decided: applied,
            applied,
            disk,
            staged: Vec::new(),
            proposals: Proposals::default(),
            reads: Reads::default(),
            beats: Beats::default(),
            leading: None,
            transfer: None,
            stopped: false,
            commands: Vec::new(),
            events: Vec::new(),
            config,
        };
        core.disk.set_vote(vote);
        core.drive();
        core
    }

    /// To be carried out in this order.
    pub fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// When `tick` is to be called next.
    pub fn next_tick(&self) -> Duration {
        self.next_tick
    }

    /// Whether this member leads, has committed an entry in its epoch, and has reported all before
    /// it.
    pub fn is_leader(&self) -> bool {
        self.leading.is_some() && !self.stopped
    }

    /// The leader that this member knows of.
    pub fn leader(&self) -> Option<u64> {
        Some(self.node.raft.leader_id).filter(|leader| *leader != raft::INVALID_ID)
    }

    pub fn term(&self) -> Epoch {
        Epoch::new(self.node.raft.term)
    }

    /// Whether this member halted. It handles nothing any more.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// The tip to chain the next entry on: after everything in the log, committed or not.
    pub fn head(&self) -> Tip {
        *self.log().tip()
    }

    /// The tip after everything that was reported.
    pub fn applied(&self) -> Tip {
        self.applied
    }

    /// The last entry that is committed as far as this member knows.
    pub fn committed(&self) -> Seq {
        Seq::new(self.node.raft.raft_log.committed)
    }

    /// The members after everything that was reported.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// How far a follower's log is known to be this leader's.
    pub fn matched(&self, member: u64) -> Option<Seq> {
        let progress = self.node.raft.prs().get(member)?;
        (self.node.raft.state == StateRole::Leader).then(|| Seq::new(progress.matched))
    }

    /// Whether this member has reached `index`, so that a read may be answered. Halts if its
    /// history is not the leader's.
    pub fn reached(&mut self, index: &LogIndex) -> bool {
        if self.stopped || self.applied.seq < index.tip.seq {
            return false;
        }
        match self.log().tip_at(index.tip.seq) {
            Some(tip) if tip != index.tip => {
                self.halt(forked(index.tip.seq, "it is not the entry of the leader's index"));
                false
            }
            _ => true,
        }
    }

    /// A checkpoint of what was reported up to its tip is on disk. Followers that need what is
    /// trimmed fetch it.
    pub fn checkpointed(&mut self, checkpoint: Checkpoint) {
        assert!(checkpoint.tip.seq <= self.applied.seq, "a checkpoint has what was reported");
        if checkpoint.tip.seq > self.node.store().checkpoint.tip.seq {
            self.node.mut_store().checkpoint = checkpoint;
        }
    }

    /// Entries up to `seq` may be gone from the disk. Those behind the checkpoint are needed.
    pub fn trimmed(&mut self, seq: Seq) {
        let store = self.node.mut_store();
        store.log.trim(seq.min(store.checkpoint.tip.seq));
    }

    fn log(&self) -> &crate::log::Log {
        &self.node.store().log
    }

    fn vote(&self) -> Vote {
        Vote { term: self.term(), member: self.node.raft.vote }
    }

    fn index_at(&self, seq: Seq) -> LogIndex {
        // An index may always be a later one, and the applied entry is later than what is no longer
        // in memory.
        let tip = self.log().tip_at(seq).unwrap_or(self.decided);
        LogIndex { position: Position(tip.seq.get()), tip }
    }

    fn halt(&mut self, divergence: Divergence) {
        self.stopped = true;
        self.events.push(Event::Halted(divergence));
    }
}

fn forked(seq: Seq, why: impl Into<String>) -> Divergence {
    Divergence::Forked { at: seq.get(), why: why.into() }
}

/// The state that the crate starts with. How far the log is committed is not kept on disk; one
/// thing follows from the log itself. A change of members is proposed only when the one before it
/// was applied, so all but the last are committed. That must be known before the first campaign: a
/// member that forgot two changes could gather a majority which does not overlap that of the
/// members of today.
fn hard_state(vote: Vote, checkpoint: &Checkpoint, tail: &[LogEntry]) -> HardState {
    let tip = tail.last().map_or(checkpoint.tip, |entry| *entry.tip());
    let changes = tail.iter().filter(|entry| entry.kind() == Kind::Members);
    let last_but_one = changes.rev().nth(1).filter(|_| !vetch_seeded_bugs::on(Bug::ChangesForgotten));
    // The vote is written before the entries of its term; should it be older all the same, this
    // member gave no vote in the term of its last entry.
    let voted = if vote.term >= tip.epoch { vote.member } else { raft::INVALID_ID };
    HardState {
        commit: last_but_one.map_or(checkpoint.tip.seq, LogEntry::seq).get(),
        term: vote.term.max(tip.epoch).get(),
        vote: voted,
        ..HardState::default()
    }
}

fn raft_config(config: &Config, me: u64, applied: Seq) -> raft::Config {
    raft::Config {
        id: me,
        election_tick: config.election_ticks(),
        heartbeat_tick: 1,
        applied: applied.get(),
        max_size_per_msg: config.max_message,
        max_inflight_msgs: config.max_messages,
        check_quorum: true,
        pre_vote: true,
        read_only_option: ReadOnlyOption::Safe,
        max_uncommitted_size: config.max_uncommitted.max(config.max_message),
        max_committed_size_per_ready: config.max_message,
        ..raft::Config::default()
    }
}
