//! Replicated log: what a member of a cluster asks of the engine that replicates its entries. It
//! says "this member leads or follows, this is committed, this read is safe", and not how.
//!
//! One thread owns the log and calls it. No call waits, but for `step`, and that one no longer than
//! it is told to. Entries have one order, and once reported as committed they stay there.
//!
//! **What is reported.** `step` returns events in the order in which they took effect:
//!
//! 1. Every entry that is committed behind the member's start is reported once, in the order of the
//!    log: `Committed` if this member proposed it since it was started, `Applied` otherwise.
//!    Entries that the engine makes for itself and that carry nothing may be left out. The caller
//!    has the state of `status().index` when it has handled all events.
//! 2. Every ticket is decided once, `Committed` or `Dropped`, in the order of tickets, whatever
//!    becomes of the leadership; a member that halts, or is stopped, leaves tickets undecided.
//!    `Dropped` is for ever: what was proposed will never be committed.
//! 3. `Leading` says that this member leads the epoch. It comes once the first entry of the epoch
//!    is committed: everything before it has been reported, every earlier ticket is decided, and
//!    nothing of another member is committed until `Following`. A leader that is not sure of its
//!    place campaigns again, and may report `Leading` of a later epoch with no `Following` in
//!    between; what was `Dropped` meanwhile may be proposed again.
//! 4. `Following` says that another member leads the epoch. It comes likewise: this member's
//!    tickets are decided, and what it evaluated behind them has no future. A member that begins
//!    within an epoch may be told of its leader later, or from the leader's own entries.
//! 5. `LeadershipTransferred` ends a leadership without loss: everything proposed is committed. It
//!    decides the ticket of the transfer.
//! 6. `NoLeader` says that the leader of the epoch leads no more, and that its successor is not
//!    known. Neither it nor `Following` says that the leader still lives: `status().is_silent`
//!    does.
//! 7. `ReadIndex` answers `read_index`: a state that has reached the index shows everything that
//!    was committed, and answered anywhere, before the read asked. `ReadIndexLost`: ask the leader
//!    of now.
//! 8. `Behind` and `Halted` are last: the log does nothing any more, and refuses everything.
//!
//! **What a caller may do.** Proposals are taken between `Leading` and `Following` or
//! `LeadershipTransferred`, as `may_propose` says; a refusal changes nothing. Several may be in
//! flight. They are sent by the next step, so a caller proposes, publishes what depends on it, and
//! steps. What is committed by then is returned by that step at once, which makes a lone member's
//! log synchronous: propose, and step without waiting. `reached` and `lease` are for reads: neither
//! reports anything itself, and both are about entries whose events were returned.

use std::time::Duration;

use vetch_base::Epoch;
use vetch_journal::{Draft, Entry, JournalError, Position, Tip};

use crate::core::{Divergence, Lease, LogIndex, ReadId, Refusal, ReplicaId};
use crate::log::{Ticket, Waker};
use crate::pace::Pace;

/// The replicated log of one member.
pub trait ReplicatedLog: Send {
    /// The time since some fixed moment, by the clock that leases end by. It never goes back, and
    /// goes on while the machine is suspended.
    fn now(&self) -> Duration;

    /// Interrupts a step that waits. `None` if the engine has none: then wait for a short time.
    fn waker(&self) -> Option<Waker>;

    /// How dear a record is. May change while a lease begins or ends.
    fn pace(&self) -> Pace;

    /// Bytes of the largest record, entries included: all drafts of one proposal together.
    fn max_record(&self) -> usize;

    /// Sends what was proposed and asked, takes what came, and returns what it means. Waits at most
    /// this long if nothing is to be reported.
    fn step(&mut self, wait: Duration) -> Vec<Event>;

    /// How far this member is.
    fn status(&self) -> LogStatus;

    /// Until when no other member can commit anything, and the index of all that is committed.
    /// `None` while anything is in flight. Borrow it before reading the clock.
    fn lease(&self) -> Option<Lease>;

    /// Whether a proposal would be taken now.
    fn may_propose(&self) -> bool;

    /// Proposes entries, one after another in one record; the engine gives them their places.
    /// Tickets grow. Without drafts the ticket stands for a proof that this member leads: when it
    /// is committed, so is everything before it, and no other member had committed anything by
    /// then.
    ///
    /// `Busy`: again after the next step. `TooLarge`, `OutOfOrder`: never.
    fn propose(&mut self, drafts: &[&Draft]) -> Result<Ticket, Refusal>;

