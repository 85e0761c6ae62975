//! Matching: puts new revisions into the rings of the groups that want them and tells the members,
//! in steps of bounded work.
//!
//! Clients choose the ranges, so one revision may match any number of them. A step ends when its
//! work is done, wherever that is; the hub's lock is given up, and the next step goes on. Whole
//! revisions are published only: until all members were told, matches and notices are there but
//! are not shown, because they lie above `published`. A member that joins meanwhile is brought up
//! to date at once ([`Matching::catch_up`]).
//!
//! A revision is looked at from the side on which there is less to do: its events one by one, or
//! all groups. The first costs as much as there are matches, unless most groups match.

use crate::event::Events;
use crate::group::Groups;
use crate::ids::{GroupId, StreamId};
use crate::log_event::LogEvent;
use crate::ring::RingLimit;

/// Spans that are looked at for one event. If that is not enough, all groups are looked at.
const VISITS: usize = if cfg!(test) { 4 } else { 4096 };

/// So many bytes of a key are compared in the time that it takes to look at a group.
const KEY_BYTES: usize = 2048;

/// So many events are compared with a range in the time that it takes to look at a group.
const LOOKS: usize = 16;

/// Revisions that come next, taken out of the log.
#[derive(Debug)]
pub struct Fresh<E> {
    first: i64,
    revisions: Vec<Events<E>>,
}

/// Revisions on their way to the watchers.
#[derive(Debug)]
pub(super) struct Matching<E> {
    fresh: Fresh<E>,
    /// How many of them are wholly in the rings.
    matched: usize,
    place: Place,
    /// The revision at this place was begun in an earlier step.
    is_long: bool,
    /// Groups with members that are not told yet. Some may be gone.
    touched: Vec<GroupId>,
    telling: Option<Telling>,
    /// Streams to be woken once what they were told is published.
    wake: Vec<StreamId>,
    hits: Vec<GroupId>,
}

/// Where in a revision the next step goes on.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// At an event; so many spans were visited for those before.
    Event(usize, usize),
    /// At a group.
    Group(usize),
}

/// Where among the touched groups and their members the next step goes on.
#[derive(Debug, Clone, Copy, Default)]
struct Telling {
    group: usize,
    after: Option<StreamId>,
}

impl<E: LogEvent> Fresh<E> {
    pub(crate) fn new(first: i64, revisions: Vec<Events<E>>) -> Fresh<E> {
        Fresh { first, revisions }
    }

    /// Does what is better done before any lock is taken.
    pub fn prepare(&self) {
        self.revisions.iter().for_each(Events::prepare);
    }

    /// The revisions, in order.
    pub fn revisions(&self) -> &[Events<E>] {
        &self.revisions
    }

    pub(super) fn first(&self) -> i64 {
        self.first
    }

    fn rev(&self, index: usize) -> i64 {
        self.first + index as i64
    }
}

impl<E: LogEvent> Matching<E> {
    pub(super) fn new(fresh: Fresh<E>) -> Self {
        Matching {
            fresh,
            matched: 0,
            place: Place::Event(0, 0),
            is_long: false,
            touched: Vec::new(),
            telling: None,
            wake: Vec::new(),
            hits: Vec::new(),
        }
    }

    /// Goes on until `left` is used up or something can be published: all up to the revision that
    /// is returned.
    pub(super) fn step(&mut self, groups: &mut Groups<E>, limit: RingLimit, left: &mut usize) -> Option<i64> {
        if groups.len() == 0 {
            self.matched = self.fresh.revisions.len();
            self.telling.get_or_insert_default();
        }
        while self.telling.is_none() {
            if !self.match_revision(groups, limit, left) {
                self.is_long = true;
                return None;
            }
            if *left == 0 || self.is_long || self.is_matched() {
                self.telling = Some(Telling::default());
            }
        }
        if !self.tell(groups, left) {
            return None;
        }
        (self.telling, self.is_long) = (None, false);
        self.touched.clear();
        Some(self.fresh.rev(self.matched) - 1)
    }

    /// True if everything is matched and all were told.
    pub(super) fn is_done(&self) -> bool {
        self.is_matched() && self.telling.is_none()
    }

    fn is_matched(&self) -> bool {
        self.matched == self.fresh.revisions.len()
    }

    pub(super) fn into_fresh(self) -> Fresh<E> {
        self.fresh
    }

