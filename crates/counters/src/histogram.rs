//! Histograms that many threads fill and one reads now and then.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts per bucket; the last bucket is everything above the last bound.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
    /// How many of what is summed make one of the unit of the bounds.
    per_unit: f64,
}

/// `N` bounds, each twice the one before.
pub const fn doubling<const N: usize>(first: f64) -> [f64; N] {
    let mut bounds = [first; N];
    let mut at = 1;
    while at < N {
        bounds[at] = bounds[at - 1] * 2.0;
        at += 1;
    }
    bounds
}

impl Histogram {
    /// Of durations, with bounds in seconds.
    pub fn new(bounds: &'static [f64]) -> Histogram {
        Histogram::with_unit(bounds, 1e9)
    }

    /// Of whole numbers.
    pub fn of_numbers(bounds: &'static [f64]) -> Histogram {
        Histogram::with_unit(bounds, 1.0)
    }

    fn with_unit(bounds: &'static [f64], per_unit: f64) -> Histogram {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, counts, sum: AtomicU64::new(0), per_unit }
    }

    pub fn observe(&self, took: Duration) {
        self.count(took.as_secs_f64(), took.as_nanos() as u64);
    }

    pub fn observe_number(&self, number: u64) {
        self.count(number as f64, number);
    }

    fn count(&self, value: f64, summand: u64) {
        let bucket = self.bounds.partition_point(|&bound| bound < value);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(summand, Ordering::Relaxed);
    }

    pub fn bounds(&self) -> &'static [f64] {
        self.bounds
    }

    /// Observations per bucket, not accumulated; one more than there are bounds.
    pub fn counts(&self) -> Vec<u64> {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// In the unit of the bounds.
    pub fn sum(&self) -> f64 {
        self.sum.load(Ordering::Relaxed) as f64 / self.per_unit
    }

    /// Nothing was observed so far.
    pub fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| count.load(Ordering::Relaxed) == 0)
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
        assert!((histogram.sum() - 0.006).abs() < 1e-9);
    }

    #[test]
    fn numbers_are_summed_as_they_are() {
        let histogram = Histogram::of_numbers(&[1.0, 2.0]);
        for number in [0, 2, 9_000_000_000, 9_000_000_000] {
            histogram.observe_number(number);
        }
        assert_eq!(histogram.counts(), [1, 1, 2]);
        assert_eq!(histogram.sum(), 18_000_000_002.0);
    }

    #[test]
    fn bounds_double() {
        assert_eq!(doubling::<4>(0.5), [0.5, 1.0, 2.0, 4.0]);
    }
}
