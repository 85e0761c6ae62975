//! The server: everything that talks to clients over the network.
//!
//! * [`grpc`]: etcd's services over a [`vetch_node::Node`]; protobuf types stop there.
//! * [`http`]: listeners, protocol detection, the JSON gateway, health, version and metrics pages.
//!
//! TLS and metrics are crates of their own (`vetch_tls`, `vetch_metrics`).

pub mod auth;
pub mod grpc;
pub mod http;
pub mod identity;
mod offload;
mod remote;
mod turns;

/// Has a bug that concerns one client end what is done for that client, and every other bug the
/// process.
pub fn guard_process() {
    vetch_http2::border::guard_process(vetch_node::is_any_lock_held);
}

#[cfg(test)]
mod tests;
