//! The node's state and counters under etcd's names.

use vetch_node::Node;

use super::text::{Text, Type};
use crate::version;

pub(super) fn write(page: &mut Text, node: &Node) {
    identity(page, node);
    state(page, node);
}

fn identity(page: &mut Text, node: &Node) {
    let id = format!("{:x}", node.identity().member_id);
    let one = |page: &mut Text, name: &str, help: &str, label: (&str, &str)| {
        page.heading(name, Type::Gauge, help);
        page.sample(name, &[label], 1.0);
    };
    let minor = version::CLUSTER.rsplit_once('.').map_or(version::CLUSTER, |(minor, _)| minor);
    one(page, "etcd_cluster_version", "The API version of the cluster.", ("cluster_version", minor));
    one(page, "etcd_server_version", "The version clients are told.", ("server_version", version::SERVER));
    one(page, "etcd_server_id", "The member's ID in hexadecimal.", ("server_id", &id));
    page.gauge("etcd_server_has_leader", "1 while writes can be ordered.", 1.0);
    page.gauge("etcd_server_is_leader", "1 while this member orders the writes.", 1.0);
    page.gauge("etcd_server_is_learner", "1 while this member does not vote.", 0.0);
}

fn state(page: &mut Text, node: &Node) {
    let status = node.status();
    let gauges: [(&str, &str, f64); 6] = [
        ("etcd_debugging_mvcc_current_revision", "The newest revision.", status.revision as f64),
        ("etcd_debugging_mvcc_compact_revision", "The last compaction.", status.compact_revision as f64),
        ("etcd_debugging_mvcc_keys_total", "Keys that exist.", status.keys as f64),
        (
            "etcd_mvcc_db_total_size_in_bytes",
            "Bytes of the data directory's files.",
            status.disk_bytes as f64,
        ),
        ("etcd_mvcc_db_total_size_in_use_in_bytes", "Bytes of reachable data.", status.live_bytes as f64),
        ("etcd_server_quota_backend_bytes", "Limit on bytes of data.", status.quota_bytes as f64),
    ];
    for (name, help, value) in gauges {
        page.gauge(name, help, value);
    }
}
