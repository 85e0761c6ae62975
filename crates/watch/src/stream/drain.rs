//! Draining: turns what the watchers of a stream have to say into responses, within a budget.
//!
//! Order: answers to requests first; then the ready watchers in turn, one response each, so that a
//! busy one does not starve the others; then progress, per watcher once it is not in the ready
//! queue, and for the whole stream once that queue is empty. An empty queue means that everything
//! published was handed out, because notices are taken from the inbox under the same shared borrow
//! of the hub that fixes `published`, and there is no progress before all watchers were told.

use vetch_seeded_bugs::Bug;

use super::{Slot, Stream};
use crate::hub::Hub;
use crate::ids::GroupId;
use crate::log::{EventLog, ScanBudget};
use crate::log_event::LogEvent;
use crate::matched::Match;
use crate::response::{NO_WATCH, Response};
use crate::watcher::{BATCH_REVISIONS, Poll};

/// Watchers that are told of notices in one drain.
pub(super) const LOOKS: usize = if cfg!(test) { 2 } else { 1024 };

/// Watchers that are looked at for the gauges after a drain.
const EXAMINED_MAX: usize = 256;

/// Watchers that one drain looks at because they owe their progress.
const DUE_EXAMINED_MAX: usize = 1024;

/// Bounds on one drain. Each is checked before a response is made, so it can be overrun by one
/// whole revision, which is never split.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Responses produced.
    pub responses: usize,
    /// Events handed out.
    pub events: usize,
    /// Bytes of events handed out.
    pub bytes: usize,
    /// Events of the history looked at; this is what bounds the time a lock is held.
    pub examined: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { responses: 256, events: 4096, bytes: 1 << 20, examined: 2048 }
    }
}

/// What is left after a drain.
#[must_use = "a stream with more to say is not woken again for it"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// There is more to drain right now.
    pub more: bool,
    /// Watchers were dropped: call [`Stream::release`] when convenient.
    pub release: bool,
}

/// What remains of a budget.
struct Meter {
    left: Budget,
}

impl Meter {
    /// A budget of nothing would never let the stream advance, so every bound is at least one.
    fn new(budget: Budget) -> Self {
        let left = Budget {
            responses: budget.responses.max(1),
            events: budget.events.max(1),
            bytes: budget.bytes.max(1),
            examined: budget.examined.max(1),
        };
        Meter { left }
    }

    fn is_spent(&self) -> bool {
        let left = &self.left;
        left.responses == 0 || left.events == 0 || left.bytes == 0 || left.examined == 0
    }

    fn response(&mut self) {
        self.left.responses = self.left.responses.saturating_sub(1);
    }

    fn scan_budget(&self) -> ScanBudget {
        ScanBudget {
            examined: self.left.examined,
            revisions: BATCH_REVISIONS,
            events: self.left.events,
            bytes: self.left.bytes,
        }
    }
}

impl<E: LogEvent> Stream<E> {
    /// Appends responses to `out` until the budget is spent or nothing is left to say.
    pub fn drain(
        &mut self,
        hub: &Hub<E>,
        log: &EventLog<E>,
        budget: Budget,
        out: &mut Vec<Response<E>>,
    ) -> Drained {
        let mut meter = Meter::new(budget);
        while meter.left.responses > 0 {
            let Some(answer) = self.control.pop_front() else { break };
            meter.response();
            out.push(answer);
        }
        // From here on, answers that are left over mean that no response is left in the budget
        // either.
        if self.collect(hub.published(), LOOKS) && self.notices.early_at != Some(hub.published()) {
            self.notices.early_at = Some(hub.published());
            hub.note_early(self.id);
        }
        while !meter.is_spent() {
            let Some(slot) = self.next_ready() else { break };
            self.serve(slot, hub, log, &mut meter, out);
        }
        while self.unreached.first().is_some_and(|(revision, _)| *revision <= hub.published()) {
            self.unreached.pop_first();
        }
        // Who was not told of a notice may have something to say before its progress.
        let is_told = self.notices.looks.is_empty();
        let owed = !is_told || self.report_progress(hub, &mut meter, out);
        self.report_backlog(hub);
        Drained {
            more: owed || !self.control.is_empty() || self.ready_watchers() > 0,
            release: !self.retired.is_empty(),
        }
    }

