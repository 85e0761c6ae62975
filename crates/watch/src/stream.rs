//! Stream: the state of one gRPC watch stream, from requests to responses.
//!
//! Guarantees: the answer to a create precedes every event of that watcher; after the answer to a
//! cancel nothing of that watcher follows; a progress response follows every event at or below its
//! revision; a watcher overtaken by compaction is cancelled when the stream is next drained.
//!
//! Ids behave as in etcd: automatic ids count up from 0 and skip those in use; an id chosen by the
//! client is free again after a cancel; the id of a watcher that compaction cancelled stays taken
//! until the client cancels it too, and that cancel is answered.
//!
//! Requests are handled here; `drain` produces the responses.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::hub::Hub;
use crate::ids::{GroupId, IdRuns, StreamId};
use crate::inbox::Inbox;
use crate::log::EventLog;
use crate::log_event::LogEvent;
use crate::range::KeyRange;
use crate::response::{Create, REASON_COMPACTED, REASON_DUPLICATE, REASON_EMPTY_RANGE, Response};
use crate::stats::{Gauges, add};
use crate::watcher::Watcher;

mod drain;
mod notices;
pub use drain::{Budget, Drained};
use notices::Notices;

#[cfg(test)]
mod tests;

/// Index of a watcher in its stream. Reused.
type Slot = usize;

/// What is remembered of a watcher that compaction cancelled.
const GHOST_BYTES: usize = 64;

/// Watchers that are told of notices while nothing is locked for it.
const UNLOCKED_LOOKS: usize = 16 << 10;

/// So many slots without a watcher may lie in the ready queue, however short it is.
const VACANT_MIN: usize = 64;

/// One watch stream. Owned by the task that serves it.
#[derive(Debug)]
pub struct Stream<E> {
    id: StreamId,
    inbox: Arc<Inbox>,
    gauges: Arc<Gauges>,
    watchers: Vec<Option<Watcher>>,
    free: Vec<Slot>,
    /// Live watchers by id.
    ids: BTreeMap<i64, Slot>,
    /// Ids of watchers that compaction cancelled and the client has not.
    ghosts: BTreeSet<i64>,
    /// All of those, live or not.
    taken: IdRuns,
    /// The watchers of a group; each knows its place in the list.
    by_group: BTreeMap<GroupId, Vec<Slot>>,
    /// Watchers that began above what was published then, by the revision from which on progress
    /// concerns them. Those that were reached since go with the next drain.
    unreached: BTreeSet<(i64, Slot)>,
    /// Answers to creates and cancels, sent before anything else.
    control: VecDeque<Response<E>>,
    /// Watchers that have or may have something to deliver, in turn. A slot whose watcher is gone
    /// stays until its turn comes, and is not used again before.
    ready: VecDeque<Slot>,
    /// How many of those slots are without a watcher.
    vacant: usize,
    notices: Notices,
    /// Watchers from which a tick requested progress, in turn. Those whose `due` flag is not set
    /// any more are skipped.
    due: VecDeque<Slot>,
    /// A progress request waits, to be answered at this revision or later.
    progress: Option<i64>,
    /// Groups to leave when the hub can next be written to.
    retired: Vec<GroupId>,
    /// Bytes that the watchers take, about.
    bytes: usize,
    /// What this stream last added to the gauges: slow watchers, pending events.
    reported: (i64, i64),
    closed: bool,
}

impl<E: LogEvent> Stream<E> {
    /// Opens a stream of `hub`. It must be closed with [`Stream::close`].
    pub fn open(hub: &mut Hub<E>) -> Self {
        let inbox = Arc::new(Inbox::default());
        Stream::new(hub.admit(Arc::clone(&inbox)), inbox, hub.gauges())
    }

    fn new(id: StreamId, inbox: Arc<Inbox>, gauges: Arc<Gauges>) -> Self {
        Stream {
            id,
            inbox,
            gauges,
            watchers: Vec::new(),
            free: Vec::new(),
            ids: BTreeMap::new(),
            ghosts: BTreeSet::new(),
            taken: IdRuns::default(),
            by_group: BTreeMap::new(),
            unreached: BTreeSet::new(),
            control: VecDeque::new(),
            ready: VecDeque::new(),
            vacant: 0,
            notices: Notices::default(),
            due: VecDeque::new(),
            progress: None,
            retired: Vec::new(),
            bytes: 0,
            reported: (0, 0),
            closed: false,
        }
    }

    /// A stream that belongs to no hub and is closed, to be left where one was taken away.
    pub fn closed() -> Self {
        Stream { closed: true, ..Stream::new(StreamId::MAX, Arc::default(), Arc::default()) }
    }

    /// The name under which the hub wakes this stream.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Live watchers of this stream.
    pub fn watchers(&self) -> usize {
        self.ids.len()
    }

