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
    /// How many it holds.
    static COUNT: Cell<u32> = const { Cell::new(0) };
}

/// Whether this thread holds a lock: then what it does concerns others.
pub fn is_any_held() -> bool {
    COUNT.get() > 0
}

/// A lock of this rank is held by this thread. Release builds only count.
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

    #[inline]
    pub(crate) fn take(&self) {
        COUNT.set(COUNT.get() + 1);
        if IS_CHECKED {
            HELD.set(HELD.get() | 1 << self.0 as u8);
        }
    }

    #[inline]
    pub(crate) fn release(&self) {
        COUNT.set(COUNT.get() - 1);
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

#[cfg(all(test, not(feature = "interleave")))]
mod counted {
    use super::is_any_held;
    use crate::{Mutex, RwLock, RwLockWriteGuard};

    #[test]
    fn locks_are_counted_while_they_are_held_and_only_then() {
        let (outer, inner) = (RwLock::new(1), Mutex::ranked(super::Rank::Queue, 2));
        assert!(!is_any_held());
        let mut held = outer.write();
        assert!(is_any_held());
        RwLockWriteGuard::unlocked(&mut held, || assert!(!is_any_held()));
        drop(inner.lock());
        assert!(is_any_held());
        drop(held);
        assert!(!is_any_held());
        let (read, tried) = (outer.read(), inner.try_lock());
        assert!(tried.is_some());
        drop(read);
        assert!(is_any_held());
        drop(tried);
        assert!(!is_any_held());
        RwLockWriteGuard::unlock_fair(outer.write());
        assert!(!is_any_held());
        let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = outer.read();
            panic!("a bug");
        }));
        assert!(panics.is_err() && !is_any_held());
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
