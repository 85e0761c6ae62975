//! Reports as text for a terminal.

use std::fmt::Write;

use super::{Point, Report};

pub(crate) fn render(report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", report.command);
    let _ = writeln!(
        out,
        "{} (version {}); client: {}; {}; {} processors",
        report.endpoints.join(","),
        report.server_version,
        report.client,
        report.pinned,
        report.processors
    );
    for point in &report.points {
        render_point(&mut out, point);
    }
    if report.interrupted {
        out.push_str("\nInterrupted: these are the figures until then.\n");
    }
    out
}

fn render_point(out: &mut String, point: &Point) {
    let _ = writeln!(out, "\n{} ({:.1} s measured)", heading(point), point.seconds);
    if !point.classes.is_empty() {
        let names = ["", "/s", "MB/s", "errors", "mean", "p50", "p90", "p99", "p99.9", "max"];
        let mut rows = vec![names.map(str::to_owned)];
        for class in &point.classes {
            let latency = class.latency;
            let data = class.megabytes_per_second;
            rows.push([
                class.name.clone(),
                number(class.per_second),
                if data > 0.0 { number(data) } else { String::new() },
                (class.errors + class.unanswered).to_string(),
                time(latency.mean),
                time(latency.p50),
                time(latency.p90),
                time(latency.p99),
                time(latency.p999),
                time(latency.max),
            ]);
        }
        aligned(out, &rows);
    }
    for figure in &point.figures {
        let _ = writeln!(out, "  {}: {} {}", figure.name, number(figure.value), figure.unit);
    }
    if point.unsent > 0 {
        let _ = writeln!(
            out,
            "  OVERLOADED: {} requests were due and never sent; they are in the latencies with the time they waited",
            point.unsent
        );
    }
    for (text, count) in &point.errors {
        let _ = writeln!(out, "  error {count} x {text}");
    }
    let unanswered: u64 = point.classes.iter().map(|class| class.unanswered).sum();
    if unanswered > 0 {
        let _ = writeln!(out, "  error {unanswered} x no answer until the end");
    }
}

fn heading(point: &Point) -> String {
    if point.label.is_empty() { "All".to_owned() } else { point.label.clone() }
}

/// Columns as wide as they need to be; the first to the left, the others to the right.
pub(crate) fn aligned<const N: usize>(out: &mut String, rows: &[[String; N]]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in rows {
        let _ = write!(out, "  {:<1$}", row[0], widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(out, "  {cell:>width$}");
        }
        out.push('\n');
    }
}

/// Microseconds in the unit that fits.
pub(crate) fn time(micros: f64) -> String {
    match micros {
        0.0 => "-".to_owned(),
        m if m < 1e3 => format!("{m:.0}us"),
        m if m < 1e5 => format!("{:.2}ms", m / 1e3),
        m if m < 1e6 => format!("{:.0}ms", m / 1e3),
        m => format!("{:.2}s", m / 1e6),
    }
}

/// Three digits, or all before the point.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v == 0.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
