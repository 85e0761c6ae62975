//! Sync: locks and the order in which a thread may take them, and queues between threads.
//!
//! Locks are taken in ascending [`Rank`] only, so no two threads can wait for each other. Builds
//! with debug assertions check it whenever a lock is taken; release builds only count. Locks are
//! held for short turns: a few dozen evaluations, a chunk of a scan, a step of the
//! fan-out. None but the journal's is held across a call that waits. What is not cut into turns is
//! a single request, except for the revoke of a lease, which may delete a million keys.
//!
//! The locks are parking_lot's. With the feature `interleave` they belong to a scheduler instead,
//! which may switch to another thread at each of them, chosen by a seed: `tests/interleavings.rs`
//! of `vetch-node` runs the shipped parts under it. All its threads share one thread of the
//! operating system, so the order is not checked there.

#[cfg(feature = "interleave")]
mod interleaved;
pub mod queue;
mod rank;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Instant;

#[cfg(feature = "interleave")]
use interleaved as raw;
#[cfg(not(feature = "interleave"))]
use parking_lot as raw;
use rank::Held;
pub use rank::{Rank, is_any_held};

/// A mutual exclusion of a given rank.
pub struct Mutex<T> {
    rank: Rank,
    raw: raw::Mutex<T>,
}

/// Unlocks when dropped.
pub struct MutexGuard<'m, T> {
    raw: raw::MutexGuard<'m, T>,
    _held: Held,
}

impl<T> Mutex<T> {
    /// A leaf: no further lock but a queue's is taken while it is held.
    pub fn new(value: T) -> Mutex<T> {
        Mutex::ranked(Rank::Leaf, value)
    }

    pub fn ranked(rank: Rank, value: T) -> Mutex<T> {
        Mutex { rank, raw: raw::Mutex::new(value) }
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        let held = Held::in_order(self.rank);
        MutexGuard { raw: self.raw.lock(), _held: held }
    }

    /// Never waits, so it may be called out of order.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.raw.try_lock().map(|raw| MutexGuard { raw, _held: Held::in_any_order(self.rank) })
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").field("rank", &self.rank).finish_non_exhaustive()
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.raw
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.raw
    }
}

/// A lock of a given rank for many readers or one writer.
pub struct RwLock<T> {
    rank: Rank,
    raw: raw::RwLock<T>,
}

/// Unlocks when dropped.
pub struct RwLockReadGuard<'l, T> {
    raw: raw::RwLockReadGuard<'l, T>,
    _held: Held,
}

/// Unlocks when dropped.
pub struct RwLockWriteGuard<'l, T> {
    raw: raw::RwLockWriteGuard<'l, T>,
    held: Held,
}

impl<T> RwLock<T> {
    /// A leaf: no further lock but a queue's is taken while it is held.
    pub fn new(value: T) -> RwLock<T> {
        RwLock::ranked(Rank::Leaf, value)
    }

    pub fn ranked(rank: Rank, value: T) -> RwLock<T> {
        RwLock { rank, raw: raw::RwLock::new(value) }
    }

    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let held = Held::in_order(self.rank);
        RwLockReadGuard { raw: self.raw.read(), _held: held }
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let held = Held::in_order(self.rank);
        RwLockWriteGuard { raw: self.raw.write(), held }
    }
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.raw
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.raw
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.raw
    }
}

impl<T> RwLockWriteGuard<'_, T> {
    /// Gives waiting threads a turn.
    pub fn bump(guard: &mut Self) {
        raw::RwLockWriteGuard::bump(&mut guard.raw);
    }

    /// Does `work` with the lock given up.
    pub fn unlocked<R>(guard: &mut Self, work: impl FnOnce() -> R) -> R {
        guard.held.release();
        let done = raw::RwLockWriteGuard::unlocked(&mut guard.raw, work);
        guard.held.take();
        done
    }

    /// Unlocks in favour of a thread that waits.
    pub fn unlock_fair(guard: Self) {
        raw::RwLockWriteGuard::unlock_fair(guard.raw);
    }
}

/// Waits for a condition that a mutex guards.
pub(crate) struct Condvar(raw::Condvar);

impl Condvar {
    pub(crate) fn new() -> Condvar {
        Condvar(raw::Condvar::new())
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        self.0.wait(&mut guard.raw);
    }

    /// True if the time is over.
    pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, end: Instant) -> bool {
        self.0.wait_until(&mut guard.raw, end).timed_out()
    }
}
