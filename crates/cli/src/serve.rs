//! The server's lifetime, phase by phase.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::mm::{MlockAllFlags, mlockall};
use tokio::signal::unix::{Signal, SignalKind, signal};
use vetch_api::version;
use vetch_backup::archiver::Archiver;
use vetch_metrics::ServerMetrics;
use vetch_node::Node;
use vetch_node::error::OpenError;
use vetch_node::types::Progress;
use vetch_server::grpc;
use vetch_server::grpc::RequestRouter;
use vetch_server::http::listen::Listener;
use vetch_server::http::{ListenerConfig, Server, ServerState};
use vetch_tls::TlsError;

use crate::cluster::{ClusterError, PeerDialer};
use crate::engine::Engine;
use crate::migration_dir;
use crate::settings::Settings;
use crate::sockets::{self, SocketError};
use crate::wal_dir::{self, WalDirError};
use crate::{cluster, compactor, keys, notify};

/// Why a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitReason {
    /// By this signal.
    Signal(i32),
    /// The node failed.
    NodeStopped,
    /// The node has to be opened again, from its checkpoint or another server's.
    Replaced,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("cannot use data directory {path}: {error}")]
    DataDir { path: String, error: io::Error },
    #[error(
        "{0} holds the data of an etcd: stop that etcd, run 'vetch snapshot restore {0} --data-dir NEW' and start with \
         --data-dir NEW"
    )]
    EtcdData(String),
    #[error("{0} holds what an interrupted 'vetch snapshot restore' left: remove it and restore again")]
    Unfinished(String),
    #[error("{0} holds a migration that is not finished: go on with 'vetch migrate', or remove it")]
    Migrating(String),
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error(transparent)]
    WalDir(#[from] WalDirError),
    #[error(
        "cannot lock memory (--memory-mlock): {0}; raise the limit of locked memory, or leave the flag out"
    )]
    Lock(io::Error),
    #[error("cannot handle signals: {0}")]
    Signals(io::Error),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error("cannot call other servers over TLS: {0}")]
    PeerTls(#[from] TlsError),
    #[error("recovery ended without a result: {0}")]
    Recovery(#[from] tokio::task::JoinError),
}

/// Timeouts of running requests, before and after the node stopped.
const REQUEST_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
const STREAM_DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of the last backup, when everything else has ended.
const BACKUP_DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) async fn serve(mut settings: Settings) -> Result<ExitReason, StartError> {
    loop {
        match serve_once(&settings).await? {
            ExitReason::Replaced => tracing::info!("opening the data directory again"),
            end => return Ok(end),
        }
        settings.engine.trust_majority();
    }
}

async fn serve_once(settings: &Settings) -> Result<ExitReason, StartError> {
    let mut signals = Signals::listen().map_err(StartError::Signals)?;
    prepare(&settings.node.data_dir)?;
    if let Some(wal_dir) = &settings.wal_dir {
        wal_dir::link_journal(&settings.node.data_dir, wal_dir)?;
    }
    if settings.lock_memory {
        let all = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE;
        mlockall(all).map_err(|error| StartError::Lock(error.into()))?;
    }
    // Opened before the data is read, so that a port in use or a wrong certificate is found at
    // once.
    let listeners = sockets::bind(settings).await?;
    let dialer = PeerDialer::open(settings.peer_client_tls.as_ref())?;
    let opening = open(settings, &dialer);
    let node = tokio::select! {
        node = opening => node?,
        // Nothing was acknowledged yet, so there is nothing to finish.
        number = signals.next() => return Ok(ExitReason::Signal(number)),
    };
    let archiver = start_archiver(settings, &node);
    let router = settings.engine.is_shared().then(RequestRouter::in_cluster);
    if let Some(router) = &router {
        let own_urls = settings.grpc.client_urls.clone();
        tokio::spawn(cluster::follow_leader(node.clone(), router.clone(), dialer.clone(), own_urls));
        tokio::spawn(cluster::report(node.clone(), dialer));
        tokio::spawn(grpc::forward_read_index_requests(node.clone(), router.clone()));
        tokio::spawn(grpc::stay_registered(node.clone(), router.clone()));
    }
    let server = start(settings, node.clone(), listeners, router);
    start_compactor(settings, &node);
    announce_ready(settings, &node);
    Ok(run_until_stopped(server, node, archiver, &mut signals).await)
}

