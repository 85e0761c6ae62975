//! What one thread has counted: a histogram of latencies and the successes of each class of
//! requests, and the errors.
//!
//! A request belongs to the measured time by the moment at which it was to be sent; it adds to the
//! throughput if it was answered within that time. One that was never answered is in the histogram
//! with the time it had waited, and is no success.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::failure::Failure;

/// Error texts that are counted separately; the rest is counted together.
const TEXTS: usize = 40;

/// The measured time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
}

impl Window {
    pub(crate) fn contains(self, at: Instant) -> bool {
        self.start <= at && at < self.end
    }

    pub(crate) fn seconds(self) -> f64 {
        self.end.saturating_duration_since(self.start).as_secs_f64()
    }
}

/// What an answer brought, apart from itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Yield {
    pub(crate) keys: u64,
    pub(crate) bytes: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) name: &'static str,
    /// Nanoseconds.
    pub(crate) latency: Histogram<u64>,
    /// All successes, of warm-up and afterwards too.
    pub(crate) acknowledged: u64,
    /// Successes within the measured time.
    pub(crate) done: u64,
    pub(crate) brought: Yield,
    pub(crate) errors: u64,
    pub(crate) unanswered: u64,
}

impl Class {
    fn new(name: &'static str) -> Class {
        Class {
            name,
            latency: histogram(),
            acknowledged: 0,
            done: 0,
            brought: Yield::default(),
            errors: 0,
            unanswered: 0,
        }
    }
}

/// Three digits from a microsecond to an hour.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1_000, 3_600_000_000_000, 3).expect("the bounds are right")
}

#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) window: Window,
    pub(crate) classes: Vec<Class>,
    pub(crate) errors: BTreeMap<String, u64>,
    /// Were to be sent in the measured time and never were.
    pub(crate) unsent: u64,
}

impl Tally {
    pub(crate) fn new(names: &[&'static str], window: Window) -> Tally {
        let classes = names.iter().map(|name| Class::new(name)).collect();
        Tally { window, classes, errors: BTreeMap::new(), unsent: 0 }
    }

    pub(crate) fn success(&mut self, class: usize, intended: Instant, at: Instant, brought: Yield) {
        let measured = self.window.contains(intended);
        let counted = self.window.contains(at);
        let class = &mut self.classes[class];
        class.acknowledged += 1;
        if measured {
            record(&mut class.latency, at.saturating_duration_since(intended));
        }
        if counted {
            class.done += 1;
            class.brought.keys += brought.keys;
            class.brought.bytes += brought.bytes;
        }
    }

    pub(crate) fn failure(&mut self, class: usize, failure: &Failure) {
        self.wrong(class, failure.to_string());
    }

    /// An answer that is not what it should be.
    pub(crate) fn wrong(&mut self, class: usize, text: String) {
        self.classes[class].errors += 1;
        let known = self.errors.len() < TEXTS || self.errors.contains_key(&text);
        *self.errors.entry(if known { text } else { "others".to_owned() }).or_default() += 1;
    }

    /// It was sent, and the run is over.
    pub(crate) fn unanswered(&mut self, class: usize, intended: Instant, now: Instant) {
        self.classes[class].unanswered += 1;
        if self.window.contains(intended) {
            record(&mut self.classes[class].latency, now.saturating_duration_since(intended));
        }
    }

    /// It should have been sent long ago.
    pub(crate) fn unsent(&mut self, class: usize, intended: Instant, now: Instant) {
        self.unsent += 1;
        if self.window.contains(intended) {
            record(&mut self.classes[class].latency, now.saturating_duration_since(intended));
        }
    }

    pub(crate) fn merge(&mut self, other: &Tally) {
        self.window.start = self.window.start.min(other.window.start);
        self.window.end = self.window.end.max(other.window.end);
        for (mine, theirs) in self.classes.iter_mut().zip(&other.classes) {
            mine.latency.add(&theirs.latency).expect("all histograms have the same bounds");
            mine.acknowledged += theirs.acknowledged;
            mine.done += theirs.done;
            mine.brought.keys += theirs.brought.keys;
            mine.brought.bytes += theirs.brought.bytes;
            mine.errors += theirs.errors;
            mine.unanswered += theirs.unanswered;
        }
        for (text, count) in &other.errors {
            *self.errors.entry(text.clone()).or_default() += count;
        }
        self.unsent += other.unsent;
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.classes.iter().map(|class| class.acknowledged).sum()
    }

    pub(crate) fn done(&self) -> u64 {
        self.classes.iter().map(|class| class.done).sum()
    }
}

pub(crate) fn record(histogram: &mut Histogram<u64>, latency: Duration) {
    histogram.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1));
}
