//! Vetch's state machine: keys with all their versions, leases, alarms, users and roles.
//!
//! Deterministic and synchronous. It does no I/O, reads no clock, starts no thread, and refuses
//! only by the rules of the API. The same requests in the same order give the same answers, events
//! and journal bytes.
//!
//! * [`validate`] checks what can be checked without state; what passes is [`Validated`].
//! * [`Store::evaluate`] runs one write request against **head** and says what to journal.
//!   [`turns::evaluate`] does so in turns, which release the lock on the store.
//! * [`Store::publish`] moves **visible** once the journal has it; [`range::RangeRun`] reads there.
//! * [`Store::replay`] repeats journalled effects; [`load::Loader`] starts from a checkpoint.
//! * [`auth`] decides who may do what; [`Store::permit`] checks a client's request before it is
//!   evaluated.
//! * [`rewind::rewind`] takes back what was evaluated and will never be in the journal.
//! * [`Store::compact_step`] frees memory in small steps.
//!
//! Not here: files, clocks, the network, watchers, passwords. See `state` for head and visible,
//! `keys` and `tree` for the index, `membership` for counting in the past.

pub mod auth;
pub mod blocks;
mod chain;
pub mod command;
mod compaction;
mod compare;
pub mod describe;
pub mod error;
mod evaluate;
mod exclusive;
mod foreign;
pub mod hash;
pub mod history;
mod keys;
pub mod lease;
pub mod leased;
mod limits;
pub mod load;
mod membership;
mod payload;
pub mod permit;
mod queue;
pub mod range;
mod read_txn;
pub mod record;
mod replay;
pub mod request;
pub mod rewind;
mod state;
mod tree;
pub mod turns;
mod undo;
pub mod validate;
mod validated;
mod work;

pub use compaction::Freed;
pub use error::StoreError;
pub use evaluate::Evaluated;
pub use limits::{AnswerBytes, TxnLimits};
pub use payload::BadCommand;
pub use read_txn::{ReadTxn, ReadTxnRun};
pub use record::{BadRecord, Record};
pub use replay::Replayed;
pub use state::{Mark, Stats, Store};
pub use undo::Undo;
pub use validated::Validated;
