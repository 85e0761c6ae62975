//! Groups: watchers of the same range share one group, which is matched once per event.
//!
//! [`Groups`] owns the groups and finds those that an event concerns: single keys by hash, spans by
//! the interval map. A group lives as long as it has members.

use std::collections::HashMap;
use std::sync::Arc;

use crate::event::Events;
use crate::ids::{GroupId, StreamId};
use crate::inbox::Inbox;
use crate::interval::IntervalMap;
use crate::log_event::LogEvent;
use crate::range::KeyRange;
use crate::ring::{ALL_RINGS, Ring, RingLimit};

#[cfg(test)]
mod tests;

#[derive(Debug)]
pub(crate) struct Group<E> {
    pub(crate) range: KeyRange,
    pub(crate) ring: Ring<E>,
    /// Sorted by stream, so that a member is found by bisection and wakes come in a fixed order.
    pub(crate) members: Vec<Member>,
    /// First and last match of which the members are not notified yet.
    pub(crate) touched: Option<(i64, i64)>,
}

/// A stream with at least one watcher in the group.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) stream: StreamId,
    pub(crate) inbox: Arc<Inbox>,
    watchers: usize,
}

#[derive(Debug)]
pub(crate) struct Groups<E> {
    slots: Vec<Option<Group<E>>>,
    free: Vec<GroupId>,
    keys: HashMap<Box<[u8]>, GroupId>,
    spans: IntervalMap,
    /// Matches in all rings.
    held: usize,
    /// The group whose ring is looked at next while all rings hold too much.
    hand: usize,
}

/// Rings that are looked at for each match that is added while all rings hold too much.
const TRIMMED: usize = 8;

impl<E: LogEvent> Groups<E> {
    pub(crate) fn new() -> Self {
        Groups {
            slots: Vec::new(),
            free: Vec::new(),
            keys: HashMap::new(),
            spans: IntervalMap::default(),
            held: 0,
            hand: 0,
        }
    }

    pub(crate) fn get(&self, id: GroupId) -> &Group<E> {
        self.slots[id as usize].as_ref().expect("a group lives as long as it has members")
    }

    /// The range of a group that may be gone.
    pub(crate) fn range(&self, id: GroupId) -> Option<&KeyRange> {
        self.slots.get(id as usize)?.as_ref().map(|group| &group.range)
    }

    pub(crate) fn get_mut(&mut self, id: GroupId) -> &mut Group<E> {
        self.slots[id as usize].as_mut().expect("a group lives as long as it has members")
    }

    /// Number of groups.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// One more than the highest id.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Matches in all rings.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// A group that may be gone.
    pub(crate) fn find_mut(&mut self, id: GroupId) -> Option<&mut Group<E>> {
        self.slots.get_mut(id as usize)?.as_mut()
    }

    /// Calls `hit` for every group whose range holds `key`, unless that takes a look at more than
    /// `most` spans. Returns at how many.
    pub(crate) fn matching(&self, key: &[u8], most: usize, mut hit: impl FnMut(GroupId)) -> usize {
        if let Some(id) = self.keys.get(key) {
            hit(*id);
        }
        self.spans.stab(key, most, &mut hit)
    }

    /// Puts a match into the ring of a group, unless it is there. True if it is the first one of
    /// which the members are to be told.
    pub(crate) fn add_match(&mut self, id: GroupId, rev: i64, events: &Events<E>, limit: RingLimit) -> bool {
        let limit = limit.among(self.len());
        let group = self.get_mut(id);
        if group.ring.newest() >= rev {
            return false;
        }
        let before = group.ring.len();
        group.ring.push(rev, events, limit);
        let first = group.touched.map(|(first, _)| first);
        group.touched = Some((first.unwrap_or(rev), rev));
        let after = group.ring.len();
        self.held = self.held + after - before;
        if self.held > ALL_RINGS {
            self.trim(limit);
        }
        first.is_none()
    }

    /// Rings that were filled while there were fewer have more than their share.
    fn trim(&mut self, limit: RingLimit) {
        for _ in 0..TRIMMED {
            self.hand = (self.hand + 1) % self.slots.len();
            if let Some(group) = &mut self.slots[self.hand] {
                let before = group.ring.len();
                group.ring.trim(limit);
                self.held -= before - group.ring.len();
            }
        }
    }

    /// Adds one watcher of `stream` to the group of `range`, which is made if needed. A new group
    /// knows every match from `ring_start` on. Returns whether it is new.
    pub(crate) fn join(
        &mut self,
        range: &KeyRange,
        stream: StreamId,
        inbox: &Arc<Inbox>,
        ring_start: i64,
    ) -> (GroupId, bool) {
        let known = self.find(range);
        let id = known.unwrap_or_else(|| self.add(range, ring_start));
        let members = &mut self.get_mut(id).members;
        match members.binary_search_by_key(&stream, |member| member.stream) {
            Ok(at) => members[at].watchers += 1,
            Err(at) => members.insert(at, Member { stream, inbox: Arc::clone(inbox), watchers: 1 }),
        }
        (id, known.is_none())
    }

    /// Takes one watcher of `stream` out of the group, and the group away with its last watcher.
    pub(crate) fn leave(&mut self, id: GroupId, stream: StreamId) {
        let members = &mut self.get_mut(id).members;
        let at = members
            .binary_search_by_key(&stream, |member| member.stream)
            .expect("only members leave a group");
        members[at].watchers -= 1;
        if members[at].watchers == 0 {
            members.remove(at);
        }
        if members.is_empty() {
            self.remove(id);
        }
    }

    /// Drops ring entries below `revision` in the group slots `from..to`; true if that was the last
    /// slot.
    pub(crate) fn drop_below(&mut self, revision: i64, from: usize, to: usize) -> bool {
        for group in self.slots.iter_mut().take(to).skip(from).flatten() {
            let before = group.ring.len();
            group.ring.drop_below(revision);
            self.held -= before - group.ring.len();
        }
        to >= self.slots.len()
    }

    fn find(&self, range: &KeyRange) -> Option<GroupId> {
        match range {
            KeyRange::Key(key) => self.keys.get(key).copied(),
            KeyRange::Span { start, end } => self.spans.get(start, end.as_deref()),
        }
    }

    fn add(&mut self, range: &KeyRange, ring_start: i64) -> GroupId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            GroupId::try_from(self.slots.len() - 1).expect("fewer than 2^32 groups fit in memory")
        });
        match range {
            KeyRange::Key(key) => {
                self.keys.insert(key.clone(), id);
            }
            KeyRange::Span { start, end } => self.spans.insert(start, end.as_deref(), id),
        }
        self.slots[id as usize] = Some(Group {
            range: range.clone(),
            ring: Ring::new(ring_start),
            members: Vec::new(),
            touched: None,
        });
        id
    }

    fn remove(&mut self, id: GroupId) {
        let group = self.slots[id as usize].take().expect("a group is removed once");
        let removed = match &group.range {
            KeyRange::Key(key) => self.keys.remove(key),
            KeyRange::Span { start, end } => self.spans.remove(start, end.as_deref()),
        };
        assert!(removed == Some(id), "the index and the groups disagree");
        self.held -= group.ring.len();
        self.free.push(id);
    }
}
