//! Names of flags in earlier releases. Deployments still use them, so they are still accepted.

/// The meaning of an old name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OldName {
    /// It has a new name.
    Renamed(&'static str),
    /// Accepted and ignored, as in etcd 3.7.
    Ignored,
    /// Accepted and ignored, although etcd 3.7 refuses it: nothing is missing without it. The
    /// reason.
    Gone { takes_value: bool, why: &'static str },
}

pub(super) fn find(name: &str) -> Option<OldName> {
    if IGNORED.contains(&name) {
        return Some(OldName::Ignored);
    }
    if let Some((_, new)) = RENAMED.iter().find(|(old, _)| *old == name) {
        return Some(OldName::Renamed(new));
    }
    let gone = GONE.iter().find(|(old, ..)| *old == name);
    gone.map(|(_, takes_value, why)| OldName::Gone { takes_value: *takes_value, why })
}

const RENAMED: &[(&str, &str)] = &[
    ("experimental-bootstrap-defrag-threshold-megabytes", "bootstrap-defrag-threshold-megabytes"),
    ("experimental-compact-hash-check-time", "compact-hash-check-time"),
    ("experimental-compaction-batch-limit", "compaction-batch-limit"),
    ("experimental-compaction-sleep-interval", "compaction-sleep-interval"),
    ("experimental-corrupt-check-time", "corrupt-check-time"),
    ("experimental-distributed-tracing-address", "distributed-tracing-address"),
    ("experimental-distributed-tracing-instance-id", "distributed-tracing-instance-id"),
    ("experimental-distributed-tracing-sampling-rate", "distributed-tracing-sampling-rate"),
    ("experimental-distributed-tracing-service-name", "distributed-tracing-service-name"),
    ("experimental-downgrade-check-time", "downgrade-check-time"),
    ("experimental-enable-distributed-tracing", "enable-distributed-tracing"),
    ("experimental-max-learners", "max-learners"),
    ("experimental-memory-mlock", "memory-mlock"),
    ("experimental-peer-skip-client-san-verification", "peer-skip-client-san-verification"),
    ("experimental-snapshot-catchup-entries", "snapshot-catchup-entries"),
    ("experimental-warning-apply-duration", "warning-apply-duration"),
    ("experimental-warning-unary-request-duration", "warning-unary-request-duration"),
    ("experimental-watch-progress-notify-interval", "watch-progress-notify-interval"),
];

/// Switches, the last two of etcd's own coverage tests.
const IGNORED: &[&str] = &[
    "cluster-active-size",
    "cluster-remove-delay",
    "cluster-sync-interval",
    "config",
    "force",
    "max-result-buffer",
    "max-retry-attempts",
    "peer-election-timeout",
    "peer-heartbeat-interval",
    "retry-interval",
    "snapshot",
    "v",
    "vv",
    "test.coverprofile",
    "test.outputdir",
];

const GATE: &str = "it is a feature gate now, and what it switches needs no switch here";
const V2: &str = "there is no v2 API";
const PROXY: &str = "there is no v2 proxy";

/// Names, whether they take a value, and why they may be ignored.
const GONE: &[(&str, bool, &str)] = &[
    ("experimental-compact-hash-check-enabled", false, GATE),
    ("experimental-enable-lease-checkpoint", false, GATE),
    ("experimental-enable-lease-checkpoint-persist", false, GATE),
    ("experimental-initial-corrupt-check", false, GATE),
    ("experimental-set-member-localaddr", false, GATE),
    ("experimental-stop-grpc-service-on-defrag", false, GATE),
    ("experimental-txn-mode-write-with-shared-buffer", false, GATE),
    ("experimental-enable-v2v3", true, V2),
    ("enable-v2", false, V2),
    ("proxy", true, PROXY),
    ("proxy-dial-timeout", true, PROXY),
    ("proxy-failure-wait", true, PROXY),
    ("proxy-read-timeout", true, PROXY),
    ("proxy-refresh-interval", true, PROXY),
    ("proxy-write-timeout", true, PROXY),
];
