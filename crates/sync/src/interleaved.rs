//! parking_lot's interface on shuttle's locks, as far as it is used here. Only for threads that
//! shuttle runs.

use std::ops::{Deref, DerefMut};
use std::time::Instant;

use shuttle::sync as inner;
pub(crate) use shuttle::sync::RwLockReadGuard;

/// A thread that panicked has ended the run.
const POISONED: &str = "no thread panics while it holds a lock";

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(inner::Mutex<T>);

/// Empty only while it waits for a condition.
pub(crate) struct MutexGuard<'m, T>(Option<inner::MutexGuard<'m, T>>);

#[derive(Default)]
pub(crate) struct RwLock<T>(inner::RwLock<T>);

/// Empty only while others have their turn.
pub(crate) struct RwLockWriteGuard<'l, T> {
    lock: &'l RwLock<T>,
    held: Option<inner::RwLockWriteGuard<'l, T>>,
}

pub(crate) struct Condvar(inner::Condvar);

pub(crate) struct WaitTimeoutResult;

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(inner::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().expect(POISONED)))
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok().map(|guard| MutexGuard(Some(guard)))
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("it is held")
    }
}

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> RwLock<T> {
        RwLock(inner::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().expect(POISONED)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        RwLockWriteGuard { lock: self, held: Some(self.0.write().expect(POISONED)) }
    }
}

impl<T> RwLockWriteGuard<'_, T> {
    /// Lets those in who wait.
    pub(crate) fn bump(guard: &mut Self) {
        guard.held = None;
        shuttle::thread::yield_now();
        guard.held = Some(guard.lock.0.write().expect(POISONED));
    }

    /// Does `work` with the lock given up.
    pub(crate) fn unlocked<R>(guard: &mut Self, work: impl FnOnce() -> R) -> R {
        guard.held = None;
        shuttle::thread::yield_now();
        let done = work();
        guard.held = Some(guard.lock.0.write().expect(POISONED));
        done
    }

    pub(crate) fn unlock_fair(guard: Self) {
        drop(guard);
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("it is held")
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("it is held")
    }
}

impl Condvar {
    pub(crate) fn new() -> Condvar {
        Condvar(inner::Condvar::new())
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().expect("it is held");
        guard.0 = Some(self.0.wait(held).expect(POISONED));
    }

    /// There is no time under the scheduler: every wait with an end times out.
    pub(crate) fn wait_until<T>(&self, _: &mut MutexGuard<'_, T>, _: Instant) -> WaitTimeoutResult {
        WaitTimeoutResult
    }
}

impl WaitTimeoutResult {
    pub(crate) fn timed_out(&self) -> bool {
        true
    }
}
