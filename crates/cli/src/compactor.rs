//! Automatic compaction: keeps the history of a time span, or a number of revisions.
//!
//! Kubernetes does its own compaction, so this is off by default. The schedule is etcd's: a period
//! is sampled ten times (an hour at most counts as a period for that), the first compaction comes
//! when one period has passed and goes to where the store was a period ago; a number of revisions
//! is enforced every five minutes.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;
use vetch_node::Node;
use vetch_node::error::NodeError;
use vetch_node::store::StoreError;

/// What history to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retention {
    Period(Duration),
    Revisions(i64),
}

const HOUR: Duration = Duration::from_secs(3600);
const REVISION_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// Compacts for as long as the node lives.
pub(crate) async fn run(node: Node, retention: Retention) {
    let mut schedule = Schedule::new(retention, Instant::now());
    loop {
        schedule.sample(node.revision());
        tokio::time::sleep(schedule.interval()).await;
        let Some(revision) = schedule.due(node.revision(), Instant::now()) else { continue };
        match node.compact(revision, false).await {
            Ok(_) | Err(NodeError::Store(StoreError::Compacted)) => {
                tracing::info!(revision, "completed auto compaction");
                schedule.done(revision, Instant::now());
            }
            Err(NodeError::Stopped) => return,
            Err(error) => tracing::warn!(revision, %error, "failed auto compaction"),
        }
    }
}

/// When to compact, and to where.
#[derive(Debug)]
struct Schedule {
    retention: Retention,
    /// Revisions seen, the oldest first, at most as many as a period has samples.
    samples: VecDeque<i64>,
    last_revision: i64,
    last_success: Instant,
    compacted_before: bool,
}

impl Schedule {
    fn new(retention: Retention, now: Instant) -> Schedule {
        let samples = VecDeque::new();
        Schedule { retention, samples, last_revision: 0, last_success: now, compacted_before: false }
    }

    /// Interval of samples.
    fn interval(&self) -> Duration {
        match self.retention {
            Retention::Period(period) => period.min(HOUR) / 10,
            Retention::Revisions(_) => REVISION_INTERVAL,
        }
    }

    fn sample(&mut self, revision: i64) {
        let Retention::Period(period) = self.retention else { return };
        let kept = (period.as_nanos() / self.interval().as_nanos().max(1)) as usize + 1;
        self.samples.push_back(revision);
        while self.samples.len() > kept {
            self.samples.pop_front();
        }
    }

    /// The revision to compact to now, if it is time and there is anything new.
    fn due(&self, current: i64, now: Instant) -> Option<i64> {
        let revision = match self.retention {
            Retention::Revisions(keep) => current - keep,
            Retention::Period(period) => {
                let wait = if self.compacted_before { period.min(HOUR) } else { period };
                if now.duration_since(self.last_success) < wait {
                    return None;
                }
                *self.samples.front()?
            }
        };
        (revision > 0 && revision != self.last_revision).then_some(revision)
    }

    fn done(&mut self, revision: i64, now: Instant) {
        self.last_revision = revision;
        self.last_success = now;
        self.compacted_before = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a schedule over `steps` intervals with ten writes in each, and returns the compactions.
    fn compactions(retention: Retention, steps: u32) -> Vec<(u32, i64)> {
        let start = Instant::now();
        let mut schedule = Schedule::new(retention, start);
        let mut found = Vec::new();
        for step in 1..=steps {
            schedule.sample(i64::from(step - 1) * 10);
            let now = start + schedule.interval() * step;
            if let Some(revision) = schedule.due(i64::from(step) * 10, now) {
                schedule.done(revision, now);
                found.push((step, revision));
            }
        }
        found
    }

    #[test]
    fn a_period_is_kept_and_compacted_once_per_period() {
        let minutes = Duration::from_secs(600);
        // The window holds eleven samples, so what is compacted was current one period and one
        // sample ago.
        assert_eq!(compactions(Retention::Period(minutes), 32), [(12, 10), (22, 110), (32, 210)]);
    }

    #[test]
    fn a_long_period_is_kept_whole_and_compacted_hourly() {
        let day = compactions(Retention::Period(24 * HOUR), 270);
        assert_eq!(day[0].1, 10);
        assert!(day.iter().all(|(step, revision)| i64::from(*step) * 10 - revision >= 2390), "{day:?}");
        assert!(day.windows(2).all(|w| w[1].0 - w[0].0 == 10), "{day:?}");
    }

    #[test]
    fn a_number_of_revisions_is_kept() {
        assert_eq!(compactions(Retention::Revisions(15), 3), [(2, 5), (3, 15)]);
    }

    #[test]
    fn an_idle_store_is_not_compacted_again() {
        let now = Instant::now();
        let mut schedule = Schedule::new(Retention::Revisions(1), now);
        let revision = schedule.due(10, now).unwrap();
        schedule.done(revision, now);
        assert_eq!(schedule.due(10, now), None);
    }
}
