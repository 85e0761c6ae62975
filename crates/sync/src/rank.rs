//! The order of locks.

use std::cell::Cell;

/// The order in which a thread takes locks: each one it takes ranks above all that it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// The local journal, for an append and the commit behind it.
    Journal,
    Store,
    /// Before the event log: commits wait for its holder, which waits for no other lock.
    Hub,
    EventLog,
    /// What is small and held for a few instructions: users, alarms, the lessor, read pins, gauges.
    Leaf,
    /// The queues between parts: the lessor queues commands while it is locked.
    Queue,
}

/// All threads of shuttle's scheduler are one thread of the operating system.
const IS_CHECKED: bool = cfg!(all(debug_assertions, not(feature = "interleave")));

thread_local! {
    /// The ranks of the locks that this thread holds, one bit each.
    static HELD: Cell<u8> = const { Cell::new(0) };
}

/// A lock of this rank is held by this thread. Nothing at all in release builds.
pub(crate) struct Held(Rank);

impl Held {
    /// Before waiting for a lock.
    pub(crate) fn in_order(rank: Rank) -> Held {
        if IS_CHECKED {
            let held = HELD.get();
            assert!(held >> rank as u8 == 0, "lock order: {rank:?} is taken while {held:#08b} are held");
        }
        Held::in_any_order(rank)
    }

    /// After getting a lock without waiting.
    pub(crate) fn in_any_order(rank: Rank) -> Held {
        let held = Held(rank);
        held.take();
        held
    }

    pub(crate) fn take(&self) {
        if IS_CHECKED {
            HELD.set(HELD.get() | 1 << self.0 as u8);
        }
    }

    pub(crate) fn release(&self) {
        if IS_CHECKED {
            HELD.set(HELD.get() & !(1 << self.0 as u8));
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(all(test, debug_assertions, not(feature = "interleave")))]
mod tests {
    use super::Rank;
    use crate::{Mutex, RwLock, RwLockWriteGuard};

    #[test]
    fn locks_are_taken_in_ascending_order() {
        let (store, hub) = (RwLock::ranked(Rank::Store, 1), RwLock::ranked(Rank::Hub, 2));
        for _ in 0..2 {
            let mut held = store.write();
            let inner = hub.read();
            drop(inner);
            RwLockWriteGuard::unlocked(&mut held, || drop((store.read(), hub.read())));
            assert_eq!(*Mutex::new(3).lock() - *held, 2);
        }
    }

    #[test]
    #[should_panic(expected = "lock order: Store is taken")]
    fn a_lower_rank_is_refused() {
        let (store, hub) = (RwLock::ranked(Rank::Store, 1), RwLock::ranked(Rank::Hub, 2));
        let _hub = hub.read();
        let _store = store.read();
    }

    #[test]
    #[should_panic(expected = "lock order: Leaf is taken")]
    fn an_equal_rank_is_refused() {
        let (first, second) = (Mutex::new(1), Mutex::new(2));
        let _first = first.lock();
        let _second = second.lock();
    }
}
