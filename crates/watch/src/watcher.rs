//! Watcher: one cursor, and the rule by which it moves.
//!
//! The cursor `next` is the lowest revision not yet handed out or ruled out. At or above the start
//! of the group's ring it is served live, one revision per response; below, it reads the log in
//! batches. Both move the same cursor and both end at the hub's published revision, so there is no
//! border at which an event could be lost or doubled. Nothing else moves the cursor, so publishing
//! costs an idle watcher nothing: a cursor that lies behind but finds nothing in the ring is as
//! good as one at the front.
//!
//! A watcher is cancelled when its cursor is below both the ring and the compaction floor. While
//! the ring still holds what it needs it is served, even below the floor: compaction up to the
//! newest revision does not cancel watchers that are only slightly behind. A watcher that *begins*
//! at the floor reads it from the log even if the ring has it: only watchers from
//! before the compaction get the previous values of the floor's events.

use vetch_seeded_bugs::Bug;

use crate::hub::Hub;
use crate::ids::GroupId;
use crate::log::{EventLog, ScanBudget};
use crate::log_event::LogEvent;
use crate::matched::Match;
use crate::range::Filters;
use crate::response::Create;

/// Most revisions in one catch-up response.
pub(crate) const BATCH_REVISIONS: usize = 1000;

#[derive(Debug)]
pub(crate) struct Watcher {
    pub(crate) id: i64,
    pub(crate) group: GroupId,
    pub(crate) next: i64,
    /// Progress below this revision would be about a time before the watch: the start revision, or
    /// the revision at which the watcher was created.
    pub(crate) progress_from: i64,
    /// Started below the compaction floor. Such a watcher is cancelled even if the ring of its
    /// group still remembers what compaction removed.
    pub(crate) doomed: bool,
    /// The compaction floor when the watcher was created.
    pub(crate) born: i64,
    pub(crate) filters: Filters,
    pub(crate) prev_kv: bool,
    pub(crate) fragment: bool,
    pub(crate) progress_notify: bool,
    /// An event was sent since the last tick.
    pub(crate) sent: bool,
    /// A tick asked for progress that has not been sent yet.
    pub(crate) due: bool,
    /// In the ready queue of its stream: there is or may be something to deliver.
    pub(crate) queued: bool,
    /// Its place among the watchers of the same group and stream.
    pub(crate) peer: usize,
    /// What it takes of memory, about.
    pub(crate) bytes: usize,
}

/// What a watcher has to say.
#[derive(Debug)]
pub(crate) enum Poll<E> {
    /// Whole revisions, with the revision for the header.
    Batch { revisions: Vec<Match<E>>, header: i64 },
    /// Synced: everything published was handed out.
    Idle,
    /// Looked at history without a match; there is more history.
    Working,
    /// Compaction overtook the cursor.
    Compacted(i64),
}

impl Watcher {
    /// One that is in no group yet.
    pub(crate) fn new(id: i64, request: &Create, now: i64) -> Watcher {
        let (next, progress_from) = match request.start_revision {
            0 => (now + 1, now),
            start if vetch_seeded_bugs::on(Bug::FutureWatchEarly) => (start.min(now + 1), start.max(now)),
            start => (start, start.max(now)),
        };
        Watcher {
            id,
            group: GroupId::MAX,
            next,
            progress_from,
            doomed: false,
            born: 0,
            filters: request.filters,
            prev_kv: request.prev_kv,
            fragment: request.fragment,
            progress_notify: request.progress_notify,
            sent: false,
            due: false,
            queued: false,
            peer: 0,
            bytes: request.bytes(),
        }
    }

    /// Moves the cursor as far as one response goes. Returns the events examined along the way too.
    pub(crate) fn poll<E: LogEvent>(
        &mut self,
        hub: &Hub<E>,
        log: &EventLog<E>,
        budget: ScanBudget,
    ) -> (Poll<E>, usize) {
        if self.doomed {
            return (Poll::Compacted(log.floor()), 0);
        }
        if self.next > hub.published() {
            return (Poll::Idle, 0);
        }
        if self.next >= hub.group(self.group).ring.start() && self.next > self.born {
            return self.poll_ring(hub);
        }
        if self.next < log.floor() {
            return (Poll::Compacted(log.floor()), 0);
        }
        self.poll_history(hub, log, budget)
    }

    fn poll_ring<E: LogEvent>(&mut self, hub: &Hub<E>) -> (Poll<E>, usize) {
        let group = hub.group(self.group);
        let mut examined = 1;
        for entry in group.ring.matches(self.next, hub.published()) {
            self.next = entry.rev + 1;
            examined += entry.events.cost();
            if let Some(found) = Match::of(entry.rev, &entry.events, &group.range, self.filters) {
                return (Poll::Batch { revisions: vec![found], header: entry.rev }, examined);
            }
        }
        self.next = hub.published() + 1;
        (Poll::Idle, examined)
    }

    fn poll_history<E: LogEvent>(
        &mut self,
        hub: &Hub<E>,
        log: &EventLog<E>,
        budget: ScanBudget,
    ) -> (Poll<E>, usize) {
        let published = hub.published();
        let range = &hub.group(self.group).range;
        let scan = log.scan(self.next, published, range, self.filters, budget);
        self.next = scan.next;
        if self.next > published {
            let is_live = published >= hub.group(self.group).ring.start();
            self.next += i64::from(vetch_seeded_bugs::on(Bug::EventLost));
            self.next -= i64::from(vetch_seeded_bugs::on(Bug::EventDoubled) && is_live);
        }
        let poll = match scan.revisions.is_empty() {
            false => Poll::Batch { revisions: scan.revisions, header: published },
            true if self.next > published => Poll::Idle,
            true => Poll::Working,
        };
        (poll, scan.examined)
    }

    /// Revisions this watcher may still have to deliver; exact while it is served from the ring.
    pub(crate) fn backlog<E: LogEvent>(&self, hub: &Hub<E>) -> i64 {
        let ring = &hub.group(self.group).ring;
        if self.next >= ring.start() {
            ring.count(self.next, hub.published()) as i64
        } else {
            (hub.published() + 1 - self.next).max(0)
        }
    }
}
