//! Results of the health pages.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use super::text::{Text, Type};

/// The health checks there are, as (page, name).
pub(crate) const CHECKS: [(&str, &str); 5] = [
    ("livez", "serializable_read"),
    ("readyz", "data_corruption"),
    ("readyz", "serializable_read"),
    ("readyz", "linearizable_read"),
    ("readyz", "non_learner"),
];

#[derive(Debug, Default)]
pub struct HealthMetrics {
    success: AtomicU64,
    failures: AtomicU64,
    checks: [Check; CHECKS.len()],
}

#[derive(Debug, Default)]
struct Check {
    success: AtomicU64,
    error: AtomicU64,
    /// 1 or 0 for the last result, if there is one.
    last: AtomicI64,
}

impl HealthMetrics {
    /// The result of `/health`.
    pub(crate) fn health(&self, ok: bool) {
        if ok { &self.success } else { &self.failures }.fetch_add(1, Relaxed);
    }

    /// The result of one check of `CHECKS`.
    pub(crate) fn check(&self, index: usize, ok: bool) {
        let check = &self.checks[index];
        if ok { &check.success } else { &check.error }.fetch_add(1, Relaxed);
        check.last.store(i64::from(ok), Relaxed);
    }

    pub(super) fn write(&self, page: &mut Text) {
        let success = self.success.load(Relaxed);
        let failures = self.failures.load(Relaxed);
        page.counter(
            "etcd_server_health_success",
            "Requests for /health that found the server healthy.",
            success,
        );
        page.counter(
            "etcd_server_health_failures",
            "Requests for /health that found it unhealthy.",
            failures,
        );
        page.heading(
            "etcd_server_healthcheck",
            Type::Gauge,
            "The last result of each health check, 1 for good.",
        );
        for (check, (kind, name)) in self.seen() {
            let labels = [("name", name), ("type", kind)];
            page.sample("etcd_server_healthcheck", &labels, check.last.load(Relaxed) as f64);
        }
        page.heading("etcd_server_healthchecks_total", Type::Counter, "Results of each health check.");
        for (check, (kind, name)) in self.seen() {
            for (status, count) in [("error", &check.error), ("success", &check.success)] {
                let count = count.load(Relaxed);
                if count > 0 {
                    let labels = [("name", name), ("status", status), ("type", kind)];
                    page.sample("etcd_server_healthchecks_total", &labels, count as f64);
                }
            }
        }
    }

    /// The checks that ran at least once.
    fn seen(&self) -> impl Iterator<Item = (&Check, (&'static str, &'static str))> {
        let ran = |c: &Check| c.success.load(Relaxed) + c.error.load(Relaxed) > 0;
        self.checks.iter().zip(CHECKS).filter(move |(check, _)| ran(check))
    }
}
