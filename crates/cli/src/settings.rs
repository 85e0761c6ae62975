//! Settings from the flags: checked, typed, and split by their users.

mod backup;
mod cluster;
mod error;
mod journal;
mod tls;

use std::path::PathBuf;
use std::time::Duration;

use vetch_backup::archiver;
use vetch_encryption::EncryptionKeys;
use vetch_metrics::Feature;
use vetch_node::config::NodeConfig;
use vetch_server::http::access::{Access, Whitelist};
use vetch_server::http::url::Url;
use vetch_server::http::{self, Serves};
use vetch_server::{auth, grpc, identity};
use vetch_tls::settings::TlsSettings;

pub(crate) use error::SettingsError;

use crate::compactor::Retention;
use crate::engine::Engine;
use crate::flags::{Parsed, check_gates_together, duration, duration_or_hours, feature_gates};

/// Everything `serve` needs.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) node: NodeConfig,
    pub(crate) grpc: grpc::Settings,
    pub(crate) http: http::Settings,
    pub(crate) listeners: Vec<(Url, Serves)>,
    /// For clients, and for metrics.
    pub(crate) client_tls: TlsSettings,
    pub(crate) peer_tls: TlsSettings,
    /// The directory of the journal, if it is not in the data directory.
    pub(crate) wal_dir: Option<PathBuf>,
    /// The key file, with encryption at rest.
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) lock_memory: bool,
    pub(crate) reuse_port: bool,
    pub(crate) extensive_metrics: bool,
    pub(crate) slow_request: Duration,
    pub(crate) features: Vec<Feature>,
    pub(crate) retention: Option<Retention>,
    pub(crate) backup: Option<archiver::Settings>,
    pub(crate) engine: Engine,
    /// TLS settings of calls to other servers; None without CAs, and on a local journal.
    pub(crate) peer_client_tls: Option<TlsSettings>,
}

/// Smaller segments would be all headers; a larger one takes too long to prepare.
const SEGMENT_BYTES: std::ops::RangeInclusive<u64> = 16 << 10..=1 << 30;

/// Less would keep the server busy with checkpoints alone.
const CHECKPOINT_BYTES_MIN: u64 = 4 << 10;

/// How much longer than a request a message may be.
const MESSAGE_OVERHEAD: u64 = 512 << 10;

impl Settings {
    /// Checks in etcd's order, so that of two errors the same one is reported.
    pub(crate) fn from_flags(flags: &Parsed) -> Result<Settings, SettingsError> {
        let listeners = listeners(flags)?;
        check_advertised(flags)?;
        check_bootstrap(flags)?;
        let timing = Timing::from_flags(flags)?;
        if flags.file.is_none()
            && flags.is_given("listen-client-urls")
            && !flags.is_given("advertise-client-urls")
        {
            return Err(SettingsError::NoAdvertised);
        }
        check_compaction_mode(flags)?;
        check_gates_together(flags.text("feature-gates"))?;
        check_choices(flags)?;
        let client_tls = tls::client(flags, &data_dir(flags), &listeners)?;
        let peer_tls = tls::peer(flags, &data_dir(flags), &listeners)?;
        for (url, serves) in &listeners {
            let tls = if *serves == Serves::Peer { &peer_tls } else { &client_tls };
            tls::check_certificate(url, *serves, tls)?;
        }
        let retention = retention(flags)?;
        let backup = backup::settings(flags)?;
        let engine = journal::engine(flags)?;
        let peer_client_tls = tls::peer_client(&client_tls, &peer_tls);
        if let Engine::Ordered(journal) = &engine {
            journal::check_advertised_url(flags, &journal.place, &client_tls, peer_client_tls.as_ref())?;
        }
        let peer_urls = cluster::peer_urls(flags, &data_dir(flags))?;
        let mut node = node_config(flags, timing, &peer_urls)?;
        if let Engine::Ordered(journal) = &engine {
            node.proposed = journal::identity(&journal.place);
        }
        Ok(Settings {
            node,
            grpc: grpc_settings(flags, peer_urls.clone())?,
            http: http_settings(flags, peer_urls, client_bytes(flags)?),
            listeners,
            client_tls,
            peer_tls,
            wal_dir: path(flags, "wal-dir"),
            key_file: path(flags, "encryption-key-file"),
            lock_memory: flags.bool("memory-mlock"),
            reuse_port: flags.bool("socket-reuse-port"),
            extensive_metrics: flags.text("metrics") == "extensive",
            slow_request: flags.duration("warning-unary-request-duration"),
            features: feature_gates(flags.text("feature-gates")),
            retention,
            backup,
            peer_client_tls: peer_client_tls.filter(|_| engine.is_shared()),
            engine,
        })
    }

