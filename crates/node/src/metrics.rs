//! Metrics: plain numbers that the edge renders under the names its users know.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// 1 ms doubling up to 8 s.
pub const DISK_BOUNDS: &[f64] =
    &[0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192];

/// 0.1 ms doubling up to 52 s.
pub const APPLY_BOUNDS: &[f64] = &[
    0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.0128, 0.0256, 0.0512, 0.1024, 0.2048, 0.4096,
    0.8192, 1.6384, 3.2768, 6.5536, 13.1072, 26.2144, 52.4288,
];

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    pub fn set(&self, n: i64) {
        self.0.store(n, Ordering::Relaxed);
    }

    pub fn add(&self, n: i64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts per bucket; the last bucket is everything above the last bound.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    counts: Box<[AtomicU64]>,
    sum_nanos: AtomicU64,
}

impl Histogram {
    pub fn new(bounds: &'static [f64]) -> Histogram {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, counts, sum_nanos: AtomicU64::new(0) }
    }

    pub fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = self.bounds.partition_point(|&bound| bound < seconds);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    pub fn bounds(&self) -> &'static [f64] {
        self.bounds
    }

    /// Observations per bucket, not accumulated; one more than there are bounds.
    pub fn counts(&self) -> Vec<u64> {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    pub fn sum_seconds(&self) -> f64 {
        self.sum_nanos.load(Ordering::Relaxed) as f64 / 1e9
    }
}

#[derive(Debug)]
pub struct NodeMetrics {
    /// Waiting until a journal record is durable.
    pub fsync: Histogram,
    /// Handing a journal record to the operating system.
    pub write: Histogram,
    pub append_bytes: Counter,
    pub appends: Counter,
    /// Evaluating one batch.
    pub apply: Histogram,
    /// Serving one range.
    pub range: Histogram,
    pub checkpoint: Histogram,
    pub checkpoint_bytes: Counter,
    pub checkpoint_failures: Counter,
    /// Freeing what one compaction made unreachable.
    pub compaction: Histogram,
    pub compacted_versions: Counter,
    pub proposals_committed: Counter,
    pub proposals_failed: Counter,
    pub proposals_pending: Gauge,
    /// 1 while the quota is nearly reached.
    pub near_quota: Gauge,
    pub ranges: Counter,
    pub puts: Counter,
    pub deletes: Counter,
    pub txns: Counter,
    pub put_bytes: Counter,
    pub events: Counter,
    pub leases_granted: Counter,
    pub leases_revoked: Counter,
    pub leases_renewed: Counter,
    pub leases_expired: Counter,
}

impl Default for NodeMetrics {
    fn default() -> NodeMetrics {
        NodeMetrics {
            fsync: Histogram::new(DISK_BOUNDS),
            write: Histogram::new(DISK_BOUNDS),
            append_bytes: Counter::default(),
            appends: Counter::default(),
            apply: Histogram::new(APPLY_BOUNDS),
            range: Histogram::new(APPLY_BOUNDS),
            checkpoint: Histogram::new(DISK_BOUNDS),
            checkpoint_bytes: Counter::default(),
            checkpoint_failures: Counter::default(),
            compaction: Histogram::new(DISK_BOUNDS),
            compacted_versions: Counter::default(),
            proposals_committed: Counter::default(),
            proposals_failed: Counter::default(),
            proposals_pending: Gauge::default(),
            near_quota: Gauge::default(),
            ranges: Counter::default(),
            puts: Counter::default(),
            deletes: Counter::default(),
            txns: Counter::default(),
            put_bytes: Counter::default(),
            events: Counter::default(),
            leases_granted: Counter::default(),
            leases_revoked: Counter::default(),
            leases_renewed: Counter::default(),
            leases_expired: Counter::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observation_on_a_bound_belongs_to_its_bucket() {
        let histogram = Histogram::new(&[0.001, 0.002]);
        for millis in [1, 2, 3] {
            histogram.observe(Duration::from_millis(millis));
        }
        assert_eq!(histogram.counts(), [1, 1, 1]);
        assert!((histogram.sum_seconds() - 0.006).abs() < 1e-9);
    }
}