    /// Bytes that the watchers of this stream take, about.
    pub fn bytes(&self) -> usize {
        self.bytes + self.ghosts.len() * GHOST_BYTES
    }

    /// Answers to creates and cancels not yet drained. Stop reading requests while this is large.
    pub fn control_backlog(&self) -> usize {
        self.control.len()
    }

    /// Takes notice of what was published so far. Draining does that too, with the hub locked; on a
    /// stream with very many watchers it is better done before.
    pub fn take_notices(&mut self) {
        let published = self.gauges.published.load(Ordering::Acquire);
        self.collect(published, UNLOCKED_LOOKS);
    }

    /// Creates a watcher, or refuses it; the answer is drained like every response. Returns the id
    /// of the watcher.
    pub fn create(&mut self, hub: &mut Hub<E>, log: &EventLog<E>, request: &Create) -> Option<i64> {
        self.release(hub);
        let now = log.last();
        if request.start_revision < 0 {
            return self.refuse(now, REASON_COMPACTED.into());
        }
        let Ok(range) = KeyRange::new(&request.key, &request.range_end) else {
            return self.refuse(now, REASON_EMPTY_RANGE.into());
        };
        let Some(id) = self.claim_id(request.watch_id) else {
            return self.refuse(now, REASON_DUPLICATE.into());
        };
        // Who was there before has his turn before.
        self.collect(hub.published(), drain::LOOKS);
        let mut watcher = Watcher::new(id, request, now);
        watcher.group = hub.join(&range, self.id, &self.inbox, watcher.next);
        watcher.born = log.floor();
        watcher.doomed = request.start_revision > 0 && request.start_revision < log.floor();
        let (progress_from, is_ready) =
            (watcher.progress_from, watcher.doomed || watcher.next <= hub.published());
        let slot = self.add(watcher);
        // Notices so far say nothing about the new watcher, which counts on those to come.
        if is_ready {
            self.enqueue(slot);
        }
        if progress_from > hub.published() {
            self.unreached.insert((progress_from, slot));
        }
        self.control.push_back(Response { created: true, ..Response::new(id, now) });
        self.arm(hub);
        Some(id)
    }

    /// Refuses a create for a reason found outside, such as missing permission. A create with a
    /// negative start revision is to be given to [`Stream::create`] all the same: that refusal
    /// comes first.
    pub fn refuse_create(&mut self, log: &EventLog<E>, reason: impl Into<Cow<'static, str>>) {
        self.refuse(log.last(), reason.into());
    }

    /// Cancels a watcher. An unknown id is not answered; returns whether it was known.
    pub fn cancel(&mut self, hub: &mut Hub<E>, log: &EventLog<E>, id: i64) -> bool {
        self.release(hub);
        let known = match self.ids.get(&id) {
            Some(slot) => {
                let watcher = self.remove(*slot);
                hub.leave(watcher.group, self.id);
                true
            }
            None => self.ghosts.remove(&id),
        };
        if known {
            self.taken.remove(id);
            self.control.push_back(Response { canceled: true, ..Response::new(id, log.last()) });
            self.arm(hub);
        }
        known
    }

    /// Asks for one progress response for the whole stream, at the newest revision or later.
    /// Requests that wait are answered together; a stream without watchers does not answer.
    pub fn request_progress(&mut self, hub: &mut Hub<E>, log: &EventLog<E>) {
        self.release(hub);
        if !self.ids.is_empty() {
            self.progress = Some(log.last());
            self.arm(hub);
        }
    }

    /// An interval has passed: every watcher that wants it and sent no event meanwhile owes its
    /// progress.
    pub fn tick_progress(&mut self) {
        for (slot, watcher) in self.watchers.iter_mut().enumerate() {
            let Some(watcher) = watcher.as_mut().filter(|watcher| watcher.progress_notify) else { continue };
            if !std::mem::take(&mut watcher.sent) && !std::mem::replace(&mut watcher.due, true) {
                self.due.push_back(slot);
            }
        }
    }

    /// Leaves the groups of watchers that a drain had to drop. Call it when a drain says so;
    /// creating and cancelling do it too.
    pub fn release(&mut self, hub: &mut Hub<E>) {
        for group in self.retired.drain(..) {
            hub.leave(group, self.id);
        }
    }

    /// Ends the stream: leaves all groups and forgets everything. Calling it twice does no harm.
    pub fn close(&mut self, hub: &mut Hub<E>) {
        while !self.close_step(hub, usize::MAX) {}
    }

