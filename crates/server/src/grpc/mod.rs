//! All services of etcd 3.7 and two of our own over a [`Node`], as one thing that answers gRPC
//! requests.
//!
//! One file per service. What they share: `edge` holds the node and fills headers, `translate`
//! turns messages into the store's requests and back, `status` is the only file that makes gRPC
//! statuses, [`authorise`] is asked before every access and hands out the node as the caller may
//! use it.
//!
//! [`Rpc`] is a service for HTTP requests with gRPC bodies. The listener gives it what arrives on
//! HTTP/2; the JSON gateway gives it what it translated, without a connection in between, and so
//! passes the same limits and checks.
//!
//! Not here: connections, TLS, keepalive, counting of requests (`http`, `metrics`).

mod admission;
mod auth;
pub mod authorise;
mod cluster;
mod downgrade;
mod edge;
mod election;
mod health;
mod kv;
mod lease;
mod lock;
mod maintenance;
mod observe;
mod on_behalf;
mod operator;
mod peer;
mod peer_url;
mod recipes;
mod rpc;
mod settings;
mod size;
mod snapshot;
mod stand_in;
mod status;
mod translate;
mod unary;
mod watch;
pub(crate) mod weight;
mod whole;

use std::sync::Arc;

use vetch_node::Node;

use crate::metrics::ServerMetrics;

pub(crate) use on_behalf::SENDER;
pub use peer::{carry_questions, stay_introduced};
pub use rpc::Rpc;
pub(crate) use rpc::Sender;
pub use settings::Settings;
pub use stand_in::StandIn;
pub use translate::Kv;
pub(crate) use unary::Unary;

/// All services of `node`. What single services count goes into `metrics`, and what is asked about
/// them comes from there.
pub fn routes(node: Node, settings: Arc<Settings>, metrics: Arc<ServerMetrics>) -> Rpc {
    Rpc::new(edge::Edge::new(node, settings, metrics))
}
