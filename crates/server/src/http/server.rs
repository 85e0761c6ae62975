//! Accepting connections, and closing them at shutdown.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use vetch_http2::border;

use super::ServerState;
use super::connection;
use super::listen::{Listener, Stream};
use super::listener_config::{ListenerConfig, Security};
use super::pending_connections::PendingConnections;
use super::shutdown::{Phase, Shutdown, ShutdownToken};

/// The running listeners and their connections.
#[derive(Debug)]
pub struct Server {
    shutdown: Shutdown,
    accepting: JoinSet<()>,
}

impl Server {
    /// Serves on every listener until stopped.
    pub fn start(shared: Arc<ServerState>, listeners: Vec<(Listener, ListenerConfig)>) -> Server {
        let (shutdown, token) = Shutdown::new();
        let mut accepting = JoinSet::new();
        let limit = connection_limit();
        let limits = ConnectionLimits {
            connections: Arc::new(Semaphore::new(limit)),
            pending: PendingConnections::new((limit / 4).clamp(1, PENDING_CONNECTIONS_MAX)),
        };
        for (listener, config) in listeners {
            announce(&listener, &config);
            if let Some(tls) = config.security.tls() {
                shared.metrics.tls.include(tls);
            }
            let (shared, limits, token) = (shared.clone(), limits.clone(), token.clone());
            accepting.spawn(accept(listener, Arc::new(config), shared, limits, token));
        }
        Server { shutdown, accepting }
    }

    /// Stops accepting and lets running requests finish, at most for `timeout`. True when all are
    /// done.
    pub async fn drain(&mut self, timeout: Duration) -> bool {
        self.shutdown.begin(Phase::Draining);
        while self.accepting.join_next().await.is_some() {}
        tokio::time::timeout(timeout, self.shutdown.ended()).await.is_ok()
    }

    /// Closes what is left.
    pub async fn stop(mut self) {
        self.shutdown.begin(Phase::Closing);
        while self.accepting.join_next().await.is_some() {}
        self.shutdown.ended().await;
    }
}

fn announce(listener: &Listener, config: &ListenerConfig) {
    let (traffic, address) = (config.serves.traffic(), listener.address());
    match config.security {
        Security::Plain => tracing::info!(traffic, address, "serving client traffic insecurely"),
        Security::Tls(_) => tracing::info!(traffic, address, "serving client traffic securely"),
        Security::Either(_) => {
            tracing::info!(
                traffic,
                address,
                "serving client traffic securely, and insecurely if a client prefers"
            );
        }
    }
}

/// A lack of file descriptors is the one failure of accept that lasts; a loop without a delay would
/// only burn CPU.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Descriptors kept back from connections, for the files of the store; as many as etcd keeps.
const RESERVED_DESCRIPTORS: usize = 150;

/// Connections that may be open at once: one more waits in the kernel's queue until another ends.
fn connection_limit() -> usize {
    let descriptors = match rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        Some(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
        None => usize::MAX,
    };
    descriptors.saturating_sub(RESERVED_DESCRIPTORS).max(descriptors / 2).clamp(1, Semaphore::MAX_PERMITS)
}

/// Limit on connections without a request; at most a quarter of all.
const PENDING_CONNECTIONS_MAX: usize = 1024;

/// The limits that the connections of all listeners share.
#[derive(Debug, Clone)]
struct ConnectionLimits {
    connections: Arc<Semaphore>,
    pending: Arc<PendingConnections>,
}

async fn accept(
    listener: Listener,
    config: Arc<ListenerConfig>,
    shared: Arc<ServerState>,
    limits: ConnectionLimits,
    mut shutdown: ShutdownToken,
) {
    let for_connections = shutdown.clone();
    loop {
        let accepted = tokio::select! {
            accepted = accept_with_permit(&listener, &limits.connections) => accepted,
            () = shutdown.reached(Phase::Draining) => return,
        };
        match accepted {
            Ok((stream, permit)) => {
                let pending = limits.pending.register();
                let (config, shared, shutdown) = (config.clone(), shared.clone(), for_connections.clone());
                let metrics = Arc::clone(&shared.metrics);
                let serving = connection::serve(stream, config, shared, shutdown, pending);
                let connection = async move {
                    let connected = metrics.services.connected();
                    serving.await;
                    drop((connected, permit));
                };
                border::spawn(connection);
            }
            Err(e) if is_peer_error(&e) => {}
            Err(e) => {
                tracing::warn!(error = %e, address = listener.address(), "cannot accept a connection");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

/// Waits for a permit first, so that a connection that could not be served is not even accepted.
async fn accept_with_permit(
    listener: &Listener,
    limits: &Arc<Semaphore>,
) -> io::Result<(Stream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(limits).acquire_owned().await.expect("the semaphore is never closed");
    Ok((listener.accept().await?, permit))
}

/// The connection broke before it was accepted; the listener is fine.
fn is_peer_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, InvalidInput, NotConnected};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | NotConnected | InvalidInput)
}
