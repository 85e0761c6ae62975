//! Queue: how the threads of a node pass work to each other.
//!
//! A bounded queue whose receiver sleeps at once when there is nothing. The channels of crossbeam
//! spin and yield before they sleep, which is right for a receiver on a processor of its own. Here
//! every write passes through four threads: with one writer at a time a dozen yields for each of
//! its requests took as much processor time as everything else together, and on few processors they
//! delayed the very thread that was waited for.
//!
//! Items that are still queued when the last receiver is dropped are dropped with it, so a caller
//! that waits for a reply to one learns that there will be none. Errors are crossbeam's, whose
//! channels are used where latency does not matter.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{Condvar, Mutex, MutexGuard, Rank};
use crossbeam_channel::{
    RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError,
};

/// Ends the wait of a receiver that waits for something else than its queue.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// A queue for at most `capacity` items, at least one.
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let state =
        State { items: VecDeque::new(), senders: 1, receivers: 1, is_nudged: false, wanted: 1, waker: None };
    let inner = Arc::new(Inner {
        state: Mutex::ranked(Rank::Queue, state),
        capacity: capacity.max(1),
        arrived: Condvar::new(),
        left: Condvar::new(),
    });
    (Sender(Arc::clone(&inner)), Receiver(inner))
}

struct Inner<T> {
    state: Mutex<State<T>>,
    capacity: usize,
    /// There is an item, a nudge, or no sender left.
    arrived: Condvar,
    /// There is room, or no receiver left.
    left: Condvar,
}

struct State<T> {
    items: VecDeque<T>,
    senders: usize,
    receivers: usize,
    /// The receiver is to return from its wait although there may be no item.
    is_nudged: bool,
    /// Items for which a waiting receiver is woken.
    wanted: usize,
    /// Wakes a receiver that waits for something else.
    waker: Option<Waker>,
}

pub struct Sender<T>(Arc<Inner<T>>);

pub struct Receiver<T>(Arc<Inner<T>>);

/// Wakes a receiver for something that is not in its queue. Holding one keeps no queue open.
pub struct Nudge<T>(Arc<Inner<T>>);

impl<T> Sender<T> {
    pub fn try_send(&self, item: T) -> Result<(), TrySendError<T>> {
        let state = self.0.state.lock();
        if state.receivers == 0 {
            return Err(TrySendError::Disconnected(item));
        }
        if state.items.len() >= self.0.capacity {
            return Err(TrySendError::Full(item));
        }
        self.0.push(state, item);
        Ok(())
    }

    /// Waits for room.
    pub fn send(&self, item: T) -> Result<(), SendError<T>> {
        self.send_until(item, None).map_err(|error| SendError(error.into_inner()))
    }

    pub fn send_timeout(&self, item: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        self.send_until(item, Some(Instant::now() + timeout))
    }

    fn send_until(&self, item: T, end: Option<Instant>) -> Result<(), SendTimeoutError<T>> {
        let mut state = self.0.state.lock();
        loop {
            if state.receivers == 0 {
                return Err(SendTimeoutError::Disconnected(item));
            }
            if state.items.len() < self.0.capacity {
                self.0.push(state, item);
                return Ok(());
            }
            if wait(&self.0.left, &mut state, end) {
                return Err(SendTimeoutError::Timeout(item));
            }
        }
    }

    pub fn len(&self) -> usize {
        self.0.state.lock().items.len()
    }
}

impl<T> Receiver<T> {
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut state = self.0.state.lock();
        match state.items.pop_front() {
            Some(item) => {
                drop(state);
                self.0.left.notify_one();
                Ok(item)
            }
            None if state.senders == 0 => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }

    pub fn len(&self) -> usize {
        self.0.state.lock().items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What there is now.
    pub fn try_iter(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.try_recv().ok())
    }

    /// Waits for an item.
    pub fn recv(&self) -> Result<T, RecvError> {
        loop {
            match self.try_recv() {
                Ok(item) => return Ok(item),
                Err(TryRecvError::Disconnected) => return Err(RecvError),
                Err(TryRecvError::Empty) => {
                    self.wait(None);
                }
            }
        }
    }

    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        let end = Instant::now() + timeout;
        loop {
            match self.try_recv() {
                Ok(item) => return Ok(item),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) if self.wait(Some(end)) => {}
                Err(TryRecvError::Empty) => return Err(RecvTimeoutError::Timeout),
            }
        }
    }

    /// Waits until there is an item, a nudge, or no sender left; false: until `end`.
    pub fn wait(&self, end: Option<Instant>) -> bool {
        let mut state = self.0.state.lock();
        while state.items.is_empty() && state.senders > 0 && !state.is_nudged {
            if wait(&self.0.arrived, &mut state, end) {
                return false;
            }
        }
        state.is_nudged = false;
        true
    }

    /// Waits until there are `wanted` items, a nudge, or no sender left, and until `end` at most.
    /// It is not woken for each item, so it is cheaper than to take them one by one.
    pub fn wait_for(&self, wanted: usize, end: Instant) {
        let wanted = wanted.min(self.0.capacity);
        let mut state = self.0.state.lock();
        state.wanted = wanted;
        while state.items.len() < wanted && state.senders > 0 && !state.is_nudged {
            if wait(&self.0.arrived, &mut state, Some(end)) {
                break;
            }
        }
        state.wanted = 1;
    }

    /// Makes each item that arrives here also end a wait elsewhere.
    pub fn wakes(&self, waker: Waker) {
        self.0.state.lock().waker = Some(waker);
    }

    pub fn nudge(&self) -> Nudge<T> {
        Nudge(Arc::clone(&self.0))
    }
}

impl<T> Nudge<T> {
    pub fn ring(&self) {
        let mut state = self.0.state.lock();
        state.is_nudged = true;
        self.0.notify(state);
    }
}

impl<T> Inner<T> {
    fn push(&self, mut state: MutexGuard<'_, State<T>>, item: T) {
        state.items.push_back(item);
        if state.items.len() >= state.wanted {
            self.notify(state);
        }
    }

    fn notify(&self, state: MutexGuard<'_, State<T>>) {
        let waker = state.waker.clone();
        drop(state);
        self.arrived.notify_one();
        if let Some(wake) = waker {
            wake();
        }
    }
}

/// True at `end`.
fn wait<T>(condvar: &Condvar, state: &mut MutexGuard<'_, State<T>>, end: Option<Instant>) -> bool {
    match end {
        None => {
            condvar.wait(state);
            false
        }
        Some(end) => condvar.wait_until(state, end),
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.0.state.lock().senders += 1;
        Sender(Arc::clone(&self.0))
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        self.0.state.lock().receivers += 1;
        Receiver(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.senders -= 1;
        if state.senders == 0 {
            drop(state);
            self.0.arrived.notify_all();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.receivers -= 1;
        if state.receivers > 0 {
            return;
        }
        // Dropped without the lock: a caller that waits for a reply to one of them wakes up.
        let unread = std::mem::take(&mut state.items);
        drop(state);
        self.0.left.notify_all();
        drop(unread);
    }
}

#[cfg(test)]
mod tests;
