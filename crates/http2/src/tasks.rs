//! The calls in progress of one connection, polled in place.
//!
//! Every call has a bell as its waker. Bells that ring are noted in one list, and only the first of
//! them wakes the connection, which then finds all that rang meanwhile. Places and their bells are
//! reused, so a call costs no waker of its own. A bell that rings late, for a call that has left
//! its place, costs a poll.
//!
//! A stream outlives its call: a response that waits for the client's window belongs to no call any
//! more, while its place may already hold another one. So streams refer to calls by a [`TaskId`],
//! which also has the generation of the place; a stale one refers to nothing, and cancelling it
//! does nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use parking_lot::Mutex;

/// Used bytes of bodies, and used bodies, after which the connection is woken to release them.
const RELEASE_BYTES: usize = 64 << 10;
const RELEASES: usize = 1024;
/// Places that are kept while nothing is under way.
const KEPT_PLACES: usize = 1024;

/// What rang, and whom to wake for it.
#[derive(Debug)]
pub(crate) struct Bells {
    rung: Mutex<Rung>,
    /// The connection is woken for this many used bytes. Together with what it keeps to itself,
    /// half a window, it must stay below a window: a client that waits for the rest of its window
    /// would wait for ever.
    release_bytes: usize,
    /// Bytes of bodies that wait for their readers, and of messages that are not whole and held by
    /// them.
    held: AtomicUsize,
    /// The connection holds too much for its client.
    is_full: AtomicBool,
}

#[derive(Debug, Default)]
struct Rung {
    places: Vec<usize>,
    /// Streams and bytes of their bodies that were used.
    released: Vec<(u32, usize)>,
    released_bytes: usize,
    /// The connection, if it sleeps.
    sleeper: Option<Waker>,
}

impl Bells {
    fn ring(&self, place: usize) {
        let mut rung = self.rung.lock();
        rung.places.push(place);
        let sleeper = rung.sleeper.take();
        drop(rung);
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }

    /// `len` bytes of a body have been used. The connection is not woken for a few.
    pub(crate) fn release(&self, stream: u32, len: usize) {
        if len == 0 {
            return;
        }
        let mut rung = self.rung.lock();
        match rung.released.last_mut() {
            Some((last, bytes)) if *last == stream => *bytes += len,
            _ => rung.released.push((stream, len)),
        }
        rung.released_bytes += len;
        let is_due = rung.released_bytes >= self.release_bytes || rung.released.len() >= RELEASES;
        let sleeper = if is_due { rung.sleeper.take() } else { None };
        drop(rung);
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }

    /// A reader that held `before` bytes of a message holds `after` now.
    pub(crate) fn hold(&self, before: usize, after: usize) {
        match after.checked_sub(before) {
            Some(0) => {}
            Some(more) => {
                self.held.fetch_add(more, Ordering::Relaxed);
            }
            None => {
                self.held.fetch_sub(before - after, Ordering::Relaxed);
            }
        }
    }