    /// TLS settings of a listener, for URLs with TLS.
    pub(crate) fn tls(&self, serves: Serves) -> &TlsSettings {
        if serves == Serves::Peer { &self.peer_tls } else { &self.client_tls }
    }
}

/// None if it is not given.
fn path(flags: &Parsed, flag: &str) -> Option<PathBuf> {
    Some(flags.text(flag)).filter(|text| !text.is_empty()).map(PathBuf::from)
}

fn data_dir(flags: &Parsed) -> PathBuf {
    match flags.text("data-dir") {
        "" => PathBuf::from(format!("{}.vetch", flags.text("name"))),
        given => PathBuf::from(given),
    }
}

fn node_config(flags: &Parsed, timing: Timing, peer_urls: &[String]) -> Result<NodeConfig, SettingsError> {
    let proposed = identity::derive(peer_urls, flags.text("initial-cluster-token"));
    let mut node = NodeConfig::new(data_dir(flags), proposed);
    node.min_lease_ttl = timing.min_lease_ttl;
    node.request_timeout = timing.request_timeout;
    node.slow_apply = flags.duration("warning-apply-duration");
    node.quota_bytes = flags.int("quota-backend-bytes");
    node.unsafe_no_fsync = flags.bool("unsafe-no-fsync");
    node.watch_progress_interval = flags.duration("watch-progress-notify-interval");
    node.compaction_batch = usize::try_from(flags.int("compaction-batch-limit")).unwrap_or(0).max(1);
    node.journal_segment_bytes = flags.uint("journal-segment-bytes");
    node.checkpoint_bytes = flags.uint("checkpoint-bytes");
    node.checkpoint_interval = flags.duration("checkpoint-interval");
    node.scrub_interval = flags.duration("scrub-interval");
    if let Some(path) = path(flags, "encryption-key-file") {
        node.keys = EncryptionKeys::new(vetch_encryption::read_key_file(&path)?);
    }
    node.archive_limit = backup::journal_limit(flags);
    if !SEGMENT_BYTES.contains(&node.journal_segment_bytes) {
        return Err(SettingsError::SegmentBytes(node.journal_segment_bytes));
    }
    if node.checkpoint_bytes < CHECKPOINT_BYTES_MIN {
        return Err(SettingsError::CheckpointBytes(node.checkpoint_bytes));
    }
    if node.checkpoint_interval.is_zero() {
        return Err(SettingsError::CheckpointInterval);
    }
    Ok(node)
}

fn grpc_settings(flags: &Parsed, peer_urls: Vec<String>) -> Result<grpc::Settings, SettingsError> {
    Ok(grpc::Settings {
        name: flags.text("name").to_string(),
        client_urls: texts(&flags.urls("advertise-client-urls")),
        peer_urls,
        max_request_bytes: usize::try_from(flags.uint("max-request-bytes")).unwrap_or(usize::MAX),
        max_txn_ops: usize::try_from(flags.uint("max-txn-ops")).unwrap_or(usize::MAX),
        auth: auth_settings(flags)?,
    })
}

fn auth_settings(flags: &Parsed) -> Result<auth::Settings, SettingsError> {
    let ttl = Duration::from_secs(flags.uint("auth-token-ttl").min(u64::from(u32::MAX)));
    let cost = u32::try_from(flags.uint("bcrypt-cost")).unwrap_or(u32::MAX);
    let settings = auth::Settings::new(flags.text("auth-token"), ttl, cost, duration)?;
    Ok(auth::Settings { client_cert_auth: flags.bool("client-cert-auth"), ..settings })
}