    /// A part of [`Stream::close`], of about `max` watchers. True when the stream is closed; until
    /// then nothing but this may be called.
    pub fn close_step(&mut self, hub: &mut Hub<E>, max: usize) -> bool {
        if self.closed {
            return true;
        }
        self.release(hub);
        for _ in 0..max {
            let ends = [self.watchers.is_empty(), self.ids.is_empty(), self.ghosts.is_empty()];
            if ends.iter().all(|end| *end) {
                self.closed = true;
                self.control.clear();
                self.progress = None;
                self.report(0, 0);
                hub.close(self.id);
                return true;
            }
            if let Some(watcher) = self.watchers.pop().flatten() {
                hub.leave(watcher.group, self.id);
                add(&self.gauges.watchers, -1);
            }
            // Bit by bit, so that little is left to be freed in the end.
            self.ids.pop_first();
            self.ghosts.pop_first();
            self.taken.pop_first();
            self.by_group.pop_first();
            self.unreached.pop_first();
        }
        false
    }

    fn refuse(&mut self, now: i64, reason: Cow<'static, str>) -> Option<i64> {
        self.control.push_back(Response::refused(now, reason));
        None
    }

    /// The id of a new watcher: the wanted one if it is free, or the next free one for 0.
    fn claim_id(&mut self, wanted: i64) -> Option<i64> {
        let taken = |id: &i64| self.ids.contains_key(id) || self.ghosts.contains(id);
        if wanted != 0 {
            return (!taken(&wanted)).then_some(wanted);
        }
        let id = self.taken.free_from(self.taken.next);
        self.taken.next = id + 1;
        Some(id)
    }

    fn add(&mut self, watcher: Watcher) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.watchers.push(None);
            self.watchers.len() - 1
        });
        let peers = self.by_group.entry(watcher.group).or_default();
        self.ids.insert(watcher.id, slot);
        self.taken.insert(watcher.id);
        self.bytes += watcher.bytes;
        self.watchers[slot] = Some(Watcher { peer: peers.len(), ..watcher });
        peers.push(slot);
        add(&self.gauges.watchers, 1);
        slot
    }

    /// Takes a watcher out of everything but its group. A progress request dies with the last
    /// watcher. What it costs does not depend on how many watchers there are: a client may cancel
    /// all of them one by one.
    fn remove(&mut self, slot: Slot) -> Watcher {
        let watcher = self.watchers[slot].take().expect("a watcher is removed once");
        self.ids.remove(&watcher.id);
        self.bytes -= watcher.bytes;
        self.unreached.remove(&(watcher.progress_from, slot));
        let peers = self.by_group.get_mut(&watcher.group).expect("a watcher is listed under its group");
        assert!(peers.swap_remove(watcher.peer) == slot, "a watcher knows its place in the list");
        if let Some(moved) = peers.get(watcher.peer).copied() {
            self.watchers[moved].as_mut().expect("only live watchers are listed").peer = watcher.peer;
            self.moved_up(moved, watcher.group, watcher.peer);
        } else if peers.is_empty() {
            self.by_group.remove(&watcher.group);
        }
        if watcher.queued {
            self.vacant += 1;
            self.sweep_ready();
        } else {
            self.free.push(slot);
        }
        if self.ids.is_empty() {
            self.progress = None;
        }
        add(&self.gauges.watchers, -1);
        watcher
    }

    /// Takes slots without a watcher out of the ready queue once they are the greater part of it.
    fn sweep_ready(&mut self) {
        if self.vacant <= VACANT_MIN || self.vacant <= self.ready.len() / 2 {
            return;
        }
        let Stream { watchers, free, ready, .. } = self;
        ready.retain(|slot| {
            let is_live = watchers[*slot].is_some();
            if !is_live {
                free.push(*slot);
            }
            is_live
        });
        self.vacant = 0;
    }

    /// The watcher whose turn it is. It counts as queued until the caller says otherwise.
    fn next_ready(&mut self) -> Option<Slot> {
        loop {
            let slot = self.ready.pop_front()?;
            if self.watchers[slot].is_some() {
                return Some(slot);
            }
            self.vacant -= 1;
            self.free.push(slot);
        }
    }

    /// How many watchers are in the ready queue.
    fn ready_watchers(&self) -> usize {
        self.ready.len() - self.vacant
    }

    fn enqueue(&mut self, slot: Slot) {
        let watcher = self.watchers[slot].as_mut().expect("only live watchers are queued");
        if !std::mem::replace(&mut watcher.queued, true) {
            self.ready.push_back(slot);
        }
    }

    /// Has the hub wake this stream at the revision that a waiting progress request needs: the one
    /// it asked for, or the highest start revision of its watchers. Both change only here and in
    /// requests, which is why draining need not write to the hub.
    fn arm(&mut self, hub: &mut Hub<E>) {
        let start = self.unreached.last().map_or(0, |(revision, _)| *revision);
        let needed = self.progress.map(|asked| asked.max(start));
        hub.set_alarm(self.id, needed.filter(|needed| *needed > hub.published()));
    }

    /// Replaces what this stream contributes to the gauges.
    fn report(&mut self, slow: i64, pending: i64) {
        add(&self.gauges.slow_watchers, slow - self.reported.0);
        add(&self.gauges.pending_events, pending - self.reported.1);
        self.reported = (slow, pending);
    }
}
