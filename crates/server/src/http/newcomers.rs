//! Connections that have not asked for anything yet.
//!
//! Whoever opens connections and then says nothing, or says it one byte at a time, would in the end
//! hold every descriptor there is. So there is a limit to how many may be that far and no further,
//! over all listeners; when there is one more, the oldest of them has to go. A client that means it
//! is through within milliseconds, and so is not the oldest even while many others dawdle.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

#[derive(Debug)]
pub(super) struct Newcomers {
    limit: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    /// In the order in which they came.
    places: BTreeMap<u64, oneshot::Sender<()>>,
}

/// Held by a newcomer until it is none any more.
#[derive(Debug)]
pub(super) struct Newcomer {
    id: u64,
    among: Arc<Newcomers>,
}

/// Tells a newcomer that it has to go.
#[derive(Debug)]
pub(super) struct Displaced(Option<oneshot::Receiver<()>>);

impl Newcomers {
    pub(super) fn new(limit: usize) -> Arc<Newcomers> {
        Arc::new(Newcomers { limit, waiting: Mutex::default() })
    }

    pub(super) fn enter(self: &Arc<Newcomers>) -> (Newcomer, Displaced) {
        let (go, told) = oneshot::channel();
        let mut waiting = self.waiting.lock();
        let id = waiting.next;
        waiting.next += 1;
        waiting.places.insert(id, go);
        if waiting.places.len() > self.limit
            && let Some((_, oldest)) = waiting.places.pop_first()
        {
            // It may have left by itself just now.
            let _ = oldest.send(());
        }
        drop(waiting);
        (Newcomer { id, among: self.clone() }, Displaced(Some(told)))
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        self.among.waiting.lock().places.remove(&self.id);
    }
}

impl Displaced {
    /// Waits until the newcomer has to go; for ever if it is none any more.
    pub(super) async fn told(&mut self) {
        if let Some(told) = &mut self.0 {
            if told.await.is_ok() {
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
    async fn the_oldest_has_to_go_and_nobody_else() {
        let newcomers = Newcomers::new(2);
        let (first, mut first_told) = newcomers.enter();
        let (second, mut second_told) = newcomers.enter();
        drop(first);
        let (_third, mut third_told) = newcomers.enter();
        let (_fourth, mut fourth_told) = newcomers.enter();
        second_told.told().await;
        drop(second);
        let still = std::time::Duration::from_millis(20);
        for told in [&mut first_told, &mut third_told, &mut fourth_told] {
            assert!(tokio::time::timeout(still, told.told()).await.is_err());
        }
        assert_eq!(newcomers.waiting.lock().places.len(), 2);
    }
}
