//! The sequencer's thread: waits for requests, has a round of them decided (`round.rs`), and passes
//! on the batches of it.
//!
//! Few writers share a sync as well. A sync costs the processor more than a request does, and the
//! first who asks after one would have the next all to itself. So it waits for most of those who
//! were there at the last one, and no longer than a few syncs take. Whoever is alone waits for
//! nobody.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use crossbeam_channel::{TryRecvError, TrySendError};

use crate::admission::Admission;
use crate::checkpoint::Capture;
use crate::queue::{Receiver, Sender};
use crate::runtime::Step;
use crate::runtime::journal_loop::ShortWay;
use crate::sequencer::{Batch, Sequencer};
use crate::shared::{Ask, Reply, Shared};

/// Short batches in a row after which there are likely to be more of them.
const CALM: usize = 8;

/// A batch with more than this is not short, however few requests it has: what it takes to write it
/// is worth a thread.
const SHORT_BYTES: usize = 256 << 10;

/// One of so many writers is not waited for.
const LATE: usize = 8;
/// How long writers are waited for, in syncs, and at most.
const MOMENT_SYNCS: u32 = 3;
const MOMENT: Duration = Duration::from_micros(500);

/// The part that decides.
pub struct SequencerLoop {
    pub(crate) shared: Arc<Shared>,
    pub(crate) asks: Receiver<Ask>,
    pub(crate) batches: Sender<Batch<Reply>>,
    /// To a journal of one's own.
    pub(crate) short_way: ShortWay,
    /// Rounds in a row that were short.
    pub(crate) calm: usize,
    /// Behind a sync on this thread.
    pub(crate) linger: Option<Linger>,
    pub(crate) sequencer: Sequencer,
    pub(crate) admission: Admission,
    /// What the rounds so far have left to hand on.
    pub(crate) ready: Ready,
}

/// Whether the journal's thread is waited for.
enum Room {
    Awaited,
    Now,
}

/// Whom to wait for.
pub(crate) struct Linger {
    /// Those whom the last sync answered, and those who had come by then.
    writers: usize,
    until: Instant,
}

/// What a round leaves to do once the store is unlocked.
#[derive(Default)]
pub(crate) struct Ready {
    pub(super) batches: VecDeque<Batch<Reply>>,
    pub(super) captures: Vec<(SyncSender<Capture>, Capture)>,
    pub(super) stop: bool,
}

impl SequencerLoop {
    pub(crate) fn run(mut self) {
        loop {
            // The store is unlocked by now: the journal's thread needs it to make room in this very
            // queue.
            if matches!(self.pass_on(Room::Awaited), Step::Ended) {
                return;
            }
            self.asks.wait(None);
            if let Some(Linger { writers, until }) = self.linger.take() {
                self.asks.linger(writers - writers / LATE, until);
            }
            let Ok(ask) = self.asks.recv() else { return };
            self.round(ask);
        }
    }

    /// One round, if there is something queued and the journal takes what the last one made.
    pub fn step(&mut self) -> Step {
        match self.pass_on(Room::Now) {
            Step::Worked => {}
            other => return other,
        }
        match self.asks.try_recv() {
            Ok(ask) => {
                self.round(ask);
                Step::Worked
            }
            Err(TryRecvError::Empty) => Step::Idle,
            Err(TryRecvError::Disconnected) => Step::Ended,
        }
    }

    /// Hands on what the rounds so far have left. Idle if there is no room for it.
    fn pass_on(&mut self, room: Room) -> Step {
        while !self.ready.batches.is_empty() {
            match self.append_short() {
                Some(Step::Ended) => return Step::Ended,
                Some(_) => continue,
                None => {}
            }
            let Some(batch) = self.ready.batches.pop_front() else { break };
            let sent = match room {
                Room::Awaited => self.batches.send(batch).map_err(TrySendError::from),
                Room::Now => self.batches.try_send(batch),
            };
            match sent {
                Ok(()) => {}
                Err(TrySendError::Full(batch)) => {
                    self.ready.batches.push_front(batch);
                    return Step::Idle;
                }
                Err(TrySendError::Disconnected(_)) => return Step::Ended,
            }
        }
        self.hand_out_captures();
        if self.ready.stop { Step::Ended } else { Step::Worked }
    }

    /// Appends the next batch here if it is short, as those before it were; None if it is for the
    /// journal's thread. Where many write, the next ones are decided while a batch is synced, and
    /// another thread has to do that.
    fn append_short(&mut self) -> Option<Step> {
        let (short, batch) = (self.shared.config.tuning.short_batch, self.ready.batches.front()?);
        let answered = batch.replies.len();
        let bytes = batch.entry.as_ref().map_or(0, |entry| entry.bytes().len());
        let is_short = answered <= short && bytes <= SHORT_BYTES;
        self.calm = if is_short { (self.calm + 1).min(CALM) } else { 0 };
        if self.calm < CALM {
            return None;
        }
        let began = Instant::now();
        let step = self.short_way.append(&mut self.ready.batches)?;
        let now = Instant::now();
        let waiting = self.asks.len();
        if waiting < short {
            let moment = MOMENT.min((now - began) * MOMENT_SYNCS);
            self.linger = Some(Linger { writers: answered + waiting, until: now + moment });
        }
        Some(step)
    }

    fn hand_out_captures(&mut self) {
        for (reply, capture) in self.ready.captures.drain(..) {
            // Nobody waits any more when housekeeping has ended; the next start replays the
            // journal.
            let _ = reply.send(capture);
        }
    }
}
