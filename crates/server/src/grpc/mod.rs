//! All services of etcd 3.7 and two of our own on a [`Node`], as one service for gRPC requests.
//!
//! One file per service. What they share: `service_context` holds the node and fills headers,
//! `status` is the only file that makes gRPC statuses, [`authorise`] checks every access and
//! returns the node as the caller may use it. The crate `translate` turns messages into the store's
//! requests and back.
//!
//! [`Rpc`] is a service for HTTP requests with gRPC bodies. HTTP/2 connections call it, and so does
//! the JSON gateway with translated requests, without a connection in between; both pass the same
//! limits and checks.
//!
//! Not here: connections, TLS, keepalive, counting of requests (`http`, `metrics`).

mod auth;
pub mod authorise;
mod call_metadata;
mod cluster;
mod downgrade;
mod election;
mod fast_path;
mod forwarded_identity;
mod health;
mod kv;
mod kv_call;
mod lease;
mod lock;
mod maintenance;
mod observe;
mod operator;
mod peer;
mod peer_url;
mod recipes;
mod router;
mod rpc;
mod service_context;
mod settings;
mod size;
mod snapshot;
mod status;
mod unary_reply;
mod watch;
pub(crate) mod weight;

use std::sync::Arc;

use vetch_node::Node;

use vetch_metrics::ServerMetrics;

pub(crate) use forwarded_identity::FORWARDED_IDENTITY;
pub(crate) use kv_call::{KvCall, KvMethod};
pub use peer::{forward_read_index_requests, stay_registered};
pub use router::RequestRouter;
pub use rpc::Rpc;
pub(crate) use rpc::Sender;
pub use settings::Settings;

/// All services of `node`. Services count into `metrics` and read from there.
pub fn routes(node: Node, settings: Arc<Settings>, metrics: Arc<ServerMetrics>) -> Rpc {
    Rpc::new(service_context::ServiceContext::new(node, settings, metrics))
}
