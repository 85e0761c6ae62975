//! Replication over a shared log: which entries are committed, who leads, and how a lost or forked
//! log is noticed.
//!
//! Any engine that keeps records in one order, reports the position of a stored record and loses
//! nothing that it acknowledged can carry the journal (`log`). The engine does not elect anybody.
//! Several servers may append late, twice or out of order; every server that reads the log accepts
//! the same entries.
//!
//! * `replicated_log`: what a node asks of whatever replicates its entries, and `pace` how dear
//!   that is. The one engine here is `driver`: a replica on a log in real time.
//! * `core`: the rules, as pure state machines without threads, I/O or clocks.
//! * `log`: what a log must provide that carries them.
//! * `replicated_journal`: a log behind the contract of `vetch_journal`. `peek`: single reads of a
//!   log before there is a replica.
//!
//! docs/cluster-protocol.md explains the protocol, its failure cases and the tests for each.

mod core;
mod driver;
mod log;
mod pace;
mod peek;
mod replicated_journal;
mod replicated_log;

pub use self::core::{
    CheckpointMismatch, Command, Config, Divergence, Ignored, Lease, LogIndex, LogState, ReadId, ReadOutcome,
    Record, RecordError, Refusal, Replica, ReplicaEvent, ReplicaId, VERIFIED_RECORDS, candidate_of, is_seed,
    join, new_epoch, seed, transfer_target, trim_floor,
};
pub use driver::{Driver, OrderedLog};
pub use log::{Log, LogError, LogEvent, Page, Space, Ticket, Waker};
pub use pace::Pace;
pub use peek::{CheckpointMatch, PeekError, bounds, match_checkpoint, scan_after, seed_log};
pub use replicated_journal::ReplicatedJournal;
pub use replicated_log::{Clock, Engine, Event, LogStatus, Reached, ReplicatedLog, Room, Start};
