//! Turns: permits that all clients share, given out so that none of them can take all.
//!
//! The queue for a permit is in order of arrival. A client that asks a thousand times would have a
//! thousand places in it, and everybody else would wait behind them. So each client first waits for
//! its own requests, and has no more places in the queue than there are permits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::offload::half_of_cpus;

/// Writes of one client's locks and elections that may be in the sequencer's queue.
const WRITES: usize = 64;

/// The places of one client, which is a connection.
#[derive(Debug)]
pub(crate) struct Turns {
    /// In the queue to scan locks and elections, and in the one for passwords.
    scans: Arc<Semaphore>,
    passwords: Arc<Semaphore>,
    /// Passwords that wait, for either.
    waiting_passwords: AtomicUsize,
    writes: Semaphore,
}

impl Default for Turns {
    fn default() -> Turns {
        let places = || Arc::new(Semaphore::new(half_of_cpus()));
        let (scans, passwords) = (places(), places());
        let (waiting_passwords, writes) = (AtomicUsize::new(0), Semaphore::new(WRITES));
        Turns { scans, passwords, waiting_passwords, writes }
    }
}

impl Turns {
    pub(crate) fn scans(&self) -> &Arc<Semaphore> {
        &self.scans
    }

    pub(crate) fn passwords(&self) -> &Arc<Semaphore> {
        &self.passwords
    }

    pub(crate) fn waiting_passwords(&self) -> &AtomicUsize {
        &self.waiting_passwords
    }

    pub(crate) fn writes(&self) -> &Semaphore {
        &self.writes
    }
}

/// Permits for half of the processors. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct SharedPermits(Arc<Semaphore>);

/// What was asked for, until it is dropped.
#[derive(Debug)]
pub(crate) struct SharedPermit {
    _all: OwnedSemaphorePermit,
    _own: Option<OwnedSemaphorePermit>,
}

impl Default for SharedPermits {
    fn default() -> SharedPermits {
        SharedPermits(Arc::new(Semaphore::new(half_of_cpus())))
    }
}

impl SharedPermits {
    /// Waits for a permit. `own`: the places of the client, if there is one.
    pub(crate) async fn acquire(&self, own: Option<&Arc<Semaphore>>) -> SharedPermit {
        let own = match own {
            Some(own) => Some(acquired(own).await),
            None => None,
        };
        SharedPermit { _all: acquired(&self.0).await, _own: own }
    }

    #[cfg(test)]
    pub(crate) fn semaphore(&self) -> &Arc<Semaphore> {
        &self.0
    }
}

async fn acquired(semaphore: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    Arc::clone(semaphore).acquire_owned().await.expect("the semaphore is never closed")
}

/// Counts something that waits, until it is dropped.
pub(crate) struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    pub(crate) fn begin(count: &'a AtomicUsize) -> Waiting<'a> {
        count.fetch_add(1, Relaxed);
        Waiting(count)
    }

    /// With this one.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Relaxed)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that asks for a thousand permits has one round before the client that asks last.
    #[tokio::test]
    async fn clients_take_turns_however_much_one_of_them_asks_for() {
        let (permits, order) = (SharedPermits::default(), Arc::new(parking_lot::Mutex::new(Vec::new())));
        let all = half_of_cpus();
        let held = Arc::clone(permits.semaphore()).acquire_many_owned(all as u32).await.expect("not closed");
        let (greedy, polite) = (Arc::new(Turns::default()), Arc::new(Turns::default()));
        let ask = |turns: &Arc<Turns>, name: &'static str| {
            let (turns, permits, order) = (Arc::clone(turns), permits.clone(), Arc::clone(&order));
            tokio::spawn(async move {
                let _permit = permits.acquire(Some(turns.scans())).await;
                order.lock().push(name);
                tokio::task::yield_now().await;
            })
        };
        let mut asked: Vec<_> = (0..1000).map(|_| ask(&greedy, "greedy")).collect();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        asked.push(ask(&polite, "polite"));
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        drop(held);
        for done in asked {
            done.await.expect("no panic");
        }
        let order = order.lock();
        assert_eq!(order.len(), 1001);
        let place = order.iter().position(|name| *name == "polite").expect("it was served");
        assert!(place <= 2 * all, "served after {place} others");
    }
}
