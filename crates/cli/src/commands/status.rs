//! `vetch status`: the state of one or several servers, as text or JSON.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use vetch_api::vetch::{Journal, LookResponse, Server, Storage};

use super::client::ClientArgs;
use super::look::Found;
use super::output::{Format, size};
use super::units::{at_most, quantile, time};
use super::{Failure, exit, parsed, print_result};

#[derive(Parser)]
#[command(
    name = "vetch status",
    about = "Shows the state of one or several servers: health, version, revision, sizes, alarms, journal, connections",
    disable_version_flag = true
)]
struct Cli {
    #[command(flatten)]
    client: ClientArgs,
    /// Output format: simple or json.
    #[arg(short = 'w', long, default_value = "simple")]
    write_out: String,
}

/// Runs the command; `arguments` are those behind the word `status`.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match parsed::<Cli>("vetch status", arguments) {
        Ok(cli) => exit(cli.run()),
        Err(code) => code,
    }
}

impl Cli {
    fn run(&self) -> Result<(), Failure> {
        let format = Format::simple_or_json(&self.write_out)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let found: Vec<Found> = runtime.block_on(async {
            let mut found = Vec::new();
            for endpoint in self.client.endpoints() {
                found.push(Found::at(&endpoint, &self.client).await);
            }
            found
        });
        print_result(&match format {
            Format::Simple => found.iter().map(text).collect::<Vec<_>>().join("\n\n"),
            _ => serde_json::to_string_pretty(&found)?,
        })?;
        let unhealthy: Vec<&str> =
            found.iter().filter(|f| !f.is_healthy).map(|f| f.endpoint.as_str()).collect();
        if unhealthy.is_empty() {
            return Ok(());
        }
        Err(Failure { code: 1, text: format!("unhealthy: {}", unhealthy.join(", ")) })
    }
}

fn text(found: &Found) -> String {
    let state = if found.is_healthy { "healthy" } else { "UNHEALTHY" };
    let mut lines = vec![format!("{}  {state}", found.endpoint)];
    let mut row = |name: &str, text: String| lines.push(format!("  {name:<11} {text}"));
    for trouble in &found.trouble {
        row("trouble", trouble.clone());
    }
    if let Some(look) = &found.look {
        for (name, text) in rows(look) {
            row(name, text);
        }
    }
    lines.join("\n")
}

/// Everything that the server reported.
fn rows(look: &LookResponse) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if let Some(server) = &look.server {
        rows.push(("server", member(server)));
        rows.push(("version", version(server)));
    }
    if let Some(storage) = &look.storage {
        rows.push(("revision", revision(storage)));
        rows.push(("data", data(storage)));
    }
    if let (Some(storage), Some(journal)) = (&look.storage, &look.journal) {
        rows.push(("disk", disk(storage, journal)));
        rows.push(("journal", records(journal)));
        rows.push(("checkpoint", checkpoint(journal)));
        rows.extend(storage.damaged.iter().map(|damage| ("DAMAGED", damage.clone())));
    } else if let Some(storage) = &look.storage {
        rows.push(("disk", size(storage.disk_bytes)));
    }
    if let Some(traffic) = &look.traffic {
        let (queued, most) = (traffic.queued_requests, traffic.most_queued_requests);
        let (connections, calls) = (traffic.connections, traffic.calls);
        rows.push((
            "clients",
            format!("{connections} connections, {calls} calls open, {queued} of {most} requests queued"),
        ));
    }
    if let Some(watching) = &look.watching {
        let slow = match watching.slow_streams {
            0 => "none slow".to_string(),
            slow => format!("{slow} SLOW, the slowest by {}", time(watching.longest_lag_seconds)),
        };
        let (watchers, streams) = (watching.watchers, watching.streams);
        rows.push(("watching", format!("{watchers} watchers on {streams} streams, {slow}")));
    }
    if let Some(leases) = &look.leases {
        rows.push(("leases", format!("{}, {} overdue", leases.leases, leases.overdue)));
    }
    if let Some(server) = &look.server {
        if server.resident_bytes > 0 {
            let cpu = time(server.cpu_seconds);
            rows.push(("process", format!("{} of memory, {cpu} of CPU", size(server.resident_bytes))));
        }
        let alarms = if server.alarms.is_empty() { "none".into() } else { server.alarms.join(", ") };
        rows.push(("alarms", alarms));
    }
    rows
}

