//! Virtual time: it passes when the simulation says so.
//!
//! Three clocks move together: the one given to the node, tokio's paused one, under which the
//! node's timeouts and intervals run, and the timers of simulated clients.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub const MICRO: u64 = 1_000;
pub const MILLI: u64 = 1_000_000;
pub const SECOND: u64 = 1_000_000_000;

/// What the node is given as the time.
#[derive(Debug, Default)]
pub struct Now(AtomicU64);

impl Now {
    pub fn nanos(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl vetch_node::stepped::Time for Now {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.nanos())
    }
}

/// Sleepers by deadline and, among equal ones, by age.
#[derive(Default)]
struct Sleepers {
    by_deadline: BTreeMap<(u64, u64), Waker>,
    born: u64,
}

/// The clock of one run. Clones are the same clock.
#[derive(Clone)]
pub struct Clock {
    now: Arc<Now>,
    sleepers: Rc<RefCell<Sleepers>>,
    runtime: Rc<tokio::runtime::Runtime>,
    /// Whole milliseconds that tokio's clock has been moved so far.
    passed_on: Rc<std::cell::Cell<u64>>,
}

impl Clock {
    pub fn new() -> Clock {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build();
        Clock {
            now: Arc::default(),
            sleepers: Rc::default(),
            runtime: Rc::new(runtime.expect("a runtime without I/O needs nothing that could be missing")),
            passed_on: Rc::default(),
        }
    }

    pub fn for_node(&self) -> Arc<Now> {
        Arc::clone(&self.now)
    }

    pub fn now(&self) -> u64 {
        self.now.nanos()
    }

    /// Makes tokio's timers usable on this thread while the guard lives.
    pub fn enter(&self) -> tokio::runtime::EnterGuard<'_> {
        self.runtime.enter()
    }

    /// Moves all clocks and wakes the tasks that slept until then.
    pub fn advance(&self, nanos: u64) {
        let now = self.now.0.fetch_add(nanos, Ordering::Relaxed) + nanos;
        let millis = now / MILLI;
        let passed = millis - self.passed_on.replace(millis);
        if passed > 0 {
            self.runtime.block_on(tokio::time::advance(Duration::from_millis(passed)));
        }
        loop {
            let mut sleepers = self.sleepers.borrow_mut();
            let Some(entry) = sleepers.by_deadline.first_entry().filter(|first| first.key().0 <= now) else {
                break;
            };
            let waker = entry.remove();
            drop(sleepers);
            waker.wake();
        }
    }

    /// When the next sleeper is to be woken.
    pub fn next_deadline(&self) -> Option<u64> {
        self.sleepers.borrow().by_deadline.first_key_value().map(|(&(deadline, _), _)| deadline)
    }

    pub fn sleep(&self, nanos: u64) -> Sleep {
        Sleep { clock: self.clone(), deadline: self.now() + nanos, place: None }
    }

    /// The output of `future`, or None if it has none within `nanos`; it is dropped then.
    pub async fn timeout<F: Future>(&self, nanos: u64, future: F) -> Option<F::Output> {
        let mut future = std::pin::pin!(future);
        let mut sleep = std::pin::pin!(self.sleep(nanos));
        std::future::poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            sleep.as_mut().poll(context).map(|()| None)
        })
        .await
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

/// Ends at a point of virtual time.
pub struct Sleep {
    clock: Clock,
    deadline: u64,
    place: Option<(u64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.clock.now() >= self.deadline {
            return Poll::Ready(());
        }
        let mut sleepers = self.clock.sleepers.borrow_mut();
        let place = self.place.unwrap_or_else(|| {
            sleepers.born += 1;
            (self.deadline, sleepers.born)
        });
        sleepers.by_deadline.insert(place, context.waker().clone());
        drop(sleepers);
        self.place = Some(place);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.clock.sleepers.borrow_mut().by_deadline.remove(&place);
        }
    }
}