/// Waits until there is a reason to stop, and stops.
pub(crate) async fn run_until_stopped(
    server: Server,
    node: Node,
    archiver: Option<Archiver>,
    signals: &mut Signals,
) -> ExitReason {
    let end = tokio::select! {
        number = signals.next() => ExitReason::Signal(number),
        stopped = node.stopped() => if node.is_replaced() {
            ExitReason::Replaced
        } else {
            let cause = stopped.err().map(|cause| cause.to_string()).unwrap_or_default();
            tracing::error!(cause, "the node has failed and stopped");
            ExitReason::NodeStopped
        }
    };
    tokio::select! {
        () = async { finish(end, server, node).await; finish_backups(archiver).await } => {}
        // A disk that hangs must not keep an operator from ending the process. What was
        // acknowledged is durable.
        number = signals.next() => {
            tracing::warn!(signal = number, "second signal: exiting immediately");
            return ExitReason::Signal(number);
        }
    }
    end
}

/// The data directory is for this user alone, and not one of etcd's: starting empty where there was
/// data would make a control plane believe that everything is gone.
fn prepare(path: &Path) -> Result<(), StartError> {
    if vetch_snapshot::restore::is_etcd(path) {
        return Err(StartError::EtcdData(path.display().to_string()));
    }
    if path.join(vetch_offline::UNFINISHED_DIR).exists() {
        return Err(StartError::Unfinished(path.display().to_string()));
    }
    if migration_dir::is_under_way(path) {
        return Err(StartError::Migrating(path.display().to_string()));
    }
    create(path)
}

pub(crate) fn create(path: &Path) -> Result<(), StartError> {
    let failed = |error| StartError::DataDir { path: path.display().to_string(), error };
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    let mode = fs::metadata(path).map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let mode = format!("{mode:o}");
        tracing::warn!(data_dir = %path.display(), mode, "others can read the data directory; 700 is recommended");
    }
    Ok(())
}

async fn open(settings: &Settings, dialer: &PeerDialer) -> Result<Node, StartError> {
    let config = settings.node.clone();
    let started = Instant::now();
    let data_dir = config.data_dir.display().to_string();
    tracing::info!(data_dir, "recovering");
    let mut log = ProgressLog::new();
    let engine = settings.engine.clone();
    let (server, dialer) = (settings.grpc.clone(), dialer.clone());
    let opened = tokio::task::spawn_blocking(move || -> Result<Node, StartError> {
        let report = |progress| log.report(&progress);
        Ok(match engine {
            Engine::Local => Node::open(config, report)?,
            Engine::Ordered(journal) => cluster::open(config, &journal, &server, &dialer, report)?,
        })
    });
    let node = opened.await??;
    let status = node.status();
    tracing::info!(
        revision = status.revision,
        keys = status.keys,
        leases = status.leases,
        disk_bytes = status.disk_bytes,
        took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        "recovered"
    );
    Ok(node)
}

/// Recovery reports often; at most two lines a second are logged.
struct ProgressLog {
    last: Option<Instant>,
}

impl ProgressLog {
    fn new() -> ProgressLog {
        ProgressLog { last: None }
    }

