//! Inbox: how the hub tells a stream which of its groups have new matches.
//!
//! The only state that both sides write, behind its own lock, which is a leaf: nothing else is locked
//! while it is held. Bounded: beyond a few groups it says "look at all of them" instead.

use parking_lot::Mutex;

/// Distinct groups named before the inbox stops naming them.
const MAX_GROUPS: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    state: Mutex<Notice>,
}

/// What changed since the stream last looked.
#[derive(Debug, Default)]
pub(crate) struct Notice {
    /// Groups with new matches.
    pub(crate) groups: Vec<u32>,
    /// Too many to name: any group may have new matches.
    pub(crate) all: bool,
}

impl Inbox {
    /// Notes a match. True if the inbox was empty, that is, if the stream must be woken.
    pub(crate) fn post(&self, group: u32) -> bool {
        let mut notice = self.state.lock();
        if notice.all || notice.groups.contains(&group) {
            return false;
        }
        let was_empty = notice.groups.is_empty();
        if notice.groups.len() < MAX_GROUPS {
            notice.groups.push(group);
        } else {
            notice.groups.clear();
            notice.all = true;
        }
        was_empty
    }

    /// Takes everything noted so far.
    pub(crate) fn take(&self) -> Notice {
        std::mem::take(&mut self.state.lock())
    }
}
