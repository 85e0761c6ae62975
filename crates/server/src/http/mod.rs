//! Everything that arrives on a socket: listeners, protocol detection, routing, and the pages
//! beside gRPC.
//!
//! One port serves gRPC (HTTP/2) and plain HTTP (the JSON gateway, health, version, metrics); the
//! first bytes of a connection tell which protocol it speaks, the content type of a request tells
//! gRPC from the rest. Everything is bounded: header size, the time to send a header, body size;
//! and everything ends with [`Server::stop`].
//!
//! Not here: what a request means (`grpc`, which the gateway calls in process), and how a TLS
//! handshake is done (`tls`).

pub mod access;
mod answer;
mod charged_body;
mod connection;
mod connection_context;
mod detect;
mod endpoint;
mod gateway;
mod handshake;
mod http2_service;
pub mod listen;
mod listener_config;
mod pending_connections;
mod route;
mod server;
mod shutdown;
mod stall_guard;
pub mod url;

use std::sync::Arc;
use std::time::Duration;

use vetch_http2::Budget;
use vetch_node::Node;

use crate::grpc::Rpc;
use crate::offload::Offload;
use vetch_metrics::ServerMetrics;

pub use listener_config::{ListenerConfig, Security, Serves};
pub use server::Server;

#[derive(Debug, Clone)]
pub struct Settings {
    /// The member's name and URLs, for the pages of a peer port.
    pub name: String,
    pub peer_urls: Vec<String>,
    pub client_urls: Vec<String>,
    pub access: access::Access,
    /// Serve the JSON gateway under `/v3/`.
    pub gateway: bool,
    /// The common name of a client's certificate is a user's name, but not on the gateway.
    pub client_cert_auth: bool,
    /// Largest JSON body of one request, and of one message in a request stream.
    pub max_json_bytes: usize,
    /// Streams a client may have open on one connection.
    pub max_concurrent_streams: u32,
    /// Limits on bytes held for one connection, and for all of them.
    pub max_connection_bytes: usize,
    pub max_client_bytes: usize,
    /// Limits on bytes used by the watchers of one connection, and of all.
    pub max_connection_watch_bytes: usize,
    pub max_watch_bytes: usize,
    pub timeouts: Timeouts,
    /// An idle HTTP/2 connection is pinged this often. None: never.
    pub keepalive_interval: Option<Duration>,
    /// A ping unanswered for this long ends the connection.
    pub keepalive_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            name: "default".into(),
            peer_urls: vec!["http://localhost:2380".into()],
            client_urls: vec!["http://localhost:2379".into()],
            access: access::Access::default(),
            gateway: true,
            client_cert_auth: false,
            max_json_bytes: 2 * (2 << 20),
            max_concurrent_streams: u32::MAX,
            max_connection_bytes: 128 << 20,
            max_client_bytes: 512 << 20,
            max_connection_watch_bytes: 512 << 20,
            max_watch_bytes: 1 << 30,
            timeouts: Timeouts::default(),
            keepalive_interval: Some(Duration::from_secs(2 * 60 * 60)),
            keepalive_timeout: Duration::from_secs(20),
        }
    }
}

/// Timeouts for clients that make no progress.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For the next bytes of a request body, and for all of it.
    pub body_chunk: Duration,
    pub body: Duration,
    /// For an HTTP/1 client to read anything of its response.
    pub unread_response: Duration,
    /// Interval at which an HTTP/1 client is checked for having disconnected; it counts when seen
    /// twice.
    pub disconnect_check_interval: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        Timeouts {
            body_chunk: minutes(1),
            body: minutes(5),
            unread_response: minutes(2),
            disconnect_check_interval: Duration::from_secs(15),
        }
    }
}

/// What every connection shares.
pub struct ServerState {
    pub node: Node,
    /// All gRPC services.
    pub grpc: Rpc,
    pub metrics: Arc<ServerMetrics>,
    pub settings: Settings,
    /// The account of all connections.
    pub(crate) budget: Arc<Budget>,
    /// The account of the watchers of all connections.
    pub(crate) watching: Arc<Budget>,
    /// Makes pages and translates long messages.
    pub(crate) offload: Offload,
}

impl ServerState {
    pub fn new(node: Node, grpc: Rpc, metrics: Arc<ServerMetrics>, settings: Settings) -> ServerState {
        let budget = Budget::new(settings.max_connection_bytes, settings.max_client_bytes);
        let watching = Budget::new(settings.max_connection_watch_bytes, settings.max_watch_bytes);
        ServerState { node, grpc, metrics, settings, budget, watching, offload: Offload::default() }
    }
}
