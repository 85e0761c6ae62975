//! Threads: gives the parts of a node their threads.

use std::time::Duration;

use crossbeam_channel::bounded;

use crate::handle::Threads;
use crate::runtime::{Parts, Urgency, spawn};

/// How long housekeeping, on a thread of its own, waits for room in the sequencer's queue.
const ENQUEUE_TIMEOUT: Duration = Duration::from_millis(100);

/// Starts all parts; `run` is the loop of the journal's.
pub(super) fn start<J: Send + 'static>(parts: Parts<J>, run: fn(J)) -> Threads {
    let Parts { sequencer, journal, mut housekeeping, fan_out, lease_thread } = parts;
    housekeeping.set_enqueue_timeout(ENQUEUE_TIMEOUT);
    let (lease_thread_stop, lease_thread_stop_in) = bounded(0);
    let handles = vec![
        spawn("sequencer", Urgency::High, move || sequencer.run()),
        spawn("journal", Urgency::High, move || run(journal)),
        spawn("housekeeping", Urgency::Low, move || housekeeping.run()),
        spawn("leases", Urgency::Usual, move || lease_thread.run(&lease_thread_stop_in)),
    ];
    // Ends by itself soon after the node; nothing depends on when.
    drop(spawn("fan-out", Urgency::Usual, move || fan_out.run()));
    Threads { lease_thread_stop: Some(lease_thread_stop), handles }
}
