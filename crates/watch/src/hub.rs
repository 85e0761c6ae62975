//! Hub: matches published revisions against all watcher groups and says which streams to wake.
//!
//! Guarantees: after `publish`, every match at or below `published` is in the ring of its group or
//! was dropped from it (then the ring's start says so); a stream that has something new to look at
//! is named in the wake set, unless it was named before and has not drained since. Publishing never
//! waits for a watcher and its cost depends on what matches, not on how many watchers exist.
//!
//! Not here: cursors. They belong to the streams, so that draining needs only shared access to the
//! hub.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::event::{Events, LogEvent, Revision};
use crate::group::{Group, Groups};
use crate::ids::{GroupId, StreamId};
use crate::inbox::Inbox;
use crate::log::EventLog;
use crate::range::KeyRange;
use crate::ring::RingLimit;
use crate::stats::{Gauges, add};

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
    /// Kept between publishes to save the allocation.
    hits: Vec<(GroupId, usize)>,
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

/// What a publish leads to.
#[must_use = "the streams named here must be woken"]
#[derive(Debug, PartialEq, Eq)]
pub struct Published {
    /// Streams to wake, ascending.
    pub wake: Vec<StreamId>,
    /// True if the log holds revisions that are not published yet.
    pub more: bool,
}

impl<E: LogEvent> Hub<E> {
    /// A hub that has published everything up to `published`.
    pub fn new(limit: RingLimit, published: i64) -> Self {
        Hub {
            groups: Groups::new(),
            limit,
            published,
            next_stream: 0,
            streams: BTreeMap::new(),
            alarms: BTreeSet::new(),
            floor: 0,
            sweep: None,
            gauges: Arc::new(Gauges::default()),
            hits: Vec::new(),
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

    /// Distinct ranges watched.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Matches up to `max` further revisions of the log.
    pub fn publish(&mut self, log: &EventLog<E>, max: usize) -> Published {
        let step = i64::try_from(max).unwrap_or(i64::MAX);
        let to = log.last().min(self.published.saturating_add(step));
        let mut touched = Vec::new();
        if self.groups.len() > 0 {
            for rev in self.published + 1..=to {
                self.match_revision(rev, log.slot(rev), &mut touched);
            }
        }
        self.published = self.published.max(to);
        let mut wake = self.notify(&touched);
        self.ring_alarms(&mut wake);
        wake.sort_unstable();
        wake.dedup();
        Published { wake, more: self.published < log.last() }
    }

    /// Notes a compaction. Ring entries below the compaction *before* this one are dropped by
    /// [`Hub::sweep_step`]: until then they still serve watchers that are a moment behind, which a
    /// compaction up to the newest revision would cancel otherwise.
    pub fn compact(&mut self, floor: i64) {
        if self.floor > 0 {
            self.sweep = Some((self.floor, 0));
        }
        self.floor = self.floor.max(floor);
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

    pub(crate) fn join(&mut self, range: &KeyRange, stream: StreamId, inbox: &Arc<Inbox>) -> GroupId {
        self.groups.join(range, stream, inbox, self.published + 1)
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

    /// Puts the events of one revision into the rings of the groups that want them.
    fn match_revision(&mut self, rev: i64, events: &Events<E>, touched: &mut Vec<GroupId>) {
        let all = events.as_slice();
        let limit = self.limit.among(self.groups.len());
        let mut hits = std::mem::take(&mut self.hits);
        for (index, event) in all.iter().enumerate() {
            self.groups.matching(event.key(), |group| hits.push((group, index)));
        }
        // Events were visited in order; sorting brings those of a group together and keeps that
        // order.
        hits.sort_unstable();
        for of_group in hits.chunk_by(|a, b| a.0 == b.0) {
            let matched = if of_group.len() == all.len() {
                events.clone()
            } else {
                of_group.iter().map(|(_, index)| all[*index].clone()).collect::<Vec<E>>().into()
            };
            let id = of_group[0].0;
            let group = self.groups.get_mut(id);
            group.ring.push(Revision { rev, events: matched }, limit);
            if group.touched.is_none() {
                group.touched = Some(rev);
                touched.push(id);
            }
        }
        hits.clear();
        self.hits = hits;
    }

    /// Notifies the members of the touched groups; returns the streams that had no notice before.
    fn notify(&mut self, touched: &[GroupId]) -> Vec<StreamId> {
        let mut wake = Vec::new();
        for id in touched {
            let group = self.groups.get_mut(*id);
            let first = group.touched.take().expect("a touched group knows its first match");
            let notified = group.members.iter().filter(|member| member.inbox.post(*id, first));
            wake.extend(notified.map(|member| member.stream));
        }
        wake
    }

    /// Adds the streams that waited for a revision that is now published.
    fn ring_alarms(&mut self, wake: &mut Vec<StreamId>) {
        while let Some(&(revision, stream)) = self.alarms.first() {
            if revision > self.published {
                break;
            }
            self.set_alarm(stream, None);
            wake.push(stream);
        }
    }
}
