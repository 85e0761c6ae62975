//! The specification: what a key-value store with etcd's API must answer.
//!
//! * `request`, `response`: the vocabulary. Plain owned data, no wire format, shared by everything that judges a server.

pub mod request;
pub mod response;

pub use request::{
    Compare, CompareResult, CompareTarget, Delete, Keys, Op, Put, Range, Request, SortOrder, SortTarget, Txn,
    Watch,
};
pub use response::{Answer, Deleted, Event, KeyValue, OpAnswer, Ranged, Refusal, TxnAnswer};
