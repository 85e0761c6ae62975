//! Metrics that etcd does not have: prefixes, watch lag, journal, checkpoints, leases, the quota's
//! warning.

use std::time::Duration;

use vetch_counters::prefixes::Writes;
use vetch_node::Node;

use super::super::text::{Text, Type};

/// A stream with an undelivered event of this age is slow.
pub const SLOW_STREAM_LAG: Duration = Duration::from_secs(1);

pub(super) fn write(page: &mut Text, node: &Node) {
    storage(page, node);
    watch_lag(page, node);
    encryption(page, node);
    // The page is public. While authentication is on, only root may see the names of keys.
    if !node.auth_enabled() {
        prefixes(page, node);
    }
}

fn storage(page: &mut Text, node: &Node) {
    let (status, files, queue, metrics) = (node.status(), node.files(), node.queue(), node.metrics());
    let age = files.since_checkpoint.unwrap_or(node.uptime());
    let gauges: [(&str, &str, f64); 17] = [
        (
            "vetch_disk_fails",
            "1 while no journal segment can be prepared for a reason other than lack of space.",
            f64::from(u8::from(files.disk_fails)),
        ),
        ("vetch_damaged_files", "Files that are needed and known to be damaged.", files.damaged.len() as f64),
        (
            "vetch_quota_warning",
            "1 while the quota is nearly reached: at four fifths of it and above.",
            metrics.evaluation.near_quota.get() as f64,
        ),
        ("vetch_disk_bytes", "Bytes of the data directory's files.", status.disk_bytes as f64),
        (
            "vetch_disk_full",
            "1 while there is no space to prepare a journal segment.",
            f64::from(u8::from(files.disk_full)),
        ),
        ("vetch_journal_bytes", "Bytes of journal segments in use.", files.journal_bytes as f64),
        ("vetch_journal_room_bytes", "Bytes left in prepared segments.", files.journal_room as f64),
        ("vetch_checkpoint_disk_bytes", "Bytes of checkpoint files.", files.checkpoint_bytes as f64),
        (
            "vetch_checkpoint_age_seconds",
            "Seconds since the last checkpoint, or since the start.",
            age.as_secs_f64(),
        ),
        (
            "vetch_checkpoint_pending_bytes",
            "Bytes written since the last checkpoint, which a restart would replay.",
            files.fresh_bytes as f64,
        ),
        (
            "vetch_checkpoint_due_bytes",
            "Pending bytes at which a checkpoint is due.",
            files.checkpoint_due_bytes as f64,
        ),
        ("vetch_queue_requests", "Requests that wait for the sequencer.", queue.requests as f64),
        ("vetch_queue_bytes", "Bytes of requests that wait for the sequencer.", queue.bytes as f64),
        ("vetch_users", "Users.", status.users as f64),
        ("vetch_roles", "Roles.", status.roles as f64),
        ("vetch_leases", "Leases.", status.leases as f64),
        ("vetch_leases_overdue", "Expired leases that are not revoked yet.", node.overdue_leases() as f64),
    ];
    for (name, help, value) in gauges {
        page.gauge(name, help, value);
    }
    page.counter(
        "vetch_journal_appends_total",
        "Records written to the journal.",
        metrics.journal.appends.get(),
    );
    let failures = metrics.checkpoints.failures.get();
    page.counter("vetch_checkpoint_failures_total", "Checkpoints that failed.", failures);
    let bytes = metrics.checkpoints.bytes.get();
    page.counter("vetch_checkpoint_bytes_total", "Bytes written to checkpoints.", bytes);
    let counters = [
        ("vetch_damage_found_total", "Times that a damaged file was found.", &metrics.scrub.damage_found),
        (
            "vetch_checkpoints_healed_total",
            "Damaged checkpoints rewritten from memory.",
            &metrics.checkpoints.healed,
        ),
        ("vetch_scrub_bytes_total", "Bytes read by scrubs.", &metrics.scrub.bytes),
        ("vetch_scrubs_total", "Completed scrubs of everything on disk.", &metrics.scrub.runs),
    ];
    for (name, help, counter) in counters {
        page.counter(name, help, counter.get());
    }
}

fn watch_lag(page: &mut Text, node: &Node) {
    let lag = node.watch_lag(SLOW_STREAM_LAG, 0);
    let gauges: [(&str, &str, f64); 3] = [
        (
            "vetch_watch_lag_seconds",
            "Lag of the slowest watch stream, in steps of 0.2 s.",
            lag.longest.as_secs_f64(),
        ),
        (
            "vetch_watch_lag_revisions",
            "How many revisions the slowest watch stream is behind.",
            lag.most_revisions as f64,
        ),
        ("vetch_slow_watch_streams", "Watch streams that lag by a second or more.", lag.slow as f64),
    ];
    for (name, help, value) in gauges {
        page.gauge(name, help, value);
    }
}

/// Only with encryption at rest. A key at 0 may be removed from the key file.
fn encryption(page: &mut Text, node: &Node) {
    let status = node.encryption_status();
    if status.keys.is_empty() {
        return;
    }
    let name = "vetch_encryption_files";
    page.heading(
        name,
        Type::Gauge,
        "Journal segments and checkpoint files encrypted with a key; 'plain': not encrypted.",
    );
    for (id, files) in &status.keys {
        page.sample(name, &[("key", &id.to_string())], *files as f64);
    }
    page.sample(name, &[("key", "plain")], status.plain as f64);
}

fn prefixes(page: &mut Text, node: &Node) {
    let written = node.written_prefixes();
    let mut rows: Vec<(String, Writes)> =
        written.prefixes.iter().map(|(prefix, writes)| (prefix_text(prefix), *writes)).collect();
    rows.push(("(other)".to_string(), written.other));
    type Column = fn(&Writes) -> u64;
    let families: [(&str, &str, Column); 3] = [
        ("vetch_prefix_puts_total", "Keys put, by key prefix.", |writes| writes.puts),
        ("vetch_prefix_deletes_total", "Keys deleted, by key prefix.", |writes| writes.deletes),
        ("vetch_prefix_written_bytes_total", "Bytes of keys and values written, by key prefix.", |writes| {
            writes.bytes
        }),
    ];
    for (name, help, column) in families {
        page.heading(name, Type::Counter, help);
        for (prefix, writes) in &rows {
            page.sample(name, &[("prefix", prefix)], column(writes) as f64);
        }
    }
}

/// A prefix as text. An empty label would be the same as none.
pub fn prefix_text(prefix: &[u8]) -> String {
    if prefix.is_empty() { "(none)".to_string() } else { prefix.escape_ascii().to_string() }
}
