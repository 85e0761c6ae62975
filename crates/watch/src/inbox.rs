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
    state: Mutex<Notice>,
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
}

impl Inbox {
    /// Notes a match at `rev`. True if the inbox was empty, that is, if the stream must be woken.
    pub(crate) fn post(&self, group: GroupId, rev: i64) -> bool {
        let mut notice = self.state.lock();
        if notice.all.is_some() || notice.groups.iter().any(|known| known.0 == group) {
            return false;
        }
        let was_empty = notice.groups.is_empty();
        notice.groups.push((group, rev));
        if notice.groups.len() > MAX_GROUPS {
            notice.all = notice.groups.drain(..).map(|known| known.1).min();
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
        let notice = self.state.lock();
        let noted = notice.groups.iter().map(|(group, rev)| (*rev, *group));
        let all = notice.all.map(|rev| (rev, GroupId::MAX));
        noted.chain(all).chain([left]).min().filter(|(revision, _)| *revision != NOTHING)
    }

    /// Takes everything noted so far.
    pub(crate) fn take(&self) -> Notice {
        std::mem::take(&mut self.state.lock())
    }
}
