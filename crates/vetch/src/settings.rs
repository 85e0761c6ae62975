//! What the flags mean together: checked, typed, and split by who needs it.

use std::path::PathBuf;
use std::time::Duration;

use vetch_node::config::NodeConfig;
use vetch_server::grpc;
use vetch_server::http::access::{Access, Whitelist};
use vetch_server::http::listen::{ListenUrl, UrlError};
use vetch_server::http::{self, Serves};
use vetch_server::identity;

use crate::compactor::Retention;
use crate::flags::{Parsed, duration_or_hours};

/// Everything `serve` needs.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) node: NodeConfig,
    pub(crate) grpc: grpc::Settings,
    pub(crate) http: http::Settings,
    pub(crate) listeners: Vec<(ListenUrl, Serves)>,
    pub(crate) reuse_port: bool,
    pub(crate) extensive_metrics: bool,
    pub(crate) slow_request: Duration,
    pub(crate) retention: Option<Retention>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error("--advertise-client-urls is required when --listen-client-urls is set explicitly")]
    NoAdvertised,
    #[error("--heartbeat-interval must be >0 (set to {0}ms)")]
    Heartbeat(u64),
    #[error(
        "--election-timeout[{election}ms] should be at least as 5 times as --heartbeat-interval[{heartbeat}ms]"
    )]
    Election { election: u64, heartbeat: u64 },
    #[error("--election-timeout[{0}ms] is too long, and should be set less than 50000ms")]
    ElectionTooLong(u64),
    #[error("unknown auto-compaction-mode {0:?}")]
    CompactionMode(String),
    #[error("--auto-compaction-retention {0:?} is neither a duration nor a number")]
    Retention(String),
    #[error("--initial-cluster {0:?} must be name=url, separated by commas")]
    ClusterSyntax(String),
    #[error("couldn't find local name {0:?} in the initial cluster configuration")]
    NotInCluster(String),
    #[error("--initial-cluster names other members ({0}), but this version runs a single member")]
    OtherMembers(String),
    #[error(
        "--initial-cluster has {cluster:?} for this member, --initial-advertise-peer-urls has {advertised:?}"
    )]
    PeerUrls { cluster: String, advertised: String },
    #[error("unexpected clusterState {0:?}")]
    ClusterState(String),
    #[error(
        "--initial-cluster-state existing needs a data directory in use: joining a cluster is not possible"
    )]
    Join,
    #[error("unrecognized feature gate: {0}")]
    Gate(String),
    #[error("unknown --{name} {value:?}; it must be {allowed}")]
    Choice { name: &'static str, value: String, allowed: &'static str },
    #[error("--journal-segment-bytes {0} must be between 16384 and 1073741824")]
    SegmentBytes(u64),
    #[error("--checkpoint-bytes {0} must be at least 4096")]
    CheckpointBytes(u64),
    #[error("--checkpoint-interval must be more than 0; to take few checkpoints, make it long")]
    CheckpointInterval,
    #[error("--watch-progress-notify-interval must be at least 100ms")]
    ProgressInterval,
}

/// Feature gates of etcd 3.7. Each switches something that is always on here, or that only members of a
/// cluster do among each other.
const GATES: [&str; 11] = [
    "AllAlpha",
    "AllBeta",
    "CompactHashCheck",
    "FastLeaseKeepAlive",
    "InitialCorruptCheck",
    "LeaseCheckpoint",
    "LeaseCheckpointPersist",
    "PriorityRequest",
    "SetMemberLocalAddr",
    "StopGRPCServiceOnDefrag",
    "TxnModeWriteWithSharedBuffer",
];

/// Smaller segments would be all headers; a larger one takes too long to prepare.
const SEGMENT_BYTES: std::ops::RangeInclusive<u64> = 16 << 10..=1 << 30;

/// Less would keep the server busy with checkpoints alone.
const CHECKPOINT_BYTES: u64 = 4 << 10;

/// What a message may be longer than a request, beside the request itself.
const MESSAGE_OVERHEAD: u64 = 512 << 10;

