//! A running server over real sockets: its HTTP side byte for byte, its bounds, and TLS.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod border;
mod bounds;
mod harness;
mod http;
mod pki;
mod tls;
