//! The whole metrics page.

use std::sync::atomic::Ordering::Relaxed;

use vetch_http2::{Budget, border};
use vetch_node::Node;

use super::text::{Text, Type};
use super::{Feature, ServerMetrics, node, process};

/// Bytes held for clients.
pub(crate) struct Held<'a> {
    pub(crate) clients: &'a Budget,
    pub(crate) watching: &'a Budget,
    pub(crate) tokens: usize,
}

/// All metrics, as Prometheus text.
pub(crate) fn page(metrics: &ServerMetrics, node: &Node, held: &Held<'_>) -> String {
    let mut page = Text::default();
    node::write(&mut page, node);
    metrics.grpc.write(&mut page);
    metrics.health.write(&mut page);
    metrics.services.write(&mut page);
    clients(&mut page, held.clients);
    watchers(&mut page, held.watching);
    page.gauge("vetch_tokens", "Simple tokens in memory.", held.tokens as f64);
    features(&mut page, &metrics.features);
    metrics.tls.write(&mut page);
    process::write(&mut page);
    page.gauge("promhttp_metric_handler_requests_in_flight", "Scrapes being answered.", 1.0);
    let name = "promhttp_metric_handler_requests_total";
    page.heading(name, Type::Counter, "Scrapes answered, by HTTP status.");
    let answered = metrics.scrapes.fetch_add(1, Relaxed);
    page.sample(name, &[("code", "200")], answered as f64);
    // The page is always complete and has no limits, so these never happen.
    page.sample(name, &[("code", "500")], 0.0);
    page.sample(name, &[("code", "503")], 0.0);
    page.finish()
}

/// Bytes held for clients, and calls that were delayed or refused because of them.
fn clients(page: &mut Text, budget: &Budget) {
    let held = "Bytes held for clients: incomplete requests, streams, unread responses.";
    page.gauge("vetch_client_bytes", held, budget.held() as f64);
    page.gauge("vetch_client_bytes_max", "Limit on bytes held for clients.", budget.total_max() as f64);
    let deferred = "Calls delayed because too much was held for their connection.";
    page.counter("vetch_calls_deferred_total", deferred, budget.deferred());
    let refused = "Requests refused because too much was held for their connection.";
    page.counter("vetch_requests_refused_total", refused, budget.refused());
    let contained = "Bugs that ended a connection or a call. Please report the panic in the log.";
    page.counter("vetch_panics_contained_total", contained, border::contained());
}

fn watchers(page: &mut Text, budget: &Budget) {
    page.gauge("vetch_watch_bytes", "Approximate bytes used by watchers.", budget.held() as f64);
    page.gauge("vetch_watch_bytes_max", "Limit on bytes used by watchers.", budget.total_max() as f64);
    let refused = "Watches refused because watchers use too many bytes.";
    page.counter("vetch_watches_refused_total", refused, budget.refused());
}

/// As set. They have no effect here.
fn features(page: &mut Text, features: &[Feature]) {
    let name = "etcd_server_feature_enabled";
    page.heading(name, Type::Gauge, "1 for a feature gate that is set to true.");
    for Feature { name: gate, stage, is_on } in features {
        page.sample(name, &[("name", gate), ("stage", stage)], f64::from(u8::from(*is_on)));
    }
}
