//! Work of milliseconds for one client, away from the threads that serve all of them.
//!
//! There are as few of those threads as processors, with one run queue: hundreds of pages or long
//! JSON messages would delay everything else. Here they wait for each other only.

use std::sync::Arc;

use tokio::sync::Semaphore;
use vetch_http2::border;

/// Texts and messages from this length on are worth the change of threads.
pub(crate) const OFFLOAD_LEN_MIN: usize = 16 << 10;

/// Permits for half of the processors. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Offload(Arc<Semaphore>);

impl Default for Offload {
    fn default() -> Offload {
        Offload(Arc::new(Semaphore::new(half_of_cpus())))
    }
}

impl Offload {
    /// Runs `work` when a permit is free. None: it failed, or the server ends.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let turn = Arc::clone(&self.0).acquire_owned().await.ok()?;
        // It continues if the client disconnects, so it keeps its permit.
        let working = border::spawn_blocking(move || {
            let done = work();
            drop(turn);
            done
        });
        working.await.ok()
    }
}

/// So that requests are served, whatever one client has computed.
pub(crate) fn half_of_cpus() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors / 2).max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn work_waits_for_its_like_and_for_no_thread_that_serves_clients() {
        let (offload, running, most) =
            (Offload::default(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let work: Vec<_> = (0..20)
            .map(|_| {
                let (offload, running, most) = (offload.clone(), Arc::clone(&running), Arc::clone(&most));
                tokio::spawn(async move {
                    let work = move || {
                        most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                        std::thread::sleep(Duration::from_millis(5));
                        running.fetch_sub(1, SeqCst);
                    };
                    offload.run(work).await
                })
            })
            .collect();
        for done in work {
            assert_eq!(done.await.expect("no panic"), Some(()));
        }
        assert!(most.load(SeqCst) <= half_of_cpus(), "{most:?} at a time");
        assert_eq!(offload.run(|| panic!("a bug of the edge")).await, None::<()>);
        assert_eq!(offload.run(|| 7).await, Some(7), "its turn is over");
    }
}
