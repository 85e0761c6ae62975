//! The server: everything that talks to clients over the network.
//!
//! * [`grpc`]: etcd's services over a [`vetch_node::Node`]; protobuf types stop there.
//! * [`http`]: listeners, protocol detection, the JSON gateway, health, version and metrics pages.
//! * [`tls`]: how listeners speak TLS.
//! * [`metrics`]: what is counted here and how all of it is written as Prometheus text.

pub mod auth;
pub mod grpc;
pub mod http;
pub mod identity;
pub mod metrics;
mod offload;
pub mod tls;
pub mod version;

pub use vetch_http2::border::guard_process;

#[cfg(test)]
mod tests;
