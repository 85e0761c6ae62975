//! Reports as one page that opens anywhere: text, a table per measurement, plots over clients and
//! over offered rates.

use std::fmt::Write;

use super::plot::{Plot, Series, escape};
use super::{Latency, Point, Report, table};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em;color:#222}\
table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd}\
td:first-child,th:first-child{text-align:left}code{background:#f3f3f3;padding:.1em .3em}\
svg{font:12px system-ui,sans-serif}svg .title{font-weight:bold}svg .grid{stroke:#ddd}.wrong{color:#b00}";

/// Several reports make one page; their lines share the plots.
pub(crate) fn render(reports: &[(String, &Report)]) -> String {
    let title = reports.first().map_or("vetch bench", |(_, report)| &report.workload);
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>vetch bench: {0}</title>\
         <style>{STYLE}</style><h1>vetch bench: {0}</h1>\n",
        escape(title)
    );
    for plot in [over_rate(reports), over_clients(reports)].into_iter().flatten() {
        out.push_str(&plot);
    }
    for (name, report) in reports {
        section(&mut out, name, report);
    }
    out.push_str("</html>\n");
    out
}

fn section(out: &mut String, name: &str, report: &Report) {
    let _ = writeln!(
        out,
        "<h2>{}</h2><p><code>{}</code><br>{}, version {}; client: {}; {}; {} processors{}</p>",
        escape(name),
        escape(&report.command),
        escape(&report.endpoints.join(",")),
        escape(&report.server_version),
        escape(&report.client),
        escape(&report.pinned),
        report.processors,
        if report.interrupted { "; interrupted" } else { "" }
    );
    for point in &report.points {
        measurement(out, point);
    }
}

fn measurement(out: &mut String, point: &Point) {
    let _ = write!(out, "<h3>{}</h3>", escape(&point.label));
    if !point.classes.is_empty() {
        out.push_str(
            "<table><tr><th><th>/s<th>MB/s<th>errors<th>mean<th>p50<th>p90<th>p99<th>p99.9<th>max\n",
        );
        for class in &point.classes {
            let latency = class.latency;
            let _ = write!(out, "<tr><td>{}<td>{}", escape(&class.name), table::number(class.per_second));
            let _ = write!(out, "<td>{}", table::number(class.megabytes_per_second));
            let _ = write!(out, "<td>{}", class.errors + class.unanswered);
            for value in [latency.mean, latency.p50, latency.p90, latency.p99, latency.p999, latency.max] {
                let _ = write!(out, "<td>{}", table::time(value));
            }
            out.push('\n');
        }
        out.push_str("</table>");
    }
    out.push_str("<table>");
    for figure in &point.figures {
        let value = table::number(figure.value);
        let _ = writeln!(out, "<tr><td>{}<td>{value} {}", escape(&figure.name), figure.unit);
    }
    out.push_str("</table>\n");
    if point.unsent > 0 {
        let _ = writeln!(
            out,
            "<p class=\"wrong\">overloaded: {} requests were due and never sent</p>",
            point.unsent
        );
    }
    for (text, count) in &point.errors {
        let _ = writeln!(out, "<p class=\"wrong\">{count} x {}</p>", escape(text));
    }
}

/// The first class stands for the workload.
fn latency(point: &Point) -> Option<Latency> {
    point.classes.first().map(|class| class.latency)
}

fn over_rate(reports: &[(String, &Report)]) -> Option<String> {
    type Pick = fn(Latency) -> f64;
    const LINES: [(&str, Pick); 3] = [("p50", |l| l.p50), ("p99", |l| l.p99), ("p99.9", |l| l.p999)];
    let mut series = Vec::new();
    for (name, report) in reports {
        for (percentile, pick) in LINES {
            let at = |point: &Point| Some((point.offered_per_second?, pick(latency(point)?) / 1e3));
            let points: Vec<_> = report.points.iter().filter_map(at).collect();
            let name = if reports.len() > 1 { format!("{name} {percentile}") } else { percentile.to_owned() };
            series.push(Series { name, points });
        }
    }
    Plot {
        title: "Latency over offered rate",
        x: "requests offered per second",
        y: "ms",
        logarithmic: true,
        series,
    }
    .svg()
}

fn over_clients(reports: &[(String, &Report)]) -> Option<String> {
    let mut series = Vec::new();
    for (name, report) in reports {
        let rate = |point: &Point| point.classes.iter().map(|class| class.per_second).sum::<f64>();
        let at = |point: &Point| Some((point.clients? as f64, rate(point)));
        series.push(Series { name: name.clone(), points: report.points.iter().filter_map(at).collect() });
    }
    Plot {
        title: "Throughput over clients",
        x: "clients",
        y: "requests per second",
        logarithmic: false,
        series,
    }
    .svg()
}
