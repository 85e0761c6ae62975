//! Maintenance of the log: reports of servers, trims, and what follows from the room that is left.
//!
//! The leader trims records that enough servers have covered by checkpoints (`peer_table`). Every
//! server watches how full the log is. When little room is left, all take checkpoints, so that the
//! log can be trimmed, and the leader admits nothing that grows the state.

use std::sync::atomic::Ordering;
use std::time::Duration;

use vetch_cluster::Room;
use vetch_journal::Position;

use super::ReplicatedLogLoop;

/// How often this runs.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(1);
/// A trim is repeated after this long, in case the last one failed.
const TRIM_RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// With a log larger than this, trims do not wait for servers that are behind.
const WAIT_FOR_LAGGARDS_MAX: u64 = 1 << 30;

#[derive(Default)]
pub(super) struct Maintenance {
    last_run: Option<Duration>,
    trimmed: Option<(Position, Duration)>,
}

impl ReplicatedLogLoop {
    /// Runs the maintenance, at an interval.
    pub(super) fn maintain_log(&mut self) {
        let now = self.log.now();
        if self.work.maintenance.last_run.is_some_and(|last| now < last + MAINTENANCE_INTERVAL) {
            return;
        }
        self.work.maintenance.last_run = Some(now);
        let status = self.log.status();
        self.cluster.position.store(status.position.0, Ordering::Relaxed);
        self.cluster.must_checkpoint.store(status.is_suspect, Ordering::Relaxed);
        let room = self.check_room();
        self.take_reports(now);
        if self.work.is_leader {
            self.trim(now, &room);
        }
    }

    fn take_reports(&mut self, now: Duration) {
        let reports: Vec<_> = self.reports.try_iter().collect();
        if !self.work.is_leader {
            return;
        }
        let vote = self.cluster.info.lock().vote;
        let own = self.node.report_with(&self.cluster, vote);
        for report in reports.into_iter().chain([own]) {
            self.work.peers.update(now, report);
        }
        self.work.peers.forget_gone(now);
    }

    fn trim(&mut self, now: Duration, room: &Room) {
        let pressed = room.used > WAIT_FOR_LAGGARDS_MAX || room.is_full;
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
            self.log.trim(floor);
            self.work.maintenance.trimmed = Some((floor, now));
        }
    }

    /// The state of this server may exist nowhere else: it is written to disk at once.
    pub(super) fn force_checkpoint(&mut self) {
        self.cluster.must_checkpoint.store(true, Ordering::Relaxed);
        self.node.housekeeping.ring();
    }

    /// Publishes the room that the log has left, and whether it counts as full.
    pub(super) fn check_room(&mut self) -> Room {
        let room = self.log.room();
        let Room { left, is_full, .. } = room;
        self.node.disk.set_active_room(left);
        if is_full == self.node.disk.is_full() {
            return room;
        }
        self.node.disk.set_full(is_full);
        self.node.housekeeping.ring();
        if is_full && self.work.is_leader {
            tracing::error!(left, "the journal is nearly full: writes are refused until it has been trimmed");
        } else if is_full {
            tracing::warn!(
                left,
                "the journal is nearly full: a checkpoint is taken so that it can be trimmed"
            );
        } else {
            tracing::info!(left, "the journal has room again");
        }
        room
    }
}
