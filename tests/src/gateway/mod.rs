//! The gateway trial: the same HTTP requests to two servers, and their answers compared: status,
//! type and body.
//!
//! The requests are `tests/gateway.script`. The trial also checks that `/metrics` has what etcd's
//! dashboards and alerts read.

pub(crate) mod http;

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use http::Answer;
use serde_json::Value;

use crate::server::{Kind, Server};

/// Compare two servers over HTTP.
#[derive(Args, Debug)]
pub(crate) struct Gateway {
    #[arg(long, default_value = "etcd")]
    left: Kind,
    #[arg(long, default_value = "vetch")]
    right: Kind,
}

/// Fields that depend on ids, storage, elections and hashing; see the differential trial's table
/// for the reasons.
const MASKED: [&str; 14] = [
    "cluster_id",
    "member_id",
    "memberID",
    "raft_term",
    "raftTerm",
    "raftIndex",
    "raftAppliedIndex",
    "leader",
    "dbSize",
    "dbSizeInUse",
    "dbSizeQuota",
    "hash",
    "peerURLs",
    "clientURLs",
];

/// What etcd's published alerts and dashboard ask for.
const METRICS: [&str; 30] = [
    "etcd_server_has_leader",
    "etcd_server_leader_changes_seen_total",
    "etcd_server_is_leader",
    "etcd_server_id",
    "etcd_server_version",
    "etcd_cluster_version",
    "etcd_server_proposals_failed_total",
    "etcd_server_proposals_committed_total",
    "etcd_server_proposals_applied_total",
    "etcd_server_proposals_pending",
    "etcd_server_quota_backend_bytes",
    "etcd_server_heartbeat_send_failures_total",
    "etcd_server_health_success",
    "etcd_server_health_failures",
    "etcd_disk_wal_fsync_duration_seconds_bucket",
    "etcd_disk_backend_commit_duration_seconds_bucket",
    "etcd_mvcc_db_total_size_in_bytes",
    "etcd_mvcc_db_total_size_in_use_in_bytes",
    "etcd_debugging_mvcc_keys_total",
    "etcd_debugging_mvcc_watcher_total",
    "etcd_debugging_mvcc_slow_watcher_total",
    "etcd_debugging_mvcc_pending_events_total",
    "etcd_debugging_mvcc_current_revision",
    "etcd_debugging_mvcc_compact_revision",
    "etcd_network_client_grpc_received_bytes_total",
    "etcd_network_client_grpc_sent_bytes_total",
    "grpc_server_handled_total",
    "grpc_server_started_total",
    "process_resident_memory_bytes",
    "process_open_fds",
];

impl Gateway {
    pub(crate) async fn run(&self) -> Result<()> {
        println!("gateway: {} and {}", self.left.name(), self.right.name());
        let begun = Instant::now();
        let (left, right) = (Server::start(self.left)?, Server::start(self.right)?);
        let mut requests = 0;
        let mut differences = 0;
        for (number, line) in include_str!("../../gateway.script").lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            requests += 1;
            let (how, line) = How::of(line);
            let (ours, theirs) = tokio::join!(ask(left.port, line), ask(right.port, line));
            let (ours, theirs) = (how.show(ours), how.show(theirs));
            // A deviation that is gone should go from the documents as well.
            let deviates = how == How::Deviation && self.left != self.right;
            if (ours == theirs) == deviates {
                differences += 1;
                println!("DIFFERENCE at line {}: {line}", number + 1);
                println!("--- {}\n{ours}\n--- {}\n{theirs}\n", self.left.name(), self.right.name());
            }
        }
        let missing = missing_metrics(&right).await?;
        println!("  metrics missing: {missing:?}");
        let seconds = begun.elapsed().as_secs_f64();
        println!("gateway: {requests} requests, {differences} answers differ; {seconds:.1}s");
        ensure!(differences == 0 && missing.is_empty(), "the servers differ");
        Ok(())
    }
}

/// What of two answers is compared.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Whole,
    StatusOnly,
    Deviation,
}

impl How {
    fn of(line: &str) -> (How, &str) {
        if let Some(rest) = line.strip_prefix("status ") {
            (How::StatusOnly, rest)
        } else if let Some(rest) = line.strip_prefix("differs ") {
            (How::Deviation, rest)
        } else {
            (How::Whole, line)
        }
    }

    fn show(self, answer: Result<Answer>) -> String {
        match (self, answer) {
            (How::StatusOnly, Ok(answer)) => {
                let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
                format!("{} {} code {}", answer.status, answer.content_type, body["code"])
            }
            (_, answer) => show(answer),
        }
    }
}

async fn ask(port: u16, line: &str) -> Result<Answer> {
    let (lines, request) = match line.strip_prefix("stream ") {
        Some(rest) => {
            let (count, request) = rest.split_once(' ').context("a stream without a request")?;
            (Some(count.parse()?), request)
        }
        None => (None, line),
    };
    let mut words = request.splitn(3, ' ');
    let method = words.next().context("no method")?;
    let path = words.next().context("no path")?;
    http::send(port, method, path, words.next().unwrap_or_default(), lines).await
}

fn show(answer: Result<Answer>) -> String {
    match answer {
        Ok(answer) => {
            let mut body: Vec<String> = answer.body.lines().map(normal).collect();
            // Health checks are listed in no particular order.
            if answer.content_type.starts_with("text/plain") {
                body.sort();
            }
            format!("{} {}\n{}", answer.status, answer.content_type, body.join("\n"))
        }
        Err(error) => format!("failed: {error:#}"),
    }
}

/// JSON with masked fields; anything else as it is. The order of fields is not part of JSON.
fn normal(line: &str) -> String {
    match serde_json::from_str::<Value>(line) {
        Ok(mut value) => {
            mask(&mut value);
            value.to_string()
        }
        Err(_) => line.trim_end().to_owned(),
    }
}

fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let member_id = name == "ID" && value.as_str().is_some_and(|id| id.len() > 15);
                if MASKED.contains(&name.as_str()) || member_id {
                    *value = Value::from("masked");
                } else {
                    mask(value);
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(mask),
        _ => {}
    }
}

async fn missing_metrics(server: &Server) -> Result<Vec<&'static str>> {
    let metrics = http::send(server.port, "GET", "/metrics", "", None).await?;
    ensure!(metrics.status == 200, "/metrics answered {}", metrics.status);
    let present = |name: &str| metrics.body.lines().any(|line| line.split(['{', ' ']).next() == Some(name));
    Ok(METRICS.into_iter().filter(|name| !present(name)).collect())
}
