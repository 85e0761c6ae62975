//! A histogram for many concurrent writers and rare readers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Counts of durations per bucket. A reader may see a sum that includes samples which the counts do
/// not have yet.
#[derive(Debug)]
pub struct Histogram {
    /// Upper bounds in seconds, ascending; a last bucket without bound follows them.
    bounds: Vec<f64>,
    counts: Vec<AtomicU64>,
    sum_nanos: AtomicU64,
}

impl Histogram {
    /// `n` buckets, the first up to `start`, each next bound `factor` times the one before.
    pub fn exponential(start: f64, factor: f64, n: usize) -> Histogram {
        let bounds: Vec<f64> = std::iter::successors(Some(start), |b| Some(b * factor)).take(n).collect();
        Histogram::with_bounds(bounds)
    }

    pub fn with_bounds(bounds: Vec<f64>) -> Histogram {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, counts, sum_nanos: AtomicU64::new(0) }
    }

    pub fn record(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = self.bounds.partition_point(|b| *b < seconds);
        self.counts[bucket].fetch_add(1, Relaxed);
        self.sum_nanos.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    pub(super) fn bounds(&self) -> &[f64] {
        &self.bounds
    }

    /// One more than the bounds.
    pub(super) fn counts(&self) -> Vec<u64> {
        self.counts.iter().map(|c| c.load(Relaxed)).collect()
    }

    pub(super) fn sum(&self) -> f64 {
        Duration::from_nanos(self.sum_nanos.load(Relaxed)).as_secs_f64()
    }
}