    /// Begins to make another member the leader. Nothing is taken behind it: proposals are `Busy`.
    /// Its ticket is decided by `LeadershipTransferred`, when everything proposed is committed and
    /// this member leads no more, or by `Dropped`: it leads on, or was replaced. Ends the lease at
    /// once.
    fn transfer_leadership(&mut self, to: ReplicaId) -> Result<Ticket, Refusal>;

    /// Asks for an index for reads that wait already. Only the leader gets one.
    fn read_index(&mut self, read: ReadId) -> Result<(), Refusal>;

    /// Whether everything up to an index of the leader has been reported here. Halts if this member
    /// has another entry there.
    fn reached(&mut self, index: &LogIndex) -> Reached;

    /// The room for further entries, as far as it is known, less what was proposed since.
    fn room(&mut self) -> Room;

    /// What lies below `floor` is not needed any more, by no member that counts: the engine may
    /// delete it, now or later. Everything from there on stays. May be repeated.
    fn trim(&mut self, floor: Position);
}

/// What a replicated log reports. The contract is at the head of this file.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A committed entry of another leader, or of an earlier life of this member.
    Applied { entry: Entry, tip: Tip },
    /// A proposal of this member is committed; `tip` is that of its last entry.
    Committed { ticket: Ticket, tip: Tip },
    /// A proposal will never be committed.
    Dropped { ticket: Ticket },
    /// This member leads the epoch; `tip` is that of its first entry.
    Leading { epoch: Epoch, tip: Tip },
    /// Another member leads the epoch.
    Following { epoch: Epoch, leader: ReplicaId },
    /// This member leads no more, and nothing that it proposed is lost.
    LeadershipTransferred,
    /// Another member leads no more, and its successor is not known.
    NoLeader,
    /// These reads may be answered from a state that has reached the index.
    ReadIndex { reads: Vec<ReadId>, index: LogIndex },
    /// These reads get no index here.
    ReadIndexLost { reads: Vec<ReadId> },
    /// A record was refused for lack of room. `room` says so as well; this is reported once in a
    /// while.
    Full,
    /// The log seems to have lost what this member has applied: the state here may be the only one
    /// that has it. The member neither serves nor campaigns until the log has it again.
    Suspect { read: Position, end: Position },
    /// What this member needs next was trimmed: it has to begin from a checkpoint at `first` or
    /// later.
    Behind { first: Position },
    /// The log contradicts itself or what this member has.
    Halted(Divergence),
}

/// How far a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogStatus {
    /// The last committed entry that was reported, or left out: where a checkpoint of the caller's
    /// state begins.
    pub index: LogIndex,
    /// How far the log was read, in the engine's positions. Grows also by what changes no state.
    pub position: Position,
    /// Whether everything that was committed at some moment since the start has been reported.
    pub is_caught_up: bool,
    /// Whether the log seems to have lost what this member has.
    pub is_suspect: bool,
    /// Whether there was no sign of a leader for a while.
    pub is_silent: bool,
    /// Whether the log has reported `Behind` or `Halted`.
    pub is_stopped: bool,
}

/// Whether a member has reached an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    Yes,
    NotYet,
    /// It is too old to be compared: ask for a new one.
    Unknown,
}

/// The room for further entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes that the log holds; 0 if it is not known.
    pub used: u64,
    /// Bytes that it takes on top of these.
    pub left: u64,
    /// Whether only what frees space should be proposed. It is early enough that barriers, deletes
    /// and compactions still find room.
    pub is_full: bool,
}

/// Where a member begins.
pub struct Start {
    pub me: ReplicaId,
    /// The place that its checkpoint remembers.
    pub index: LogIndex,
    pub clock: Clock,
}

/// Returns the time since some fixed moment. Never goes back.
pub type Clock = Box<dyn Fn() -> Duration + Send>;

/// An engine that has what it needs to know of its surroundings. Only the place is missing where
/// the member's state ends, which its caller finds out.
pub trait Engine: Send {
    /// Begins to follow behind `start`. Fails if what the engine keeps itself cannot be used.
    fn begin(self: Box<Self>, start: Start) -> Result<Box<dyn ReplicatedLog>, JournalError>;
}
