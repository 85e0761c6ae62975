//! The journal on NATS JetStream: a replicated stream as the ordered durable log under
//! `vetch_cluster`.
//!
//! * `options`: where the servers are and how to log in.
//! * `check`: a stream that could lose acknowledged records is refused, with the reason.
//! * `log`: one message is one record; positions are sequence numbers of the stream. `append` and
//!   `tail` are its two halves. `feed` delivers pushed records; `source` requests records, with
//!   `retry` and by `page_size`. `reconnect` leaves an isolated server, `space` is the fill level.
//!
//! What JetStream gives: one order, an acknowledgement after a quorum has the message on disk (if
//! every server syncs always, which is checked), a refusal if another message came first. What it
//! does not: reads that are never stale, and replicas that never differ. `vetch_cluster` is made
//! for that.
//!
//! A runtime of its own carries the connection; the caller's side is synchronous.

mod append;
mod check;
mod events;
mod feed;
mod log;
mod options;
mod page_size;
mod reconnect;
mod retry;
mod source;
mod space;
mod tail;

pub use check::{MIN_SERVER, Unsafe};
pub use log::NatsLog;
pub use options::{Login, Options, Tls};

/// Why a stream cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    #[error("connecting to NATS: {0}")]
    Connect(String),
    /// The login was refused; a retry does not help.
    #[error("connecting to NATS: {0}")]
    Login(String),
    #[error("the stream {stream}: {why}")]
    Stream { stream: String, why: String },
    #[error(
        "NATS is not set up to keep what it acknowledges:\n{}\nPut that right, or accept the loss of acknowledged writes with the \
         option `allow_unsafe`",
        .0.iter().map(|found| format!("  - {found}")).collect::<Vec<_>>().join("\n")
    )]
    Unsafe(Vec<Unsafe>),
}