    pub(super) fn take_wakes(&mut self) -> Vec<StreamId> {
        std::mem::take(&mut self.wake)
    }

    /// Has a stream woken when what is being matched is published.
    pub(super) fn wake(&mut self, stream: StreamId) {
        self.wake.push(stream);
    }

    /// Gives a new group what others were given of revisions that are not published yet.
    pub(super) fn catch_up(&self, groups: &mut Groups<E>, id: GroupId, limit: RingLimit) {
        let is_begun = !matches!(self.place, Place::Event(0, _)) || self.is_long;
        let upto = (self.matched + usize::from(is_begun)).min(self.fresh.revisions.len());
        let from = groups.get(id).ring.start();
        for index in 0..upto {
            let (rev, events) = (self.fresh.rev(index), &self.fresh.revisions[index]);
            if rev >= from && events.touch(&groups.get(id).range) {
                groups.add_match(id, rev, events, limit);
            }
        }
        // Its members are told as they come.
        groups.get_mut(id).touched = None;
    }

    /// Goes on with the next revision. True if it is in all rings that it belongs to.
    fn match_revision(&mut self, groups: &mut Groups<E>, limit: RingLimit, left: &mut usize) -> bool {
        let Some(events) = self.fresh.revisions.get(self.matched).cloned() else { return true };
        let rev = self.fresh.rev(self.matched);
        let is_matched = match self.place {
            Place::Event(..) => self.match_by_event(groups, rev, &events, limit, left),
            Place::Group(_) => false,
        };
        if !is_matched && !self.match_by_group(groups, rev, &events, limit, left) {
            return false;
        }
        self.place = Place::Event(0, 0);
        self.matched += 1;
        true
    }

    /// Looks up the groups of each event. False if it is not at its end.
    fn match_by_event(
        &mut self,
        groups: &mut Groups<E>,
        rev: i64,
        events: &Events<E>,
        limit: RingLimit,
        left: &mut usize,
    ) -> bool {
        let Place::Event(next, mut visited) = self.place else { return false };
        for (place, event) in events.as_slice().iter().enumerate().skip(next) {
            if *left == 0 {
                self.place = Place::Event(place, visited);
                return false;
            }
            let hits = &mut self.hits;
            let visits = groups.matching(event.key(), VISITS, |group| hits.push(group));
            for group in self.hits.drain(..) {
                if groups.add_match(group, rev, events, limit) {
                    self.touched.push(group);
                }
            }
            visited += visits;
            *left = left.saturating_sub(1 + visits * weight(event.key()));
            if visits > VISITS || visited > VISITS + groups.len() {
                self.place = Place::Group(0);
                return false;
            }
        }
        true
    }

    /// Looks at each group. False if it is not at its end.
    fn match_by_group(
        &mut self,
        groups: &mut Groups<E>,
        rev: i64,
        events: &Events<E>,
        limit: RingLimit,
        left: &mut usize,
    ) -> bool {
        let Place::Group(next) = self.place else { return false };
        for slot in next..groups.slots() {
            if *left == 0 {
                self.place = Place::Group(slot);
                return false;
            }
            let id = slot as GroupId;
            let Some(range) = groups.range(id) else {
                *left -= 1;
                continue;
            };
            *left = left.saturating_sub((1 + events.cost() / LOOKS) * weight(range.start()));
            if events.touch(range) && groups.add_match(id, rev, events, limit) {
                self.touched.push(id);
            }
        }
        true
    }

    /// Tells the members of the touched groups. False if it is not at its end.
    fn tell(&mut self, groups: &mut Groups<E>, left: &mut usize) -> bool {
        let mut at = self.telling.unwrap_or_default();
        while let Some(id) = self.touched.get(at.group).copied() {
            if let Some(group) = groups.find_mut(id)
                && let Some((first, last)) = group.touched
            {
                let from = at
                    .after
                    .map_or(0, |after| group.members.partition_point(|member| member.stream <= after));
                for member in &group.members[from..] {
                    if *left == 0 {
                        self.telling = Some(at);
                        return false;
                    }
                    *left -= 1;
                    at.after = Some(member.stream);
                    if member.inbox.post(id, first, last) {
                        self.wake.push(member.stream);
                    }
                }
                group.touched = None;
            }
            at = Telling { group: at.group + 1, after: None };
        }
        true
    }
}

/// How much a comparison with this key costs.
fn weight(key: &[u8]) -> usize {
    1 + key.len() / KEY_BYTES
}
