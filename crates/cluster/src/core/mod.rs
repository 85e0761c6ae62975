//! The rules of replication, pure: inputs and the time are given, commands and events are taken.
//!
//! * `record`: what lies at one position of the log.
//! * `log_state`: the validity rule. Leader and followers decide by reading the log, and only so.
//! * `replica`: one server in its `role`: follower, candidate (`campaign`) or leader (`leader`,
//!   `lease`, `leadership_transfer`), with its appends `in_flight` and its `election_timer`.
//!   `reader` takes records that the log delivers, `event` is what goes in and out.
//! * `trim`: which records may be deleted.
//! * `divergence`: what an honest log cannot show.

mod campaign;
mod config;
mod divergence;
mod election_timer;
mod event;
mod in_flight;
mod leader;
mod leadership_transfer;
mod lease;
mod log_state;
mod reader;
mod record;
mod replica;
mod role;
mod trim;

pub use config::Config;
pub use divergence::Divergence;
pub use event::{Command, ReadId, ReplicaEvent};
pub use leader::Refusal;
pub use leadership_transfer::transfer_target;
pub use lease::Lease;
pub use log_state::{Ignored, LogIndex, LogState, ReadOutcome};
pub use record::{Record, RecordError, ReplicaId, candidate_of, is_seed, join, new_epoch, seed};
pub use replica::{Replica, VERIFIED_RECORDS};
pub use trim::{CheckpointMismatch, trim_floor};
