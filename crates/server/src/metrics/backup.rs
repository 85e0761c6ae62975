//! Backups.

use vetch_node::Node;
use vetch_node::metrics::Counter;

use super::text::Text;

/// Only if backups are configured.
pub(super) fn write(page: &mut Text, node: &Node) {
    if node.archive().is_none() {
        return;
    }
    let backup = &node.metrics().backup;
    let seconds = |millis: i64| millis as f64 / 1000.0;
    let gauges: [(&str, &str, f64); 5] = [
        (
            "vetch_backup_revision",
            "Revision up to which everything is in the backup.",
            backup.revision.get() as f64,
        ),
        (
            "vetch_backup_time_seconds",
            "Unix time at which the backup last held everything durable.",
            seconds(backup.time.get()),
        ),
        ("vetch_backup_behind_entries", "Durable entries not yet in the backup.", backup.lag.get() as f64),
        (
            "vetch_backup_full_revision",
            "Revision of the newest full backup.",
            backup.full_revision.get() as f64,
        ),
        (
            "vetch_backup_full_time_seconds",
            "Unix time of the newest full backup.",
            seconds(backup.full_time.get()),
        ),
    ];
    for (name, help, value) in gauges {
        page.gauge(name, help, value);
    }
    let counters: [(&str, &str, &Counter); 5] = [
        ("vetch_backup_fulls_total", "Full backups taken.", &backup.fulls),
        ("vetch_backup_pieces_total", "Journal chunks sent.", &backup.chunks),
        ("vetch_backup_journal_bytes_total", "Bytes of journal sent.", &backup.bytes),
        ("vetch_backup_failures_total", "Attempts that failed.", &backup.failures),
        (
            "vetch_backup_let_go_total",
            "Times that journal was dropped before it was backed up.",
            &backup.retention_dropped,
        ),
    ];
    for (name, help, counter) in counters {
        page.counter(name, help, counter.get());
    }
}
