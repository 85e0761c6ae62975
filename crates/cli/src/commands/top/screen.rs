//! The view as lines of text that fit the terminal.

use super::super::output::size;
use super::super::status::data;
use super::super::units::{at_most, rate, time};
use super::rates::{MethodRate, PrefixRate, View};

/// Size of the terminal.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScreenSize {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// Limits on slow streams and RPCs; prefixes get the rest, and at least this many lines.
const STREAMS: usize = 5;
const METHODS: usize = 8;
const PREFIXES: usize = 3;

pub(super) fn draw(view: &View, endpoint: &str, screen: ScreenSize) -> Vec<String> {
    let mut lines = head(view, endpoint);
    let streams = streams(view);
    let methods = methods(view);
    let left = screen.rows.saturating_sub(lines.len() + streams.len() + methods.len() + 2).max(PREFIXES);
    lines.push(String::new());
    lines.push(format!(
        "{:>9} {:>9} {:>9} {:>11} {:>6}  {}",
        "WRITES/S", "PUTS/S", "DELETES/S", "BYTES/S", "SHARE", "PREFIX"
    ));
    lines.extend(view.prefixes.iter().take(left).map(prefix));
    if view.prefixes.is_empty() {
        lines.push("          nothing is being written".into());
    }
    lines.extend(methods);
    lines.extend(streams);
    lines.truncate(screen.rows);
    lines.iter().map(|line| line.chars().take(screen.columns).collect()).collect()
}

fn head(view: &View, endpoint: &str) -> Vec<String> {
    let mut lines = vec![
        format!(
            "vetch top   {endpoint}   {}   up {}   revision {} (+{}/s)",
            view.server.name,
            time(view.server.uptime_seconds),
            view.server.storage.revision,
            rate(view.server.revisions)
        ),
        format!(
            "data     {}, disk {}, memory {}, CPU {:.0} %",
            data(&view.server.storage),
            size(view.server.storage.disk_bytes),
            size(view.server.resident_bytes),
            100.0 * view.server.cpu
        ),
        format!(
            "requests {}/s puts, {}/s deletes, {}/s txns, {}/s ranges, {} queued",
            rate(view.requests.puts),
            rate(view.requests.deletes),
            rate(view.requests.txns),
            rate(view.requests.ranges),
            view.requests.queued_requests
        ),
        format!(
            "network  {} connections, {}/s in, {}/s out",
            view.requests.connections,
            size(view.requests.received_bytes as u64),
            size(view.requests.sent_bytes as u64)
        ),
        format!(
            "journal  {}/s records, {}/s, sync p50 {}, p99 {}",
            rate(view.journal.records),
            size(view.journal.bytes as u64),
            at_most(view.journal.sync_p50),
            at_most(view.journal.sync_p99)
        ),
        format!(
            "watching {} watchers on {} streams, {}/s events, {} slow, lag {}",
            view.watches.watchers,
            view.watches.streams,
            rate(view.watches.events),
            view.watches.slow_streams,
            time(view.watches.longest_lag_seconds)
        ),
        format!(
            "leases   {}, {}/s granted, {}/s renewed, {}/s expired, {} overdue",
            view.leases.leases,
            rate(view.leases.granted),
            rate(view.leases.renewed),
            rate(view.leases.expired),
            view.leases.overdue
        ),
    ];
    if view.server.storage.disk_full {
        lines.push("TROUBLE  the disk is full".into());
    }
    lines.extend(view.server.alarms.iter().map(|alarm| format!("TROUBLE  alarm raised: {alarm}")));
    lines
}

fn prefix(row: &PrefixRate) -> String {
    format!(
        "{:>9} {:>9} {:>9} {:>11} {:>5.0}%  {}",
        rate(row.puts + row.deletes),
        rate(row.puts),
        rate(row.deletes),
        size(row.bytes as u64),
        row.share,
        row.prefix
    )
}

fn methods(view: &View) -> Vec<String> {
    let line = |row: &MethodRate| {
        let (p50, p99) = (at_most(row.p50), at_most(row.p99));
        format!("{:>9} {:>9} {p50:>9} {p99:>9}  {}", rate(row.calls), rate(row.failed), row.method)
    };
    let title = format!("{:>9} {:>9} {:>9} {:>9}  {}", "CALLS/S", "FAILED/S", "P50", "P99", "RPC");
    let mut lines = vec![String::new(), title];
    lines.extend(view.methods.iter().take(METHODS).map(line));
    lines
}

fn streams(view: &View) -> Vec<String> {
    if view.watches.slowest.is_empty() {
        return Vec::new();
    }
    let title = format!("{:>11} {:>10}  {:<22} {}", "LAG", "REVISIONS", "SLOW WATCH FROM", "OF");
    let mut lines = vec![String::new(), title];
    lines.extend(view.watches.slowest.iter().take(STREAMS).map(|stream| {
        let range = match (stream.key.as_str(), stream.range_end.as_str()) {
            (key, "") => key.to_string(),
            (key, end) => format!("{key} to {end}"),
        };
        let (lag, behind, client) = (time(stream.lag_seconds), stream.revisions_behind, &stream.client);
        format!("{lag:>11} {behind:>10}  {client:<22} {range}")
    }));
    lines
}
