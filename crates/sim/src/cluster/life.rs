//! One life of a server, as what it serves sees it: while the server sleeps nothing of it moves,
//! and when it ends no request in flight is answered.

use std::cell::Cell;
use std::rc::Rc;
use std::task::Poll;

use crate::env::Env;

#[derive(Default)]
pub(super) struct Life {
    pub(super) over: Cell<bool>,
    pub(super) paused_until: Cell<u64>,
    /// Something may have been handed in since this was last looked at.
    pub(super) touched: Cell<bool>,
}

/// Runs a future for as long as the life lasts.
pub(super) async fn within<F: Future>(env: &Env, life: &Rc<Life>, future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    let mut asleep = None;
    std::future::poll_fn(|context| {
        if life.over.get() {
            return Poll::Ready(None);
        }
        let until = life.paused_until.get();
        if until > env.now() {
            let sleep = asleep.insert(Box::pin(env.clock.sleep(until - env.now())));
            if sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        asleep = None;
        life.touched.set(true);
        future.as_mut().poll(context).map(Some)
    })
    .await
}
