//! Inbox: through which the hub notifies a stream which of its groups have new matches.
//!
//! The only state that both sides write, behind its own lock, which is a leaf: nothing else is
//! locked while it is held. Bounded: beyond a few groups it stands for all groups instead.
//!
//! A notice carries the revision of the first match since the stream last looked. For a watcher
//! that was synced then, it proves that nothing before that revision concerns it, however old its
//! cursor is and whatever the ring has dropped since. Without it a burst that overruns the ring
//! would send the cursor of a long idle watcher back to history that may be compacted.
//!
//! A notice may come before its revision is published, because very many are posted bit by bit.
//! Such a notice stays in the inbox until then.
//!
//! In the other direction the stream notes what it could not deliver yet, by which compaction finds
//! slow streams.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::ids::GroupId;

/// Distinct groups named before the inbox stops naming them.
const MAX_GROUPS: usize = 64;

/// The stream had delivered everything.
const NOTHING: i64 = i64::MAX;

#[derive(Debug)]
pub(crate) struct Inbox {
    state: Mutex<Posted>,
    /// The lowest cursor of the watchers that had more to deliver after the last drain, and the
    /// group of that watcher. The two are written one after the other, so the group may be that of
    /// a moment before.
    left: AtomicI64,
    left_group: AtomicU32,
}

impl Default for Inbox {
    fn default() -> Inbox {
        Inbox {
            state: Mutex::default(),
            left: AtomicI64::new(NOTHING),
            left_group: AtomicU32::new(GroupId::MAX),
        }
    }
}

/// What changed since the stream last looked.
#[derive(Debug, Default)]
pub(crate) struct Notice {
    /// Groups with new matches, each with the revision of its first new match.
    pub(crate) groups: Vec<(GroupId, i64)>,
    /// Too many to name: any group may have new matches, none of them before this revision.
    pub(crate) all: Option<i64>,
    /// There are notices about what is not published yet.
    pub(crate) is_early: bool,
}

#[derive(Debug, Default)]
struct Posted {
    groups: Vec<(GroupId, News)>,
    all: Option<News>,
}

/// The first and the last match that a notice is about.
#[derive(Debug, Clone, Copy)]
struct News {
    first: i64,
    last: i64,
}

impl News {
    fn join(&mut self, other: News) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }

    /// What of it is published, as the revision of its first match; the rest stays.
    fn take(&mut self, published: i64) -> Option<i64> {
        let first = self.first;
        self.first = first.max(published + 1);
        (first <= published).then_some(first)
    }

    fn is_left(self) -> bool {
        self.first <= self.last
    }
}

impl Inbox {
    /// Notes matches from `first` to `last`. True if the inbox was empty, that is, if the stream
    /// must be woken.
    pub(crate) fn post(&self, group: GroupId, first: i64, last: i64) -> bool {
        let news = News { first, last };
        let mut posted = self.state.lock();
        if let Some(all) = &mut posted.all {
            all.join(news);
            return false;
        }
        if let Some((_, known)) = posted.groups.iter_mut().find(|known| known.0 == group) {
            known.join(news);
            return false;
        }
        let was_empty = posted.groups.is_empty();
        posted.groups.push((group, news));
        if posted.groups.len() > MAX_GROUPS {
            let all = posted.groups.drain(..).map(|(_, news)| news);
            posted.all = all.reduce(|mut all, news| (all.join(news), all).1);
        }
        was_empty
    }

    /// What the stream has left to deliver after a drain: a revision and a group.
    pub(crate) fn leave(&self, left: Option<(i64, GroupId)>) {
        let (revision, group) = left.unwrap_or((NOTHING, GroupId::MAX));
        self.left_group.store(group, Ordering::Relaxed);
        self.left.store(revision, Ordering::Relaxed);
    }

    /// The lowest revision that the stream may have to deliver, and a group that waits for it. None
    /// if there is none, or if the stream is just delivering.
    pub(crate) fn oldest(&self) -> Option<(i64, GroupId)> {
        let left = (self.left.load(Ordering::Relaxed), self.left_group.load(Ordering::Relaxed));
        let posted = self.state.lock();
        let noted = posted.groups.iter().map(|(group, news)| (news.first, *group));
        let all = posted.all.map(|news| (news.first, GroupId::MAX));
        noted.chain(all).chain([left]).min().filter(|(revision, _)| *revision != NOTHING)
    }

    /// Takes everything noted so far about what is published.
    pub(crate) fn take(&self, published: i64) -> Notice {
        let mut posted = self.state.lock();
        let mut notice = Notice::default();
        if let Some(all) = &mut posted.all {
            notice.all = all.take(published);
            notice.is_early = all.is_left();
            if !notice.is_early {
                posted.all = None;
            }
            return notice;
        }
        if posted.groups.iter().all(|(_, news)| news.last <= published) {
            let groups = std::mem::take(&mut posted.groups);
            notice.groups = groups.into_iter().map(|(group, news)| (group, news.first)).collect();
            return notice;
        }
        posted.groups.retain_mut(|(group, news)| {
            notice.groups.extend(news.take(published).map(|first| (*group, first)));
            news.is_left()
        });
        notice.is_early = true;
        notice
    }
}
