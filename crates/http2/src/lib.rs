//! The server's side of HTTP/2 (RFC 9113), made for many small gRPC calls.
//!
//! [`protocol`] is the whole of it as a state machine without I/O: bytes go in, events and bytes
//! come out. It has no clock and waits for nothing, so every rule can be tested with
//! bytes.
//!
//! The rest is the shell: [`Connection`] is one future that reads what is there, starts everything
//! that is asked for, takes all answers that are ready, and writes them at once. Calls are polled
//! in place, by a waker each; no task is spawned for a small unary call, and the head and the end
//! of its answer are a dozen bytes that never change.
//!
//! What answers is a [`Service`]. Unary calls that it knows by their headers are handed to it as
//! one whole message; everything else as a `http::Request` with a body, like anywhere else.
//!
//! Everything is bounded by [`Limits`], and by what a client reads: while it does not take what we
//! have written, it is not listened to either.
//!
//! [`frame`] and [`hpack`] serve the load generator's client as well.
//!
//! Not here: HTTP/1, TLS, and what a request means.

pub mod border;
mod budget;
mod connection;
pub mod frame;
mod head;
pub mod hpack;
mod incoming;
mod keepalive;
mod limits;
pub mod protocol;
mod service;
#[cfg(any(test, feature = "simulation"))]
pub mod simulation;
mod tasks;
mod transport;

#[cfg(test)]
mod testing;

pub use budget::{Budget, Charge, Holdings, TooMuchHeld};
pub use connection::Connection;
pub use head::Head;
pub use incoming::{BodyError, Incoming};
pub use limits::Limits;
pub use service::{Answer, Boxed, Call, LongMessage, Reply, Service, Weight};
