//! Connections without a request yet.
//!
//! A client that opens connections and sends nothing, or one byte at a time, could hold all file
//! descriptors. So their number is limited over all listeners; one more evicts the oldest. A
//! well-behaved client sends its request within milliseconds, and so is not the oldest even among
//! many slow ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

#[derive(Debug)]
pub(super) struct PendingConnections {
    limit: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    /// In order of arrival.
    by_age: BTreeMap<u64, oneshot::Sender<()>>,
}

/// Held by a connection until its first request.
#[derive(Debug)]
pub(super) struct PendingConnection {
    id: u64,
    registry: Arc<PendingConnections>,
}

/// Resolves when the connection is evicted.
#[derive(Debug)]
pub(super) struct Eviction(Option<oneshot::Receiver<()>>);

impl PendingConnections {
    pub(super) fn new(limit: usize) -> Arc<PendingConnections> {
        Arc::new(PendingConnections { limit, waiting: Mutex::default() })
    }

    pub(super) fn register(self: &Arc<PendingConnections>) -> (PendingConnection, Eviction) {
        let (go, evicted) = oneshot::channel();
        let mut waiting = self.waiting.lock();
        let id = waiting.next;
        waiting.next += 1;
        waiting.by_age.insert(id, go);
        if waiting.by_age.len() > self.limit
            && let Some((_, oldest)) = waiting.by_age.pop_first()
        {
            // It may have left just now.
            let _ = oldest.send(());
        }
        drop(waiting);
        (PendingConnection { id, registry: self.clone() }, Eviction(Some(evicted)))
    }
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        self.registry.waiting.lock().by_age.remove(&self.id);
    }
}

impl Eviction {
    /// Waits until the connection is evicted; for ever once it has sent a request.
    pub(super) async fn evicted(&mut self) {
        if let Some(evicted) = &mut self.0 {
            if evicted.await.is_ok() {
                return;
            }
            self.0 = None;
        }
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_oldest_is_evicted() {
        let pending = PendingConnections::new(2);
        let (first, mut first_eviction) = pending.register();
        let (second, mut second_eviction) = pending.register();
        drop(first);
        let (_third, mut third_eviction) = pending.register();
        let (_fourth, mut fourth_eviction) = pending.register();
        second_eviction.evicted().await;
        drop(second);
        let still = std::time::Duration::from_millis(20);
        for evicted in [&mut first_eviction, &mut third_eviction, &mut fourth_eviction] {
            assert!(tokio::time::timeout(still, evicted.evicted()).await.is_err());
        }
        assert_eq!(pending.waiting.lock().by_age.len(), 2);
    }
}