impl Settings {
    pub(crate) fn of(flags: &Parsed) -> Result<Settings, SettingsError> {
        check_choices(flags)?;
        let timing = Timing::of(flags)?;
        let peer_urls = peer_urls(flags)?;
        let proposed = identity::derive(&peer_urls, flags.text("initial-cluster-token"));
        let mut node = NodeConfig::new(data_dir(flags), proposed);
        node.min_lease_ttl = timing.min_lease_ttl;
        node.request_timeout = timing.request_timeout;
        node.quota_bytes = flags.int("quota-backend-bytes");
        node.unsafe_no_fsync = flags.bool("unsafe-no-fsync");
        node.watch_progress_interval = flags.duration("watch-progress-notify-interval");
        node.compaction_batch = usize::try_from(flags.int("compaction-batch-limit")).unwrap_or(0).max(1);
        node.journal_segment_bytes = flags.uint("journal-segment-bytes");
        node.checkpoint_bytes = flags.uint("checkpoint-bytes");
        node.checkpoint_interval = flags.duration("checkpoint-interval");
        if !SEGMENT_BYTES.contains(&node.journal_segment_bytes) {
            return Err(SettingsError::SegmentBytes(node.journal_segment_bytes));
        }
        if node.checkpoint_bytes < CHECKPOINT_BYTES {
            return Err(SettingsError::CheckpointBytes(node.checkpoint_bytes));
        }
        if node.checkpoint_interval.is_zero() {
            return Err(SettingsError::CheckpointInterval);
        }
        let initialised = node.data_dir.join("member").exists();
        if flags.text("initial-cluster-state") == "existing" && !initialised {
            return Err(SettingsError::Join);
        }
        Ok(Settings {
            node,
            grpc: grpc_settings(flags, peer_urls)?,
            http: http_settings(flags),
            listeners: listeners(flags)?,
            reuse_port: flags.bool("socket-reuse-port"),
            extensive_metrics: flags.text("metrics") == "extensive",
            slow_request: flags.duration("warning-unary-request-duration"),
            retention: retention(flags)?,
        })
    }
}

fn data_dir(flags: &Parsed) -> PathBuf {
    match flags.text("data-dir") {
        "" => PathBuf::from(format!("{}.vetch", flags.text("name"))),
        given => PathBuf::from(given),
    }
}

fn grpc_settings(flags: &Parsed, peer_urls: Vec<String>) -> Result<grpc::Settings, SettingsError> {
    if flags.is_given("listen-client-urls") && !flags.is_given("advertise-client-urls") {
        return Err(SettingsError::NoAdvertised);
    }
    Ok(grpc::Settings {
        name: flags.text("name").to_string(),
        client_urls: flags.list("advertise-client-urls"),
        peer_urls,
        max_request_bytes: usize::try_from(flags.uint("max-request-bytes")).unwrap_or(usize::MAX),
        max_txn_ops: usize::try_from(flags.uint("max-txn-ops")).unwrap_or(usize::MAX),
    })
}

fn http_settings(flags: &Parsed) -> http::Settings {
    let interval = flags.duration("grpc-keepalive-interval");
    let message = flags.uint("max-request-bytes").saturating_add(MESSAGE_OVERHEAD);
    http::Settings {
        access: Access {
            origins: Whitelist::parse(flags.text("cors")),
            hosts: Whitelist::parse(flags.text("host-whitelist")),
        },
        gateway: flags.bool("enable-grpc-gateway"),
        // Base64 makes bytes a third longer; names and escapes get the rest.
        max_json_bytes: usize::try_from(message.saturating_mul(2)).unwrap_or(usize::MAX),
        max_concurrent_streams: u32::try_from(flags.uint("max-concurrent-streams")).unwrap_or(u32::MAX),
        keepalive_interval: (!interval.is_zero()).then_some(interval),
        keepalive_timeout: flags.duration("grpc-keepalive-timeout"),
    }
}

fn listeners(flags: &Parsed) -> Result<Vec<(ListenUrl, Serves)>, SettingsError> {
    let split = !flags.list("listen-client-http-urls").is_empty();
    let client = if split { Serves::Grpc } else { Serves::GrpcAndHttp };
    let mut listeners = Vec::new();
    for (flag, serves) in [
        ("listen-client-urls", client),
        ("listen-client-http-urls", Serves::Http),
        ("listen-metrics-urls", Serves::Metrics),
    ] {
        for url in flags.list(flag) {
            listeners.push((ListenUrl::parse(&url)?, serves));
        }
    }
    Ok(listeners)
}