fn texts(urls: &[Url]) -> Vec<String> {
    urls.iter().map(Url::to_string).collect()
}

/// Bytes held for one connection, and for all. Defaults grow with the given ones.
///
/// Half of what a connection may hold is for requests, and a message in JSON takes up to twice as
/// much as in protobuf.
fn client_bytes(flags: &Parsed) -> Result<(u64, u64), SettingsError> {
    let request = flags.uint("max-request-bytes");
    let needed = request.saturating_add(MESSAGE_OVERHEAD).saturating_mul(4);
    let mut connection = flags.uint("max-connection-bytes");
    if connection < needed {
        if flags.is_given("max-connection-bytes") {
            return Err(SettingsError::ConnectionBytes { connection, request, needed });
        }
        connection = needed;
    }
    let mut total = flags.uint("max-client-bytes");
    if total < connection {
        if flags.is_given("max-client-bytes") {
            return Err(SettingsError::ClientBytes { total, connection });
        }
        total = connection;
    }
    Ok((connection, total))
}

fn http_settings(
    flags: &Parsed,
    peer_urls: Vec<String>,
    (connection_bytes, client_bytes): (u64, u64),
) -> http::Settings {
    let (interval, timeout) =
        (flags.duration("grpc-keepalive-interval"), flags.duration("grpc-keepalive-timeout"));
    let message = flags.uint("max-request-bytes").saturating_add(MESSAGE_OVERHEAD);
    http::Settings {
        name: flags.text("name").to_string(),
        peer_urls,
        client_urls: texts(&flags.urls("advertise-client-urls")),
        access: Access {
            origins: Whitelist::parse(flags.text("cors")),
            hosts: Whitelist::parse(flags.text("host-whitelist")),
        },
        gateway: flags.bool("enable-grpc-gateway"),
        client_cert_auth: flags.bool("client-cert-auth"),
        // Base64 makes bytes a third longer; names and escapes get the rest.
        max_json_bytes: usize::try_from(message.saturating_mul(2)).unwrap_or(usize::MAX),
        max_concurrent_streams: u32::try_from(flags.uint("max-concurrent-streams")).unwrap_or(u32::MAX),
        max_connection_bytes: usize::try_from(connection_bytes).unwrap_or(usize::MAX),
        max_client_bytes: usize::try_from(client_bytes).unwrap_or(usize::MAX),
        max_connection_watch_bytes: usize::try_from(flags.uint("max-connection-watch-bytes"))
            .unwrap_or(usize::MAX),
        max_watch_bytes: usize::try_from(flags.uint("max-watch-bytes")).unwrap_or(usize::MAX),
        timeouts: http::Timeouts::default(),
        // Zero for either of the two turns pings off.
        keepalive_interval: (!interval.is_zero() && !timeout.is_zero()).then_some(interval),
        keepalive_timeout: timeout,
    }
}

/// Peers first, as etcd checks them. The peer port is opened only if its flag is given.
fn listeners(flags: &Parsed) -> Result<Vec<(Url, Serves)>, SettingsError> {
    let split = !flags.urls("listen-client-http-urls").is_empty();
    let client = if split { Serves::Grpc } else { Serves::GrpcAndHttp };
    let mut listeners = Vec::new();
    for (flag, serves) in [
        ("listen-peer-urls", Serves::Peer),
        ("listen-client-urls", client),
        ("listen-client-http-urls", Serves::Http),
        ("listen-metrics-urls", Serves::Metrics),
    ] {
        if serves == Serves::Peer && !flags.is_given(flag) {
            continue;
        }
        for url in flags.urls(flag) {
            url.check_listen()?;
            listeners.push((url, serves));
        }
    }
    let of = |wanted: Serves| listeners.iter().filter(move |(_, serves)| *serves == wanted);
    if let Some((twice, _)) =
        of(Serves::Http).find(|(url, _)| of(Serves::Grpc).any(|(g, _)| g.address() == url.address()))
    {
        return Err(SettingsError::SameUrl(twice.to_string()));
    }
    Ok(listeners)
}

