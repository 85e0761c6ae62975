//! The report of a run, as a table, as JSON and as a page with plots.

pub(crate) mod html;
pub(crate) mod plot;
pub(crate) mod table;

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::measure::monitor::Seen;
use crate::measure::tally::{Class, Tally};

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) workload: String,
    /// What was asked for, word by word.
    pub(crate) command: String,
    pub(crate) endpoints: Vec<String>,
    /// As the server itself says.
    pub(crate) server_version: String,
    /// lean or tonic.
    pub(crate) client: String,
    pub(crate) pinned: String,
    pub(crate) processors: usize,
    pub(crate) points: Vec<Point>,
    pub(crate) interrupted: bool,
}

/// One measurement: a number of clients or a rate.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Point {
    pub(crate) label: String,
    pub(crate) clients: Option<usize>,
    pub(crate) offered_per_second: Option<f64>,
    pub(crate) seconds: f64,
    pub(crate) classes: Vec<ClassReport>,
    pub(crate) figures: Vec<Figure>,
    pub(crate) errors: BTreeMap<String, u64>,
    /// Were to be sent in time and never were: the server was overloaded.
    pub(crate) unsent: u64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct ClassReport {
    pub(crate) name: String,
    /// Successes, also before and after the measured time.
    pub(crate) acknowledged: u64,
    /// Successes within the measured time.
    pub(crate) done: u64,
    pub(crate) per_second: f64,
    pub(crate) errors: u64,
    pub(crate) unanswered: u64,
    pub(crate) keys_per_second: f64,
    pub(crate) megabytes_per_second: f64,
    pub(crate) latency: Latency,
}

/// Microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Latency {
    pub(crate) count: u64,
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Higher,
    Lower,
}

/// A single number.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
}

impl Figure {
    pub(crate) fn lower(name: &str, value: f64, unit: &'static str) -> Figure {
        Figure { name: name.to_owned(), value, unit, better: Better::Lower }
    }

    pub(crate) fn higher(name: &str, value: f64, unit: &'static str) -> Figure {
        Figure { name: name.to_owned(), value, unit, better: Better::Higher }
    }
}

impl Latency {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Latency {
        let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
        if histogram.is_empty() {
            return Latency::default();
        }
        Latency {
            count: histogram.len(),
            mean: histogram.mean() / 1e3,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max() as f64 / 1e3,
        }
    }
}

impl ClassReport {
    pub(crate) fn of(class: &Class, seconds: f64) -> ClassReport {
        let per_second = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        ClassReport {
            name: class.name.to_owned(),
            acknowledged: class.acknowledged,
            done: class.done,
            per_second: per_second(class.done as f64),
            errors: class.errors,
            unanswered: class.unanswered,
            keys_per_second: per_second(class.brought.keys as f64),
            megabytes_per_second: per_second(class.brought.bytes as f64 / 1e6),
            latency: Latency::of(&class.latency),
        }
    }
}

impl Point {
    pub(crate) fn new(label: String, tally: &Tally, seen: Seen) -> Point {
        let seconds = tally.window.seconds();
        let used = |class: &&Class| class.latency.len() + class.acknowledged + class.errors > 0;
        let classes =
            tally.classes.iter().filter(used).map(|class| ClassReport::of(class, seconds)).collect();
        let mut point = Point {
            label,
            seconds,
            classes,
            errors: tally.errors.clone(),
            unsent: tally.unsent,
            ..Point::default()
        };
        point.add_usage(seen, tally.done());
        point
    }

    fn add_usage(&mut self, seen: Seen, done: u64) {
        let each = |seconds: f64| if done > 0 { seconds * 1e6 / done as f64 } else { 0.0 };
        if let Some(server) = seen.server {
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            let extra = server.resident_peak.saturating_sub(server.resident_start);
            self.figures.push(Figure::lower("server CPU", server.cpu_seconds, "s"));
            self.figures.push(Figure::lower("server CPU per request", each(server.cpu_seconds), "us"));
            self.figures.push(Figure::lower("server memory, peak", mib(server.resident_peak), "MiB"));
            self.figures.push(Figure::lower("server memory, peak less start", mib(extra), "MiB"));
            self.figures.push(Figure::lower("server memory, end", mib(server.resident_end), "MiB"));
        }
        self.figures.push(Figure::lower("client CPU per request", each(seen.client_cpu_seconds), "us"));
    }

    pub(crate) fn errors(&self) -> u64 {
        self.classes.iter().map(|class| class.errors + class.unanswered).sum()
    }
}

/// One number of a report, under a name by which reports of the same workload are compared.
pub(crate) struct Metric {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
}

impl Report {
    /// Every number that is worth comparing.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let mut metrics = Vec::new();
        for point in &self.points {
            let mut add = |name: String, value: f64, unit, better| {
                let name = if point.label.is_empty() { name } else { format!("{}: {name}", point.label) };
                metrics.push(Metric { name, value, unit, better });
            };
            for class in &point.classes {
                add(format!("{}, rate", class.name), class.per_second, "/s", Better::Higher);
                if class.megabytes_per_second > 0.0 {
                    add(format!("{}, data", class.name), class.megabytes_per_second, "MB/s", Better::Higher);
                }
                let latency = class.latency;
                for (name, value) in [("p50", latency.p50), ("p99", latency.p99), ("p99.9", latency.p999)] {
                    add(format!("{}, {name}", class.name), value / 1e3, "ms", Better::Lower);
                }
            }
            for figure in &point.figures {
                add(figure.name.clone(), figure.value, figure.unit, figure.better);
            }
            add("errors".to_owned(), point.errors() as f64, "", Better::Lower);
        }
        metrics
    }

    pub(crate) fn failed(&self) -> bool {
        self.points.iter().any(|point| point.errors() > 0)
    }
}