/// What the two raft intervals mean without raft.
struct Timing {
    min_lease_ttl: i64,
    request_timeout: Duration,
}

impl Timing {
    fn of(flags: &Parsed) -> Result<Timing, SettingsError> {
        let (heartbeat, election) = (flags.uint("heartbeat-interval"), flags.uint("election-timeout"));
        if heartbeat == 0 {
            return Err(SettingsError::Heartbeat(heartbeat));
        }
        if election > 50_000 {
            return Err(SettingsError::ElectionTooLong(election));
        }
        if heartbeat.saturating_mul(5) > election {
            return Err(SettingsError::Election { election, heartbeat });
        }
        // Whole heartbeats, as etcd counts, then whole seconds.
        let millis = (3 * (election / heartbeat)) / 2 * heartbeat;
        let min_lease_ttl = i64::try_from(millis.div_ceil(1000)).expect("at most 75 seconds");
        Ok(Timing { min_lease_ttl, request_timeout: Duration::from_millis(5000 + 2 * election) })
    }
}

/// This member's peer URLs, once the cluster is known to consist of it alone.
fn peer_urls(flags: &Parsed) -> Result<Vec<String>, SettingsError> {
    let advertised = flags.list("initial-advertise-peer-urls");
    let cluster = flags.text("initial-cluster");
    if cluster.is_empty() {
        return Ok(advertised);
    }
    let name = flags.text("name");
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    for member in flags.list("initial-cluster") {
        match member.split_once('=') {
            Some((member, url)) if member == name => ours.push(url.to_string()),
            Some((other, _)) => others.push(other.to_string()),
            None => return Err(SettingsError::ClusterSyntax(cluster.to_string())),
        }
    }
    if ours.is_empty() {
        return Err(SettingsError::NotInCluster(name.to_string()));
    }
    if !others.is_empty() {
        return Err(SettingsError::OtherMembers(others.join(", ")));
    }
    let sorted = |urls: &[String]| {
        let mut urls = urls.to_vec();
        urls.sort();
        urls.join(",")
    };
    if sorted(&ours) != sorted(&advertised) {
        return Err(SettingsError::PeerUrls { cluster: sorted(&ours), advertised: sorted(&advertised) });
    }
    Ok(ours)
}

fn retention(flags: &Parsed) -> Result<Option<Retention>, SettingsError> {
    let text = flags.text("auto-compaction-retention");
    let wrong = || SettingsError::Retention(text.to_string());
    Ok(match flags.text("auto-compaction-mode") {
        "periodic" => {
            let period = duration_or_hours(text).ok_or_else(wrong)?;
            (!period.is_zero()).then_some(Retention::Period(period))
        }
        "revision" => {
            let revisions = text.parse::<i64>().map_err(|_| wrong())?;
            (revisions > 0).then_some(Retention::Revisions(revisions))
        }
        other => return Err(SettingsError::CompactionMode(other.to_string())),
    })
}

fn check_choices(flags: &Parsed) -> Result<(), SettingsError> {
    const CHOICES: [(&str, &[&str], &str); 4] = [
        ("logger", &["zap"], "zap"),
        ("log-format", &["json", "console"], "json or console"),
        ("log-level", &LEVELS, "debug, info, warn, error, panic or fatal"),
        ("metrics", &["basic", "extensive"], "basic or extensive"),
    ];
    const LEVELS: [&str; 8] = ["debug", "info", "warn", "error", "dpanic", "panic", "fatal", ""];
    for (name, allowed, text) in CHOICES {
        if !allowed.contains(&flags.text(name)) {
            return Err(SettingsError::Choice { name, value: flags.text(name).to_string(), allowed: text });
        }
    }
    if !["new", "existing"].contains(&flags.text("initial-cluster-state")) {
        return Err(SettingsError::ClusterState(flags.text("initial-cluster-state").to_string()));
    }
    if flags.duration("watch-progress-notify-interval") < Duration::from_millis(100) {
        return Err(SettingsError::ProgressInterval);
    }
    for gate in flags.list("feature-gates") {
        let name = gate.split_once('=').map_or(gate.as_str(), |(name, _)| name).trim();
        if !GATES.contains(&name) {
            return Err(SettingsError::Gate(name.to_string()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
