//! The node's state and counters under etcd's names.

mod durations;
mod own;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use vetch_node::Node;
use vetch_node::metrics::{Counter, NodeMetrics};
use vetch_node::types::NodeStatus;

pub use own::{SLOW_STREAM_LAG, prefix_text};

use super::backup;
use super::text::{Text, Type};
use vetch_api::version;

pub(super) fn write(page: &mut Text, node: &Node) {
    identity(page, node);
    always_zero(page);
    state(page, node);
    let metrics = node.metrics();
    counters(page, metrics);
    durations::write(page, metrics);
    watchers(page, node);
    own::write(page, node);
    backup::write(page, node);
}

fn identity(page: &mut Text, node: &Node) {
    let id = format!("{:x}", node.identity().member_id);
    let one = |page: &mut Text, name: &str, help: &str, label: (&str, &str)| {
        page.heading(name, Type::Gauge, help);
        page.sample(name, &[label], 1.0);
    };
    let minor = version::CLUSTER.rsplit_once('.').map_or(version::CLUSTER, |(minor, _)| minor);
    one(page, "etcd_cluster_version", "The API version of the cluster.", ("cluster_version", minor));
    one(
        page,
        "etcd_server_version",
        "The etcd version that clients see.",
        ("server_version", version::SERVER),
    );
    one(page, "etcd_server_id", "The member's ID in hexadecimal.", ("server_id", &id));
    let (has_leader, is_leader) = leader(node);
    page.gauge("etcd_server_has_leader", "1 while there is a leader.", has_leader);
    page.gauge("etcd_server_is_leader", "1 while this member is the leader.", is_leader);
    page.gauge("etcd_server_is_learner", "1 while this member does not vote.", 0.0);
    // A single server has led since it started.
    page.counter("etcd_server_leader_changes_seen_total", "Leaders seen since the start.", 1);
    // A member counts itself among those it knows.
    page.heading("etcd_network_known_peers", Type::Gauge, "Members known.");
    page.sample("etcd_network_known_peers", &[("Local", &id), ("Remote", &id)], 1.0);
}

/// Whether there is a leader, and whether it is this member. A single server always leads.
fn leader(node: &Node) -> (f64, f64) {
    let Some(cluster) = node.cluster() else { return (1.0, 1.0) };
    let status = cluster.borrow();
    (f64::from(u8::from(status.leader.is_some() && !status.silent)), f64::from(u8::from(status.is_leader)))
}

/// Always zero here, but used by dashboards.
fn always_zero(page: &mut Text) {
    let counters = [
        ("etcd_server_heartbeat_send_failures_total", "Heartbeats that could not be sent."),
        ("etcd_server_learner_promote_successes", "Members promoted."),
        ("etcd_server_slow_read_indexes_total", "Reads that waited long for a quorum."),
    ];
    for (name, help) in counters {
        page.counter(name, help, 0);
    }
    let gauges = [
        ("etcd_server_snapshot_apply_in_progress_total", "1 while a peer's snapshot is applied."),
        ("etcd_disk_defrag_inflight", "1 while a defragmentation blocks the server."),
    ];
    for (name, help) in gauges {
        page.gauge(name, help, 0.0);
    }
}

/// Bytes of the smallest database: one page of etcd's.
const PAGE_BYTES: u64 = 4096;

/// The size of the database that clients see: what the quota counts, and at least a page.
///
/// An etcd that holds nothing has a file of some pages, so clients divide by the size: etcdctl
/// panics if it is 0.
pub fn database_bytes(status: &NodeStatus) -> u64 {
    status.live_bytes.max(PAGE_BYTES)
}

