//! The server's side of HTTP/2 (RFC 9113), made for many small gRPC calls.
//!
//! [`protocol`] is the whole of it as a state machine without I/O: bytes go in, events and bytes
//! come out. It has no clock and never waits, so every rule can be tested with bytes.
//!
//! The rest is the shell: [`Connection`] is one future that reads what has arrived, starts all
//! requests in it, takes all responses that are ready, and writes them with one system call. Calls
//! are polled in place, with a waker each; no task is spawned for a small unary call, and the
//! headers and trailers of its response are a dozen bytes that never change.
//!
//! A [`Service`] answers the calls. It gets unary calls that it recognises by their headers as one
//! whole message, and everything else as an `http::Request` with a body, as from any HTTP library.
//!
//! [`Limits`] bound everything, and a client that does not read is not read from either.
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
