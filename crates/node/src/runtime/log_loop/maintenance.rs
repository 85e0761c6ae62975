//! Maintenance of the log: reports of servers, trims, and the room that is left.
//!
//! The leader trims records that enough servers have covered by checkpoints (`peer_table`). Every
//! server watches how full the log is. When little room is left, all take checkpoints, so that the
//! log can be trimmed, and the leader admits nothing that grows the state, so that barriers,
//! new-epoch entries, deletes and compactions still find room. The fill level that the log reports
//! is a moment old; what was proposed since is added to it.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use vetch_cluster::Space;
use vetch_journal::{ChainedEntry, Position};

use super::ReplicatedLogLoop;

/// How often this runs.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(1);
/// A trim is repeated after this long, in case the last one failed.
const TRIM_RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// With a log larger than this, trims do not wait for servers that are behind.
const WAIT_FOR_LAGGARDS_MAX: u64 = 1 << 30;
/// How long a log that refused a record counts as full.
const FULL_TIMEOUT: Duration = Duration::from_secs(10);
/// Room that is reserved: a tenth of all, at least for some records of the largest size, at most
/// this.
const RESERVED_MAX: u64 = 256 << 20;
const RESERVED_RECORDS: u64 = 4;
/// How often the sum of proposed bytes is sampled, and how many samples are kept: far longer than a
/// fill level takes to arrive.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
const SAMPLES_MAX: usize = 256;
/// Overhead of a record in the log, generously.
const RECORD_OVERHEAD: u64 = 256;

#[derive(Default)]
pub(super) struct Maintenance {
    last_run: Option<Duration>,
    trimmed: Option<(Position, Duration)>,
    /// When the log last refused a record.
    refused: Option<Duration>,
    /// The last known fill level, and when it was measured.
    space: Option<(Space, Duration)>,
    proposed: Proposed,
}

/// Bytes proposed by this server, with samples of earlier sums.
#[derive(Default)]
struct Proposed {
    total: u64,
    samples: VecDeque<(Duration, u64)>,
}

impl Proposed {
    fn add(&mut self, now: Duration, bytes: u64) {
        if self.samples.back().is_none_or(|(last, _)| now >= *last + SAMPLE_INTERVAL) {
            self.samples.push_back((now, self.total));
        }
        if self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.total += bytes;
    }

    /// Bytes proposed since then, or a few more.
    fn since(&self, time: Duration) -> u64 {
        let before = self.samples.iter().rev().find(|(at, _)| *at <= time).or(self.samples.front());
        before.map_or(0, |(_, total)| self.total - total)
    }
}

impl ReplicatedLogLoop {
    /// Runs the maintenance, at an interval.
    pub(super) fn maintain_log(&mut self) {
        let now = self.driver.now();
        if self.work.maintenance.last_run.is_some_and(|last| now < last + MAINTENANCE_INTERVAL) {
            return;
        }
        self.work.maintenance.last_run = Some(now);
        if let Some(cluster) = &self.node.cluster {
            let replica = self.driver.replica();
            cluster.position.store(replica.log_state().position().0, Ordering::Relaxed);
            cluster.must_checkpoint.store(replica.is_suspect(), Ordering::Relaxed);
        }
        // The last known level stays valid until there is a newer one.
        if let Some(space) = self.driver.log_mut().space() {
            self.work.maintenance.space = Some((space, now.saturating_sub(space.age)));
        }
        self.check_room(now);
        self.take_reports(now);
        if self.work.is_leader {
            self.trim(now);
        }
    }

    fn take_reports(&mut self, now: Duration) {
        let reports: Vec<_> = self.reports.try_iter().collect();
        if !self.work.is_leader {
            return;
        }
        let own = self.node.cluster.as_ref().map(|cluster| {
            let vote = cluster.info.lock().vote;
            self.node.report_with(cluster, vote)
        });
        for report in reports.into_iter().chain(own) {
            self.work.peers.update(now, report);
        }
        self.work.peers.forget_gone(now);
    }

    fn trim(&mut self, now: Duration) {
        let used = self.work.maintenance.space.map_or(0, |(space, _)| space.used);
        let pressed = used > WAIT_FOR_LAGGARDS_MAX || self.node.disk.is_full();
        let floor = match self.work.peers.floor(now, pressed) {
            Ok(Some(floor)) => floor,
            Ok(None) => return,
            Err(disagreement) => {
                tracing::error!(%disagreement, "the journal is not trimmed");
                return;
            }
        };
        let is_done = |(at, when): (Position, Duration)| floor <= at && now < when + TRIM_RETRY_INTERVAL;
        if !self.work.maintenance.trimmed.is_some_and(is_done) {
            tracing::debug!(floor = floor.0, "trimming the journal");
            self.driver.log_mut().start_trim(floor);
            self.work.maintenance.trimmed = Some((floor, now));
        }
    }