fn member(server: &Server) -> String {
    let role = match server.leader {
        0 => "no leader".to_string(),
        leader if leader == server.member_id => "leader".to_string(),
        leader => format!("led by {leader:x}"),
    };
    let name = if server.name.is_empty() { String::new() } else { format!("{}, ", server.name) };
    let (member, cluster, term) = (server.member_id, server.cluster_id, server.term);
    let auth = if server.auth_enabled { ", authentication on" } else { "" };
    format!("{name}member {member:x} of cluster {cluster:x}, {role}, term {term}{auth}")
}

fn version(server: &Server) -> String {
    if server.vetch_version.is_empty() {
        return format!("etcd {}", server.etcd_version);
    }
    let up = time(server.uptime_seconds);
    format!("Vetch {}, speaking etcd {}, up {up}", server.vetch_version, server.etcd_version)
}

fn revision(storage: &Storage) -> String {
    let compacted = match storage.compact_revision {
        0 => String::new(),
        revision if storage.seconds_since_compaction < 0.0 => format!(", compacted at {revision}"),
        revision => {
            format!(", compacted at {revision} ({} ago)", time(storage.seconds_since_compaction))
        }
    };
    format!("{}{compacted}", storage.revision)
}

/// Bytes, their share of the quota, and a warning if it is nearly reached.
pub(crate) fn data(storage: &Storage) -> String {
    let keys = if storage.keys > 0 { format!(", {} keys", storage.keys) } else { String::new() };
    let of_quota = match storage.quota_bytes {
        0 => " without a quota".to_string(),
        quota => format!(" of {} ({:.0} %)", size(quota), 100.0 * storage.bytes as f64 / quota as f64),
    };
    let warning = if storage.near_quota { ", QUOTA NEARLY REACHED" } else { "" };
    format!("{}{of_quota}{keys}{warning}", size(storage.bytes))
}

fn disk(storage: &Storage, journal: &Journal) -> String {
    let full = if storage.disk_full { ", DISK FULL" } else { "" };
    let fails = if storage.disk_fails { ", DISK FAILS" } else { "" };
    let scrubbed = match storage.seconds_since_scrub {
        // Missing in older servers.
        ago if ago <= 0.0 => String::new(),
        ago => format!(", all read {} ago", time(ago)),
    };
    let (all, of_journal) = (size(storage.disk_bytes), size(journal.bytes));
    let checkpoints = size(journal.checkpoint_bytes);
    format!("{all}: journal {of_journal}, checkpoints {checkpoints}{scrubbed}{full}{fails}")
}

fn records(journal: &Journal) -> String {
    let sync = journal.sync.clone().unwrap_or_default();
    let (half, most) = (at_most(quantile(&sync, 0.5)), at_most(quantile(&sync, 0.99)));
    let (index, records) = (journal.index, journal.appends);
    format!("entry {index}, {records} records since the start, sync p50 {half}, p99 {most}")
}

fn checkpoint(journal: &Journal) -> String {
    let last = match journal.seconds_since_checkpoint {
        ago if ago < 0.0 => "none since the start".to_string(),
        ago => format!("{} ago", time(ago)),
    };
    let failures = match journal.checkpoint_failures {
        0 => String::new(),
        failures => format!(", {failures} FAILED"),
    };
    let (pending, due) = (size(journal.pending_bytes), size(journal.due_bytes));
    format!("{last}, {pending} pending, due at {due}{failures}")
}