    fn report(&mut self, progress: &Progress) {
        let (step, done, total) = match progress {
            Progress::Note(note) => return tracing::info!(note, "recovery"),
            Progress::Checkpoint { bytes_done, bytes_total } => ("checkpoint", *bytes_done, *bytes_total),
            Progress::Journal { bytes_done, bytes_total } => ("journal", *bytes_done, *bytes_total),
        };
        let due = self.last.is_none_or(|last| last.elapsed() >= Duration::from_millis(500));
        if due {
            self.last = Some(Instant::now());
            let percent = done.saturating_mul(100).checked_div(total).unwrap_or(100);
            tracing::info!(step, percent, bytes_done = done, bytes_total = total, "recovery");
        }
    }
}

/// Starts the archiver, if backups are configured. A failure of it never stops the server.
pub(crate) fn start_archiver(settings: &Settings, node: &Node) -> Option<Archiver> {
    let (backup, archive) = settings.backup.clone().zip(node.archive())?;
    let started = Archiver::start(archive, backup);
    started.inspect_err(|error| tracing::error!(%error, "no backups: their threads cannot be started")).ok()
}

/// Sends the rest, if that does not take long.
async fn finish_backups(archiver: Option<Archiver>) {
    let Some(archiver) = archiver else { return };
    let sent = tokio::task::spawn_blocking(move || archiver.finish(BACKUP_DRAIN_TIMEOUT)).await;
    if !sent.unwrap_or(false) {
        tracing::warn!("the last writes are not in the backup yet; the next start sends them");
    }
}

/// Begins to serve. With a `router`, that one decides where requests are served.
pub(crate) fn start(
    settings: &Settings,
    node: Node,
    listeners: Vec<(Listener, ListenerConfig)>,
    router: Option<RequestRouter>,
) -> Server {
    if let Some(path) = &settings.key_file {
        keys::log_keys_in_use(&node, path);
        tokio::spawn(keys::watch_file(node.clone(), path.clone()));
    }
    let metrics = Arc::new(ServerMetrics {
        features: settings.features.clone(),
        ..ServerMetrics::new(settings.extensive_metrics, settings.slow_request)
    });
    let routes = grpc::routes(node.clone(), Arc::new(settings.grpc.clone()), Arc::clone(&metrics));
    let routes = match router {
        Some(router) => routes.with_router(router),
        None => routes,
    };
    let shared = ServerState::new(node, routes, metrics, settings.http.clone());
    Server::start(Arc::new(shared), listeners)
}

pub(crate) fn start_compactor(settings: &Settings, node: &Node) {
    if let Some(retention) = settings.retention {
        tokio::spawn(compactor::run(node.clone(), retention));
    }
}

pub(crate) fn announce_ready(settings: &Settings, node: &Node) {
    let identity = node.identity();
    tracing::info!(
        etcd_version = version::SERVER,
        vetch_version = env!("CARGO_PKG_VERSION"),
        name = settings.grpc.name,
        cluster_id = format!("{:x}", identity.cluster_id),
        member_id = format!("{:x}", identity.member_id),
        advertise_client_urls = settings.grpc.client_urls.join(","),
        "ready to serve client requests"
    );
    notify_systemd("READY=1");
}

pub(crate) fn notify_systemd(what: &str) {
    if let Err(error) = notify::send(std::env::var_os("NOTIFY_SOCKET").as_deref(), what) {
        tracing::warn!(%error, what, "cannot notify systemd");
    }
}

/// Requests first, then the node, then the remaining streams: an accepted request is answered if at
/// all possible.
pub(crate) async fn finish(end: ExitReason, mut server: Server, node: Node) {
    if let ExitReason::Signal(signal) = end {
        tracing::info!(signal, "closing");
        notify_systemd("STOPPING=1");
        cluster::transfer_leadership(&node).await;
        server.drain(REQUEST_DRAIN_TIMEOUT).await;
    }
    node.shutdown().await;
    server.drain(STREAM_DRAIN_TIMEOUT).await;
    server.stop().await;
    tracing::info!("closed");
}

/// The two signals that mean "stop".
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    pub(crate) async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
            _ = self.interrupt.recv() => SignalKind::interrupt().as_raw_value(),
        }
    }
}

#[cfg(test)]
mod tests;
