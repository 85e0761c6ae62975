//! The Operator service: the state of a server for operators, from the same numbers as the metrics
//! page.

use tonic::{Request, Response, Status};
use vetch_api::vetch::operator_server::Operator;
use vetch_api::vetch::{
    BackUpRequest, BackUpResponse, Durations, Journal, Leases, LookRequest, LookResponse, Method, Prefix,
    Server, SlowStream, Storage, Traffic, Watching,
};
use vetch_counters::Histogram;
use vetch_counters::prefixes::Writes;
use vetch_node::inspect::Laggard;
use vetch_node::retention::BackedUp;
use vetch_node::{KeyRange, Node};

use super::authorise::RequiredPermission;
use super::maintenance::alarm_text;
use super::service_context::ServiceContext;
use super::status;
use vetch_api::version;
use vetch_metrics::{SLOW_STREAM_LAG, prefix_text, usage};

/// Slow streams that are listed by default, and at most.
const STREAMS_DEFAULT: u32 = 20;
const STREAMS_MAX: u32 = 1000;

pub(super) struct OperatorService(pub(super) ServiceContext);

#[tonic::async_trait]
impl Operator for OperatorService {
    async fn look(&self, request: Request<LookRequest>) -> Result<Response<LookResponse>, Status> {
        let (_, request) = self.0.authorise_request(request, RequiredPermission::Root)?;
        let max = match request.most_streams {
            0 => STREAMS_DEFAULT,
            max => max.min(STREAMS_MAX),
        };
        let node = &self.0.node;
        let written = node.written_prefixes();
        Ok(Response::new(LookResponse {
            server: Some(self.server()),
            storage: Some(storage(node)),
            journal: Some(journal(node)),
            traffic: Some(self.traffic()),
            watching: Some(watching(node, max as usize)),
            leases: Some(leases(node)),
            prefixes: written
                .prefixes
                .iter()
                .map(|(prefix, writes)| row(prefix_text(prefix), writes))
                .collect(),
            other_prefixes: Some(row("(other)".into(), &written.other)),
            methods: self.methods(),
        }))
    }

    async fn back_up(&self, request: Request<BackUpRequest>) -> Result<Response<BackUpResponse>, Status> {
        let (_, request) = self.0.authorise_request(request, RequiredPermission::Root)?;
        let done = self.0.node.back_up(request.full).await.map_err(status::backup)?;
        let BackedUp { location, revision, full_revision } = done;
        Ok(Response::new(BackUpResponse { location, revision, full_revision }))
    }
}

impl OperatorService {
    fn server(&self) -> Server {
        let node = &self.0.node;
        let identity = node.identity();
        let (resident_bytes, cpu_seconds) = usage();
        Server {
            name: self.0.settings.name.clone(),
            cluster_id: identity.cluster_id,
            member_id: identity.member_id,
            leader: self.0.leader(),
            term: node.term(),
            etcd_version: version::SERVER.into(),
            vetch_version: env!("CARGO_PKG_VERSION").into(),
            uptime_seconds: node.uptime().as_secs_f64(),
            resident_bytes,
            cpu_seconds,
            auth_enabled: node.auth_enabled(),
            alarms: node.alarms().into_iter().map(alarm_text).collect(),
        }
    }

    fn traffic(&self) -> Traffic {
        let (node, metrics) = (&self.0.node, &self.0.metrics);
        let (queue, counters) = (node.queue(), node.metrics());
        let (received_bytes, sent_bytes) = metrics.grpc.bytes();
        Traffic {
            connections: metrics.services.connections(),
            calls: metrics.grpc.open(),
            received_bytes,
            sent_bytes,
            queued_requests: queue.requests as u64,
            most_queued_requests: queue.most_requests as u64,
            puts: counters.writes.puts.get(),
            deletes: counters.writes.deletes.get(),
            txns: counters.writes.txns.get(),
            ranges: counters.reads.ranges.get(),
        }
    }

