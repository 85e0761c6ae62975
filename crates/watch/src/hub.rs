//! Hub: matches published revisions against all watcher groups and says which streams to wake.
//!
//! Guarantees: every match at or below `published` is in the ring of its group or was dropped from
//! it (then the ring's start says so); a stream that has something new to look at is named in the
//! wake set, unless it was named before and has not drained since. Publishing never waits for a
//! watcher. It goes in steps of bounded work whatever is watched (`matching`); what of a revision
//! is in rings and inboxes before all of it is stays unseen until then.
//!
//! Not here: cursors. They belong to the streams, so that draining needs only shared access to the
//! hub.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use crate::group::{Group, Groups};
use crate::ids::{GroupId, StreamId};
use crate::inbox::Inbox;
use crate::log_event::LogEvent;
use crate::range::KeyRange;
use crate::ring::RingLimit;
use crate::stats::{Gauges, add};

mod matching;
pub use matching::Fresh;
use matching::Matching;

#[cfg(test)]
mod tests;

/// All watcher groups, and the streams that belong to them.
#[derive(Debug)]
pub struct Hub<E> {
    groups: Groups<E>,
    limit: RingLimit,
    published: i64,
    next_stream: StreamId,
    streams: BTreeMap<StreamId, OpenStream>,
    /// The wishes of streams by revision.
    alarms: BTreeSet<(i64, StreamId)>,
    /// Floor of the last compaction.
    floor: i64,
    /// Ring entries below this are to be dropped, from this group slot on.
    sweep: Option<(i64, usize)>,
    gauges: Arc<Gauges>,
    /// Revisions that are being matched.
    matching: Option<Matching<E>>,
    /// Streams that have left notices about revisions that are being matched in their inboxes.
    early: Mutex<Vec<StreamId>>,
}

/// What the hub knows of a stream.
#[derive(Debug)]
struct OpenStream {
    /// The revision at which to wake the stream.
    wish: Option<i64>,
    inbox: Arc<Inbox>,
}

/// A stream that has something left to deliver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Behind {
    pub stream: StreamId,
    /// The lowest revision that it may have to deliver.
    pub revision: i64,
    /// What a watcher that waits for it watches, if that is known.
    pub range: Option<KeyRange>,
}

/// What a step of publishing leads to.
#[must_use = "the streams named here must be woken"]
#[derive(Debug)]
pub struct Published<E> {
    /// Streams to wake.
    pub wake: Vec<StreamId>,
    /// True if there is more to do before further revisions can be given.
    pub more: bool,
    /// Those revisions, once all of them are published. Drop them after releasing the lock.
    pub done: Option<Fresh<E>>,
}

impl<E: LogEvent> Hub<E> {
    /// A hub that has published everything up to `published`.
    pub fn new(limit: RingLimit, published: i64) -> Self {
        let gauges = Gauges::default();
        gauges.published.store(published, Ordering::Release);
        Hub {
            groups: Groups::new(),
            limit,
            published,
            next_stream: 0,
            streams: BTreeMap::new(),
            alarms: BTreeSet::new(),
            floor: 0,
            sweep: None,
            gauges: Arc::new(gauges),
            matching: None,
            early: Mutex::default(),
        }
    }

    /// Admits a new stream, which must leave with [`Hub::close`].
    pub(crate) fn admit(&mut self, inbox: Arc<Inbox>) -> StreamId {
        let id = self.next_stream;
        self.next_stream += 1;
        add(&self.gauges.streams, 1);
        self.streams.insert(id, OpenStream { wish: None, inbox });
        id
    }

    /// Newest revision whose matches are in the rings.
    pub fn published(&self) -> i64 {
        self.published
    }

    /// Counters for metrics.
    pub fn gauges(&self) -> Arc<Gauges> {
        Arc::clone(&self.gauges)
    }

    /// All streams that have something left to deliver, be it because they are slow or because they
    /// were notified just now.
    pub fn behind(&self) -> impl Iterator<Item = Behind> {
        self.streams.iter().filter_map(|(stream, open)| {
            let (revision, group) = open.inbox.oldest()?;
            Some(Behind { stream: *stream, revision, range: self.groups.range(group).cloned() })
        })
    }

    /// Matches that all rings hold. Their events are shared; a match takes some 24 bytes.
    pub fn held(&self) -> usize {
        self.groups.held()
    }

    /// Distinct ranges watched.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Begins to publish the revisions that come next.
    pub fn begin(&mut self, fresh: Fresh<E>) {
        assert!(self.matching.is_none(), "the revisions before are published first");
        assert!(fresh.first() == self.published + 1, "revisions are published in order");
        self.matching = Some(Matching::new(fresh));
    }

