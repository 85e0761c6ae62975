//! The journal on NATS JetStream: a replicated stream as the ordered durable log under
//! `vetch_cluster`.
//!
//! * `options`: where the servers are and how to log in.
//! * `check`: a stream that could lose acknowledged records is refused, with the reason.
//! * `log`: one message is one record; positions are sequence numbers of the stream. `append` and
//!   `tail` are its two halves; `feed` is how records come by themselves, `source` where they are
//!   asked for, `insist` how and `pace` how many, `leave` when another server is tried, `space`
//!   says how full it is.
//!
//! What JetStream gives: one order, an acknowledgement after a quorum has the message on disk (if
//! every server syncs always, which is checked), a refusal if another message came first. What it
//! does not: reads that are never stale, and replicas that never differ. The fence is made for
//! that.
//!
//! A runtime of its own carries the connection; the caller's side is synchronous.

mod append;
mod check;
mod feed;
mod insist;
mod leave;
mod log;
mod options;
mod pace;
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
    #[error("the stream {stream}: {why}")]
    Stream { stream: String, why: String },
    #[error(
        "NATS is not set up to keep what it acknowledges:\n{}\nPut that right, or accept the loss of acknowledged writes with the \
         option `allow_unsafe`",
        .0.iter().map(|found| format!("  - {found}")).collect::<Vec<_>>().join("\n")
    )]
    Unsafe(Vec<Unsafe>),
}
