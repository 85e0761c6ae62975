//! The clock's thread: revokes leases whose time is over, and now and then writes down how much
//! time is left.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::TrySendError;
use tokio::sync::oneshot;
use vetch_store::request::{Remaining, WriteRequest};

use crate::clock::Recording;
use crate::runtime::Step;
use crate::shared::{Ask, Shared};

const TICK: Duration = Duration::from_millis(200);
/// Revokes are kept to this share of the sequencer's queue, so that mass expiry never locks clients
/// out.
const QUEUE_SHARE: usize = 2;
/// How often busy prefixes may take the places of idle ones.
const TURN: Duration = Duration::from_secs(10);

/// The part that ends leases.
pub struct ClockLoop {
    pub(crate) shared: Arc<Shared>,
    pub(crate) last_record: Duration,
    /// When prefixes last changed places.
    pub(crate) last_turn: Duration,
}

impl ClockLoop {
    pub(crate) fn run(mut self, stop: &crossbeam_channel::Receiver<()>) {
        while stop.recv_timeout(TICK).is_err_and(|error| error.is_timeout()) {
            self.step();
        }
    }

    /// One tick. There is always another, until the node stops.
    pub fn step(&mut self) -> Step {
        if self.shared.is_stopping() {
            return Step::Ended;
        }
        // The server that is followed ends leases; its word for it comes as deletes.
        if self.shared.is_following() {
            return Step::Idle;
        }
        expire(&self.shared);
        let now = self.shared.time.now();
        self.shared.moments.lock().note(now, self.shared.revision.load(Ordering::Relaxed));
        if now - self.last_turn >= TURN {
            self.last_turn = now;
            self.shared.prefixes.lock().turn();
        }
        let tuning = &self.shared.config.tuning;
        if now - self.last_record >= tuning.record_every {
            self.last_record = now;
            // Shorter leases simply get their full time again after a restart. What does not fit
            // now comes next time.
            record(&self.shared, tuning.recorded_ttl);
        }
        Step::Idle
    }
}

fn expire(shared: &Arc<Shared>) {
    let waiting = shared.asks.len();
    let allowed = (shared.config.queue_depth / QUEUE_SHARE)
        .saturating_sub(waiting)
        .min(shared.config.tuning.expired_per_tick);
    let expired = shared.clock.lock().expire(shared.now(), allowed);
    for (id, grant) in expired {
        let (reply, _) = oneshot::channel();
        let ask = Ask::write(WriteRequest::LeaseExpire { id, grant }, reply);
        shared.metrics.proposals_pending.add(1);
        match shared.asks.try_send(ask) {
            Ok(()) => shared.metrics.leases_expired.add(1),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                shared.metrics.proposals_pending.add(-1);
                shared.clock.lock().revoke_failed(id);
            }
        }
    }
}

/// Journals how much time leases of at least `min_ttl` seconds have left. False if some could not
/// be handed in.
///
/// The clock stays locked until they are in the queue, so that no renewal slips in between; which
/// is why a full queue is not waited for.
pub(crate) fn record(shared: &Arc<Shared>, min_ttl: i64) -> bool {
    let mut from = Some(i64::MIN);
    while let Some(id) = from {
        let mut clock = shared.clock.lock();
        let (recordings, next) = clock.begin_recording(
            id,
            shared.now(),
            min_ttl,
            shared.config.tuning.record_slack,
            shared.config.tuning.records_per_request,
        );
        from = next;
        if recordings.is_empty() {
            continue;
        }
        let (reply, _) = oneshot::channel();
        let leases = recordings.iter().map(Remaining::from).collect();
        let ask = Ask::write(WriteRequest::LeaseRemaining { leases }, reply);
        shared.metrics.proposals_pending.add(1);
        if shared.asks.try_send(ask).is_err() {
            shared.metrics.proposals_pending.add(-1);
            clock.not_recorded(&recordings);
            return false;
        }
    }
    true
}

impl From<&Recording> for Remaining {
    fn from(recording: &Recording) -> Remaining {
        Remaining { id: recording.id, grant: recording.grant, seconds: recording.left }
    }
}
