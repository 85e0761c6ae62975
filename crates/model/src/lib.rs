//! The specification: what a key-value store with etcd's API must answer, as plain code.
//!
//! Everything that checks a server (property tests, history checker, simulation, trials against a
//! real etcd) compares it with this. It keeps every version of every key for ever, reads by
//! searching, and shares no code with the server.
//!
//! * `request`, `response`: the vocabulary. Plain owned data, no wire format.
//! * `shape`: which requests are refused by validation, without state.
//! * `state`: the history of all keys and the leases, with lookups.
//! * `refuse`: which well-formed requests the state refuses.
//! * `compare`: the guards of transactions and the branch that they choose.
//! * `range`: what a range reads, and in which order.
//! * `evaluate`: what a server that handles a request now answers, and what changes.
//! * `past`: what a request that changes nothing must have been answered at a past revision.
//! * `watch`: which events a watcher must get.
//! * `hash`: the number that HashKV answers.
//!
//! Deliberately absent: time (leases end only when revoked), quotas and alarms, users and roles,
//! members.

mod compare;
mod evaluate;
mod hash;
mod past;
mod range;
mod refuse;
pub mod request;
pub mod response;
pub mod shape;
mod state;
mod watch;

pub use request::{
    Compare, CompareResult, CompareTarget, Delete, Keys, Op, Put, Range, Request, SortOrder, SortTarget, Txn,
    Watch,
};
pub use response::{Answer, Deleted, Event, KeyValue, OpAnswer, Ranged, Refusal, TxnAnswer};
pub use shape::Malformed;
pub use state::{Model, Moment};