    fn methods(&self) -> Vec<Method> {
        let calls = self.0.metrics.grpc.calls();
        calls
            .into_iter()
            .map(|calls| Method {
                service: calls.service.into(),
                method: calls.method.into(),
                started: calls.started,
                ok: calls.ok,
                failed: calls.failed,
                took: Some(Durations { bounds: calls.bounds, counts: calls.counts, sum_seconds: calls.sum }),
            })
            .collect()
    }
}

fn storage(node: &Node) -> Storage {
    let (status, files) = (node.status(), node.files());
    Storage {
        revision: status.revision,
        compact_revision: status.compact_revision.max(0),
        keys: status.keys,
        bytes: status.live_bytes,
        quota_bytes: status.quota_bytes,
        near_quota: node.metrics().evaluation.near_quota.get() > 0,
        disk_bytes: status.disk_bytes,
        disk_full: files.disk_full,
        seconds_since_compaction: files.since_compaction.map_or(-1.0, |ago| ago.as_secs_f64()),
        disk_fails: files.disk_fails,
        damaged: files.damaged,
        seconds_since_scrub: files.since_scrub.map_or(-1.0, |ago| ago.as_secs_f64()),
    }
}

fn journal(node: &Node) -> Journal {
    let (files, metrics) = (node.files(), node.metrics());
    Journal {
        index: node.status().index,
        bytes: files.journal_bytes,
        room_bytes: files.journal_room,
        appends: metrics.journal.appends.get(),
        append_bytes: metrics.journal.bytes.get(),
        sync: Some(durations(&metrics.journal.sync)),
        checkpoint_bytes: files.checkpoint_bytes,
        pending_bytes: files.fresh_bytes,
        due_bytes: files.checkpoint_due_bytes,
        checkpoints: metrics.checkpoints.duration.counts().iter().sum(),
        checkpoint_failures: metrics.checkpoints.failures.get(),
        seconds_since_checkpoint: files.since_checkpoint.map_or(-1.0, |ago| ago.as_secs_f64()),
    }
}

fn watching(node: &Node, max: usize) -> Watching {
    let (gauges, lag) = (node.watch_gauges(), node.watch_lag(SLOW_STREAM_LAG, max));
    Watching {
        streams: u64::try_from(gauges.streams()).unwrap_or(0),
        watchers: u64::try_from(gauges.watchers()).unwrap_or(0),
        events: node.metrics().writes.events.get(),
        slow_streams: lag.slow as u64,
        longest_lag_seconds: lag.longest.as_secs_f64(),
        most_revisions_behind: lag.most_revisions,
        slowest: lag.laggards.iter().map(slow_stream).collect(),
    }
}

fn slow_stream(laggard: &Laggard) -> SlowStream {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let (key, range_end) = match &laggard.range {
        Some(KeyRange::Key(key)) => (text(key), String::new()),
        Some(KeyRange::Span { start, end: Some(end) }) => (text(start), text(end)),
        Some(KeyRange::Span { start, end: None }) => (text(start), text(b"\0")),
        None => (String::new(), String::new()),
    };
    SlowStream {
        stream: laggard.stream,
        client: laggard.client.as_deref().unwrap_or_default().into(),
        revision: laggard.revision,
        revisions_behind: laggard.revisions,
        lag_seconds: laggard.lag.as_secs_f64(),
        key,
        range_end,
    }
}

fn leases(node: &Node) -> Leases {
    let metrics = node.metrics();
    Leases {
        leases: node.status().leases,
        overdue: node.overdue_leases() as u64,
        granted: metrics.leases.granted.get(),
        renewed: metrics.leases.renewed.get(),
        revoked: metrics.leases.revoked.get(),
        expired: metrics.leases.expired.get(),
    }
}

fn row(prefix: String, writes: &Writes) -> Prefix {
    Prefix { prefix, puts: writes.puts, deletes: writes.deletes, bytes: writes.bytes }
}

fn durations(histogram: &Histogram) -> Durations {
    Durations {
        bounds: histogram.bounds().to_vec(),
        counts: histogram.counts(),
        sum_seconds: histogram.sum(),
    }
}
