//! Listener configuration: what a listener serves, and how its connections are secured.

use std::sync::Arc;

use vetch_tls::Tls;

/// What a listener serves.
#[derive(Debug)]
pub struct ListenerConfig {
    pub serves: Serves,
    pub security: Security,
}

/// What a listener offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serves {
    GrpcAndHttp,
    /// HTTP was moved to listeners of its own.
    Grpc,
    Http,
    /// Metrics and health pages only.
    Metrics,
    /// The HTTP pages that etcd's members serve to each other.
    Peer,
}

impl Serves {
    pub(super) fn traffic(self) -> &'static str {
        match self {
            Serves::GrpcAndHttp => "grpc+http",
            Serves::Grpc => "grpc",
            Serves::Http => "http",
            Serves::Metrics => "metrics",
            Serves::Peer => "peer",
        }
    }

    /// The kind of port, in etcd's words for the log.
    pub(super) fn endpoint(self) -> &'static str {
        match self {
            Serves::GrpcAndHttp | Serves::Grpc | Serves::Http | Serves::Metrics => "client",
            Serves::Peer => "peer",
        }
    }
}

/// Transport security of a listener.
#[derive(Debug, Clone)]
pub enum Security {
    /// Plain text.
    Plain,
    Tls(Arc<Tls>),
    /// Each client chooses: the address was given with and without TLS.
    Either(Arc<Tls>),
}

impl Security {
    pub(super) fn tls(&self) -> Option<&Arc<Tls>> {
        match self {
            Security::Plain => None,
            Security::Tls(tls) | Security::Either(tls) => Some(tls),
        }
    }
}
