//! Fibers: code that waits for the disk, on a thread of its own, while exactly one thread of the
//! simulation runs.
//!
//! The root resumes a fiber and waits until it hands control back: because it wants to wait
//! (`wait`), or because its turn is over. So everything happens in one order, which the root
//! chooses, although shipped code calls the disk as if it could block.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Why a fiber gave control back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note<T> {
    /// It goes on when this many nanoseconds have passed.
    Waits { nanos: u64 },
    /// One turn is over, with this result; the next resume begins another one.
    Turn(T),
    /// It ended by itself, in a panic.
    Lost,
}

enum Said<T> {
    Waits(u64),
    Turn(T),
}

/// A fiber whose turns have results of type `T`.
pub struct Fiber<T> {
    resume: Option<SyncSender<()>>,
    said: Receiver<Said<T>>,
    thread: Option<JoinHandle<()>>,
}

/// How the code in a fiber reaches its root.
struct Inside {
    wait: Box<dyn Fn(u64)>,
}

thread_local! {
    static INSIDE: RefCell<Option<Inside>> = const { RefCell::new(None) };
}

impl<T: Send + 'static> Fiber<T> {
    /// A fiber that runs `turn` once per turn. It does nothing before it is first resumed.
    pub fn new(name: &str, mut turn: impl FnMut() -> T + Send + 'static) -> Fiber<T> {
        let (resume, resumed) = sync_channel::<()>(1);
        let (say, said) = sync_channel::<Said<T>>(1);
        let body = move || {
            let resumed = std::rc::Rc::new(resumed);
            let (waiting, telling) = (std::rc::Rc::clone(&resumed), say.clone());
            let wait = move |nanos| {
                telling.send(Said::Waits(nanos)).expect("the root listens while a fiber runs");
                waiting.recv().expect("the root never leaves a fiber in the middle of a turn");
            };
            INSIDE.with(|inside| *inside.borrow_mut() = Some(Inside { wait: Box::new(wait) }));
            while resumed.recv().is_ok() {
                let result = turn();
                say.send(Said::Turn(result)).expect("the root listens while a fiber runs");
            }
        };
        let thread = std::thread::Builder::new().name(format!("sim-{name}"));
        let thread = thread.spawn(body).expect("the operating system gives a process its threads");
        Fiber { resume: Some(resume), said, thread: Some(thread) }
    }

    /// Lets it run until it gives control back.
    pub fn resume(&mut self) -> Note<T> {
        let sent = self.resume.as_ref().map(|resume| resume.send(()).is_ok());
        if sent != Some(true) {
            return Note::Lost;
        }
        match self.said.recv() {
            Ok(Said::Waits(nanos)) => Note::Waits { nanos },
            Ok(Said::Turn(result)) => Note::Turn(result),
            Err(_) => Note::Lost,
        }
    }
}

impl<T> Drop for Fiber<T> {
    fn drop(&mut self) {
        drop(self.resume.take());
        // A fiber in the middle of a turn could not be joined; ending its turn first is the root's
        // duty.
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Gives control back for `nanos` of virtual time. Outside of fibers nothing happens; false then.
pub fn wait(nanos: u64) -> bool {
    INSIDE.with(|inside| {
        let inside = inside.borrow();
        if let Some(inside) = inside.as_ref() {
            (inside.wait)(nanos);
        }
        inside.is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_and_waits_alternate_as_the_root_says() {
        let mut turns = 0;
        let mut fiber = Fiber::new("test", move || {
            turns += 1;
            assert!(wait(turns * 10));
            turns
        });
        assert_eq!(fiber.resume(), Note::Waits { nanos: 10 });
        assert_eq!(fiber.resume(), Note::Turn(1));
        assert_eq!(fiber.resume(), Note::Waits { nanos: 20 });
        assert_eq!(fiber.resume(), Note::Turn(2));
        assert!(!wait(5), "the root itself never waits");
    }
}
