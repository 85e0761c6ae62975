//! Histories made by random clients of a server that is the specification itself, with delays, lost
//! answers and watchers that lag: right by construction.

#![allow(dead_code, unused_imports, reason = "each test uses its part")]

pub(crate) mod access;
pub(crate) mod clients;
pub(crate) mod mutate;
pub(crate) mod mutate_lists;
pub(crate) mod mutate_watch;
pub(crate) mod server;

pub(crate) use clients::{record, record_with};
