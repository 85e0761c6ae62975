//! Errors of a set of flags, in etcd's words where it refuses the same.

use std::time::Duration;

use vetch_encryption::KeyRingError;
use vetch_server::auth;
use vetch_server::http::url::UrlError;

use crate::engine::PlaceError;
use crate::flags::GateError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error("--auth-token: {0}")]
    AuthToken(#[from] auth::SettingsError),
    #[error("--initial-advertise-peer-urls {urls:?} must be \"host:port\" ({error})")]
    AdvertisedPeer { urls: String, error: UrlError },
    #[error(
        "--advertise-client-urls {urls:?} must be in the format \"host:port\", \"unix:/path/to/socket\" or \"unixs:/path/to/socket\" ({error})"
    )]
    AdvertisedClient { urls: String, error: UrlError },
    #[error("--advertise-client-urls is required when --listen-client-urls is set explicitly")]
    NoAdvertised,
    #[error("cannot bind both --listen-client-urls and --listen-client-http-urls on the same url {0}")]
    SameUrl(String),
    #[error("--heartbeat-interval must be >0 (set to {0}ms)")]
    Heartbeat(u64),
    #[error("--election-timeout must be >0 (set to {0}ms)")]
    NoElection(u64),
    #[error(
        "--election-timeout[{election}ms] should be at least as 5 times as --heartbeat-interval[{heartbeat}ms]"
    )]
    Election { election: u64, heartbeat: u64 },
    #[error("--election-timeout[{0}ms] is too long, and should be set less than 50000ms")]
    ElectionTooLong(u64),
    #[error(
        "--max-connection-bytes={connection} is too small for --max-request-bytes={request}: a connection must be able to hold a whole request, for which it needs at least {needed}"
    )]
    ConnectionBytes { connection: u64, request: u64, needed: u64 },
    #[error(
        "--max-client-bytes={total} is less than --max-connection-bytes={connection}: all connections must be able to hold what one may"
    )]
    ClientBytes { total: u64, connection: u64 },
    #[error("undefined auto-compaction-mode")]
    NoCompactionMode,
    #[error("unknown auto-compaction-mode {0:?}")]
    CompactionMode(String),
    #[error("error parsing CompactionRetention: {0:?} is neither a duration nor a number")]
    Retention(String),
    #[error("couldn't find local name {0:?} in the initial cluster configuration")]
    NotInCluster(String),
    #[error("error setting up initial cluster: {0}")]
    ClusterSyntax(UrlError),
    #[error("initial cluster {0} has duplicate url")]
    DuplicateUrl(String),
    #[error(
        "--initial-cluster names other members ({0}): to run several servers, give them the same --journal"
    )]
    OtherMembers(String),
    #[error("--initial-cluster has {0} but missing from --initial-advertise-peer-urls={1}")]
    NotAdvertised(String, String),
    #[error("--initial-advertise-peer-urls has {0} but missing from --initial-cluster={1}")]
    NotInOwnCluster(String, String),
    #[error("unexpected clusterState {0:?}")]
    ClusterState(String),
    #[error(
        "--initial-cluster-state existing needs a data directory in use: a server joins a cluster by its --journal"
    )]
    Join,
    #[error("v2 proxy is deprecated, and --discovery-fallback can't be configured as \"proxy\"")]
    ProxyFallback,
    #[error(transparent)]
    Gates(#[from] GateError),
    #[error("--compact-hash-check-time must be >0 (set to 0s)")]
    HashCheckTime,
    #[error("unexpected TLS version {0:?} (must be one of: TLS1.2, TLS1.3)")]
    TlsVersion(String),
    #[error("min version ({min}) is greater than max version ({max})")]
    TlsVersions { min: String, max: String },
    #[error("cipher suites cannot be configured when only TLS1.3 is enabled")]
    CiphersOfTls13,
    #[error("TLS key/cert (--cert-file, --key-file) must be provided for client url {0} with HTTPS scheme")]
    NoClientCertificate(String),
    #[error("client TLS key/cert (--cert-file, --key-file) must be provided for metrics secure url")]
    NoMetricsCertificate,
    #[error("KeyFile and CertFile must both be present[key: {key}, cert: {cert}]")]
    HalfCertificate { key: String, cert: String },
    #[error("--self-signed-cert-validity must be between 1 and 1000 years (set to {0})")]
    Validity(u64),
    #[error("--journal-segment-bytes {0} must be between 16384 and 1073741824")]
    SegmentBytes(u64),
    #[error("--checkpoint-bytes {0} must be at least 4096")]
    CheckpointBytes(u64),
    #[error("--checkpoint-interval must be more than 0; to take few checkpoints, make it long")]
    CheckpointInterval,
    #[error("--encryption-key-file: {0}")]
    Keys(#[from] KeyRingError),
    #[error("--backup-location: {0}")]
    BackupLocation(vetch_backup::BackupError),
    #[error("--{0} has no effect without --backup-location")]
    NoBackup(&'static str),
    #[error("--backup-interval must be at least 100ms, and --backup-full-interval at least as long")]
    BackupInterval,
    #[error("--{0} has no effect without --journal")]
    NoJournal(&'static str),
    #[error(transparent)]
    JournalPlace(#[from] PlaceError),
    #[error("--{0} cannot be used with --journal yet: it concerns the journal on this machine's disk")]
    NotWithJournal(&'static str),
    #[error(
        "--journal needs an http:// or https:// address first in --advertise-client-urls, to which the other servers forward requests"
    )]
    JournalAdvertised,
    #[error(
        "--journal needs an address in --advertise-client-urls by which the other servers reach this one; {0} leads each of them to \
         itself"
    )]
    JournalUnreachable(String),
    #[error(
        "--journal with an https:// address in --advertise-client-urls needs --trusted-ca-file or --peer-trusted-ca-file: the \
         CAs with which the servers verify each other"
    )]
    JournalAuthority,
    #[error(
        "--journal cannot be used with --auto-tls: the other servers cannot verify a certificate that a server made for itself; give \
         --cert-file and --key-file, and --trusted-ca-file or --peer-trusted-ca-file"
    )]
    JournalAutoTls,
    #[error("--journal-read-lease {lease:?} is too long: at most {max:?}, a third of the election timeout")]
    JournalReadLease { lease: Duration, max: Duration },
    #[error("--watch-progress-notify-interval must be at least 100ms")]
    ProgressInterval,
}