fn state(page: &mut Text, node: &Node) {
    let status = node.status();
    let database = database_bytes(&status) as f64;
    let metrics = node.metrics();
    let compacted = if status.compact_revision > 0 { status.compact_revision } else { -1 };
    // etcd shows -1 for no limit, on which its own alerts about growth go off.
    let quota = if status.quota_bytes == 0 { f64::INFINITY } else { status.quota_bytes as f64 };
    let gauges: [(&str, &str, f64); 10] = [
        ("etcd_debugging_auth_revision", "Revision of users and roles.", node.auth().revision() as f64),
        ("etcd_debugging_mvcc_current_revision", "The newest revision.", status.revision as f64),
        ("etcd_debugging_mvcc_compact_revision", "The last compaction, or -1.", compacted as f64),
        ("etcd_debugging_mvcc_keys_total", "Keys that exist.", status.keys as f64),
        (
            "etcd_mvcc_db_total_size_in_bytes",
            "Bytes of data, as the quota counts them, and at least a page of 4096.",
            database,
        ),
        ("etcd_mvcc_db_total_size_in_use_in_bytes", "Bytes of reachable data; the same.", database),
        ("etcd_server_quota_backend_bytes", "Limit on bytes of data; infinite if there is none.", quota),
        (
            "etcd_mvcc_db_open_read_transactions",
            "Ranges, transactions that only read, and hashes being worked on.",
            metrics.reads.open.get() as f64,
        ),
        (
            "etcd_server_proposals_pending",
            "Writes that wait to be evaluated or to become durable.",
            metrics.proposals.pending.get() as f64,
        ),
        (
            "etcd_debugging_mvcc_db_compaction_last",
            "Unix time at which a compaction last freed memory; 0 if not since the start.",
            unix_time(node.files().since_compaction),
        ),
    ];
    for (name, help, value) in gauges {
        page.gauge(name, help, value);
    }
}

/// In whole seconds; 0 for never.
fn unix_time(ago: Option<Duration>) -> f64 {
    let Some(ago) = ago else { return 0.0 };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(ago).as_secs_f64().round()
}

fn watchers(page: &mut Text, node: &Node) {
    let gauges = node.watch_gauges();
    let families: [(&str, &str, i64); 4] = [
        ("etcd_debugging_mvcc_watch_stream_total", "Open watch streams.", gauges.streams()),
        ("etcd_debugging_mvcc_watcher_total", "Watchers.", gauges.watchers()),
        ("etcd_debugging_mvcc_slow_watcher_total", "Watchers that lag behind.", gauges.slow_watchers()),
        (
            "etcd_debugging_mvcc_pending_events_total",
            "Events that wait for watchers.",
            gauges.pending_events(),
        ),
    ];
    for (name, help, value) in families {
        page.gauge(name, help, value as f64);
    }
}

fn counters(page: &mut Text, metrics: &NodeMetrics) {
    let counters: [(&str, &str, &Counter); 13] = [
        (
            "etcd_server_proposals_failed_total",
            "Writes that failed before they were durable.",
            &metrics.proposals.failed,
        ),
        (
            "etcd_server_read_indexes_failed_total",
            "Linearizable reads that got no read index in time.",
            &metrics.reads.unconfirmed,
        ),
        ("etcd_server_slow_apply_total", "Slow writes and ranges.", &metrics.evaluation.slow),
        ("etcd_mvcc_range_total", "Ranges served.", &metrics.reads.ranges),
        ("etcd_mvcc_put_total", "Keys put.", &metrics.writes.puts),
        ("etcd_mvcc_delete_total", "Keys deleted.", &metrics.writes.deletes),
        ("etcd_mvcc_txn_total", "Transactions.", &metrics.writes.txns),
        ("etcd_debugging_mvcc_events_total", "Events sent to watchers.", &metrics.writes.events),
        ("etcd_debugging_mvcc_db_compaction_keys_total", "Versions freed.", &metrics.compaction.versions),
        ("etcd_debugging_lease_granted_total", "Leases granted.", &metrics.leases.granted),
        ("etcd_debugging_lease_renewed_total", "Leases renewed.", &metrics.leases.renewed),
        ("etcd_debugging_lease_revoked_total", "Leases revoked.", &metrics.leases.revoked),
        ("etcd_debugging_server_lease_expired_total", "Leases expired.", &metrics.leases.expired),
    ];
    for (name, help, counter) in counters {
        page.counter(name, help, counter.get());
    }
    // etcd calls these gauges, and dashboards may rely on the type.
    let gauges: [(&str, &str, &Counter); 4] = [
        ("etcd_server_proposals_committed_total", "Writes made durable.", &metrics.proposals.committed),
        // Nothing becomes durable without being applied in the same step.
        ("etcd_server_proposals_applied_total", "Writes applied.", &metrics.proposals.committed),
        ("etcd_disk_wal_write_bytes_total", "Bytes written to the journal.", &metrics.journal.bytes),
        (
            "etcd_debugging_mvcc_total_put_size_in_bytes",
            "Bytes of keys and values put.",
            &metrics.writes.put_bytes,
        ),
    ];
    for (name, help, counter) in gauges {
        page.gauge(name, help, counter.get() as f64);
    }
}