fn check_advertised(flags: &Parsed) -> Result<(), SettingsError> {
    for url in flags.urls("initial-advertise-peer-urls") {
        url.check_advertise().map_err(|error| SettingsError::AdvertisedPeer {
            urls: flags.text("initial-advertise-peer-urls").to_string(),
            error,
        })?;
    }
    for url in flags.urls("advertise-client-urls") {
        url.check_advertise().map_err(|error| SettingsError::AdvertisedClient {
            urls: flags.text("advertise-client-urls").to_string(),
            error,
        })?;
    }
    Ok(())
}

fn check_bootstrap(flags: &Parsed) -> Result<(), SettingsError> {
    let state = flags.text("initial-cluster-state");
    if !["new", "existing"].contains(&state) {
        return Err(SettingsError::ClusterState(state.to_string()));
    }
    if flags.text("discovery-fallback") == "proxy" {
        return Err(SettingsError::ProxyFallback);
    }
    Ok(())
}

/// The meaning of the two Raft intervals without Raft.
struct Timing {
    min_lease_ttl: i64,
    request_timeout: Duration,
}

impl Timing {
    fn from_flags(flags: &Parsed) -> Result<Timing, SettingsError> {
        let (heartbeat, election) = (flags.uint("heartbeat-interval"), flags.uint("election-timeout"));
        if heartbeat == 0 {
            return Err(SettingsError::Heartbeat(heartbeat));
        }
        if election == 0 {
            return Err(SettingsError::NoElection(election));
        }
        if heartbeat.saturating_mul(5) > election {
            return Err(SettingsError::Election { election, heartbeat });
        }
        if election > 50_000 {
            return Err(SettingsError::ElectionTooLong(election));
        }
        // Whole heartbeats, as etcd counts, then whole seconds.
        let millis = (3 * (election / heartbeat)) / 2 * heartbeat;
        let min_lease_ttl = i64::try_from(millis.div_ceil(1000)).expect("at most 75 seconds");
        Ok(Timing { min_lease_ttl, request_timeout: Duration::from_millis(5000 + 2 * election) })
    }
}

fn check_compaction_mode(flags: &Parsed) -> Result<(), SettingsError> {
    match flags.text("auto-compaction-mode") {
        "periodic" | "revision" => Ok(()),
        "" => Err(SettingsError::NoCompactionMode),
        other => Err(SettingsError::CompactionMode(other.to_string())),
    }
}

/// A number is hours or revisions, by mode; a duration counts as one in either mode, and in
/// revisions it is as many as it has nanoseconds. That is never useful, so it is refused.
fn retention(flags: &Parsed) -> Result<Option<Retention>, SettingsError> {
    let text = match flags.text("auto-compaction-retention") {
        "" => "0",
        text => text,
    };
    let wrong = || SettingsError::Retention(text.to_string());
    if flags.text("auto-compaction-mode") == "periodic" {
        let period = duration_or_hours(text).ok_or_else(wrong)?;
        return Ok((!period.is_zero()).then_some(Retention::Period(period)));
    }
    let revisions = text.parse::<i64>().ok().filter(|n| *n >= 0).ok_or_else(wrong)?;
    Ok((revisions > 0).then_some(Retention::Revisions(revisions)))
}

fn check_choices(flags: &Parsed) -> Result<(), SettingsError> {
    if flags.duration("compact-hash-check-time").is_zero() {
        return Err(SettingsError::HashCheckTime);
    }
    if !["basic", "extensive"].contains(&flags.text("metrics")) {
        // etcd silently takes every other word for basic.
        tracing::warn!(metrics = flags.text("metrics"), "unknown kind of metrics, using basic");
    }
    if flags.duration("watch-progress-notify-interval") < Duration::from_millis(100) {
        return Err(SettingsError::ProgressInterval);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