    /// Updates the gauges of the backlog. Of very many watchers only the first are examined, which
    /// have waited longest, and the rest is estimated from them.
    fn report_backlog(&mut self, hub: &Hub<E>) {
        let (mut seen, mut pending, mut oldest) = (0, 0, None::<(i64, GroupId)>);
        for watcher in self.ready.iter().take(EXAMINED_MAX).filter_map(|slot| self.watchers[*slot].as_ref()) {
            let cursor = (watcher.next, watcher.group);
            oldest = Some(oldest.map_or(cursor, |oldest| oldest.min(cursor)));
            pending += watcher.backlog(hub);
            seen += 1;
        }
        let waiting = self.ready_watchers() as i64;
        if waiting > seen {
            pending = pending.saturating_mul(waiting) / seen.max(1);
        }
        self.inbox.leave(oldest);
        self.report(waiting, pending);
    }

    /// Gives one watcher its turn. It goes back to the end of the queue unless it has nothing left.
    fn serve(
        &mut self,
        slot: Slot,
        hub: &Hub<E>,
        log: &EventLog<E>,
        meter: &mut Meter,
        out: &mut Vec<Response<E>>,
    ) {
        let watcher = self.watchers[slot].as_mut().expect("only live watchers are queued");
        let (poll, examined) = watcher.poll(hub, log, meter.scan_budget());
        meter.left.examined = meter.left.examined.saturating_sub(examined);
        match poll {
            Poll::Idle => {
                watcher.queued = false;
                return;
            }
            Poll::Working => {}
            Poll::Batch { revisions, header } => {
                watcher.sent = true;
                let (prev_kv, fragment) = (watcher.prev_kv, watcher.fragment);
                let response = Response::new(watcher.id, header);
                let response = Response { revisions, prev_kv, fragment, ..response };
                let events = response.revisions.iter().map(Match::len).sum();
                let bytes = response.revisions.iter().map(Match::bytes).sum();
                meter.left.events = meter.left.events.saturating_sub(events);
                meter.left.bytes = meter.left.bytes.saturating_sub(bytes);
                meter.response();
                out.push(response);
                // An event says as much as the progress that was owed.
                watcher.due = false;
            }
            Poll::Compacted(floor) => {
                watcher.queued = false;
                self.cancel_compacted(slot, floor, meter, out);
                return;
            }
        }
        self.ready.push_back(slot);
    }

    /// Tells the client that compaction overtook a watcher. The header has no revision, as in etcd.
    fn cancel_compacted(&mut self, slot: Slot, floor: i64, meter: &mut Meter, out: &mut Vec<Response<E>>) {
        let watcher = self.remove(slot);
        self.ghosts.insert(watcher.id);
        self.retired.push(watcher.group);
        meter.response();
        out.push(Response { canceled: true, compact_revision: floor, ..Response::new(watcher.id, 0) });
    }

    /// Sends the progress that is owed and allowed. True if some is left for the next drain.
    fn report_progress(&mut self, hub: &Hub<E>, meter: &mut Meter, out: &mut Vec<Response<E>>) -> bool {
        let published = hub.published();
        for _ in 0..self.due.len().min(DUE_EXAMINED_MAX) {
            let Some(slot) = self.due.pop_front() else { break };
            let Some(watcher) = self.watchers[slot].as_mut().filter(|watcher| watcher.due) else { continue };
            if watcher.queued || (meter.left.responses == 0 && watcher.progress_from <= published) {
                self.due.push_back(slot);
                continue;
            }
            watcher.due = false;
            if watcher.progress_from <= published {
                meter.response();
                out.push(Response { progress: true, ..Response::new(watcher.id, published) });
            }
        }
        let Some(answer) = self.progress_answer(published) else { return !self.due.is_empty() };
        if meter.left.responses == 0 {
            return true;
        }
        self.progress = None;
        meter.response();
        out.push(answer);
        !self.due.is_empty()
    }

    /// The answer to a waiting progress request, if it may be given at `published`.
    fn progress_answer(&self, published: i64) -> Option<Response<E>> {
        let asked = self.progress?;
        let watched = self.unreached.last().is_none_or(|(revision, _)| *revision <= published);
        let is_idle = self.ready_watchers() == 0 || vetch_seeded_bugs::on(Bug::ProgressAhead);
        (is_idle && asked <= published && watched)
            .then(|| Response { progress: true, ..Response::new(NO_WATCH, published) })
    }
}
