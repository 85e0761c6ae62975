//! The counters of the server, and the page of all metrics as Prometheus text.
//!
//! The names, labels and bucket layouts are etcd's, so that its dashboards and alerts work
//! unchanged. A name is exported only if it has a meaning here: those of Go's runtime, of bbolt and
//! of etcd's proxy are left out; docs/metrics.md lists them.

mod backup;
pub mod grpc;
mod health;
mod methods;
mod node;
mod page;
mod process;
mod services;
mod text;
mod tls;

use std::sync::atomic::AtomicU64;
use std::time::Duration;

pub use grpc::GrpcMetrics;
pub use grpc::{CountedMethod, ObservedCall, OpenCall};
pub use health::CHECKS;
pub use health::HealthMetrics;
pub use node::{SLOW_STREAM_LAG, database_bytes, prefix_text};
pub use page::{Held, page};
pub use process::usage;
pub use services::ServiceMetrics;
pub use services::WatchFrame;
pub use tls::TlsMetrics;

/// One of etcd's feature gates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature {
    pub name: &'static str,
    pub stage: &'static str,
    pub is_on: bool,
}

/// The counters that are not in the node.
#[derive(Debug)]
pub struct ServerMetrics {
    pub grpc: GrpcMetrics,
    pub health: HealthMetrics,
    pub tls: TlsMetrics,
    pub services: ServiceMetrics,
    /// etcd's feature gates as they were set.
    pub features: Vec<Feature>,
    /// Answered requests for the metrics page itself.
    pub scrapes: AtomicU64,
}

impl ServerMetrics {
    /// `extensive` adds a histogram of handling times per RPC; unary requests that take longer than
    /// `slow` are logged.
    pub fn new(extensive: bool, slow: Duration) -> ServerMetrics {
        ServerMetrics {
            grpc: GrpcMetrics::new(extensive, slow),
            health: HealthMetrics::default(),
            tls: TlsMetrics::default(),
            services: ServiceMetrics::default(),
            features: Vec::new(),
            scrapes: AtomicU64::new(0),
        }
    }
}
