//! Fuzz targets: one module and one function for each decoder of bytes that come from outside or
//! from a disk.
//!
//! A target panics when something is wrong: a decoder panicked, accepted bytes that it would not
//! write, or asked for far more memory than its input justifies. `targets/` ties each of them to
//! libFuzzer; `seeds` writes the corpus from what the shipped encoders write; the tests here run
//! the corpus without libFuzzer.
//!
//! Checksums would end almost every mutated file at the first check. Where an input says so, they
//! are made right again after the mutation (`repair`), so that what lies behind them is reached
//! too.
//!
//! Not here: whatever a clock, a thread or a network is needed for.

// The counters that everything here is compiled with report to it, in `seeds` too.
use libfuzzer_sys as _;

mod alloc;
pub mod bolt;
pub mod checkpoint;
pub mod connection;
pub mod entry;
pub mod etcd_log;
pub mod http2;
pub mod identity;
pub mod image;
pub mod json;
mod key_value;
mod messages;
pub mod model;
pub mod recovery;
pub mod repair;
pub mod replay;
pub mod wire;

#[cfg(test)]
mod tests;

/// A target and its name.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: [Target; 12] = [
    ("entry", entry::run),
    ("recovery", recovery::run),
    ("checkpoint", checkpoint::run),
    ("identity", identity::run),
    ("replay", replay::run),
    ("wire", wire::run),
    ("json", json::run),
    ("model", model::run),
    ("bolt", bolt::run),
    ("http2", http2::run),
    ("connection", connection::run),
    ("etcd_log", etcd_log::run),
];
