//! The whole metrics page.

use std::sync::atomic::Ordering::Relaxed;

use vetch_node::Node;

use super::text::{Text, Type};
use super::{ServerMetrics, node, process};

/// Everything there is to tell, as Prometheus text.
pub(crate) fn page(metrics: &ServerMetrics, node: &Node) -> String {
    let mut page = Text::default();
    node::write(&mut page, node);
    metrics.grpc.write(&mut page);
    metrics.health.write(&mut page);
    metrics.tls.write(&mut page);
    process::write(&mut page);
    page.gauge("promhttp_metric_handler_requests_in_flight", "Scrapes being answered.", 1.0);
    let name = "promhttp_metric_handler_requests_total";
    page.heading(name, Type::Counter, "Scrapes answered, by HTTP status.");
    let answered = metrics.scrapes.fetch_add(1, Relaxed);
    page.sample(name, &[("code", "200")], answered as f64);
    page.finish()
}
