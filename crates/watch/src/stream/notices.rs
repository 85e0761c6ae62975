//! Notices: what a stream does with the contents of its inbox.
//!
//! A notice may be about any number of watchers, so they are told in steps. Further notices stay in
//! the inbox until all are told of those before, in order; the inbox joins them.

use std::collections::VecDeque;

use super::{Slot, Stream};
use crate::ids::GroupId;
use crate::log_event::LogEvent;

/// What a stream knows of its inbox.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// Those of which not all watchers were told, in order.
    pub(super) looks: VecDeque<Look>,
    /// At this published revision the hub was told that notices wait in the inbox.
    pub(super) early_at: Option<i64>,
}

/// A notice of which watchers are being told.
#[derive(Debug)]
pub(super) enum Look {
    /// Those of a group, from this place in its list on. Who comes meanwhile is told for nothing.
    Group { group: GroupId, first: i64, next: usize },
    /// All of them, from this slot on.
    All { first: i64, next: Slot },
}

impl<E: LogEvent> Stream<E> {
    /// Queues watchers whose groups have new matches, about `max` of them. True if notices were
    /// left in the inbox because they are not published yet.
    pub(super) fn collect(&mut self, published: i64, max: usize) -> bool {
        let mut left = max;
        self.tell(&mut left);
        if !self.notices.looks.is_empty() {
            return false;
        }
        let notice = self.inbox.take(published);
        self.notices.looks.extend(notice.all.map(|first| Look::All { first, next: 0 }));
        for (group, first) in notice.groups {
            // A notice may name a group this stream has left since; then nothing is queued.
            if self.by_group.contains_key(&group) {
                self.notices.looks.push_back(Look::Group { group, first, next: 0 });
            }
        }
        self.tell(&mut left);
        notice.is_early
    }

    fn tell(&mut self, left: &mut usize) {
        while let Some(mut look) = self.notices.looks.pop_front() {
            if !self.tell_some(&mut look, left) {
                self.notices.looks.push_front(look);
                return;
            }
        }
    }

    /// True if all were told.
    fn tell_some(&mut self, look: &mut Look, left: &mut usize) -> bool {
        while *left > 0 {
            let (slot, first) = match look {
                Look::Group { group, first, next } => {
                    let Some(slot) = self.by_group.get(group).and_then(|peers| peers.get(*next)) else {
                        return true;
                    };
                    *next += 1;
                    (*slot, *first)
                }
                Look::All { first, next } => {
                    if *next == self.watchers.len() {
                        return true;
                    }
                    *next += 1;
                    (*next - 1, *first)
                }
            };
            *left -= 1;
            self.notice(slot, first);
        }
        false
    }

    /// The watcher in this slot takes a place in the list of its group that was another one's. It
    /// is told now if it would be passed over.
    pub(super) fn moved_up(&mut self, slot: Slot, group: GroupId, place: usize) {
        if let Some(Look::Group { group: told, first, next }) = self.notices.looks.front()
            && (*told, place < *next) == (group, true)
        {
            self.notice(slot, *first);
        }
    }

    /// Queues a watcher for a match at `first`. If it is not queued it was synced when the inbox
    /// was last taken, so nothing before that match concerns it.
    fn notice(&mut self, slot: Slot, first: i64) {
        let Some(watcher) = &mut self.watchers[slot] else { return };
        if !watcher.queued {
            watcher.next = watcher.next.max(first);
            self.enqueue(slot);
        }
    }
}
