//! Everything that is being worked on for one connection, polled in place.
//!
//! Every piece of work has a bell for a waker. Bells that ring are noted in one list, and the connection is woken by the
//! first of them only: when it comes to look, it finds all that rang meanwhile. Places and their bells are used again,
//! so a call costs no waker of its own. A bell that rings late, for work that has left its place, costs a look.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use parking_lot::Mutex;

/// Used bytes of bodies, and bodies, of which the connection is told at the latest.
const RELEASE_BYTES: usize = 64 << 10;
const RELEASES: usize = 1024;

/// What rang, and whom to wake for it.
#[derive(Debug)]
pub(crate) struct Bells {
    rung: Mutex<Rung>,
    /// The connection is woken for this many used bytes. Together with what it keeps to itself, half a window, it must stay below
    /// a window: a client that waits for the rest of its window would wait for ever.
    release_bytes: usize,
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
    /// None while it is being looked at.
    work: Option<W>,
    bell: Arc<Bell>,
    waker: Waker,
}

impl<W> Tasks<W> {
    /// For a connection on which a client may send `window` bytes ahead.
    pub(crate) fn new(window: u32) -> Tasks<W> {
        let release_bytes = RELEASE_BYTES.min(window as usize / 4);
        let bells = Arc::new(Bells { rung: Mutex::default(), release_bytes });
        Tasks { places: Vec::new(), free: Vec::new(), bells }
    }

    pub(crate) fn bells(&self) -> &Arc<Bells> {
        &self.bells
    }

    /// A place for `work`, which is not polled before somebody looks.
    pub(crate) fn insert(&mut self, work: W) -> usize {
        if let Some(place) = self.free.pop() {
            self.places[place].is_used = true;
            self.put(place, work);
            return place;
        }
        let place = self.places.len();
        let bell = Arc::new(Bell { place, has_rung: AtomicBool::new(false), bells: Arc::clone(&self.bells) });
        let waker = Waker::from(Arc::clone(&bell));
        self.places.push(Place { is_used: true, work: Some(work), bell, waker });
        place
    }

    /// Takes work out to look at it, with the waker for it. None: there is none any more.
    pub(crate) fn take(&mut self, place: usize) -> Option<(W, &Waker)> {
        let place = self.places.get_mut(place)?;
        // From here on it may ring again: what happens later than the look is not seen by it.
        place.bell.has_rung.store(false, Ordering::Release);
        Some((place.work.take()?, &place.waker))
    }

    /// Puts it back.
    pub(crate) fn put(&mut self, place: usize, work: W) {
        self.places[place].work = Some(work);
    }

    /// The place is free for other work.
    pub(crate) fn vacate(&mut self, place: usize) {
        let left = &mut self.places[place];
        assert!(left.is_used, "a place is left once");
        left.is_used = false;
        left.work = None;
        self.free.push(place);
    }
}
