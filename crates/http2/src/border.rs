//! Where a bug ends.
//!
//! A bug in the code that faces one client must end what it does for that client, and nothing else;
//! a broken invariant of the state that all clients share must end the process, because nothing it
//! would do next can be trusted. So panics unwind, and the panic hook decides: one that happens in
//! code of the edge, or in a library that keeps nothing that clients share, while a [`Bordered`]
//! future is polled and the thread holds none of the locks of what is shared, ends the task that
//! polls it, which is a connection or a call. Every other panic aborts the process.
//!
//! So whatever serves a client is spawned here, by [`spawn`] or [`spawn_blocking`]; a test of
//! `server` looks for tasks that are not.
//!
//! Code is named by the file of the panic. The store and the node answer calls on the same threads,
//! so being polled for a client is not enough; and a file that is not listed is not trusted. A
//! library may have been called by the store as well as by the edge: then a lock is held, if
//! anything was being changed. tokio is not listed, because its runtime is shared.

use std::cell::Cell;
use std::panic::PanicHookInfo;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

use tokio::task::JoinHandle;

/// Parts of the paths of files in which a panic concerns one client only: our edge, and the
/// libraries that only it uses.
const EDGE: [&str; 16] = [
    "crates/http2/",
    "crates/metrics/",
    "crates/server/",
    "crates/tls/",
    "crates/api/",
    "crates/translate/",
    "/hyper-",
    "/hyper-util-",
    "/tonic-",
    "/tungstenite-",
    "/tokio-tungstenite-",
    "/rustls-",
    "/tokio-rustls-",
    "/prost-",
    "/serde_json-",
    "/http-",
];

/// Parts of the paths of libraries that anything may call, and that keep nothing themselves. A
/// panic for a wrong argument is reported where they are called; these are the others.
const NEUTRAL: [&str; 17] = [
    // Of the standard library, in builds with and without its sources.
    "/rustc/",
    "/library/alloc/",
    "/library/core/",
    "/library/std/",
    "/base64-",
    "/bcrypt-",
    "/bytes-",
    "/foldhash-",
    "/futures-core-",
    "/futures-util-",
    "/hashbrown-",
    "/http-body-",
    "/httparse-",
    "/httpdate-",
    "/memchr-",
    "/smallvec-",
    "/tower-",
];

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

static CONTAINED: AtomicU64 = AtomicU64::new(0);

/// Panics that ended a connection or a call instead of the process.
pub fn contained() -> u64 {
    CONTAINED.load(Relaxed)
}

/// Installs the panic hook: the message goes where it always goes, and then the process aborts
/// unless the panic concerns one client only. `is_any_lock_held`: whether this thread holds a lock
/// of what clients share.
pub fn guard_process(is_any_lock_held: fn() -> bool) {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
        report(info);
        let file = info.location().map_or("", |location| location.file());
        if !INSIDE.get() || is_any_lock_held() || !(is_edge(file) || is_neutral(file)) {
            std::process::abort();
        }
        CONTAINED.fetch_add(1, Relaxed);
    }));
}

fn is_edge(file: &str) -> bool {
    EDGE.iter().any(|part| file.contains(part))
}

fn is_neutral(file: &str) -> bool {
    NEUTRAL.iter().any(|part| file.contains(part))
}

/// A task that serves one client.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    tokio::spawn(Bordered::new(Box::pin(future)))
}

/// Work for one client that keeps a thread busy, or waits for a disk.
pub fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    tokio::task::spawn_blocking(move || {
        let _inside = Inside::enter();
        work()
    })
}

/// A future that serves one client. It has to be polled by a task of its own, which a panic ends.
#[derive(Debug)]
pub struct Bordered<F>(F);

impl<F> Bordered<F> {
    pub fn new(future: F) -> Bordered<F> {
        Bordered(future)
    }
}

impl<F: Future + Unpin> Future for Bordered<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _inside = Inside::enter();
        Pin::new(&mut self.0).poll(cx)
    }
}

/// Restores what was before, also while a panic unwinds.
struct Inside(bool);

impl Inside {
    fn enter() -> Inside {
        Inside(INSIDE.replace(true))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_edge_are_trusted_to_concern_one_client() {
        for file in ["crates/http2/src/tasks.rs", "/registry/src/index/hyper-1.12.0/src/lib.rs"] {
            assert!(is_edge(file), "{file}");
        }
        for file in ["crates/store/src/state.rs", "crates/node/src/read.rs", "crates/watch/src/hub.rs", ""] {
            assert!(!is_edge(file), "{file}");
        }
    }

    #[test]
    fn libraries_that_keep_nothing_are_neutral_and_the_runtime_is_not() {
        for file in
            ["/registry/src/index/bytes-1.12.1/src/bytes.rs", "/rustc/abc/library/core/src/str/mod.rs"]
        {
            assert!(is_neutral(file) && !is_edge(file), "{file}");
        }
        for file in ["/registry/src/index/tokio-1.52.0/src/task/mod.rs", "crates/node/src/read.rs", ""] {
            assert!(!is_neutral(file) && !is_edge(file), "{file}");
        }
    }

    #[tokio::test]
    async fn a_future_is_inside_while_it_is_polled_and_only_then() {
        assert!(!INSIDE.get());
        Bordered::new(Box::pin(async {
            assert!(INSIDE.get());
            tokio::task::yield_now().await;
            assert!(INSIDE.get());
        }))
        .await;
        assert!(!INSIDE.get());
        let panics = tokio::spawn(Bordered::new(Box::pin(async { panic!("a bug of the edge") })));
        assert!(panics.await.unwrap_err().is_panic());
        assert!(!INSIDE.get());
    }

    #[tokio::test]
    async fn whatever_is_spawned_for_a_client_is_inside() {
        assert!(spawn(async { INSIDE.get() }).await.unwrap());
        assert!(spawn_blocking(|| INSIDE.get()).await.unwrap());
        // The thread may serve something else next.
        for _ in 0..20 {
            assert!(!tokio::task::spawn_blocking(|| INSIDE.get()).await.unwrap());
        }
    }
}
