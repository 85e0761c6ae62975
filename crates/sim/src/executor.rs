//! The executor of simulated clients: it polls the task that the scheduler chooses, and knows which
//! tasks were woken.
//!
//! The order of wakes never matters: woken tasks are a sorted set, and the seed decides among them.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

pub type TaskId = u64;

type Woken = Arc<Mutex<BTreeSet<TaskId>>>;

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    waker: Waker,
}

#[derive(Default)]
pub struct Executor {
    tasks: BTreeMap<TaskId, Task>,
    woken: Woken,
    born: TaskId,
}

struct TaskWaker {
    id: TaskId,
    woken: Woken,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.lock().expect("nothing panics under this lock").insert(self.id);
    }
}

impl Executor {
    pub fn spawn(&mut self, future: impl Future<Output = ()> + 'static) -> TaskId {
        let id = self.born;
        self.born += 1;
        let waker = Waker::from(Arc::new(TaskWaker { id, woken: Arc::clone(&self.woken) }));
        self.tasks.insert(id, Task { future: Box::pin(future), waker });
        self.set().insert(id);
        id
    }

    /// Tasks that have not ended.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub fn is_alive(&self, id: TaskId) -> bool {
        self.tasks.contains_key(&id)
    }

    /// Tasks that want to be polled, in order.
    pub fn ready(&self) -> Vec<TaskId> {
        let mut set = self.set();
        set.retain(|id| self.tasks.contains_key(id));
        set.iter().copied().collect()
    }

    pub fn poll(&mut self, id: TaskId) {
        self.set().remove(&id);
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let waker = task.waker.clone();
        if let Poll::Ready(()) = task.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.tasks.remove(&id);
        }
    }

    fn set(&self) -> std::sync::MutexGuard<'_, BTreeSet<TaskId>> {
        self.woken.lock().expect("nothing panics under this lock")
    }
}

/// Polls a future that is finished by another thread, and waits for that thread in real time, so
/// that how long it took changes nothing. For work that the node gives to tokio's pool of blocking
/// threads.
pub async fn without_delay<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| {
        let signal = Arc::new(Signal { thread: std::thread::current(), set: Mutex::new(false) });
        let waker = Waker::from(Arc::clone(&signal));
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_pending() {
            while !*signal.set.lock().expect("nothing panics under this lock") {
                std::thread::park();
            }
            context.waker().wake_by_ref();
        }
        polled
    })
    .await
}

/// Runs a future that depends on no other task to its end.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(without_delay(future));
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}

struct Signal {
    thread: std::thread::Thread,
    set: Mutex<bool>,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        *self.set.lock().expect("nothing panics under this lock") = true;
        self.thread.unpark();
    }
}