    /// True if revisions were given to the hub of which not all are published.
    pub fn is_matching(&self) -> bool {
        self.matching.is_some()
    }

    /// Does about so much of what is to be done: a watched range that was looked at counts as one,
    /// and so does a stream that was told. A range or key of many kilobytes counts as more.
    pub fn step(&mut self, work: usize) -> Published<E> {
        let mut left = work.max(1);
        let mut wake = Vec::new();
        self.ring_alarms(&mut left, &mut wake);
        let mut done = None;
        while let Some(mut matching) = self.matching.take() {
            let upto = matching.step(&mut self.groups, self.limit, &mut left);
            if let Some(upto) = upto {
                self.publish(upto, matching.take_wakes(), &mut wake);
            }
            if matching.is_done() {
                done = Some(matching.into_fresh());
                break;
            }
            self.matching = Some(matching);
            if left == 0 {
                break;
            }
        }
        self.ring_alarms(&mut left, &mut wake);
        let more = self.matching.is_some() || self.has_alarm();
        Published { wake, more, done }
    }

    /// All that was matched becomes visible, and its notices with it.
    fn publish(&mut self, upto: i64, told: Vec<StreamId>, wake: &mut Vec<StreamId>) {
        self.published = upto;
        self.gauges.published.store(upto, Ordering::Release);
        wake.extend(told);
        wake.append(self.early.get_mut());
    }

    /// Notes a compaction. Ring entries below the compaction *before* this one are dropped by
    /// [`Hub::sweep_step`]: until then they still serve watchers that are a moment behind, which a
    /// compaction up to the newest revision would cancel otherwise. Takes no time, and may come
    /// long after the log was compacted.
    pub fn compact(&mut self, floor: i64) {
        if floor <= self.floor {
            return;
        }
        if self.floor > 0 {
            self.sweep = Some((self.floor, 0));
        }
        self.floor = floor;
    }

    /// Sweeps up to `max` groups; true if nothing is left to sweep.
    pub fn sweep_step(&mut self, max: usize) -> bool {
        let Some((below, from)) = self.sweep else { return true };
        let to = from + max.max(1);
        let done = self.groups.drop_below(below, from, to);
        self.sweep = (!done).then_some((below, to));
        done
    }

    pub(crate) fn group(&self, id: GroupId) -> &Group<E> {
        self.groups.get(id)
    }

    /// Adds a watcher of a stream to the group of its range. Its first revision is `next`.
    pub(crate) fn join(
        &mut self,
        range: &KeyRange,
        stream: StreamId,
        inbox: &Arc<Inbox>,
        next: i64,
    ) -> GroupId {
        let (id, is_new) = self.groups.join(range, stream, inbox, self.published + 1);
        let Some(matching) = &mut self.matching else { return id };
        if is_new {
            matching.catch_up(&mut self.groups, id, self.limit);
        }
        // The other members may have been told of what is being matched. What the ring could not
        // keep may have been a match.
        let (ring, from) = (&self.groups.get(id).ring, next.max(self.published + 1));
        let first = if from < ring.start() { Some(from) } else { ring.first_from(from) };
        if let Some(first) = first
            && inbox.post(id, first, ring.newest())
        {
            matching.wake(stream);
        }
        id
    }

    /// A stream with notices about what is being matched is woken when it is published.
    pub(crate) fn note_early(&self, stream: StreamId) {
        self.early.lock().push(stream);
    }

    pub(crate) fn leave(&mut self, group: GroupId, stream: StreamId) {
        self.groups.leave(group, stream);
    }

    /// Has the stream woken once `revision` is published; replaces its earlier wish.
    pub(crate) fn set_alarm(&mut self, stream: StreamId, revision: Option<i64>) {
        let open = self.streams.get_mut(&stream).expect("the stream is open");
        if let Some(old) = std::mem::replace(&mut open.wish, revision) {
            self.alarms.remove(&(old, stream));
        }
        if let Some(new) = revision {
            self.alarms.insert((new, stream));
        }
    }

    pub(crate) fn close(&mut self, stream: StreamId) {
        self.set_alarm(stream, None);
        self.streams.remove(&stream);
        add(&self.gauges.streams, -1);
    }

    /// True if a stream waits for a revision that is published.
    pub(crate) fn has_alarm(&self) -> bool {
        self.alarms.first().is_some_and(|(revision, _)| *revision <= self.published)
    }

    /// Adds the streams that waited for a revision that is now published.
    fn ring_alarms(&mut self, left: &mut usize, wake: &mut Vec<StreamId>) {
        while *left > 0 && self.has_alarm() {
            let Some((_, stream)) = self.alarms.first().copied() else { break };
            self.set_alarm(stream, None);
            wake.push(stream);
            *left -= 1;
        }
    }
}
