//! Built-in replication: one member of a Raft group, as a pure state machine.
//!
//! The rules are those of TiKV's `raft` crate, the port of etcd's own. This crate gives it our log:
//! an index is a sequence number, a term an epoch, the first entry of a leader is the `NewEpoch`
//! entry of the journal, and every entry names the hash of the one before it. Nothing here does
//! I/O, reads a clock or starts a thread: a member is given the time, messages, and word of what is
//! on disk, and it returns commands and events.
//!
//! * `core`: the member.
//! * `entry`, `members`, `message`: what is in the log and on the wire; `wire` has the bytes.
//! * `log`, `store`: the log as the member and the crate see it.

mod config;
mod core;
mod entry;
mod log;
mod members;
mod message;
mod store;
mod wire;

pub use config::Config;
pub use core::{ChangeRefusal, Command, Core, MessageError, Persist, Start, TransferRefusal, Vote};
pub use entry::{LogEntry, LogEntryError};
pub use log::EntrySource;
pub use members::{Action, MemberChange, Members, MembersError, bootstrap, members_draft, members_of};
pub use message::{Beat, Body, Message, Place};
pub use store::Checkpoint;
pub use wire::{WIRE_VERSION, WireError};