    /// Wakes the connection, to check again what is held.
    pub(crate) fn wake(&self) {
        let sleeper = self.rung.lock().sleeper.take();
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }

    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn set_full(&self, is_full: bool) {
        if self.is_full.load(Ordering::Relaxed) != is_full {
            self.is_full.store(is_full, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Moves what rang to `places` and what was released to `released`.
    pub(crate) fn collect(&self, places: &mut Vec<usize>, released: &mut Vec<(u32, usize)>) {
        let mut rung = self.rung.lock();
        places.append(&mut rung.places);
        released.append(&mut rung.released);
        rung.released_bytes = 0;
    }

    /// Has `waker` woken by the next bell. False: one has rung already.
    pub(crate) fn sleep(&self, waker: &Waker) -> bool {
        let mut rung = self.rung.lock();
        if !rung.places.is_empty() || rung.released_bytes >= self.release_bytes {
            return false;
        }
        match &mut rung.sleeper {
            Some(sleeper) => sleeper.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        true
    }
}

#[derive(Debug)]
struct Bell {
    place: usize,
    /// It is in the list already.
    has_rung: AtomicBool,
    bells: Arc<Bells>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.has_rung.swap(true, Ordering::AcqRel) {
            self.bells.ring(self.place);
        }
    }
}

/// Names one piece of work, and never another one that takes its place later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskId {
    place: usize,
    generation: u64,
}

impl TaskId {
    pub(crate) fn place(self) -> usize {
        self.place
    }
}

/// Work, in numbered places.
#[derive(Debug)]
pub(crate) struct Tasks<W> {
    places: Vec<Place<W>>,
    free: Vec<usize>,
    bells: Arc<Bells>,
}

#[derive(Debug)]
struct Place<W> {
    is_used: bool,
    /// Counts the pieces of work that were here.
    generation: u64,
    /// None while it is being looked at.
    work: Option<W>,
    bell: Arc<Bell>,
    waker: Waker,
}

impl<W> Tasks<W> {
    /// For a connection on which a client may send `window` bytes ahead.
    pub(crate) fn new(window: u32) -> Tasks<W> {
        let release_bytes = RELEASE_BYTES.min(window as usize / 4);
        let (held, is_full) = (AtomicUsize::new(0), AtomicBool::new(false));
        let bells = Arc::new(Bells { rung: Mutex::default(), release_bytes, held, is_full });
        Tasks { places: Vec::new(), free: Vec::new(), bells }
    }

    pub(crate) fn bells(&self) -> &Arc<Bells> {
        &self.bells
    }

    /// A place for `work`, which is not polled before the next turn.
    pub(crate) fn insert(&mut self, work: W) -> TaskId {
        if let Some(place) = self.free.pop() {
            self.places[place].is_used = true;
            self.put(place, work);
            return TaskId { place, generation: self.places[place].generation };
        }
        let place = self.places.len();
        let bell = Arc::new(Bell { place, has_rung: AtomicBool::new(false), bells: Arc::clone(&self.bells) });
        let waker = Waker::from(Arc::clone(&bell));
        self.places.push(Place { is_used: true, generation: 0, work: Some(work), bell, waker });
        TaskId { place, generation: 0 }
    }

    /// Takes work out to look at it, with the waker for it. None: there is none any more.
    pub(crate) fn take(&mut self, place: usize) -> Option<(W, &Waker)> {
        let place = self.places.get_mut(place)?;
        // From here on it may ring again: this poll does not see what happens later.
        place.bell.has_rung.store(false, Ordering::Release);
        Some((place.work.take()?, &place.waker))
    }

    /// Puts it back.
    pub(crate) fn put(&mut self, place: usize, work: W) {
        self.places[place].work = Some(work);
    }

    /// The work that was taken out of `place` is done: the place is free for other work.
    pub(crate) fn vacate(&mut self, place: usize) {
        let left = &mut self.places[place];
        assert!(left.is_used, "a place is left once");
        left.is_used = false;
        left.generation += 1;
        left.work = None;
        self.free.push(place);
    }

    /// Forgets all places if none is used and there are many: a burst of calls needed them.
    pub(crate) fn shrink(&mut self) {
        if self.free.len() == self.places.len() && self.places.len() > KEPT_PLACES {
            // Generations begin anew, so no stream may refer to one of these places any more: none
            // is open.
            self.places = Vec::new();
            self.free = Vec::new();
        }
    }

    /// Takes out this piece of work for good, unless it is done already.
    pub(crate) fn cancel(&mut self, id: TaskId) -> Option<W> {
        let place = self.places.get_mut(id.place)?;
        if place.generation != id.generation {
            return None;
        }
        let work = place.work.take();
        self.vacate(id.place);
        work
    }

    /// The work in `place` and its name, if there is any.
    pub(crate) fn at(&self, place: usize) -> Option<(TaskId, &W)> {
        let Place { generation, work, .. } = self.places.get(place)?;
        Some((TaskId { place, generation: *generation }, work.as_ref()?))
    }

    /// The work with this name, unless it is done already.
    pub(crate) fn get(&self, id: TaskId) -> Option<&W> {
        let place = self.places.get(id.place)?;
        place.work.as_ref().filter(|_| place.generation == id.generation)
    }
}
