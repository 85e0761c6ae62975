//! Durations in the node, under etcd's names.

use vetch_counters::Histogram;
use vetch_node::metrics::{DISK_BOUNDS, NodeMetrics};

use super::super::text::{Text, Type};

pub(super) fn write(page: &mut Text, metrics: &NodeMetrics) {
    // etcd's snapshots of its own state are checkpoints here.
    let families: [(&str, &str, &Histogram); 15] = [
        ("etcd_disk_wal_fsync_duration_seconds", "Time to make a record durable.", &metrics.journal.sync),
        ("etcd_disk_wal_write_duration_seconds", "Time to write a record.", &metrics.journal.write),
        ("etcd_disk_backend_commit_duration_seconds", COMMIT, &metrics.journal.append),
        // The parts of a commit that exist here: there are no pages to rebalance or to spill.
        ("etcd_debugging_disk_backend_commit_write_duration_seconds", COMMIT, &metrics.journal.append),
        (
            "etcd_debugging_snap_save_total_duration_seconds",
            "Time to write a checkpoint.",
            &metrics.checkpoints.duration,
        ),
        ("etcd_mvcc_hash_duration_seconds", "Time to hash everything.", &metrics.reads.hash),
        (
            "etcd_mvcc_hash_rev_duration_seconds",
            "Time to hash everything up to a revision.",
            &metrics.reads.hash_at_revision,
        ),
        (
            "etcd_debugging_mvcc_db_compaction_total_duration_milliseconds",
            "Time to free what was compacted.",
            &metrics.compaction.millis,
        ),
        (
            "etcd_debugging_mvcc_db_compaction_pause_duration_milliseconds",
            "Time for which one step of a compaction blocks others.",
            &metrics.compaction.pause,
        ),
        (
            "etcd_debugging_mvcc_index_compaction_pause_duration_milliseconds",
            "The same: a step frees versions and their places in the index together.",
            &metrics.compaction.index_pause,
        ),
        ("etcd_debugging_lease_ttl_total", "Seconds that leases were granted for.", &metrics.leases.ttl),
        ("vetch_batch_apply_duration_seconds", "Time to evaluate a batch.", &metrics.evaluation.batch),
        (
            "vetch_compaction_duration_seconds",
            "Time to free what was compacted.",
            &metrics.compaction.duration,
        ),
        ("vetch_checkpoint_duration_seconds", "Time to write a checkpoint.", &metrics.checkpoints.duration),
        ("vetch_journal_append_duration_seconds", COMMIT, &metrics.journal.append),
    ];
    for (name, help, histogram) in families {
        page.heading(name, Type::Histogram, help);
        page.histogram(name, &[], histogram);
    }
    ranges(page, metrics);
    applied(page, metrics);
    from_peers(page);
}

const COMMIT: &str = "Time to write a batch and to make it durable.";

fn ranges(page: &mut Text, metrics: &NodeMetrics) {
    let name = "etcd_server_range_duration_seconds";
    page.heading(name, Type::Histogram, "Time to read a range.");
    page.histogram(name, &[("success", "true")], &metrics.reads.range);
    if !metrics.reads.failed_range.is_empty() {
        page.histogram(name, &[("success", "false")], &metrics.reads.failed_range);
    }
}

fn applied(page: &mut Text, metrics: &NodeMetrics) {
    let name = "etcd_server_apply_duration_seconds";
    page.heading(name, Type::Histogram, "Time to evaluate a write.");
    for (operation, success, took) in metrics.evaluation.requests.iter() {
        let success = if success { "true" } else { "false" };
        page.histogram(name, &[("op", operation), ("success", success), ("version", "v3")], took);
    }
}

/// Snapshots received from another member: never any.
fn from_peers(page: &mut Text) {
    const SAVE_BOUNDS: [f64; 10] = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2];
    let families: [(&str, &str, &[f64]); 2] = [
        (
            "etcd_snap_db_fsync_duration_seconds",
            "Time to make a snapshot of another member durable.",
            DISK_BOUNDS,
        ),
        ("etcd_snap_db_save_total_duration_seconds", "Time to save one.", &SAVE_BOUNDS),
    ];
    for (name, help, bounds) in families {
        page.heading(name, Type::Histogram, help);
        page.buckets(name, &[], bounds, &vec![0; bounds.len() + 1], 0.0);
    }
}