    /// Counts entries that were proposed.
    pub(super) fn count_proposed(&mut self, entries: &[ChainedEntry]) {
        let bytes: usize = entries.iter().map(|entry| entry.bytes().len()).sum();
        let now = self.driver.now();
        self.work.maintenance.proposed.add(now, bytes as u64 + RECORD_OVERHEAD);
        self.check_room(now);
    }

    /// The log refused a record for lack of room.
    pub(super) fn log_refused_a_record(&mut self) {
        let now = self.driver.now();
        if self.work.maintenance.refused.is_none_or(|since| now >= since + FULL_TIMEOUT) {
            tracing::warn!("the journal is full: nothing can be written until there is room");
        }
        self.work.maintenance.refused = Some(now);
        self.check_room(now);
    }

    /// The state of this server may exist nowhere else: it is written to disk at once.
    pub(super) fn force_checkpoint(&mut self) {
        if let Some(cluster) = &self.node.cluster {
            cluster.must_checkpoint.store(true, Ordering::Relaxed);
            self.node.housekeeping.ring();
        }
    }

    /// Decides whether the log is full.
    fn check_room(&mut self, now: Duration) {
        let Maintenance { refused, space, proposed, .. } = &self.work.maintenance;
        let was_full = self.node.disk.is_full();
        // Followers refuse nothing; they take checkpoints for as long as a leader that refuses
        // waits for them.
        let was_low = was_full || !self.work.is_leader;
        let is_refused = refused.is_some_and(|refused| now < refused + FULL_TIMEOUT);
        let record = self.driver.log().max_record() as u64;
        let (left, is_low) = match space {
            Some((Space { used, left: Some(left), .. }, when)) => {
                let left_now = left.saturating_sub(proposed.since(*when));
                (left_now, is_low(used + left, left_now, record, was_low))
            }
            // Without a limit only a refusal shows that the log is full, and the room is not known:
            // deletes may try.
            _ => (RESERVED_RECORDS * record, false),
        };
        let is_full = is_low || is_refused;
        self.node.disk.set_active_room(left);
        if is_full != was_full {
            self.node.disk.set_full(is_full);
            self.node.housekeeping.ring();
            if is_full && self.work.is_leader {
                tracing::error!(
                    left,
                    "the journal is nearly full: writes are refused until it has been trimmed"
                );
            } else if is_full {
                tracing::warn!(
                    left,
                    "the journal is nearly full: a checkpoint is taken so that it can be trimmed"
                );
            } else {
                tracing::info!(left, "the journal has room again");
            }
        }
    }
}

/// Whether less than the reserve is left of `whole`. Once that was so, half as much again is
/// needed.
fn is_low(whole: u64, left: u64, record: u64, was_low: bool) -> bool {
    let reserved = (whole / 10)
        .max(RESERVED_RECORDS * record)
        .min(RESERVED_MAX.max(RESERVED_RECORDS * record))
        .min(whole / 2);
    left < if was_low { reserved + reserved / 2 } else { reserved }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Proposed, SAMPLES_MAX, is_low};

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_bytes_proposed_since_are_never_underestimated() {
        let mut proposed = Proposed::default();
        assert_eq!(proposed.since(Duration::ZERO), 0);
        for millis in 0..100 * SAMPLES_MAX as u64 {
            proposed.add(Duration::from_millis(millis), 1);
        }
        let total = 100 * SAMPLES_MAX as u64;
        let since = |millis| proposed.since(Duration::from_millis(millis));
        for millis in [total - 1, total - 1000, total - 10_050] {
            assert!((total - millis..=total - millis + 100).contains(&since(millis)), "{millis}");
        }
        assert!(since(0) <= total && since(total + 5000) <= 100);
    }

    #[test]
    fn a_tenth_is_reserved_or_some_records_and_a_little_more_to_go_on() {
        let record = 8 * MIB;
        assert!(!is_low(1000 * MIB, 100 * MIB, record, false));
        assert!(is_low(1000 * MIB, 99 * MIB, record, false));
        assert!(is_low(1000 * MIB, 149 * MIB, record, true));
        assert!(!is_low(1000 * MIB, 150 * MIB, record, true));
        assert!(is_low(100 * MIB, 31 * MIB, record, false), "four records");
        assert!(!is_low(100 * MIB, 32 * MIB, record, false));
        assert!(!is_low(1 << 40, 256 * MIB, record, false), "not a tenth of everything");
        assert!(!is_low(10 * MIB, 5 * MIB, record, false), "at most half");
    }
}
