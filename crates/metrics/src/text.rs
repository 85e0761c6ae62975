//! Prometheus' text format, version 0.0.4.

use std::fmt::Write;

use vetch_counters::Histogram;

/// A page under construction. Samples of a family must follow its heading.
#[derive(Debug, Default)]
pub(super) struct Text {
    out: String,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Type {
    Counter,
    Gauge,
    Histogram,
}

pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

impl Text {
    pub(super) fn finish(self) -> String {
        self.out
    }

    /// Starts a family.
    pub(super) fn heading(&mut self, name: &str, kind: Type, help: &str) {
        let kind = match kind {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Histogram => "histogram",
        };
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    pub(super) fn sample(&mut self, name: &str, labels: Labels<'_>, value: f64) {
        self.name(name, "", labels, None);
        self.number(value);
    }

    /// A family of one sample without labels.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.heading(name, Type::Counter, help);
        self.sample(name, &[], value as f64);
    }

    /// A family of one sample without labels.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.heading(name, Type::Gauge, help);
        self.sample(name, &[], value);
    }

    /// The samples of one histogram, under a heading given before.
    pub(super) fn histogram(&mut self, name: &str, labels: Labels<'_>, histogram: &Histogram) {
        self.buckets(name, labels, histogram.bounds(), &histogram.counts(), histogram.sum());
    }

    /// `counts` has one more element than `bounds`, for samples above the last bound.
    pub(super) fn buckets(
        &mut self,
        name: &str,
        labels: Labels<'_>,
        bounds: &[f64],
        counts: &[u64],
        sum: f64,
    ) {
        assert_eq!(counts.len(), bounds.len() + 1, "a histogram has a bucket above its last bound");
        let mut total = 0;
        for (bound, count) in bounds.iter().zip(counts) {
            total += count;
            self.name(name, "_bucket", labels, Some(*bound));
            self.number(total as f64);
        }
        total += counts[bounds.len()];
        self.name(name, "_bucket", labels, Some(f64::INFINITY));
        self.number(total as f64);
        self.name(name, "_sum", labels, None);
        self.number(sum);
        self.name(name, "_count", labels, None);
        self.number(total as f64);
    }

    fn name(&mut self, name: &str, suffix: &str, labels: Labels<'_>, le: Option<f64>) {
        self.out.push_str(name);
        self.out.push_str(suffix);
        if labels.is_empty() && le.is_none() {
            return;
        }
        let mut separator = '{';
        for (key, value) in labels {
            self.out.push(separator);
            self.line(format_args!("{key}=\"{}\"", escaped(value)));
            separator = ',';
        }
        if let Some(bound) = le {
            self.out.push(separator);
            self.line(format_args!("le=\"{}\"", written(bound)));
        }
        self.out.push('}');
    }

    fn number(&mut self, value: f64) {
        self.line(format_args!(" {}\n", written(value)));
    }

    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        self.out.write_fmt(text).expect("writing to a string cannot fail");
    }
}

/// A number as Prometheus' own libraries write it: with an exponent when very large or very small.
fn written(value: f64) -> String {
    if value == f64::INFINITY {
        return "+Inf".to_string();
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e6).contains(&size) {
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e').expect("asked for an exponent");
        let (sign, digits) = match exponent.strip_prefix('-') {
            Some(digits) => ('-', digits),
            None => ('+', exponent),
        };
        return format!("{mantissa}e{sign}{digits:0>2}");
    }
    format!("{value}")
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests;
