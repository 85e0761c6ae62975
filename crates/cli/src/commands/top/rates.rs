//! Rates: the difference between two reports of the same server.

use std::collections::HashMap;

use serde::Serialize;
use vetch_api::vetch::{Durations, LookResponse, Method, Prefix, SlowStream, Storage};

use super::super::units::quantile;

/// Everything `top` shows. Rates are per second; bounds of latencies are in seconds.
#[derive(Debug, Serialize)]
pub(super) struct View {
    pub(super) seconds: f64,
    #[serde(flatten)]
    pub(super) server: ServerRates,
    #[serde(flatten)]
    pub(super) requests: RequestRates,
    #[serde(flatten)]
    pub(super) journal: JournalRates,
    #[serde(flatten)]
    pub(super) watches: WatchRates,
    #[serde(flatten)]
    pub(super) leases: LeaseRates,
    /// Busiest first.
    pub(super) prefixes: Vec<PrefixRate>,
    pub(super) methods: Vec<MethodRate>,
}

#[derive(Debug, Serialize)]
pub(super) struct ServerRates {
    pub(super) name: String,
    pub(super) uptime_seconds: f64,
    pub(super) alarms: Vec<String>,
    pub(super) storage: Storage,
    pub(super) resident_bytes: u64,
    /// Processors kept busy.
    pub(super) cpu: f64,
    pub(super) revisions: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct RequestRates {
    pub(super) puts: f64,
    pub(super) deletes: f64,
    pub(super) txns: f64,
    pub(super) ranges: f64,
    pub(super) received_bytes: f64,
    pub(super) sent_bytes: f64,
    pub(super) connections: u64,
    pub(super) queued_requests: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct JournalRates {
    #[serde(rename = "journal_records")]
    pub(super) records: f64,
    #[serde(rename = "journal_bytes")]
    pub(super) bytes: f64,
    pub(super) sync_p50: Option<f64>,
    pub(super) sync_p99: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct WatchRates {
    pub(super) watchers: u64,
    #[serde(rename = "watch_streams")]
    pub(super) streams: u64,
    pub(super) events: f64,
    pub(super) slow_streams: u64,
    pub(super) longest_lag_seconds: f64,
    pub(super) slowest: Vec<SlowStream>,
}

#[derive(Debug, Serialize)]
pub(super) struct LeaseRates {
    pub(super) leases: u64,
    #[serde(rename = "leases_overdue")]
    pub(super) overdue: u64,
    #[serde(rename = "leases_granted")]
    pub(super) granted: f64,
    #[serde(rename = "leases_renewed")]
    pub(super) renewed: f64,
    #[serde(rename = "leases_expired")]
    pub(super) expired: f64,
}

#[derive(Debug, Serialize, PartialEq)]
pub(super) struct PrefixRate {
    pub(super) prefix: String,
    pub(super) puts: f64,
    pub(super) deletes: f64,
    pub(super) bytes: f64,
    /// Share of all writes, in percent.
    pub(super) share: f64,
}

#[derive(Debug, Serialize, PartialEq)]
pub(super) struct MethodRate {
    pub(super) method: String,
    pub(super) calls: f64,
    pub(super) failed: f64,
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
}

impl View {
    /// A server that restarted in between is compared with zero.
    pub(super) fn between(before: &LookResponse, now: LookResponse) -> View {
        let uptime = |look: &LookResponse| look.server.as_ref().map_or(0.0, |server| server.uptime_seconds);
        let nothing = LookResponse::default();
        let (before, seconds) = match uptime(&now) - uptime(before) {
            between if between > 0.0 => (before, between),
            _ => (&nothing, uptime(&now).max(0.001)),
        };
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let prefixes = prefixes(before, &now, seconds);
        let methods = methods(before, &now, seconds);
        let before = before.clone();
        let (server, old_server) = (now.server.unwrap_or_default(), before.server.unwrap_or_default());
        let (storage, old_storage) = (now.storage.unwrap_or_default(), before.storage.unwrap_or_default());
        let (traffic, old_traffic) = (now.traffic.unwrap_or_default(), before.traffic.unwrap_or_default());
        let (journal, old_journal) = (now.journal.unwrap_or_default(), before.journal.unwrap_or_default());
        let (watching, old_watching) =
            (now.watching.unwrap_or_default(), before.watching.unwrap_or_default());
        let (leases, old_leases) = (now.leases.unwrap_or_default(), before.leases.unwrap_or_default());
        let syncs = difference(journal.sync.as_ref(), old_journal.sync.as_ref());
        View {
            seconds,
            server: ServerRates {
                name: server.name,
                uptime_seconds: server.uptime_seconds,
                alarms: server.alarms,
                resident_bytes: server.resident_bytes,
                cpu: (server.cpu_seconds - old_server.cpu_seconds).max(0.0) / seconds,
                revisions: (storage.revision - old_storage.revision).max(0) as f64 / seconds,
                storage,
            },
            requests: RequestRates {
                puts: rate(traffic.puts, old_traffic.puts),
                deletes: rate(traffic.deletes, old_traffic.deletes),
                txns: rate(traffic.txns, old_traffic.txns),
                ranges: rate(traffic.ranges, old_traffic.ranges),
                received_bytes: rate(traffic.received_bytes, old_traffic.received_bytes),
                sent_bytes: rate(traffic.sent_bytes, old_traffic.sent_bytes),
                connections: traffic.connections,
                queued_requests: traffic.queued_requests,
            },
            journal: JournalRates {
                records: rate(journal.appends, old_journal.appends),
                bytes: rate(journal.append_bytes, old_journal.append_bytes),
                sync_p50: quantile(&syncs, 0.5),
                sync_p99: quantile(&syncs, 0.99),
            },
            watches: WatchRates {
                watchers: watching.watchers,
                streams: watching.streams,
                events: rate(watching.events, old_watching.events),
                slow_streams: watching.slow_streams,
                longest_lag_seconds: watching.longest_lag_seconds,
                slowest: watching.slowest,
            },
            leases: LeaseRates {
                leases: leases.leases,
                overdue: leases.overdue,
                granted: rate(leases.granted, old_leases.granted),
                renewed: rate(leases.renewed, old_leases.renewed),
                expired: rate(leases.expired, old_leases.expired),
            },
            prefixes,
            methods,
        }
    }
}

/// Prefixes with writes, busiest first. One whose counter was reset in between counts from zero.
fn prefixes(before: &LookResponse, now: &LookResponse, seconds: f64) -> Vec<PrefixRate> {
    fn all(look: &LookResponse) -> impl Iterator<Item = &Prefix> {
        look.prefixes.iter().chain(&look.other_prefixes)
    }
    let known: HashMap<&str, &Prefix> = all(before).map(|prefix| (prefix.prefix.as_str(), prefix)).collect();
    let mut rows: Vec<PrefixRate> = all(now)
        .map(|now| {
            let fresh = Prefix::default();
            let before = known.get(now.prefix.as_str()).copied().filter(|before| before.bytes <= now.bytes);
            let before = before.unwrap_or(&fresh);
            let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
            PrefixRate {
                prefix: now.prefix.clone(),
                puts: rate(now.puts, before.puts),
                deletes: rate(now.deletes, before.deletes),
                bytes: rate(now.bytes, before.bytes),
                share: 0.0,
            }
        })
        .filter(|row| row.puts + row.deletes > 0.0)
        .collect();
    let total: f64 = rows.iter().map(|row| row.puts + row.deletes).sum();
    rows.iter_mut().for_each(|row| row.share = 100.0 * (row.puts + row.deletes) / total);
    rows.sort_by(|a, b| b.share.total_cmp(&a.share).then(b.bytes.total_cmp(&a.bytes)));
    rows
}

/// RPCs with calls, busiest first.
fn methods(before: &LookResponse, now: &LookResponse, seconds: f64) -> Vec<MethodRate> {
    let name = |method: &Method| (method.service.clone(), method.method.clone());
    let known: HashMap<_, &Method> = before.methods.iter().map(|method| (name(method), method)).collect();
    let mut rows: Vec<MethodRate> = now
        .methods
        .iter()
        .map(|now| {
            let before = known.get(&name(now));
            let rate =
                |now: u64, before: Option<u64>| now.saturating_sub(before.unwrap_or(0)) as f64 / seconds;
            let took = difference(now.took.as_ref(), before.and_then(|before| before.took.as_ref()));
            MethodRate {
                method: now.method.clone(),
                calls: rate(now.started, before.map(|before| before.started)),
                failed: rate(now.failed, before.map(|before| before.failed)),
                p50: quantile(&took, 0.5),
                p99: quantile(&took, 0.99),
            }
        })
        .filter(|row| row.calls > 0.0 || row.failed > 0.0)
        .collect();
    rows.sort_by(|a, b| b.calls.total_cmp(&a.calls));
    rows
}

fn difference(now: Option<&Durations>, before: Option<&Durations>) -> Durations {
    let mut durations = now.cloned().unwrap_or_default();
    for (now, before) in durations.counts.iter_mut().zip(before.iter().flat_map(|before| &before.counts)) {
        *now = now.saturating_sub(*before);
    }
    durations
}

#[cfg(test)]
mod tests {
    use vetch_api::vetch::Server;

    use super::*;

    fn look(uptime_seconds: f64, prefixes: &[(&str, u64, u64)], other: u64) -> LookResponse {
        let row = |prefix: &str, puts, bytes| Prefix { prefix: prefix.into(), puts, deletes: 0, bytes };
        LookResponse {
            server: Some(Server { uptime_seconds, ..Server::default() }),
            prefixes: prefixes.iter().map(|(prefix, puts, bytes)| row(prefix, *puts, *bytes)).collect(),
            other_prefixes: Some(row("(other)", other, other)),
            ..LookResponse::default()
        }
    }

    fn shown(view: &View) -> Vec<(&str, f64, f64)> {
        view.prefixes.iter().map(|row| (row.prefix.as_str(), row.puts, row.share)).collect()
    }

    #[test]
    fn the_busiest_prefix_comes_first() {
        let before = look(10.0, &[("/registry/pods", 100, 1000), ("/registry/leases", 5, 50)], 0);
        let now = look(12.0, &[("/registry/pods", 110, 1100), ("/registry/leases", 35, 350)], 0);
        let view = View::between(&before, now);
        assert_eq!(view.seconds, 2.0);
        assert_eq!(shown(&view), [("/registry/leases", 15.0, 75.0), ("/registry/pods", 5.0, 25.0)]);
    }

    #[test]
    fn what_counts_anew_is_not_compared_with_what_was() {
        let before = look(10.0, &[("/a", 1000, 1000)], 10);
        assert_eq!(
            shown(&View::between(&before, look(11.0, &[("/a", 3, 3)], 11))),
            [("/a", 3.0, 75.0), ("(other)", 1.0, 25.0)]
        );
        let restarted = View::between(&before, look(4.0, &[("/a", 8, 2000)], 0));
        assert_eq!(shown(&restarted), [("/a", 2.0, 100.0)]);
    }

    #[test]
    fn latencies_are_those_in_between() {
        let calls = |started, counts: [u64; 3]| Method {
            service: "etcdserverpb.KV".into(),
            method: "Put".into(),
            started,
            took: Some(Durations { bounds: vec![0.1, 0.2], counts: counts.into(), sum_seconds: 0.0 }),
            ..Method::default()
        };
        let before = LookResponse { methods: vec![calls(100, [100, 0, 0])], ..look(1.0, &[], 0) };
        let now = LookResponse { methods: vec![calls(110, [100, 10, 0])], ..look(2.0, &[], 0) };
        let put = &View::between(&before, now).methods[0];
        assert_eq!((put.calls, put.p50, put.p99), (10.0, Some(0.2), Some(0.2)));
    }
}
