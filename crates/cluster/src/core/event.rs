//! Event: what a replica wants of the log, and what it reports to its caller.

use bytes::Bytes;
use vetch_base::Epoch;
use vetch_journal::{Entry, Position, Tip};

use super::divergence::Divergence;
use super::log_state::{Ignored, LogIndex};
use super::record::ReplicaId;
use crate::log::Ticket;

/// Names a read that waits for its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadId(pub u64);

/// What a replica wants of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Append { ticket: Ticket, after: Position, record: Bytes },
    Read { after: Position },
}

/// What a replica reports to its caller.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplicaEvent {
    /// A committed entry of another leader, or of an earlier incarnation, in order.
    Applied { at: Position, entry: Entry, tip: Tip },
    /// An own append is durable and committed.
    Committed { ticket: Ticket, at: Position, tip: Tip },
    /// An own append will never be committed. It may be proposed again, or its clients may be
    /// answered that it failed.
    Dropped { ticket: Ticket },
    /// These reads may be answered by a server that has reached the index.
    ReadIndex { reads: Vec<ReadId>, index: LogIndex },
    /// These reads get no index here: ask the current leader.
    ReadIndexLost { reads: Vec<ReadId> },
    /// This replica is the leader of the epoch. Everything before it has been reported.
    Leading { epoch: Epoch, tip: Tip },
    /// This replica's leadership transfer is committed: it appends no more in its epoch.
    LeadershipTransferred,
    /// Another replica is the leader of the epoch.
    Following { epoch: Epoch, leader: ReplicaId },
    /// A record was ignored.
    Ignored { at: Position, why: Ignored },
    /// The log seems to have lost records that were read from it: its last position is below ours.
    /// The replica neither serves nor campaigns until the log has them again.
    Suspect { read: Position, end: Position },
    /// The log refuses records until it is trimmed or given room.
    Full,
    /// The log no longer holds the record that this replica would have to read next: start again
    /// from a checkpoint at `first` or later.
    Behind { first: Position },
    /// The log contradicts itself or what this replica knows. The replica has stopped.
    Halted(Divergence),
}
